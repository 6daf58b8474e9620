"""Verdicts to rows: one for one log, a table for many that says which failed first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from vlogdiag.model import Position, Severity
from vlogdiag.report import words
from vlogdiag.report.layout import DIM, GOOD, STYLES, Look, cut, cut_left, hang
from vlogdiag.report.verdict import Verdict

SHORTEST = 16
"""What a path keeps where the verdict needs the row: enough to tell one log from another."""
SHOWN = 20
"""Logs in the table; those that failed come first, the others are counted."""


def verdict_row(verdict: Verdict, look: Look) -> list[Text]:
    """`vllm.log: died 13:02:11 while serving: GPU memory, 1 change`."""
    style = GOOD if verdict.severity is None else STYLES[verdict.severity]
    text = look.plain(verdict.text)
    room = max(SHORTEST, min(look.width - cell_len(text) - len(": "), look.width // 2))
    path = cut_left(look.plain(words.log_name(verdict.source.path)), room, look.marks.ellipsis)
    return hang(Text.assemble((f"{path}: ", "bold"), look.clean(verdict.text, style)), "", look.width, rest="  ")


def summary_rows(judged: Sequence[Verdict], look: Look) -> list[Text]:
    """How many logs failed, which was first, then a row for each log, failures first."""
    failed = [each for each in judged if each.severity is Severity.ERROR and each.read]
    unread = sum(not each.read for each in judged)
    fine = [each for each in judged if each.severity is None]
    first = first_failure(failed)
    title = [words.plural(len(judged), "log")]
    title += [f"{len(failed)} with errors"] if failed else []
    title += [f"{len(fine)} healthy"] if fine else []
    title += [f"{unread} unreadable"] if unread else []
    text = f"{title[0]}: {', '.join(title[1:]) or 'no errors'}"
    if first is not None and len(failed) > 1:
        text += f"; {words.log_name(first.source.path)} failed first, {words.clock(first.failed)}"
    style = STYLES[Severity.ERROR] if failed or unread else GOOD
    rows = hang(look.clean(text, style), "", look.width, rest="  ")
    order = sorted(judged, key=lambda each: -1 if each.severity is None else each.severity, reverse=True)
    shown = order if look.verbose else order[:SHOWN]
    paths = [
        cut_left(look.plain(words.log_name(each.source.path)), look.width // 3, look.marks.ellipsis) for each in shown
    ]
    column = max(map(cell_len, paths))
    for path, each in zip(paths, shown, strict=True):
        mark = Text(
            f"  {look.marks.of(each.severity)} ", style=GOOD if each.severity is None else STYLES[each.severity]
        )
        name = Text(path + " " * (column - cell_len(path)) + "  ", style="bold" if each is first else "")
        said = cut(look.plain(each.text), look.width - 6 - column, look.marks.ellipsis)
        rows.append(Text.assemble(mark, name, said))
    if len(order) > len(shown):
        rows.append(Text(f"    +{len(order) - len(shown)} more with --verbose", style=DIM))
    return rows


def first_failure(failed: Sequence[Verdict]) -> Verdict | None:
    """The log that failed first; None unless all name their time in one way, or where two share the earliest."""
    times = [_comparable(each.failed) for each in failed]
    if not failed or None in times or len({_shape(time) for time in times if time}) > 1:
        return None
    earliest = min(time for time in times if time)
    return failed[times.index(earliest)] if times.count(earliest) == 1 else None


def _comparable(position: Position | None) -> str | None:
    return None if position is None else position.iso or position.time


def _shape(time: str) -> str:
    return re.sub(r"\d", "9", time)

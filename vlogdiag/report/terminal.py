"""A report to the text that a terminal shows."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from vlogdiag.model import Report, Severity, Unexplained
from vlogdiag.report import words
from vlogdiag.report.blocks import finding_rows
from vlogdiag.report.fold import Folded, fold
from vlogdiag.report.layout import DIM, NARROWEST, PROSE, STYLES, WIDEST, Look, cut, cut_left, hang
from vlogdiag.report.table import summary_rows, verdict_row
from vlogdiag.report.verdict import verdicts

SHOWN_FINDINGS = 10
SHOWN_UNEXPLAINED = 5
LONG = 24
"""A longer page scrolls its own beginning away on a small terminal, so it says at its end where to begin."""


def render(report: Report, *, width: int, color: bool, verbose: bool = False, unicode: bool = True) -> str:
    """The report as text of at most `width` cells a line (40 to 200), ending in a newline.

    `color` adds ANSI colours; `unicode=False` keeps to ASCII, for terminals whose encoding has no more.
    """
    look = Look(width=max(NARROWEST, min(width, WIDEST)), unicode=unicode, verbose=verbose)
    return to_text(document(report, look), width=look.width, color=color)


def to_text(rows: Iterable[Text], *, width: int, color: bool) -> str:
    """Rows as text with a newline after each, with ANSI colours or without."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    for row in rows:
        console.print(row, soft_wrap=True)
    return buffer.getvalue()


def document(report: Report, look: Look) -> list[Text]:
    """The rows of the report: verdict, log, findings, what stayed unexplained, notices."""
    files = len(report.sources)
    folded = fold(report.findings, across_files=files > 1)
    blocks = [_head(report, look), *_findings(report, folded, look)]
    blocks += [_unexplained(report.unexplained, look, files), _notices(report.notices, look)]
    filled = [block for block in blocks if block]
    rows = [row for block in filled for row in (*block, Text())][:-1]
    return [*rows, Text(), *_reminder(folded, look)] if len(rows) > LONG and len(folded) > 1 else rows


def _head(report: Report, look: Look) -> list[Text]:
    """The verdict of the one log, or a table of all, and one row that says what was looked at."""
    judged = verdicts(report)
    separator = f" {look.marks.dot} "
    log = hang(look.clean(separator.join(words.log_parts(report.sources)), DIM), "", look.width)
    if len(judged) == 1:
        source = judged[0].source
        broken = source.error is not None and source.lines > 0
        error = (
            hang(look.clean(f"read only in part: {source.error}", STYLES[Severity.WARNING]), "", look.width)
            if broken
            else []
        )
        return [*verdict_row(judged[0], look), *(log if source.lines else []), *error]
    return [*summary_rows(judged, look), *log] if judged else []


def _findings(report: Report, folded: Sequence[Folded], look: Look) -> list[list[Text]]:
    shown = folded if look.verbose else folded[:SHOWN_FINDINGS]
    starts = {source.path: len(source.runs) for source in report.sources}
    blocks = [
        finding_rows(each, look, first=index == 0, starts=starts.get(each.lead.source, 1), files=len(report.sources))
        for index, each in enumerate(shown)
    ]
    if len(folded) > len(shown):
        names = ", ".join(dict.fromkeys(each.lead.id for each in folded[len(shown) :]))
        blocks.append(
            hang(look.clean(f"+{len(folded) - len(shown)} more with --verbose: {names}", DIM), "", look.width)
        )
    return blocks


def _unexplained(items: Sequence[Unexplained], look: Look, files: int) -> list[Text]:
    if not items:
        return []
    total = sum(item.count for item in items)
    kinds = words.plural(len(items), "error", "kinds of error")
    title = f"not explained: {kinds}" + (f", {words.times(total)}" if total > len(items) else "")
    rows = hang(Text(title, style="bold"), "", look.width)
    shown = items if look.verbose else items[:SHOWN_UNEXPLAINED]
    labels = [f"{item.source}:{item.line}" if files > 1 else str(item.line) for item in shown]
    labels = [cut_left(look.plain(label), look.width // 3, look.marks.ellipsis) for label in labels]
    gutter = max(map(cell_len, labels))
    for label, item in zip(labels, shown, strict=True):
        times = f" {look.marks.times}{item.count:,}" if item.count > 1 else ""
        room = look.width - gutter - 5 - len(times)
        text = cut(look.plain(item.text), room, look.marks.ellipsis)
        margin = " " * (gutter - cell_len(label))
        rows.append(Text.assemble((f"  {margin}{label} {look.marks.bar} ", DIM), text, (times, DIM)))
    if len(items) > len(shown):
        rows.append(Text(f"  {'':{gutter}}   +{len(items) - len(shown)} more with --verbose", style=DIM))
    return rows


def _notices(notices: Sequence[str], look: Look) -> list[Text]:
    return [
        row
        for notice in notices
        for row in hang(Text.assemble(("note: ", DIM), look.clean(notice)), "", min(look.width, PROSE), rest="  ")
    ]


def _reminder(folded: Sequence[Folded], look: Look) -> list[Text]:
    """Where to begin, for the reader whose terminal has scrolled the first finding away."""
    lead = folded[0].lead
    mark = Text(f"{look.marks.of(folded[0].severity)} ", style=STYLES[folded[0].severity])
    text = look.clean(f"begin with the first of {len(folded)}: {lead.title}", "bold")
    return hang(text, mark, look.width)

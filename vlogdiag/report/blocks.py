"""One finding to rows of text: headline, cause, the lines that prove it, what followed, what to type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from vlogdiag.model import Confidence, Consequence, Evidence, Finding, Fix, Outcome, Severity
from vlogdiag.report import words
from vlogdiag.report.fold import Folded
from vlogdiag.report.layout import ASK, DIM, PASTE, PROSE, STYLES, Look, cut, cut_left, hang, wrap_text
from vlogdiag.report.paste import CAP, Paste, pastes, wrap_shell

FULL = (4, 4)
"""Evidence lines and fixes that a finding shows: with all around them, the first fix stays on a screen of 24 rows."""
SHORT = (3, 3)
"""The same for later findings that are no errors."""

_NUMBER = re.compile(r"\d[\d,.]*\d")
_FRAME = re.compile(r'^(File ").+((?:/[^/"]+){2}", line \d+)')
"""A traceback's frame: the end of a long path says more than its beginning."""


def finding_rows(folded: Folded, look: Look, *, first: bool = True, starts: int = 1, files: int = 1) -> list[Text]:
    """The finding in full if it is the `first` or an error, of a log with so many `starts`, or of so many `files`."""
    lead = folded.lead
    lines, fixes = FULL if first or folded.severity is Severity.ERROR else SHORT
    if look.verbose:
        lines, fixes = len(lead.evidence), len(lead.fixes)
    prose = min(look.width, PROSE)
    return [
        *headline(folded, look, starts=starts, files=files),
        *hang(look.clean(lead.cause), "  ", prose),
        *evidence_rows(lead, look, lines, files=files),
        *_aftermath(folded, look),
        *([Text()] if lead.fixes else []),
        *fix_rows(lead.fixes, look, fixes),
        *_remarks(lead, look, prose),
        *_hidden(lead, lines, fixes),
    ]


def headline(folded: Folded, look: Look, *, starts: int = 1, files: int = 1) -> list[Text]:
    """Mark and title, then, dimmed, what identifies it: on the same row where there is room."""
    lead, marks = folded.lead, look.marks
    facts = [lead.id]
    if lead.confidence is not Confidence.HIGH:
        facts.append(f"confidence {lead.confidence.word}")
    if lead.outcome is Outcome.RECOVERED:
        facts.append("recovered")
    if files > 1:
        facts.append(_where(folded.sources))
    elif starts > 1:
        facts.append(f"in start{'s' if len(folded.runs) > 1 else ''} {words.ranges(folded.runs)}")
    if lead.first.time:
        facts.append(lead.first.time)
    mark = Text(f"{marks.of(folded.severity)} ", style=STYLES[folded.severity])
    rows = hang(look.clean(lead.title, "bold"), mark, look.width)
    meta = look.clean(f" {marks.dot} ".join(facts), DIM)
    if cell_len(rows[-1].plain) + 2 + cell_len(meta.plain) <= look.width:
        return [*rows[:-1], Text.assemble(rows[-1], "  ", meta)]
    return [*rows, *hang(meta, "  ", look.width)]


def evidence_rows(finding: Finding, look: Look, limit: int, *, files: int = 1) -> list[Text]:
    """The proving lines with their numbers, cut around the numbers of the cause; the first may take two rows."""
    items = finding.evidence
    shown = items[: shown_of(len(items), limit)]
    labels = [
        cut_left(look.plain(_label(item, finding, files)), look.width // 3, look.marks.ellipsis) for item in shown
    ]
    gutter = max(map(cell_len, labels), default=0)
    needles = _NUMBER.findall(look.plain(finding.cause))
    rows: list[Text] = []
    for index, (label, item) in enumerate(zip(labels, shown, strict=True)):
        depth = 4 if look.verbose else 2 if index == 0 else 1
        text = look.plain(_said(item))
        rows += _quoted(text, " " * (gutter - cell_len(label)) + label, needles, depth, look)
    return rows


def fix_rows(fixes: Sequence[Fix], look: Look, limit: int) -> list[Text]:
    """The fixes in order, numbered: what to do, what it costs, what to find out first, what to paste."""
    rows: list[Text] = []
    for number, fix in enumerate(fixes[: shown_of(len(fixes), limit)], start=1):
        rows += _fix(number, fix, look)
    return rows


def shown_of(count: int, limit: int) -> int:
    """How many of `count` to show: all within the limit, else one less, for the row that says how many are missing."""
    return count if count <= limit else limit - 1


def _fix(number: int, fix: Fix, look: Look) -> Iterator[Text]:
    head = f"  {number}. "
    what = look.clean(fix.title)
    if fix.trade_off:
        what = Text.assemble(what, look.clean(f" ({fix.trade_off})", DIM))
    prose = min(look.width, PROSE)
    yield from hang(what, head, prose)
    margin = " " * len(head)
    if fix.disposition != "apply":
        question = look.clean(fix.question or "whether it applies to you", ASK)
        yield from hang(Text.assemble(("check first: ", ASK), question), margin, prose)
    items = list(pastes(fix))
    if look.verbose and fix.command and fix.command not in {item.text for item in items}:
        items.append(Paste(fix.command, label="as your command"))
    for item in items:
        yield from paste_rows(item, look, len(margin))


def paste_rows(item: Paste, look: Look, indent: int) -> list[Text]:
    """One thing to paste, on rows that a shell still reads as one command."""
    margin = " " * indent
    if not item.shell:
        return hang(Text.assemble(f"{item.label}: ", look.clean(item.text, PASTE)), margin, look.width)
    if len(item.text) > CAP:
        return [Text(f"{margin}(too long to show here: see --json)", style=DIM)]
    label = [Text(f"{margin}{item.label}:")] if item.label else []
    rows = wrap_shell(item.text, look.width, indent=indent, ascii_only=not look.unicode)
    return [*label, *(Text(row, style=PASTE) for row in rows)]


def _aftermath(folded: Folded, look: Look) -> list[Text]:
    """How often it was printed and by whom, and one row for all that followed."""
    lead = folded.lead
    rows = []
    count = sum(each.count for each in folded.members)
    # A second print is the parent's copy of the first, and not worth a row.
    if count > 2 * len(folded.members) or lead.ranks_missing:
        seen = [f"seen {words.times(count)}"] if count > len(folded.members) else []
        span = words.span(lead.first.line, lead.last.line)
        if seen and span and len(folded.members) == 1:
            seen.append(span)
        if lead.ranks:
            seen.append(f"on rank{'s' if len(lead.ranks) > 1 else ''} {words.ranges(lead.ranks)}")
        if lead.ranks_missing:
            seen.append(f"not on {words.ranges(lead.ranks_missing)}")
        rows.append(Text(f"  {cut(', '.join(seen), look.width - 2, look.marks.ellipsis)}", style=DIM))
    if lead.consequences:
        rows.append(_then(lead, look))
    return rows


def _then(lead: Finding, look: Look) -> Text:
    """`then: engine died ×93, API server shut down; lines 240-41580`, with as many names as fit."""
    names = [look.plain(_consequence(item, look)) for item in lead.consequences]
    own = [item for item in lead.consequences if item.source == lead.source and item.line is not None]
    first = min((item.line for item in own if item.line is not None), default=None)
    last = max((item.last_line or item.line or 0 for item in own), default=None)
    span = words.span(first, last)
    tail = f"; {span}" if span else ""
    for shown in range(len(names), 0, -1):
        more = f", +{len(names) - shown} more" if shown < len(names) else ""
        row = f"then: {', '.join(names[:shown])}{more}{tail}"
        if cell_len(row) <= look.width - 2:
            return Text(f"  {row}")
    more = f", +{len(names) - 1} more" if len(names) > 1 else ""
    room = look.width - 2 - len(f"then: {more}{tail}")
    return Text(f"  then: {cut(names[0], room, look.marks.ellipsis)}{more}{tail}")


def _consequence(item: Consequence, look: Look) -> str:
    title = item.title or item.id
    # A title is a sentence of its own; within a row its first word is small, unless it is a name (CUDA, NCCL, vLLM).
    if title[:1].isupper() and not title[1:2].isupper():
        title = title[0].lower() + title[1:]
    return f"{title} {look.marks.times}{item.count:,}" if item.count > 1 else title


def _remarks(lead: Finding, look: Look, prose: int) -> Iterator[Text]:
    if lead.ask:
        yield from hang(Text.assemble(("to be sure: ", ASK), look.clean(lead.ask)), "  ", prose, rest="    ")
    if lead.known_bug:
        yield from hang(Text.assemble("known bug: ", look.clean(lead.known_bug)), "  ", prose, rest="    ")
    shown = lead.references if look.verbose else lead.references[:1]
    for reference in shown:
        yield from hang(Text.assemble(("see ", DIM), look.clean(reference, DIM)), "  ", look.width, rest="    ")


def _hidden(lead: Finding, lines: int, fixes: int) -> list[Text]:
    counts = [
        words.plural(count - shown_of(count, limit), *nouns)
        for count, limit, nouns in (
            (len(lead.evidence), lines, ("line", "lines")),
            (len(lead.fixes), fixes, ("fix", "fixes")),
        )
        if count > limit
    ]
    return [Text(f"  +{' and '.join(counts)} with --verbose", style=DIM)] if counts else []


def _quoted(text: str, label: str, needles: Sequence[str], depth: int, look: Look) -> list[Text]:
    """A log line behind its gutter on at most `depth` rows, the cause's numbers set off."""
    bar = look.marks.bar
    room = look.width - cell_len(label) - 5
    if cell_len(text) > room * depth:
        text = _FRAME.sub(rf"\1{look.marks.ellipsis}\2", text)
    # Word wrap leaves some of each row empty: half a dozen cells for all but the last.
    shown = cut(text, room * depth - 6 * (depth - 1), look.marks.ellipsis, needles)
    rows = wrap_text(Text(shown), room)
    if len(rows) > depth:
        tail = " ".join(row.plain for row in rows[depth - 1 :])
        rows = [*rows[: depth - 1], *wrap_text(Text(cut(tail, room - 1, look.marks.ellipsis)), room)]
    for row in rows:
        row.highlight_words([needle for needle in needles if len(needle) > 2], "bold")
    blank = " " * cell_len(label)
    return [Text.assemble((f"  {label if index == 0 else blank} {bar} ", DIM), row) for index, row in enumerate(rows)]


def _label(item: Evidence, finding: Finding, files: int) -> str:
    """The line's number, with its log where that is not plain."""
    if item.kind != "log":
        return "live" if item.kind == "reading" else "~"
    number = str(item.line) if item.line is not None else "?"
    source = item.source or finding.source
    return f"{source}:{number}" if files > 1 or source != finding.source else number


def _said(item: Evidence) -> str:
    if item.kind == "assumed":
        return f"assumed: {item.text}"
    return f"{item.time}  {item.text}" if item.kind == "reading" and item.time else item.text


def _where(sources: Sequence[str]) -> str:
    return f"in {', '.join(sources[:3])}" + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")

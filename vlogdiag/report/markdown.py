"""A report to Markdown that is safe to paste into an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vlogdiag.model import Confidence, Evidence, Finding, Fix, Report, Unexplained
from vlogdiag.report import words
from vlogdiag.report.fold import Folded, fold
from vlogdiag.report.layout import UNICODE
from vlogdiag.report.paste import CAP, pastes
from vlogdiag.report.safe import markdown_code, markdown_fence, markdown_inline, plain
from vlogdiag.report.verdict import Verdict, verdicts


def render(report: Report) -> str:
    """The report as GitHub Markdown, ending in a newline: all findings with all their evidence and fixes."""
    files = len(report.sources)
    folded = fold(report.findings, across_files=files > 1)
    blocks = list(_head(report))
    for each in folded:
        blocks += _finding(each, files)
    blocks += _unexplained(report.unexplained, files)
    blocks += [f"> {markdown_inline(notice)}" for notice in report.notices]
    return "\n\n".join(blocks) + "\n"


def _head(report: Report) -> Iterator[str]:
    judged = verdicts(report)
    if len(judged) == 1:
        yield f"### {_name(judged[0])}: {markdown_inline(judged[0].text)}"
    elif judged:
        yield f"### {len(judged)} logs"
        rows = [
            f"| {UNICODE.of(each.severity)} | {_name(each, cell=True)} | {markdown_inline(each.text)} |"
            for each in judged
        ]
        yield "\n".join(["| | log | verdict |", "|---|---|---|", *rows])
    if report.sources:
        yield markdown_inline(" · ".join(words.log_parts(report.sources)))


def _finding(folded: Folded, files: int) -> Iterator[str]:
    lead = folded.lead
    yield f"#### {UNICODE.of(folded.severity)} {markdown_inline(lead.title)}"
    yield " · ".join(_facts(folded, files))
    yield markdown_inline(lead.cause)
    if lead.evidence:
        yield markdown_fence("\n".join(_line(item, lead, files) for item in lead.evidence))
    if lead.consequences:
        yield f"Then: {', '.join(_followed(lead))}."
    for number, fix in enumerate(lead.fixes, start=1):
        yield _fix(number, fix)
    if lead.ask:
        yield f"**To be sure:** {markdown_inline(lead.ask)}"
    if lead.known_bug:
        yield f"**Known bug:** {markdown_inline(lead.known_bug)}"
    if lead.references:
        yield "\n".join(f"- {_link(reference)}" for reference in lead.references)


def _facts(folded: Folded, files: int) -> Iterator[str]:
    lead = folded.lead
    yield markdown_code(lead.id)
    yield f"{folded.severity.word}, {lead.outcome.value}"
    if lead.confidence is not Confidence.HIGH:
        yield f"confidence {lead.confidence.word}"
    if files > 1:
        yield "in " + ", ".join(markdown_code(source) for source in folded.sources)
    if len(folded.runs) > 1:
        yield f"in starts {words.ranges(folded.runs)}"
    if lead.first.time:
        yield markdown_inline(lead.first.time)
    count = sum(each.count for each in folded.members)
    if count > 1:
        yield f"seen {words.times(count)}"


def _line(item: Evidence, finding: Finding, files: int) -> str:
    if item.kind == "assumed":
        return f"assumed: {plain(item.text)}"
    if item.kind == "reading":
        return f"live {plain(item.time or '')}: {plain(item.text)}"
    source = item.source or finding.source
    where = f"{plain(source)}:" if files > 1 or source != finding.source else ""
    return f"{where}{item.line if item.line is not None else '?'}: {plain(item.text)}"


def _followed(lead: Finding) -> Iterator[str]:
    for item in lead.consequences:
        times = f" ×{item.count:,}" if item.count > 1 else ""
        where = words.span(item.line, item.last_line)
        yield f"{markdown_inline(item.title or item.id)}{times}{f' ({where})' if where else ''}"


def _fix(number: int, fix: Fix) -> str:
    """A list item; what belongs to it is indented by as much as its number takes."""
    trade_off = f" ({markdown_inline(fix.trade_off)})" if fix.trade_off else ""
    parts = [f"**{markdown_inline(fix.title)}**{trade_off}"]
    if fix.disposition != "apply":
        parts.append(f"Check first: {markdown_inline(fix.question or 'whether it applies to you')}")
    items = list(pastes(fix))
    shell = "\n".join(item.text for item in items if item.shell and len(item.text) <= CAP)
    if shell:
        parts.append(markdown_fence(shell, "sh", cap=CAP))
    parts += [f"{item.label}: {markdown_code(item.text)}" for item in items if not item.shell]
    margin = " " * len(f"{number}. ")
    body = "\n\n".join(parts).replace("\n", f"\n{margin}").replace(f"\n{margin}\n", "\n\n")
    return f"{number}. {body}"


def _unexplained(items: Sequence[Unexplained], files: int) -> Iterator[str]:
    if not items:
        return
    yield "#### Not explained"
    rows = []
    for item in items:
        where = f"{plain(item.source)}:{item.line}" if files > 1 else str(item.line)
        rows.append(f"{where}: {plain(item.text)}" + (f" (×{item.count:,})" if item.count > 1 else ""))
    yield markdown_fence("\n".join(rows))


def _link(reference: str) -> str:
    """A plain web address stays a link; anything else is shown as text."""
    address = plain(reference)
    simple = address == reference and address.startswith("https://") and not set(address) & set("<>()[]\\`\"'| @")
    return f"<{address}>" if simple else markdown_inline(reference)


def _name(verdict: Verdict, *, cell: bool = False) -> str:
    return markdown_code(words.log_name(verdict.source.path), cell=cell)

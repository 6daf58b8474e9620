"""One log's findings to one line: what became of it, when, in which phase, why, and how many changes are on offer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from vlogdiag.model import (
    LEFT_OUT,
    Finding,
    Outcome,
    Position,
    Report,
    RunSummary,
    Severity,
    SourceSummary,
    Unexplained,
)
from vlogdiag.report import words
from vlogdiag.report.fold import Folded, fold


class Verdict(Struct, frozen=True):
    """What one log comes to; `text` is unguarded."""

    source: SourceSummary
    text: str
    severity: Severity | None
    """None where nothing is wrong."""
    failed: Position | None = None
    """Where the first failure of the log stands, if it failed."""
    read: bool = True
    """False where the log could not be read at all."""


def verdicts(report: Report) -> tuple[Verdict, ...]:
    """One for each log, in the order given."""
    return tuple(_verdict(report, source) for source in report.sources)


def _verdict(report: Report, source: SourceSummary) -> Verdict:
    folded = fold(finding for finding in report.findings if finding.source == source.path)
    unexplained = [item for item in report.unexplained if item.source == source.path]
    worst = max((each.severity for each in folded), default=None)
    last = source.runs[-1] if source.runs else None
    errors = [each for each in folded if each.severity is Severity.ERROR]
    if errors:
        fatal = [each.lead for each in folded if each.lead.outcome is Outcome.FATAL]
        failed = min((finding.first for finding in fatal), key=_line, default=None)
        return Verdict(source, _trouble(errors[0], source, last), Severity.ERROR, failed)
    if last is not None and last.outcome == "fatal":
        why = _left_out(report, source) or _unknown_cause(unexplained)
        text = f"died{_at(last.ended)}{words.during(last.phase)}: {why}{_also(folded)}"
        return Verdict(source, text, Severity.ERROR, last.ended)
    if source.error is not None and not folded and not unexplained:
        return Verdict(source, f"could not be read: {source.error}", Severity.ERROR, read=False)
    if folded:
        return Verdict(source, _calm(folded, source, last), worst)
    if unexplained:
        errors_left = words.plural(len(unexplained), "error") + " unexplained"
        symptoms = all(item.symptom for item in unexplained)
        served = "" if symptoms else _ended(last)
        return Verdict(source, f"{served}{errors_left}" if served else _unknown_cause(unexplained), Severity.WARNING)
    if source.lines == 0:
        return Verdict(source, "empty", Severity.WARNING)
    if not source.recognised:
        return Verdict(source, "nothing in it is vLLM's", Severity.WARNING)
    left_out = _left_out(report, source)
    beside = f" beside what was {left_out}" if left_out else ""
    return Verdict(source, f"nothing found{beside}{_ended(last, before=': ', after='')}", None)


def _left_out(report: Report, source: SourceSummary) -> str:
    """What a notice says of findings that somebody wanted to be left out: their cause is known well enough."""
    start = f"{source.path}: {LEFT_OUT}"
    return next((notice.removeprefix(f"{source.path}: ") for notice in report.notices if notice.startswith(start)), "")


def _trouble(first: Folded, source: SourceSummary, last: RunSummary | None) -> str:
    """For a log with an error: the first one is what the reader came for."""
    lead = first.lead
    run = next((run for run in source.runs if run.run == lead.run), None)
    why = f": {words.family(lead)}{changes(lead)}"
    if lead.outcome is Outcome.RECOVERED:
        return f"recovered: failed{_often(first)}{_at(lead.first, first)}{words.during(lead.phase)}, then served{why}"
    if lead.outcome is Outcome.DEGRADED:
        since = words.clock(lead.first)
        return f"in trouble{f' since {since}' if since else ''}{words.during(lead.phase)}{why}"
    end = run.ended if run is not None and run.ended is not None and run.ended.time else lead.first
    if last is not None and last.run > max(first.runs):
        start = f"start{'s' if len(first.runs) > 1 else ''} {words.ranges(first.runs)} of {last.run} "
        return f"{start}died{_at(end, first)}{words.during(lead.phase)}{why}"
    return f"died{_often(first)}{_at(end, first)}{words.during(lead.phase)}{why}"


def _calm(folded: Sequence[Folded], source: SourceSummary, last: RunSummary | None) -> str:
    """For a log without an error: recovered, warned, or a note about requests."""
    lead = folded[0].lead
    if lead.outcome is Outcome.RECOVERED:
        return _trouble(folded[0], source, last)
    counts = [
        words.plural(count, noun)
        for severity, noun in ((Severity.WARNING, "warning"), (Severity.INFO, "note"))
        if (count := sum(each.severity is severity for each in folded))
    ]
    families = list(dict.fromkeys(words.family(each.lead) for each in folded))
    return f"{_ended(last) or 'no failure, '}{', '.join(counts)}: {', '.join(families[:3])}{changes(lead)}"


def changes(finding: Finding) -> str:
    """`, 1 change`, `, 3 changes to try`, `, 2 things to check`, or nothing where the finding has no fix."""
    certain = sum(fix.disposition == "apply" for fix in finding.fixes)
    if certain:
        return ", 1 change" if certain == 1 else f", {certain} changes to try"
    return f", {words.plural(len(finding.fixes), 'thing')} to check" if finding.fixes else ""


def _unknown_cause(unexplained: Sequence[Unexplained]) -> str:
    if unexplained and all(item.symptom for item in unexplained):
        return "the cause is not in this log"
    if unexplained:
        return f"cause not recognised, {words.plural(len(unexplained), 'error')} unexplained"
    return "cause not recognised"


def _also(folded: Sequence[Folded]) -> str:
    count = sum(each.severity is Severity.WARNING for each in folded)
    return f", {words.plural(count, 'warning')}" if count else ""


def _ended(last: RunSummary | None, *, before: str = "", after: str = ", ") -> str:
    """How a start without a failure ended, between `before` and `after`; nothing where that is unknown."""
    if last is None or last.outcome not in {"serving", "stopped", "degraded", "recovered"}:
        return ""
    time = words.clock(last.ended)
    if last.outcome == "stopped":
        text = f"stopped as asked{f' {time}' if time else ''}"
    else:
        text = f"served until {time}" if time else "was serving at its end"
    return f"{before}{text}{after}"


def _at(position: Position | None, starts: Folded | None = None) -> str:
    """` 13:02:11`, or `, last 13:02:11` where it is the last of several starts."""
    time = words.clock(position)
    if not time:
        return ""
    return f", last {time}" if starts is not None and len(starts.runs) > 1 else f" {time}"


def _often(starts: Folded) -> str:
    return f" {words.times(len(starts.runs))}" if len(starts.runs) > 1 else ""


def _line(position: Position) -> int:
    return position.line if position.line is not None else 0

"""Writes an incident down as a Finding: the sentence, the lines that prove it, consequences, fixes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vlogdiag.catalog import Versions
from vlogdiag.diagnosis.advice import fixes_of
from vlogdiag.diagnosis.engine import Detection
from vlogdiag.diagnosis.facts import Fact
from vlogdiag.diagnosis.guesses import guesses
from vlogdiag.diagnosis.incidents import Incident, Member
from vlogdiag.diagnosis.scope import RunScope
from vlogdiag.diagnosis.unexplained import code_line, exception_line
from vlogdiag.model import (
    Confidence,
    Consequence,
    Evidence,
    Finding,
    Line,
    Outcome,
    Position,
    Record,
    Severity,
    Value,
)
from vlogdiag.signatures.types import KnownBug, Signature
from vlogdiag.values import Kind, Quantity, format_quantity

__all__ = ["finding_of", "unexplained_finding"]

MAX_EVIDENCE = 6
MAX_TEXT = 1_000


def finding_of(incident: Incident, source: str) -> Finding:
    """One incident of one log as a finding."""
    member = incident.cause
    signature, scope, lead = member.signature, member.scope, member.hit.lead
    scope.used.clear()  # what conditions asked for is no evidence; what the cause and the fixes state is
    cause = _cause(signature, scope)
    named = signature.cause.names if signature.cause is not None else frozenset()
    fixes = fixes_of(member)
    ask = signature.ask.render(scope) if signature.ask else None
    assumed = dict(scope.assumed) if not scope.facts.complete else {}
    confidence = signature.confidence
    if assumed or lead.record.cut or lead.at_end:
        confidence = Confidence(max(0, confidence - 1))
    last = max([member, *incident.consequences], key=lambda m: m.last_line)
    last_record = last.hit.last or lead.record
    return Finding(
        id=signature.id,
        family=signature.family,
        severity=incident.severity,
        confidence=confidence,
        outcome=incident.outcome,
        title=signature.title.render(scope) or signature.title.source,
        cause=cause,
        source=source,
        run=incident.run.number,
        first=_position(lead.line, lead.record),
        last=_position(last_record.lines[-1], last_record),
        count=member.hit.count + sum(m.hit.count for m in incident.consequences if _repeats(m, member)),
        speakers=tuple(member.hit.speakers),
        ranks=tuple(sorted(member.hit.ranks)),
        ranks_missing=_missing(member),
        evidence=(*log_evidence(lead, scope, source, named), *_assumed(assumed, scope)),
        consequences=_consequences(incident, source),
        captures={name: plain_value(value) for name, value in lead.captures.items()},
        ask=ask,
        fixes=fixes,
        references=signature.references,
        known_bug=_bug(signature.known_bug),
        phase=lead.record.phase,
    )


def unexplained_finding(record: Record, source: str, *, ended: Record | None, versions: Versions) -> Finding:
    """A run that died of something no signature knows: said so, with the exception that came first.

    Its family is 'unexplained': it claims none.
    """
    line = exception_line(record)
    said = [line]
    if not line.text.rstrip(":").count(" ") and (code := code_line(record, line)) is not None:
        said.insert(0, code)  # a bare `AssertionError` says nothing: the statement that failed does
    last = ended.lines[-1] if ended is not None else record.lines[-1]
    return Finding(
        id="unexplained-failure",
        family="unexplained",
        severity=Severity.ERROR,
        confidence=Confidence.LOW,
        outcome=Outcome.FATAL,
        title="The server died of an error that no signature explains yet",
        cause=f"The first error of this start is: {line.text[:300].strip()}"
        + (f" at `{said[0].text.strip()[:200]}`" if len(said) > 1 else ""),
        source=source,
        run=record.run,
        first=_position(line, record),
        last=_position(last, ended or record),
        evidence=tuple(Evidence("log", each.text[:MAX_TEXT], source, each.number) for each in said),
        speakers=(record.origin.label,),
        ask="Look the exception up among vLLM's issues; `vlogdiag snapshot` collects what a bug report needs, and "
        f"`vlogdiag rules new FILE --from LOG:{line.number}` turns it into a rule of your own.",
        fixes=guesses(record, line.text, versions),
        phase=record.phase,
    )


def _cause(signature: Signature, scope: RunScope) -> str:
    if signature.cause is None:
        return signature.title.render(scope) or signature.title.source
    text = signature.cause.render(scope)
    return text if text is not None else signature.title.render(scope) or signature.title.source


def log_evidence(
    lead: Detection, scope: RunScope, source: str, named: frozenset[str] = frozenset()
) -> tuple[Evidence, ...]:
    """The matched line first, then lines whose numbers are used (those that the cause `named` before the rest).

    One entry a physical line.
    """
    found: dict[tuple[int, str], Evidence] = {}

    def add(line: Line | None, number: int | None, text: str) -> None:
        shown = text
        at = line.number if line is not None else number
        key = (at or 0, shown[:200])
        if key not in found and shown.strip():
            found[key] = Evidence("log", shown[:MAX_TEXT], source, at)

    lines = [lead.line, *lead.capture_lines]
    for line in lines:
        add(line, None, _around(line, lead) if line is lead.line else line.text[:MAX_TEXT])
    if len(lead.record.lines) > 1:
        raised = exception_line(lead.record)
        if raised.number != lead.line.number:
            add(raised, None, raised.text[:MAX_TEXT])
    stated = {name for name in scope.used if name in named}
    for fact in (
        *_in_order(scope.used[n] for n in stated),
        *_in_order(f for n, f in scope.used.items() if n not in stated),
    ):
        add(None, fact.line, fact.text)
    return tuple(found.values())[:MAX_EVIDENCE]


def _in_order(facts: Iterable[Fact]) -> list[Fact]:
    return sorted((f for f in facts if f.line is not None), key=lambda f: f.line or 0)


def _around(line: Line, lead: Detection) -> str:
    """At most 1,000 characters of the line around the match."""
    if len(line.text) <= MAX_TEXT:
        return line.text
    at = 0
    for candidate in lead.record.lines:
        if candidate is line:
            break
        at += len(candidate.text) + 1
    begin = max(0, lead.start - at - 100)
    return line.text[begin : begin + MAX_TEXT]


def _position(line: Line, record: Record) -> Position:
    return Position(line.number, line.offset, record.stamp, record.iso)


def _assumed(assumed: Mapping[str, Quantity], scope: RunScope) -> tuple[Evidence, ...]:
    where = scope.versions.single or scope.versions.words()
    return tuple(
        Evidence(
            "assumed", f"--{name.partition('.')[2].replace('_', '-')} {format_quantity(value)} (default of {where})"
        )
        for name, value in sorted(assumed.items())
    )


def _repeats(member: Member, cause: Member) -> bool:
    """A parent prints what its child printed, with less around it: counted, not listed."""
    base = cause.hit.lead.signature.id
    return member.hit.lead.signature.id == base and member.signature.id in (cause.signature.id, base)


def _consequences(incident: Incident, source: str) -> tuple[Consequence, ...]:
    folded: dict[str, list[Member]] = {}
    for member in incident.consequences:
        if _repeats(member, incident.cause):
            continue
        folded.setdefault(member.signature.id, []).append(member)
    return tuple(
        Consequence(
            ident,
            members[0].signature.title.render(members[0].scope) or members[0].signature.title.source,
            source,
            members[0].line,
            max(m.last_line for m in members),
            sum(m.hit.count for m in members),
        )
        for ident, members in folded.items()
    )


def _missing(member: Member) -> tuple[int, ...]:
    """Ranks of the world that did not print it, where the world's size and at least two ranks are known."""
    size = member.scope.lookup("log.world_size")
    ranks = member.hit.ranks
    if (
        size is None
        or size.kind is not Kind.INT
        or not ranks
        or not 1 < int(size.value) <= 4096
        or max(ranks) >= int(size.value)
    ):
        return ()
    return tuple(sorted(set(range(int(size.value))) - ranks))


def _bug(bug: KnownBug | None) -> str | None:
    if bug is None:
        return None
    parts = [bug.thread] if bug.thread else []
    if bug.introduced:
        parts.append(f"since {bug.introduced}")
    if bug.fixed_in:
        parts.append(f"mended in {bug.fixed_in}")
    return ", ".join(parts) or "no thread is known"


def plain_value(quantity: Quantity | None) -> Value | None:
    """A capture as reports carry it: bytes, fractions, seconds, numbers, text."""
    return None if quantity is None else quantity.value

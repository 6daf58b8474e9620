"""Turns the Hits of one run into incidents: each a cause with its consequences, its outcome and its rank.

What broke first leads; symptoms, and causes that yield to others, become its consequences (DESIGN section 6).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from vlogdiag.diagnosis.engine import Hit, Rulebook
from vlogdiag.diagnosis.facts import Facts
from vlogdiag.diagnosis.runs import Run
from vlogdiag.diagnosis.scope import RunScope
from vlogdiag.model import Outcome, Role, Severity
from vlogdiag.signatures.types import Signature
from vlogdiag.values import Kind, Quantity

__all__ = ["Incident", "Member", "judge"]

FORWARD_S = 5.0
"""Processes' lines arrive out of order: a cause may be printed this much after what it caused."""
CASCADE_S = 180.0
"""After a fatal cause and without any sign of life since, other errors within this time are its consequences."""
OF_THE_START = ("startup", "environment")
"""Families whose causes keep a server from coming up, where they are its cause."""


class Member(Struct):
    """One hit, the signature that speaks for it (its deepest refinement that holds), the scope it was judged in."""

    hit: Hit
    signature: Signature
    scope: RunScope
    siblings: tuple[Signature, ...] = ()
    """Other refinements that hold: their fixes are appended."""

    @property
    def line(self) -> int:
        """First line of the leading record."""
        return self.hit.lead.line.number

    @property
    def last_line(self) -> int:
        """Last line of the last record."""
        return self.hit.last.lines[-1].number if self.hit.last else self.line

    @property
    def time(self) -> float | None:
        """Log time of the leading record."""
        return self.hit.lead.record.time


class Incident(Struct):
    """A cause and what followed from it, in one run."""

    run: Run
    cause: Member
    consequences: list[Member] = field(default_factory=list)
    outcome: Outcome = Outcome.DEGRADED
    severity: Severity = Severity.ERROR

    @property
    def last_line(self) -> int:
        """Last line of the cause or of any consequence."""
        return max([self.cause.last_line, *(m.last_line for m in self.consequences)])


def judge(
    hits: Iterable[Hit],
    rules: Rulebook,
    run: Run,
    facts: Facts,
    *,
    given: Mapping[str, Quantity] | None = None,
    before: frozenset[str] = frozenset(),
) -> tuple[list[Incident], list[Member]]:
    """Incidents of one run in order of rank, and the symptoms that no cause explains.

    `given` are facts that an example states; `before` the ids and families of the causes in the run before this one.
    """
    members = [m for m in (speak_for(hit, rules, run, facts, given or {}, before) for hit in hits) if m is not None]
    members.sort(key=lambda m: (m.line, m.signature.order, m.hit.lead.start))
    causes = [m for m in members if m.signature.role is Role.CAUSE]
    symptoms = [m for m in members if m.signature.role is Role.SYMPTOM]
    incidents = _causes(causes, rules, run)
    orphans: list[Member] = []
    errors = [i for i in incidents if i.severity >= Severity.WARNING and i.cause.signature.family not in ("request",)]
    for symptom in symptoms:
        home = _home(symptom, errors)
        if home is None:
            orphans.append(symptom)
        else:
            home.consequences.append(symptom)
    for incident in incidents:
        incident.consequences.sort(key=lambda m: m.line)
        _outcome(incident, run)
    return sorted(incidents, key=rank), orphans


def rank(incident: Incident) -> tuple[int, int, int]:
    """Order within a run: what ended it, then severity, then earliest."""
    return (0 if incident.outcome is Outcome.FATAL else 1, -int(incident.severity), incident.cause.line)


def speak_for(
    hit: Hit, rules: Rulebook, run: Run, facts: Facts, given: Mapping[str, Quantity], before: frozenset[str]
) -> Member | None:
    """The signature that speaks for a hit, or None if its conditions do not hold."""
    lead = hit.lead
    scope = RunScope(
        captures=lead.captures,
        facts=facts,
        run=run,
        record=lead.record,
        phase=lead.record.phase,
        given=given,
        event={
            "event.count": Quantity(hit.count, Kind.INT),
            "event.ranks": Quantity(len(hit.ranks), Kind.INT),
            "event.speakers": Quantity(len(hit.speakers), Kind.INT),
            **({"event.phase": Quantity(lead.record.phase.value, Kind.TEXT)} if lead.record.phase else {}),
        },
        series_values=hit.series,
    )
    base = lead.signature
    if not _fits(base, scope, before):
        return None
    allowed = {s.id for s in lead.refinements}
    chosen, siblings = _deepest(base, rules, allowed, scope, before)
    return Member(hit, chosen, scope, siblings)


def _deepest(
    base: Signature, rules: Rulebook, allowed: set[str], scope: RunScope, before: frozenset[str]
) -> tuple[Signature, tuple[Signature, ...]]:
    children = [s for s in rules.children.get(base.id, ()) if s.id in allowed and _fits(s, scope, before)]
    if not children:
        return base, ()
    children.sort(key=lambda s: (s.order, s.id))
    best, deeper = _deepest(children[0], rules, allowed, scope, before)
    return best, (*deeper, *children[1:])


def _fits(signature: Signature, scope: RunScope, before: frozenset[str]) -> bool:
    if signature.after_run is not None and not before & set(signature.after_run.any_of):
        return False
    if signature.vllm is not None and scope.vllm_in(signature.vllm) is False:
        return False
    return signature.when is None or signature.when.truth(scope) is True


def _causes(causes: Sequence[Member], rules: Rulebook, run: Run) -> list[Incident]:
    """Group causes: those that yield, and those that share a record or follow a fatal one, hang under it."""
    incidents: list[Incident] = []
    yielded: list[tuple[Member, Member]] = []
    standing: list[Member] = []
    called: dict[str, list[int]] = {}
    for place, member in enumerate(causes):
        for name in _names(member, rules):
            called.setdefault(name, []).append(place)
    for member in causes:
        rule = member.signature.yields_to
        named = {place for name in rule.any_of for place in called.get(name, ())} if rule is not None else ()
        others = (causes[place] for place in sorted(named))
        stronger = next((other for other in others if other is not member and yields(member, other, rules)), None)
        if stronger is None:
            standing.append(member)
        else:
            yielded.append((member, stronger))
    lines: list[int] = []  # of the incidents' causes, ascending as the members are
    for member in standing:
        lived = bisect_left(lines, member.hit.lead.record.life or 0)  # it follows nothing that the server survived
        home = next((i for i in islice(incidents, lived, None) if _follows(member, i)), None)
        if home is not None:
            home.consequences.append(member)
        else:
            lines.append(member.line)
            incidents.append(Incident(run, member, severity=member.signature.severity))
    for member, stronger in yielded:
        home = next((i for i in incidents if i.cause is stronger or stronger in i.consequences), None)
        if home is None:  # the stronger one yields itself: the chain's end is somewhere; take the earliest
            home = incidents[0] if incidents else None
        if home is None:
            incidents.append(Incident(run, member, severity=member.signature.severity))
        else:
            home.consequences.append(member)
    return incidents


def yields(member: Member, other: Member, rules: Rulebook) -> bool:
    """Whether `member` gives way to `other` by its `yields_to` (ids, bases or families, and a window)."""
    rule = member.signature.yields_to
    if rule is None or other.signature.role is not Role.CAUSE or other.signature.severity < member.signature.severity:
        return False  # an error is never put down to a mere warning
    if not (_names(other, rules) & set(rule.any_of)):
        return False
    mutual = other.signature.yields_to
    if (
        mutual is not None
        and member.signature.severity >= other.signature.severity
        and _names(member, rules) & set(mutual.any_of)
        and (other.line, other.hit.lead.start) > (member.line, member.hit.lead.start)
    ):
        return False  # each yields to the other: the earlier one stands
    if member.time is None or other.time is None:
        return True
    gap = member.time - other.time  # > 0: the other came first
    if gap < -(FORWARD_S + _goes_on(member)):
        return False
    if rule.within is None:
        return True
    window = rule.within.evaluate(member.scope)
    seconds = window.number if window is not None else None
    return seconds is None or gap <= float(seconds) + FORWARD_S


def _names(member: Member, rules: Rulebook) -> frozenset[str]:
    """What `yields_to` and `after_run` may call it: its id, its base's, its family's."""
    signature = member.signature
    return frozenset((signature.id, rules.base(signature.id), signature.family))


def _goes_on(member: Member) -> float:
    """Seconds that what a rule about time watched went on after its first record: to the last one, and its own window.

    Notices that a worker does not answer begin minutes before the watchdog that names the reason.
    """
    signature, hit = member.hit.lead.signature, member.hit
    window = signature.sequence.within if signature.sequence else signature.silence.for_ if signature.silence else None
    quantity = window.evaluate(member.scope) if window is not None else None
    if quantity is None or quantity.number is None:
        return 0.0
    last = hit.last.time if hit.last is not None else None
    span = last - member.time if last is not None and member.time is not None else 0.0
    return max(0.0, span) + float(quantity.number)


def _follows(member: Member, incident: Incident) -> bool:
    """Whether a standing cause is really what came of an earlier one."""
    cause = incident.cause
    lead, other = member.hit.lead.record, cause.hit.lead.record
    if lead is other or (lead.first.number == other.first.number and lead.origin == other.origin):
        return member.signature.severity <= cause.signature.severity or cause.signature.severity >= Severity.ERROR
    if cause.signature.severity < Severity.ERROR or cause.signature.family == "request":
        return False
    if member.signature.severity < Severity.ERROR and member.line < cause.line:
        return False
    if (lead.life or 0) > cause.line:  # it lived on in between
        return False
    if member.time is None or cause.time is None:
        return True
    return abs(member.time - cause.time) <= CASCADE_S


def _alive_after(line: int, run: Run) -> bool:
    """A sign of life after `line`: the run survived what happened there."""
    return (run.last_life or 0) > line


def _came_up_after(line: int, run: Run) -> bool:
    """The server came up after `line`, and answered."""
    return run.served and (run.served_line or 0) > line and run.failed_line is None and _alive_after(line, run)


def _home(symptom: Member, errors: Sequence[Incident]) -> Incident | None:
    """The one of `errors` that a symptom hangs under: the last one before it, else the first within reach after it."""
    before = None
    for incident in reversed(errors):
        if incident.cause.line <= symptom.last_line:
            if incident.severity >= Severity.ERROR:
                return incident
            before = before or incident
    after = [i for i in errors if i.cause.line > symptom.line and i.severity >= Severity.ERROR]
    for incident in after:
        if symptom.time is None or incident.cause.time is None or incident.cause.time - symptom.time <= FORWARD_S:
            return incident
    return before


def _outcome(incident: Incident, run: Run) -> None:
    severity = max(
        [
            incident.cause.signature.severity,
            *(m.signature.severity for m in incident.consequences if m.signature.role is Role.CAUSE),
        ]
    )
    if incident.cause.signature.family == "request":
        severity = Severity.INFO
    elif incident.cause.signature.family in OF_THE_START and _came_up_after(incident.last_line, run):
        severity = min(severity, Severity.WARNING)  # it cannot have kept the server from starting
    incident.severity = severity
    alive = _alive_after(incident.last_line, run)
    if severity < Severity.ERROR or alive:
        incident.outcome = Outcome.DEGRADED
    else:
        incident.outcome = Outcome.FATAL


def names_of(judged: Iterable[Incident], rules: Rulebook) -> frozenset[str]:
    """Ids, bases and families of a run's causes: what `after_run` of the next run may name."""
    return frozenset(
        name for incident in judged for m in (incident.cause, *incident.consequences) for name in _names(m, rules)
    )


def recovered(incident: Incident, runs: Sequence[Run]) -> Incident:
    """A start that failed before serving, followed by one that serves, has recovered: one step less severe."""
    later = [r for r in runs if r.number > incident.run.number]
    if incident.outcome is Outcome.FATAL and not incident.run.served and any(r.served for r in later):
        return replace(incident, outcome=Outcome.RECOVERED, severity=Severity(max(0, incident.severity - 1)))
    return incident

"""Joins a finding with the live reading nearest before its record: confidence, evidence, and which fix comes first.

Readings never decide whether a finding exists. The reading *before* the record counts, since after a crash the memory
is free again and a reading taken "now" clears the guilty. Xid events and a lost card are the exception: they show a
moment later, and an Xid may come ten minutes before what it caused is noticed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from vlogdiag.diagnosis.advice import fill
from vlogdiag.diagnosis.engine import Detection
from vlogdiag.diagnosis.incidents import Incident, Member
from vlogdiag.live.cuda_mapping import CudaEnvironment, gpu_of_index
from vlogdiag.live.describe import describe_gpu
from vlogdiag.live.facts import reading_values
from vlogdiag.model import Confidence, Evidence, Finding, Fix, Gpu, Reading, Record, Xid
from vlogdiag.signatures.names import NAMES
from vlogdiag.signatures.types import Corroborate, Signature
from vlogdiag.values import Kind, Quantity

__all__ = ["AFTER_S", "Readings", "corroborated", "live_values", "moment_of"]

KEPT = 400
"""Readings held: 13 minutes at one in two seconds, some megabytes with eight cards."""
STALE_S = 120.0
"""A reading older than this says nothing about a record."""
AFTER_S = 6.0
"""Xids, a lost card and the kernel's kills show in the readings after the record: the host is looked at every 5 s."""
XID_S = 660.0
"""How long before the record an Xid may have come: NCCL speaks ten minutes after the cause."""
MAX_PINS = 2_000
"""Moments whose readings are remembered after newer readings have pushed them out of the ring."""
MAX_PIDS = 10_000
DEVICE = ("device", "index", "gpu", "card")
"""What rules call the capture that holds CUDA's index of a card."""


class Readings(Struct):
    """The recent readings of one log by log time, and those beside each moment that a finding was made of."""

    pids: set[int] = field(default_factory=set)
    """Process ids that the log has named: vLLM's own."""
    revision: int = 0
    """Counts what came to a moment after it had been looked at."""
    used: bool = False
    """There has been a reading."""
    _kept: deque[Reading] = field(default_factory=lambda: deque(maxlen=KEPT))
    _pins: OrderedDict[float, Reading | None] = field(default_factory=OrderedDict)
    _latest: float = float("-inf")
    _timeless: Reading | None = None
    _recorded: Iterator[Reading] | None = None
    _next: Reading | None = None
    _watched: float | None = None

    def add(self, reading: Reading) -> None:
        """Keep a reading; its `time` is on the log's clock (None: taken without a log, it counts for every record)."""
        self.used = True
        if reading.time is None:
            self._timeless = reading
            return
        self._kept.append(reading)
        if reading.time > self._latest + AFTER_S:
            return
        loud = bool(reading.xids) or any(gpu.lost for gpu in reading.gpus) or _kills(reading) > 0
        for time in self._pins:
            age = time - reading.time
            if 0 <= age <= STALE_S or (loud and -AFTER_S <= age < 0):
                self._pins[time] = self._look(time)
                self.revision += 1

    def replay(self, recorded: Iterable[Reading]) -> None:
        """Take a recording, in its order; it is read as far as the log has come."""
        self._recorded = iter(recorded)

    def last(self) -> float | None:
        """When the last reading of a recording was taken; reads it to its end. None without a recording."""
        self._advance(float("inf"))
        return self._watched

    def saw(self, record: Record) -> None:
        """Remember the process id of a speaker."""
        pid = record.origin.pid
        if pid is not None and len(self.pids) < MAX_PIDS:
            self.pids.add(pid)

    def at(self, time: float | None) -> Reading | None:
        """What the machine said nearest before log time `time`; the same answer whenever it is asked again."""
        if time is None:
            return self._timeless
        if time not in self._pins:
            self._advance(time + AFTER_S)
            if len(self._pins) >= MAX_PINS:
                self._pins.popitem(last=False)
            self._pins[time] = self._look(time)
            self._latest = max(self._latest, time)
        return self._pins[time] or self._timeless

    def _look(self, time: float) -> Reading | None:
        before = [r for r in self._kept if r.time is not None and 0 <= time - r.time <= XID_S]
        best = max(before, key=lambda r: r.time or 0.0, default=None)
        if best is None or best.time is None or time - best.time > STALE_S:
            return None
        found = replace(best, xids=tuple(dict.fromkeys(x for r in before for x in r.xids)))
        for later in self._kept:
            if later.time is not None and 0 < later.time - time <= AFTER_S:
                found = _and_after(found, later)
        return found

    def _advance(self, time: float) -> None:
        while self._recorded is not None:
            reading = self._next or next(self._recorded, None)
            self._next = None
            if reading is None:
                self._recorded = None
            elif reading.time is not None and reading.time > time:
                self._next = reading
                return
            else:
                self._watched = reading.time
                self.add(reading)


def _kills(reading: Reading) -> int:
    return (reading.host.oom_kills if reading.host is not None else None) or 0


def _and_after(reading: Reading, later: Reading) -> Reading:
    """What shows only after the record: the driver's events, a card that is gone, and that the kernel has killed."""
    lost = {gpu.index for gpu in later.gpus if gpu.lost}
    gpus = tuple(replace(gpu, lost=True) if gpu.index in lost else gpu for gpu in reading.gpus)
    xids: tuple[Xid, ...] = tuple(dict.fromkeys((*reading.xids, *later.xids)))
    host = reading.host
    if host is not None and _kills(later) > _kills(reading):
        host = replace(host, oom_kills=_kills(later))
    return replace(reading, gpus=gpus, xids=xids, host=host)


def moment_of(detection: Detection) -> float | None:
    """The log time that a detection speaks of: its record's, or when it was complete (a sequence, a silence)."""
    return detection.moment if detection.moment is not None else (detection.last or detection.record).time


def live_values(member: Member, readings: Readings) -> tuple[dict[str, Quantity], Reading | None]:
    """`gpu.*`, `metrics.*` and `host.*` beside a member's leading record, and the reading they come from."""
    reading = readings.at(moment_of(member.hit.lead))
    if reading is None:
        return {}, None
    index = _gpu_of(member, reading)
    found: dict[str, Quantity] = {}
    for name, (value, kind) in reading_values(reading, index, frozenset(readings.pids)).items():
        if value is not None and name in NAMES:
            found[name] = Quantity(value, kind)
    return found, reading


def _gpu_of(member: Member, reading: Reading) -> int | None:
    """NVML's index of the card that the record names as CUDA counts."""
    captures = member.hit.lead.captures
    named = next((v for name in DEVICE if (v := captures.get(name)) is not None and v.kind is Kind.INT), None)
    if named is None:
        named = member.scope.facts_value("card.index")
    if named is None or named.kind is not Kind.INT:
        return None
    environment = CudaEnvironment(*reading.cuda) if reading.cuda is not None else None
    return gpu_of_index(int(named.value), reading.gpus, environment)


def corroborated(finding: Finding, incident: Incident, reading: Reading | None) -> Finding:
    """Apply the `corroborate` entries that hold; without a reading the finding is what the log alone gives.

    A refinement without a word of its own leaves it to its base; a fix that it lacks is borrowed from there.
    """
    if reading is None:
        return finding
    member = incident.cause
    evidence: list[Evidence] = []
    confidence = int(finding.confidence)
    fixes = finding.fixes
    for signature, entry in _entries(member):
        said = entry.say.render(member.scope)
        if said:
            evidence.append(Evidence("reading", said, time=reading.stamp))
        confidence += {"raise": 1, "lower": -1}.get(entry.confidence or "", 0)
        if entry.prefer_fix:
            fixes = _preferred(fixes, entry.prefer_fix, signature, member)
    gpu = _meant(member, reading)
    if gpu is not None and (evidence or member.scope.live_used):
        evidence.append(Evidence("reading", describe_gpu(gpu), time=reading.stamp))
    return replace(
        finding,
        evidence=(*finding.evidence, *evidence),
        confidence=Confidence(max(int(Confidence.LOW), min(int(Confidence.HIGH), confidence))),
        fixes=fixes,
    )


def _entries(member: Member) -> list[tuple[Signature, Corroborate]]:
    """The entries that hold of the signature that speaks, else those of what it refines."""
    lead = member.hit.lead
    known = {s.id: s for s in (lead.signature, *lead.refinements)}
    signature: Signature | None = member.signature
    while signature is not None:
        holding = [(signature, entry) for entry in signature.corroborate if entry.when.truth(member.scope) is True]
        if holding:
            return holding
        signature = known.get(signature.refines) if signature.refines else None
    return []


def _meant(member: Member, reading: Reading) -> Gpu | None:
    index = member.scope.live.get("gpu.index")
    return next((g for g in reading.gpus if index is not None and g.index == index.value), None)


def _preferred(fixes: tuple[Fix, ...], title: str, signature: Signature, member: Member) -> tuple[Fix, ...]:
    """The fix that `signature` gives this title (holes not filled in) comes first."""
    template = next((t for t in signature.fixes if t.title.source == title), None)
    chosen = fill(template, signature, member.scope) if template is not None else None
    if chosen is None:
        return fixes
    chosen = next((f for f in fixes if f.title == chosen.title), chosen)
    return (chosen, *(f for f in fixes if f != chosen))

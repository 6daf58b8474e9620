"""Joins a finding with the live reading nearest before its record: confidence up or down, the reading cited, a fix chosen.

Readings never decide whether a finding exists. The reading *before* the record counts, since after a crash the memory is
free again and a reading taken "now" clears the guilty.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vlogdiag.diagnosis.incidents import Incident, Member
from vlogdiag.model import Confidence, Evidence, Finding, Fix, Reading, Record
from vlogdiag.signatures.names import NAMES
from vlogdiag.values import Kind, Quantity

if TYPE_CHECKING:  # imported where they are needed: most runs have no readings
    from vlogdiag.live.cuda_mapping import CudaEnvironment

__all__ = ["Readings", "corroborated", "live_values"]

KEPT = 1_800
"""Readings held: an hour at two seconds."""
STALE_S = 120.0
"""A reading older than this says nothing about a record."""
AFTER_S = 3.0
"""Xids and a lost card show in the first reading after the record as well."""


@dataclass(slots=True)
class Readings:
    """The recent readings of one log, by log time."""

    kept: deque[Reading] = field(default_factory=lambda: deque(maxlen=KEPT))
    pids: set[int] = field(default_factory=set)
    """Process ids that the log has named: vLLM's own."""
    environment: CudaEnvironment | None = None

    def add(self, reading: Reading) -> None:
        """Keep a reading; its `time` is on the log's clock (None: taken without a log, it counts for every record)."""
        self.kept.append(reading)

    def saw(self, record: Record) -> None:
        """Remember the process id of a speaker."""
        pid = record.origin.pid
        if pid is not None and len(self.pids) < 10_000:
            self.pids.add(pid)

    def before(self, time: float | None) -> Reading | None:
        """The reading nearest before log time `time`."""
        if not self.kept:
            return None
        timeless = next((r for r in reversed(self.kept) if r.time is None), None)
        if time is None:
            return timeless
        best = None
        for reading in self.kept:
            if reading.time is not None and reading.time <= time and (best is None or reading.time >= (best.time or 0)):
                best = reading
        if best is not None and best.time is not None and time - best.time <= STALE_S:
            return best
        return timeless

    def after(self, time: float | None) -> Reading | None:
        """The first reading at most `AFTER_S` after the record."""
        if time is None:
            return None
        later = [r for r in self.kept if r.time is not None and 0 < r.time - time <= AFTER_S]
        return min(later, key=lambda r: r.time or 0.0, default=None)


def live_values(member: Member, readings: Readings) -> tuple[dict[str, Quantity], Reading | None]:
    """`gpu.*`, `metrics.*` and `host.*` for a member's leading record, and the reading they come from."""
    time = member.time
    reading = readings.before(time)
    if reading is None:
        return {}, None
    from vlogdiag.live.cuda_mapping import gpu_of_index
    from vlogdiag.live.facts import reading_values

    later = readings.after(time)
    if later is not None and later.xids and not reading.xids:
        reading = replace(reading, xids=later.xids)
    captured = member.hit.lead.captures.get("index") or member.scope.facts_value("card.index")
    index = None
    if captured is not None and captured.kind is Kind.INT:
        index = gpu_of_index(int(captured.value), reading.gpus, readings.environment)
    found: dict[str, Quantity] = {}
    for name, (value, kind) in reading_values(reading, index, frozenset(readings.pids)).items():
        if value is not None and name in NAMES:
            found[name] = Quantity(value, kind)
    return found, reading


def corroborated(finding: Finding, incident: Incident, reading: Reading | None) -> Finding:
    """Apply the signature's `corroborate` entries that hold; without a reading the finding is what the log alone gives."""
    if reading is None:
        return finding
    member = incident.cause
    evidence: list[Evidence] = []
    confidence = int(finding.confidence)
    fixes = finding.fixes
    stamp = reading.stamp
    for entry in member.signature.corroborate:
        if entry.when.truth(member.scope) is not True:
            continue
        said = entry.say.render(member.scope)
        if said:
            evidence.append(Evidence("reading", said, time=stamp))
        confidence += {"raise": 1, "lower": -1}.get(entry.confidence or "", 0)
        if entry.prefer_fix:
            fixes = _preferred(fixes, entry.prefer_fix)
    if evidence and reading.gpus:
        index = member.scope.live.get("gpu.index")
        gpu = next((g for g in reading.gpus if index is not None and g.index == index.value), None)
        if gpu is not None:
            from vlogdiag.live.describe import describe_gpu

            evidence.append(Evidence("reading", describe_gpu(gpu), time=stamp))
    return replace(
        finding,
        evidence=(*finding.evidence, *evidence),
        confidence=Confidence(max(0, min(int(Confidence.HIGH), confidence))),
        fixes=fixes,
    )


def _preferred(fixes: tuple[Fix, ...], title: str) -> tuple[Fix, ...]:
    """The fix with that title (as the rule writes it, holes filled in) comes first."""
    stem = title.partition("{")[0].strip()
    first = [f for f in fixes if f.title == title or (stem and f.title.startswith(stem))]
    return (*first, *(f for f in fixes if f not in first))

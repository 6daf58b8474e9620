"""Watches one live log: lines and moments in, events out (a finding opened, updated, closed).

A cause is told when its record has been quiet for `QUIET_S`, what nothing explains after `LONE_S`. What is told before
records are complete comes from a look that changes nothing (`Pipeline.peek`), so that the end result is that of `scan`.
"""

from __future__ import annotations

from dataclasses import replace

from vlogdiag.diagnosis.statistics import Statistics
from vlogdiag.loading import Rules
from vlogdiag.log.prefilter import Prefilter
from vlogdiag.model import Event, Finding, Reading, Record
from vlogdiag.pipeline import Pipeline, Result

__all__ = ["LONE_S", "QUIET_S", "Session"]

QUIET_S = 0.1
LONE_S = 2.0
BUSY_LOOK_S = 0.2
"""A log that never falls quiet is looked at this often all the same."""
KEPT_RUNS = 20
"""Starts of the server remembered: a crash loop of months must not grow."""
LONE = "unexplained-failure"

Key = tuple[int, str, int]


class Session:
    """One followed log; `now` is always seconds on one monotonic clock."""

    def __init__(
        self,
        source: str,
        rules: Rules,
        *,
        version: str | None = None,
        prefilter: Prefilter | None = None,
        numbered: bool = True,
    ) -> None:
        self.source = source
        self.numbered = numbered
        """Line numbers are the file's own (following began at its first line)."""
        self.statistics: Statistics | None = None
        self.throughput: list[float] = []
        self.pipeline = Pipeline(rules, source=source, version=version, prefilter=prefilter, keep_runs=KEPT_RUNS)
        self.pipeline.on_statistics = self._statistics
        self._told: dict[Key, tuple[Finding, tuple[object, ...]]] = {}
        self._dirty = False
        self._fed: float | None = None
        self._looked: float | None = None
        self._lone_pending = False

    @property
    def fed_at(self) -> float | None:
        """When the last bytes came."""
        return self._fed

    def feed(self, lines: bytes, now: float) -> None:
        """Take whole lines that arrived at `now`."""
        self.pipeline.feed(lines)
        self.pipeline.arrived(now)
        self._fed = now
        self._dirty = True

    def observe(self, reading: Reading) -> None:
        """Take a live reading (its time on this log's clock)."""
        self.pipeline.observe(reading)

    def poll(self, now: float) -> list[Event]:
        """What has become certain by `now`."""
        pass
        quiet = now - self._fed if self._fed is not None else 0.0
        if self._lone_pending and quiet >= LONE_S:
            self._lone_pending = False
            self._dirty = True
        if not self._dirty:
            return []
        waited = now - self._looked if self._looked is not None else LONE_S
        if quiet < QUIET_S and waited < BUSY_LOOK_S:
            return []
        self._dirty = False
        self._looked = now
        return self._changes(self.pipeline.peek(10**12, now), lone=quiet >= LONE_S or waited >= LONE_S)

    def close(self) -> list[Event]:
        """End of following: everything open is complete."""
        events = self._changes(self.pipeline.close(), lone=True)
        return [*events, *(Event("finding.closed", finding=self._shown(f)) for f, _ in self._told.values())]

    def result(self) -> Result:
        """Everything known, as `scan` would report it."""
        return self.pipeline.result()

    def findings(self) -> tuple[Finding, ...]:
        """Findings that have been told and still stand."""
        return tuple(self._shown(f) for f, _ in self._told.values())

    def _statistics(self, statistics: Statistics, record: Record) -> None:
        self.statistics = statistics
        if statistics.generation is not None:
            self.throughput.append(statistics.generation)
            del self.throughput[:-120]

    def _changes(self, result: Result, *, lone: bool) -> list[Event]:
        events: list[Event] = []
        current: dict[Key, Finding] = {}
        for finding in result.findings:
            if finding.id == LONE and not lone:
                self._lone_pending = True
                continue
            current[finding.run, finding.id, finding.first.offset or 0] = finding
        for key, finding in current.items():
            told = self._told.get(key)
            mark = _fingerprint(finding)
            if told is None:
                events.append(Event("finding.opened", finding=self._shown(finding)))
            elif told[1] != mark:
                events.append(Event("finding.updated", finding=self._shown(finding)))
            self._told[key] = finding, mark
        for key in [k for k in self._told if k not in current]:
            # It turned out to follow from something earlier, or a clearer rule speaks for it; or its run is forgotten.
            finding, _ = self._told.pop(key)
            events.append(Event("finding.closed", finding=self._shown(finding)))
        return events

    def _shown(self, finding: Finding) -> Finding:
        if self.numbered:
            return finding
        return replace(
            finding,
            first=replace(finding.first, line=None, offset=None),
            last=replace(finding.last, line=None, offset=None),
            evidence=tuple(replace(e, line=None) for e in finding.evidence),
            consequences=tuple(replace(c, line=None, last_line=None) for c in finding.consequences),
        )


def _fingerprint(finding: Finding) -> tuple[object, ...]:
    return (
        finding.severity,
        finding.outcome,
        finding.confidence,
        finding.count,
        finding.cause,
        tuple((c.id, c.count) for c in finding.consequences),
        finding.ranks,
    )

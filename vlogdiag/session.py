"""Watches one live log: lines and moments in, events out (a finding opened, updated, closed).

A cause is told when its record has been quiet for `QUIET_S` or is complete, what nothing explains after `LONE_S`. What
is told before records are complete comes from a look that changes nothing (`Pipeline.peek`), so that the end result is
that of `scan`. The same finding grows by updates that come ever more rarely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from vlogdiag.log.wall import WallZone
from vlogdiag.model import Event, Finding, Outcome, Reading, Severity, Unexplained
from vlogdiag.numbering import Numbering
from vlogdiag.pipeline import Pipeline, Result
from vlogdiag.serving import Serving

__all__ = ["KEPT_RUNS", "LONE_S", "QUIET_S", "Session"]

QUIET_S = 0.1
"""A record without a new line for so long is taken as complete, for the time being."""
LONE_S = 2.0
"""What may be the consequence of something still to be printed waits for so long."""
UPDATE_S = 1.0
SLOWEST_UPDATE_S = 60.0
"""A finding that keeps growing is told again after one second, then two, four, at last once a minute."""
KEPT_RUNS = 50
"""Starts of the server that can still change: a crash loop of months must not grow."""
MAX_STANDING = 1_000
"""Findings remembered, those of forgotten starts included."""
MAX_WAITING_READINGS = 120
LONE = "unexplained-failure"
SHOWN = 200


@dataclass(slots=True, eq=False)
class _Told:
    """A finding that was told, as it is now."""

    number: int
    finding: Finding
    mark: Hashable
    """What an update is worth while for, as it was told last."""
    due: float
    """When the next update may come."""
    pause: float = UPDATE_S
    closed: bool = False
    served: bool = False
    """Its start had reached serving: what comes later does not mend it."""


class Session:
    """One followed log over a pipeline; `now` is always seconds on one monotonic clock, `wall` seconds since 1970."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        local: float = 0.0,
        adorn: Callable[[Finding, Pipeline], Finding] = lambda finding, _: finding,
        observed: Callable[[Reading], None] = lambda _: None,
    ) -> None:
        """`local`: this machine's offset from UTC; `adorn` completes what is told; `observed` takes placed readings."""
        self.pipeline = pipeline
        self.numbering = Numbering()
        self.zone = WallZone(local)
        self.serving = Serving()
        self.fed_at: float | None = None
        """When the last bytes came."""
        pipeline.on_statistics = self.serving.take
        self._adorn = adorn
        self._observed = observed
        self._waiting: deque[tuple[float, Reading]] = deque(maxlen=MAX_WAITING_READINGS)
        self._arrivals: deque[tuple[int, float]] = deque()
        self._quiet_line = 0
        self._mark: Hashable = None
        self._stirred = False
        """Something has come since the last look, or is not quiet yet."""
        self._result: Result | None = None
        self._told: list[_Told] = []
        self._count = 0
        self._seen: dict[tuple[int, str], float] = {}
        self._hinted: set[tuple[int, str]] = set()
        self._rest_until = 0.0
        self._again: float | None = None

    @property
    def source(self) -> str:
        """The log's path."""
        return self.pipeline.source

    def feed(self, *lines: bytes | int, now: float, wall: float = 0.0) -> None:
        """Take whole lines that arrived at `now`; a number stands for so many bytes left out of a giant one."""
        before = self.pipeline.clock.now
        for piece in lines:
            if isinstance(piece, int):
                self.pipeline.leave_out(piece)
            else:
                self.pipeline.feed(piece)
        self.pipeline.arrived(now)
        self.fed_at = now
        self._stirred = True
        self._arrivals.append((self.pipeline.place[0], now))
        if self.pipeline.clock.now != before and self.zone.learn(self.pipeline.clock, wall):
            while self._waiting:
                self._place(*self._waiting.popleft())

    def observe(self, reading: Reading, wall: float) -> None:
        """Take a live reading that was made at `wall`; it waits until the log has shown its time zone."""
        if self.zone.offset is None:
            self._waiting.append((wall, reading))
        else:
            self._place(wall, reading)

    def _place(self, wall: float, reading: Reading) -> None:
        placed = replace(reading, time=self.zone.place(self.pipeline.clock, wall))
        self.pipeline.observe(placed)
        self._stirred = True
        self._observed(placed)

    def poll(self, now: float) -> list[Event]:
        """What has become certain by `now`."""
        while self._arrivals and now - self._arrivals[0][1] >= QUIET_S:
            self._quiet_line = self._arrivals.popleft()[0]
        if now >= self._rest_until and (self._stirred or self.pipeline.due(now)):
            self._stirred = bool(self._arrivals)
            mark = self.pipeline.mark(self._quiet_line, now)
            if mark != self._mark:
                self._mark = mark
                return self._tell(self.pipeline.peek(self._quiet_line, now), now)
        if self._result is not None and self._again is not None and now >= self._again:
            return self._tell(self._result, now)
        return []

    def rest(self, until: float) -> None:
        """Do not look again before `until`: the last look was costly."""
        self._rest_until = until

    @property
    def unsettled(self) -> bool:
        """Something has come that is not quiet yet."""
        return bool(self._arrivals)

    def close(self, now: float, *, ended: bool) -> list[Event]:
        """End of following; `ended` says that the log itself is over, so that what stands open will not come."""
        result = self.pipeline.close(moment=now) if ended else self.pipeline.stop(now)
        events = self._tell(result, now, last=True)
        events.extend(Event("notice", notice=notice) for notice in result.notices)
        for told in self._told:
            if not told.closed:
                events.append(self._event("finding.closed", told, because="the end of following"))
        return events

    def findings(self) -> tuple[Finding, ...]:
        """Findings that were told and stand, as they are now."""
        return tuple(self.numbering.finding(told.finding) for told in self._told)

    def counts(self) -> tuple[int, int]:
        """Errors and warnings that no later start has closed; cheap."""
        severities = [told.finding.severity for told in self._told if not told.closed]
        return severities.count(Severity.ERROR), severities.count(Severity.WARNING)

    # --- telling ---

    def _tell(self, result: Result, now: float, *, last: bool = False) -> list[Event]:
        self._result, self._again = result, None
        events: list[Event] = []
        lone = {(f.run, LONE) for f in result.findings if f.id == LONE}
        for key in [key for key in self._seen if key[1] == LONE and key not in lone]:
            del self._seen[key]
        pairs, gone = self._pairs(result.findings)
        for finding, told in pairs:
            mark = _mark(finding)
            if told is None:
                if finding.id == LONE and not last and self._young((finding.run, LONE), now):
                    continue
                self._count += 1
                told = _Told(self._count, finding, mark, now + UPDATE_S)
                self._told.append(told)
                events.append(self._event("finding.opened", told))
                continue
            told.finding = finding
            if mark == told.mark:
                continue
            if now < told.due and not last:
                self._wake_at(told.due)
                continue
            told.mark = mark
            told.pause = UPDATE_S if now - told.due > 2 * told.pause else min(2 * told.pause, SLOWEST_UPDATE_S)
            told.due = now + told.pause
            if not told.closed:
                events.append(self._event("finding.updated", told))
        for told in gone:
            self._told.remove(told)
            if not told.closed:
                by = next((f.id for f in result.findings if any(c.id == told.finding.id for c in f.consequences)), None)
                events.append(self._event("finding.closed", told, because="it follows from another", by=by))
        self._retire(events)
        self._hint(result.unexplained, now, events, last=last)
        return events

    def _pairs(self, findings: Sequence[Finding]) -> tuple[list[tuple[Finding, _Told | None]], list[_Told]]:
        """Each finding with what was told of it, and what was told and is no longer so."""
        by_place = {_place(told.finding): told for told in self._told}
        pairs = [(finding, by_place.pop(_place(finding), None)) for finding in findings]
        oldest = self.pipeline.runs[0].number if self.pipeline.runs else 1
        gone = [told for told in by_place.values() if told.finding.run >= oldest]
        for place, (finding, told) in enumerate(pairs):
            if told is None and gone:
                # A rank that had printed the same before: the finding begins at another line than when it was told.
                same = next((t for t in gone if (t.finding.run, t.finding.id) == (finding.run, finding.id)), None)
                if same is not None:
                    gone.remove(same)
                    pairs[place] = finding, same
        return pairs, gone

    def _retire(self, events: list[Event]) -> None:
        """Close what a later start has mended or left behind; let go of the oldest."""
        runs = {run.number: run.served for run in self.pipeline.runs}
        current = max(runs, default=1)
        serving = max((number for number, served in runs.items() if served), default=0)
        for told in self._told:
            finding = told.finding
            told.served = runs.get(finding.run, told.served)
            if finding.run not in runs and serving > finding.run and not told.served:
                told.finding = finding = _recovered(finding)
            if told.closed or finding.run >= current:
                continue
            if finding.outcome is Outcome.RECOVERED:
                told.closed = True
                events.append(self._event("finding.closed", told, because="a later start serves"))
            elif told.served:
                told.closed = True
                events.append(self._event("finding.closed", told, because="the server was started anew"))
        while len(self._told) > MAX_STANDING:
            oldest = next((told for told in self._told if told.closed), self._told[0])
            self._told.remove(oldest)
            if not oldest.closed:
                events.append(self._event("finding.closed", oldest, because="there are too many"))

    def _hint(self, unexplained: Sequence[Unexplained], now: float, events: list[Event], *, last: bool) -> None:
        """Say what nothing explains, once it has had its time to be explained."""
        present = {(item.run, item.text): item for item in unexplained}
        waiting = {key for key in self._seen if key[1] != LONE}
        for key in waiting - present.keys():
            del self._seen[key]
        self._hinted &= present.keys()
        for key, item in present.items():
            if key in self._hinted or (not last and self._young(key, now)):
                continue
            self._hinted.add(key)
            line = self.numbering.line(item.line)
            where = f"{self.source}:{line}" if line is not None else self.source
            what = "only a consequence, its cause is not here" if item.symptom else "no signature explains this error"
            events.append(
                Event("notice", notice=f"{where}: {what}: {item.text[:SHOWN]}", details={"symptom": item.symptom})
            )

    def _young(self, key: tuple[int, str], now: float) -> bool:
        """Seen less than `LONE_S` ago: what it follows from may still be printed."""
        first = self._seen.setdefault(key, now)
        if now - first < LONE_S:
            self._wake_at(first + LONE_S)
            return True
        del self._seen[key]
        return False

    def _wake_at(self, moment: float) -> None:
        self._again = moment if self._again is None else min(self._again, moment)

    def _event(self, kind: str, told: _Told, **details: object) -> Event:
        finding = self._adorn(self.numbering.finding(told.finding), self.pipeline)
        return Event(kind, finding=finding, details={"incident": told.number, **details})


def _place(finding: Finding) -> tuple[int, str, int]:
    return finding.run, finding.id, finding.first.offset or 0


def _mark(finding: Finding) -> Hashable:
    return (
        finding.severity,
        finding.outcome,
        finding.confidence,
        finding.count,
        finding.cause,
        tuple((c.id, c.count) for c in finding.consequences),
        finding.ranks,
        len(finding.evidence),
        tuple(f.title for f in finding.fixes[:1]),
    )


def _recovered(finding: Finding) -> Finding:
    """As `incidents.recovered` would say of a start that is no longer kept."""
    if finding.outcome is not Outcome.FATAL or finding.id == LONE:
        return finding
    return replace(finding, outcome=Outcome.RECOVERED, severity=Severity(max(0, finding.severity - 1)))

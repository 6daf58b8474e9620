"""Follows logs and says what breaks: followers, sessions, readings and a waker in one loop without own clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from vlogdiag.loading import Rules
from vlogdiag.log.follow_events import Appeared, Data, Ended, FollowEvent, Truncated, Vanished
from vlogdiag.log.follow_events import Notice as FollowNotice
from vlogdiag.log.prefilter import Gates
from vlogdiag.log.wakers import Waker
from vlogdiag.log.windows import MAX_LINE
from vlogdiag.model import Event, Finding, Reading
from vlogdiag.pipeline import Pipeline, prefilter_of
from vlogdiag.session import KEPT_RUNS, QUIET_S, Session

__all__ = ["Counts", "Source", "Surroundings", "Tail"]

GONE_S = 10.0
"""A log that is missing for less was only being rotated: nothing to tell."""
FORGET_S = 600.0
"""A log of a glob that is missing for so long will not come back: its findings are over."""
MAX_STREAMS = 32
"""Files of one path that may end in half a line at the same time."""
MAX_OVER = 1_000
"""Findings of logs that are gone, kept for the exit status."""
MAX_MISSING = 50
"""Reasons told why something could not be read."""
COSTLY = 3.0
"""Looking at one log may take a quarter of the time: after a look, so many times its duration belongs to others."""

Pieces = tuple[bytes | int, ...]
"""Bytes, and how many were left out in between."""
Cuda = tuple[str | None, str | None, str | None]


class Source(Protocol):
    """A follower of one path, glob or stream (`log.follow`)."""

    path: str
    backlog: bool

    def poll(self) -> list[FollowEvent]:
        """What came since the last look."""

    def close(self) -> None:
        """Let go of every file."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a tail needs of the world; every one may be played by a test."""

    clock: Callable[[], float]
    """Seconds on a monotonic clock."""
    wall: Callable[[], float] = lambda: 0.0
    """Seconds since 1970."""
    local: float = 0.0
    """Seconds that this machine's local time is ahead of UTC."""
    sample: Callable[[], Reading | None] | None = None
    """A live reading when one is due."""
    cuda: Callable[[frozenset[int], Reading], Cuda | None] = lambda _pids, _reading: None
    """The CUDA variables of the server with these process ids."""
    adorn: Callable[[Finding, Pipeline], Finding] = lambda finding, _: finding
    """Completes what is told (the user's own command)."""
    observed: Callable[[Reading], None] = lambda _: None
    """Takes every reading that was placed on a log's clock."""


@dataclass(slots=True)
class Counts:
    """What a tail has done, for its own statistics and metrics."""

    lines: int = 0
    bytes: int = 0
    polls: int = 0
    opened: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(id, family, severity) to findings opened."""


@dataclass(slots=True)
class _Stream:
    """One byte stream of a path: its half line waits here, with where in the file that line is."""

    line: int | None
    """Number of the half line in its file."""
    rest: bytes = b""
    beyond: int = 0
    """Bytes of the half line that were left out, since it is longer than any line that is read."""
    end: int = 0
    """Where in the file the next bytes are expected."""
    turns: int = 0
    """How often the file was truncated."""

    def take(self, offset: int, data: bytes) -> tuple[Pieces, int | None, int]:
        """Add bytes that stand at `offset`; returns the whole lines that they complete, and where those begin."""
        if offset != self.end:
            self.line = 1 if offset == 0 else None
            self.turns += offset == 0
        self.end = offset + len(data)
        begin = offset - len(self.rest) - self.beyond
        cut = data.rfind(b"\n") + 1
        if not cut:
            self.rest += data
            self.beyond += max(0, len(self.rest) - MAX_LINE)
            self.rest = self.rest[:MAX_LINE]
            return (), None, begin
        whole: Pieces = (self.rest + data[:cut],) if not self.beyond else (self.rest, self.beyond, data[:cut])
        line = self.line
        if line is not None:
            self.line = line + data.count(b"\n")
        self.rest, self.beyond = data[cut:], 0
        if len(self.rest) > MAX_LINE:
            self.rest, self.beyond = self.rest[:MAX_LINE], len(self.rest) - MAX_LINE
        return whole, line, begin

    def give_up(self) -> tuple[Pieces, int | None, int]:
        """The half line as a line."""
        whole: Pieces = (self.rest + b"\n",) if not self.beyond else (self.rest, self.beyond, b"\n")
        return whole, self.line, self.end - len(self.rest) - self.beyond


class Tail:
    """Everything that is followed. `step` looks once; `run` goes on until stopped or every source has ended."""

    def __init__(
        self, sources: Sequence[Source], rules: Rules, around: Surroundings, *, version: str | None = None
    ) -> None:
        self.counts = Counts()
        self.stopped = False
        self.reading: Reading | None = None
        """The last live reading."""
        self.last_data: float | None = None
        self.sources = tuple(sources)
        """What is followed."""
        self.sessions: dict[str, Session] = {}
        """One session per followed path."""
        self._rules = rules
        self._around = around
        self._version = version
        self._prefilter = prefilter_of(rules)
        self._gates: Gates | None = None
        self._streams: dict[str, dict[int, _Stream]] = {}
        self._gone: dict[str, tuple[float, bool]] = {}
        """Paths where nothing stands: since when, and whether that was told."""
        self._over: list[Finding] = []
        self._missing: set[str] = set()

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """Findings that have been told and still stand, those of logs that are gone included."""
        return (*self._over, *(f for session in list(self.sessions.values()) for f in session.findings()))

    def run(self, waker: Waker, show: Callable[[list[Event]], None], jobs: Sequence[Callable[[], object]] = ()) -> None:
        """Look, show, do the `jobs`, wait; `stop` ends it."""
        while not self.stopped:
            events = self.step()
            if events:
                show(events)
            for job in jobs:
                job()
            if any(source.backlog for source in self.sources):
                waker.active()
                continue
            if all(getattr(source, "ended", False) for source in self.sources):
                break
            if self.last_data is not None and self._around.clock() - self.last_data < 1.0:
                waker.active()
            busy = any(session.unsettled for session in self.sessions.values())
            waker.wait(QUIET_S if busy else None)

    def stop(self) -> None:
        """End `run` after the current look."""
        self.stopped = True

    def step(self) -> list[Event]:
        """One look at everything."""
        self.counts.polls += 1
        now = self._around.clock()
        events: list[Event] = []
        for source in self.sources:
            for item in source.poll():
                events.extend(self._take(item, now))
        self._sample(events)
        for session in self.sessions.values():
            began = self._around.clock()
            events.extend(session.poll(now))
            done = self._around.clock()
            if done > began:
                session.rest(done + COSTLY * (done - began))
        events.extend(self._miss(now))
        self._account(events)
        return events

    def close(self) -> list[Event]:
        """End of following: half lines and open records are complete."""
        now = self._around.clock()
        events: list[Event] = []
        for path, streams in self._streams.items():
            for number in list(streams):
                self._end(path, number, now)
        ended = {source.path for source in self.sources if getattr(source, "ended", False)}
        for path, session in self.sessions.items():
            events.extend(session.close(now, ended=path in ended))
        for source in self.sources:
            source.close()
        self._account(events)
        return events

    def _take(self, item: FollowEvent, now: float) -> Iterator[Event]:
        if isinstance(item, Data):
            self.last_data = now
            self._gone.pop(item.path, None)
            self._data(item, now)
        elif isinstance(item, Ended):
            self._end(item.path, item.file, now)
        elif isinstance(item, FollowNotice):
            text = item.text if item.path in item.text else f"{item.path}: {item.text}"
            yield Event("notice", notice=text)
        elif isinstance(item, Truncated) and not item.recovered:
            yield Event("notice", notice=f"{item.path}: truncated, read again from its beginning")
        elif isinstance(item, Vanished):
            self._gone.setdefault(item.path, (now, False))
        elif isinstance(item, Appeared):
            since, told = self._gone.pop(item.path, (now, False))
            if told:
                yield Event("notice", notice=f"{item.path}: there again after {now - since:.0f} s")

    def _data(self, item: Data, now: float) -> None:
        streams = self._streams.setdefault(item.path, {})
        stream = streams.get(item.file)
        if stream is None:
            stream = streams[item.file] = _Stream(1 if item.offset == 0 else None, end=item.offset)
            while len(streams) > MAX_STREAMS:
                self._end(item.path, min(streams), now)
        whole, line, offset = stream.take(item.offset, item.data)
        self.counts.bytes += len(item.data)
        if whole:
            self.counts.lines += item.data.count(b"\n")
            current = item.file == max(streams)
            self._feed(item.path, whole, now, line, offset, (item.file, stream.turns), current=current)

    def _end(self, path: str, number: int, now: float) -> None:
        """Half a line will not be continued: it is a line."""
        stream = self._streams.get(path, {}).pop(number, None)
        if stream is not None and stream.rest:
            self.counts.lines += 1
            whole, line, offset = stream.give_up()
            self._feed(path, whole, now, line, offset, (number, stream.turns), current=False)

    def _feed(
        self, path: str, whole: Pieces, now: float, line: int | None, offset: int, file: object, *, current: bool
    ) -> None:
        session = self._session(path)
        first, start = session.pipeline.place
        session.numbering.add(first + 1, start, line=line, offset=offset, file=file, current=current)
        session.feed(*whole, now=now, wall=self._around.wall())

    def _session(self, path: str) -> Session:
        session = self.sessions.get(path)
        if session is None:
            pipeline = Pipeline(
                self._rules,
                source=path,
                version=self._version,
                prefilter=self._prefilter,
                keep_runs=KEPT_RUNS,
                gates=self._gates,
            )
            self._gates = pipeline.gates
            session = self.sessions[path] = Session(
                pipeline,
                local=self._around.local,
                adorn=self._around.adorn,
                observed=lambda reading: self._around.observed(
                    reading if len(self.sessions) == 1 else replace(reading, log=path)
                ),
            )
        return session

    def _sample(self, events: list[Event]) -> None:
        reading = self._around.sample() if self._around.sample is not None else None
        if reading is None:
            return
        self.reading = reading
        wall = self._around.wall()
        shown = reading
        for session in self.sessions.values():
            own = replace(reading, cuda=self._around.cuda(session.pipeline.pids, reading))
            session.observe(own, wall)
            if shown is reading:
                shown = replace(own, time=session.zone.place(session.pipeline.clock, wall))
        events.append(Event("reading", reading=shown))
        events.extend(self._blind(reading))

    def _blind(self, reading: Reading) -> Iterator[Event]:
        """What cannot be read, once."""
        missing = (*reading.unavailable, *(reading.metrics.unavailable if reading.metrics is not None else ()))
        for text in dict.fromkeys(f"{item.source}: {item.reason}" for item in missing):
            if text not in self._missing and len(self._missing) < MAX_MISSING:
                self._missing.add(text)
                yield Event("notice", notice=f"no readings from {text}")

    def _miss(self, now: float) -> Iterator[Event]:
        """What has been gone for too long to be a rotation."""
        for path, (since, told) in list(self._gone.items()):
            if not told and now - since >= GONE_S:
                self._gone[path] = since, True
                yield Event("notice", notice=f"{path}: gone; waiting for it")
            if now - since >= FORGET_S and path not in {source.path for source in self.sources}:
                del self._gone[path]
                self._streams.pop(path, None)
                session = self.sessions.pop(path, None)
                if session is not None:
                    yield from session.close(now, ended=True)
                    self._over.extend(session.findings())
                    del self._over[:-MAX_OVER]

    def _account(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.type == "finding.opened" and event.finding is not None:
                key = (event.finding.id, event.finding.family, event.finding.severity.word)
                self.counts.opened[key] = self.counts.opened.get(key, 0) + 1

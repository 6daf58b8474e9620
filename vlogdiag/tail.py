"""Follows logs and says what breaks: followers, sessions, readings and a waker, joined in one loop without clocks of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from vlogdiag.loading import Rules
from vlogdiag.log.follow_events import Appeared, Data, Ended, FollowEvent, Rotated, Truncated, Vanished
from vlogdiag.log.follow_events import Notice as FollowNotice
from vlogdiag.log.wakers import Waker
from vlogdiag.log.windows import MAX_LINE
from vlogdiag.model import Event, Finding, Reading
from vlogdiag.pipeline import prefilter_of
from vlogdiag.session import QUIET_S, Session

__all__ = ["Counts", "Source", "Tail"]


class Source(Protocol):
    """A follower of one path, glob or stream (`log.follow`)."""

    path: str
    backlog: bool

    def poll(self) -> list[FollowEvent]:
        """What came since the last look."""

    def close(self) -> None:
        """Let go of every file."""


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
    """One byte stream of a path: its half line waits here."""

    rest: bytes = b""
    beyond: int = 0


class Tail:
    """Everything that is followed. `step` looks once; `run` goes on until stopped or every source has ended."""

    def __init__(
        self,
        sources: Sequence[Source],
        rules: Rules,
        *,
        clock: Callable[[], float],
        version: str | None = None,
        sampler: Callable[[float | None], Reading | None] | None = None,
    ) -> None:
        self.counts = Counts()
        self.stopped = False
        self.reading: Reading | None = None
        """The last live reading."""
        self.last_data: float | None = None
        self._sources = tuple(sources)
        self._rules = rules
        self._clock = clock
        self._version = version
        self._sampler = sampler
        self._prefilter = prefilter_of(rules)
        self._sessions: dict[str, Session] = {}
        self._streams: dict[tuple[str, int], _Stream] = {}

    @property
    def sources(self) -> tuple[Source, ...]:
        """What is followed."""
        return self._sources

    @property
    def sessions(self) -> dict[str, Session]:
        """One session per followed path."""
        return self._sessions

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """Findings that have been told and still stand."""
        return tuple(f for session in self._sessions.values() for f in session.findings())

    def run(self, waker: Waker, show: Callable[[list[Event]], None]) -> None:
        """Look, show, wait; `stop` ends it."""
        while not self.stopped:
            events = self.step()
            if events:
                show(events)
            if any(source.backlog for source in self._sources):
                waker.active()
                continue
            if not self._open():
                break
            if self.last_data is not None and self._clock() - self.last_data < 1.0:
                waker.active()
            waker.wait(QUIET_S if self._pending() else None)

    def stop(self) -> None:
        """End `run` after the current look."""
        self.stopped = True

    def step(self) -> list[Event]:
        """One look at everything."""
        self.counts.polls += 1
        now = self._clock()
        events: list[Event] = []
        for source in self._sources:
            for item in source.poll():
                events.extend(self._take(item, now))
        self._sample(now, events)
        for session in self._sessions.values():
            events.extend(session.poll(now))
        self._account(events)
        return events

    def close(self) -> list[Event]:
        """End of following: half lines and open records are complete."""
        now = self._clock()
        events: list[Event] = []
        for path, number in list(self._streams):
            self._end(path, number, now)
        for session in self._sessions.values():
            events.extend(session.close())
        for source in self._sources:
            source.close()
        self._account(events)
        return events

    def _open(self) -> bool:
        return any(not getattr(source, "ended", False) for source in self._sources)

    def _pending(self) -> bool:
        return self.last_data is not None and self._clock() - self.last_data < 4.0

    def _take(self, item: FollowEvent, now: float) -> Iterator[Event]:
        if isinstance(item, Data):
            self.last_data = now
            session = self._session(item.path, numbered=item.offset == 0)
            whole = self._whole(self._streams.setdefault((item.path, item.file), _Stream()), item.data)
            self.counts.bytes += len(item.data)
            if whole:
                self.counts.lines += whole.count(b"\n")
                session.feed(whole, now)
        elif isinstance(item, Ended):
            self._end(item.path, item.file, now)
        elif isinstance(item, FollowNotice):
            yield Event("notice", notice=f"{item.path}: {item.text}")
        elif isinstance(item, Truncated) and not item.recovered:
            yield Event("notice", notice=f"{item.path}: truncated, read again from its beginning")
        elif isinstance(item, Vanished):
            yield Event("notice", notice=f"{item.path}: gone; waiting for it")
        elif isinstance(item, (Appeared, Rotated)):
            self._session(item.path, numbered=isinstance(item, Appeared))

    @staticmethod
    def _whole(stream: _Stream, data: bytes) -> bytes:
        """Whole lines; a line that never ends is cut, as everywhere."""
        end = data.rfind(b"\n") + 1
        if not end:
            stream.rest = (stream.rest + data)[: MAX_LINE + 1]
            return b""
        whole = stream.rest + data[:end]
        stream.rest = data[end : end + MAX_LINE + 1]
        return whole

    def _end(self, path: str, number: int, now: float) -> None:
        stream = self._streams.pop((path, number), None)
        if stream is not None and stream.rest:
            self.counts.lines += 1
            self._session(path, numbered=False).feed(stream.rest + b"\n", now)

    def _session(self, path: str, *, numbered: bool) -> Session:
        session = self._sessions.get(path)
        if session is None:
            session = self._sessions[path] = Session(
                path, self._rules, version=self._version, prefilter=self._prefilter, numbered=numbered
            )
        return session

    def _sample(self, now: float, events: list[Event]) -> None:
        if self._sampler is None:
            return
        reading = self._sampler(None)
        if reading is None:
            return
        self.reading = reading
        for session in self._sessions.values():
            session.observe(replace(reading, time=session.pipeline.log_time(now)))
        events.append(Event("reading", reading=reading))

    def _account(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.type == "finding.opened" and event.finding is not None:
                key = (event.finding.id, event.finding.family, event.finding.severity.word)
                self.counts.opened[key] = self.counts.opened.get(key, 0) + 1

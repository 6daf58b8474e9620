"""Turns probes into one `Reading` per interval, without ever waiting for a probe that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from vlogdiag.model import Reading, Unavailable

INTERVAL = 2.0
"""Seconds between readings: an out-of-memory error or a stall wants one shortly before it."""

LIMIT = 1.5
"""Seconds that a round waits for its slowest probe; above every probe's own limit, so that its own reason is heard."""


class Probe(Protocol):
    """A part of the machine that can be asked."""

    @property
    def name(self) -> str:
        """Who is missing when no answer comes."""

    @property
    def every(self) -> float:
        """Seconds between two samples; the answer before counts until the next."""

    def sample(self) -> Reading:
        """The probe's part of a reading; may block, is never called twice at a time."""

    def close(self) -> None:
        """Lets go of what the probe holds."""


def in_thread(job: Callable[[], None]) -> None:
    """Starts a job in a thread that does not keep the process alive."""
    threading.Thread(target=job, daemon=True, name="vlogdiag-probe").start()


@dataclass(eq=False, slots=True)
class _Slot:
    """A probe with its latest answer; written by one job at a time."""

    probe: Probe
    due: float = 0.0
    busy: bool = False
    part: Reading | None = None
    """The latest answer, or why there is none."""

    def run(self) -> None:
        """Asks the probe; a fault of the probe costs its part of the reading, never the reading."""
        try:
            self.part = self.probe.sample()
        except Exception as error:
            self.part = _missing(self.probe, f"{type(error).__name__}: {error}")
        finally:
            self.busy = False

    def answer(self, limit: float, *, fresh: bool) -> Reading:
        """The part as it goes into a reading; an event of an earlier round is not told again."""
        if self.busy:
            return _missing(self.probe, f"no answer within {limit:g} s")
        part = self.part or Reading(None)
        return part if fresh else replace(part, xids=())


@dataclass(frozen=True, slots=True)
class _Round:
    began: float
    now: float | None
    stamp: str
    asked: tuple[_Slot, ...]


class Sampler:
    """Asks the probes on a timer; `poll` returns at once, with a reading where a round is complete or out of time.

    `clock` counts seconds for the timer, `start` runs a job beside the caller (a test may run it at once), `stamp`
    gives the wall clock's text.
    """

    def __init__(
        self,
        probes: Sequence[Probe],
        clock: Callable[[], float] = time.monotonic,
        interval: float = INTERVAL,
        *,
        limit: float = LIMIT,
        start: Callable[[Callable[[], None]], None] = in_thread,
        stamp: Callable[[], str] = lambda: time.strftime("%m-%d %H:%M:%S"),
    ) -> None:
        self._clock = clock
        self._interval = interval
        self._limit = limit
        self._start = start
        self._stamp = stamp
        self._next = clock()
        self._slots = tuple(_Slot(probe, due=self._next) for probe in probes)
        self._round: _Round | None = None

    def poll(self, now: float | None) -> Reading | None:
        """`now` is the time on the log's clock; the reading carries that of the poll that began its round."""
        if self._round is None:
            began = self._clock()
            if began < self._next:
                return None
            self._next = began + self._interval
            self._round = _Round(began, now, self._stamp(), self._begin(began))
        current = self._round
        if any(slot.busy for slot in current.asked) and self._clock() - current.began < self._limit:
            return None
        self._round = None
        parts = [slot.answer(self._limit, fresh=slot in current.asked) for slot in self._slots]
        return merge(current.now, current.stamp, parts)

    def close(self) -> None:
        """Closes the probes; a job that hangs is left behind."""
        for slot in self._slots:
            slot.probe.close()

    def _begin(self, began: float) -> tuple[_Slot, ...]:
        """Starts the probes that are due; one that still hangs from before is not waited for again."""
        asked = tuple(slot for slot in self._slots if began >= slot.due and not slot.busy)
        for slot in asked:
            slot.due = began + slot.probe.every
            slot.busy = True
            self._start(slot.run)
        return asked


def take(probes: Sequence[Probe], *, limit: float, stamp: str) -> Reading:
    """One reading now, without a log: waits up to `limit` seconds for all probes, then closes them."""
    finished = threading.Semaphore(0)
    slots = [_Slot(probe, busy=True) for probe in probes]

    def watched(slot: _Slot) -> None:
        slot.run()
        finished.release()

    deadline = time.monotonic() + limit
    for slot in slots:
        in_thread(partial(watched, slot))
    for _ in slots:
        finished.acquire(timeout=max(0.0, deadline - time.monotonic()))
    reading = merge(None, stamp, [slot.answer(limit, fresh=True) for slot in slots])
    for slot in slots:
        slot.probe.close()
    return reading


def merge(now: float | None, stamp: str, parts: Iterable[Reading]) -> Reading:
    """One reading out of the probes' parts."""
    reading = Reading(now, stamp)
    for part in parts:
        reading = replace(
            reading,
            gpus=reading.gpus + part.gpus,
            metrics=part.metrics or reading.metrics,
            host=part.host or reading.host,
            xids=reading.xids + part.xids,
            unavailable=reading.unavailable + part.unavailable,
        )
    return reading


def _missing(probe: Probe, reason: str) -> Reading:
    return Reading(None, unavailable=(Unavailable(probe.name, reason),))

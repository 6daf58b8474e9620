"""Sums up the latest statistics line of every engine: what the server does now, and its throughput of late."""

from __future__ import annotations

from collections import deque

from vlogdiag.diagnosis.statistics import Statistics
from vlogdiag.model import Record

__all__ = ["Serving"]

KEPT = 120
"""Samples of throughput: twenty minutes at vLLM's ten seconds."""
MAX_ENGINES = 256


class Serving:
    """Fed with every statistics line; an engine that has printed none is not counted, unknown is None."""

    def __init__(self) -> None:
        self.throughput: deque[float] = deque(maxlen=KEPT)
        """Tokens generated a second, all engines together, oldest first."""
        self._latest: dict[int | None, Statistics] = {}
        self.line = 0
        """Number of the last statistics line."""
        self._run = 0

    def take(self, statistics: Statistics, record: Record) -> None:
        """Account for one statistics line, once; a new start forgets the engines of the one before."""
        if record.first.number <= self.line:
            return
        self.line = record.first.number
        if record.run != self._run:
            self._run = record.run
            self._latest.clear()
            self.throughput.clear()
        if statistics.engine in self._latest or len(self._latest) < MAX_ENGINES:
            self._latest[statistics.engine] = statistics
        first = next(iter(self._latest))
        if statistics.engine == first and (total := self.generation) is not None:  # once for a round of all engines
            self.throughput.append(total)

    @property
    def running(self) -> float | None:
        """Requests running."""
        return _sum([each.running for each in self._latest.values()])

    @property
    def waiting(self) -> float | None:
        """Requests waiting."""
        return _sum([each.waiting for each in self._latest.values()])

    @property
    def generation(self) -> float | None:
        """Tokens generated a second."""
        return _sum([each.generation for each in self._latest.values()])

    @property
    def kv_usage(self) -> float | None:
        """KV cache usage of the fullest engine, 0..1."""
        return max((each.kv_usage for each in self._latest.values() if each.kv_usage is not None), default=None)


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

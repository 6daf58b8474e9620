"""Runs whole commands in turn and takes the operating system's account of each: wall, processor and memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """One run: seconds of wall and processor time, peak resident memory in bytes."""

    wall: float
    cpu: float
    memory: int


def once(words: Sequence[str]) -> Cost:
    """Run a command to its end, its output thrown away."""
    began = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


@dataclass(frozen=True)
class Pair:
    """Two commands run in turn: medians of ours and of the ratios, run by run."""

    ours: Cost
    wall_ratio: float
    cpu_ratio: float


def pair(ours: Sequence[str], other: Sequence[str], runs: int = 5) -> Pair:
    """A B A B …, after one warm-up of each."""
    once(ours)
    once(other)
    costs = [(once(ours), once(other)) for _ in range(runs)]
    return Pair(
        Cost(
            statistics.median(a.wall for a, _ in costs),
            statistics.median(a.cpu for a, _ in costs),
            max(a.memory for a, _ in costs),
        ),
        statistics.median(a.wall / max(b.wall, 1e-6) for a, b in costs),
        statistics.median(a.cpu / max(b.cpu, 1e-6) for a, b in costs),
    )


def vlogdiag(*words: str) -> list[str]:
    """The command under test, from the environment that runs the benchmark."""
    return [sys.executable, "-m", "vlogdiag", *words]

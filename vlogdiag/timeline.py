"""Reads a log's own time series: statistics lines of every engine, and the phases of every start."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import IO

from vlogdiag.diagnosis.runs import Run
from vlogdiag.diagnosis.statistics import Statistics
from vlogdiag.loading import Rules
from vlogdiag.log.sources import SourceBroken
from vlogdiag.model import Phase, Record
from vlogdiag.pipeline import Pipeline, Result

__all__ = ["Point", "Stage", "Start", "Timeline", "read_timeline", "remarks", "write_csv"]

MAX_POINTS = 200_000
"""Statistics lines kept; beyond it every second one is dropped, again and again, so that the shape stays."""
HIGH_USAGE = 0.95
COLUMNS = (
    "log",
    "time",
    "run",
    "engine",
    "running",
    "waiting",
    "kv_usage",
    "prompt",
    "generation",
    "preemptions",
    "prefix_hits",
    "media_hits",
)


@dataclass(frozen=True, slots=True)
class Point:
    """One statistics line at a log time (seconds on the log's clock)."""

    time: float
    stamp: str
    run: int
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a start: from which log time on, how long (None: it has no end in the log)."""

    name: str
    began: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the server: its steps, and how long until it served."""

    run: int
    began: float | None
    stages: tuple[Stage, ...]
    ready: float | None
    """Seconds from the first line to serving."""

    @property
    def slowest(self) -> Stage | None:
        """The longest finished step."""
        done = [s for s in self.stages if s.seconds is not None]
        return max(done, key=lambda s: s.seconds or 0.0, default=None)


@dataclass(slots=True)
class Timeline:
    """All that one log says over time."""

    path: str
    points: list[Point] = field(default_factory=list)
    starts: tuple[Start, ...] = ()
    thinned: int = 1
    """Every so many statistics lines were kept."""
    result: Result | None = None


NAMES = {
    Phase.STARTING: "configure",
    Phase.LOADING: "load",
    Phase.PROFILING: "compile and profile",
    Phase.CAPTURING: "capture graphs",
}
"""A phase, and what the server does in it until the next one begins."""


def read_timeline(path: str, chunks: Iterable[bytes], rules: Rules, *, version: str | None = None) -> Timeline:
    """Read a whole log; every statistics line counts, so the prefilter is not used."""
    timeline = Timeline(path)
    pipeline = Pipeline(rules, source=path, version=version)
    seen = 0

    def keep(statistics: Statistics, record: Record) -> None:
        nonlocal seen
        seen += 1
        if record.time is None or seen % timeline.thinned:
            return
        timeline.points.append(Point(record.time, record.stamp or "", record.run, statistics))
        if len(timeline.points) >= MAX_POINTS:
            del timeline.points[::2]
            timeline.thinned *= 2

    pipeline.on_statistics = keep
    problem = None
    try:
        for chunk in chunks:
            pipeline.feed(chunk)
    except SourceBroken as error:  # what it held up to there is shown
        problem = str(error)
    timeline.result = pipeline.close(problem)
    timeline.starts = tuple(_start(run) for run in pipeline.runs)
    return timeline


def _start(run: Run) -> Start:
    times = {
        Phase.STARTING: run.first_time,
        **{phase: time for phase, time in run.phase_times.items() if phase in (*NAMES, Phase.SERVING)},
    }
    order = [phase for phase in (*NAMES, Phase.SERVING) if times.get(phase) is not None]
    stages = []
    for place, phase in enumerate(order):
        if phase is Phase.SERVING:
            break
        began = times[phase]
        end = times[order[place + 1]] if place + 1 < len(order) else None
        assert began is not None
        stages.append(Stage(NAMES[phase], began, None if end is None else max(0.0, end - began)))
    serving, first = times.get(Phase.SERVING), run.first_time
    ready = serving - first if serving is not None and first is not None and stages else None
    return Start(run.number, first, tuple(stages), ready)


def remarks(timeline: Timeline) -> tuple[str, ...]:
    """What stands out, in sentences: full caches before preemptions, queues, the slowest step of a start."""
    said: list[str] = []
    by_run: dict[int, list[Point]] = {}
    for point in timeline.points:
        by_run.setdefault(point.run, []).append(point)
    for run, points in sorted(by_run.items()):
        said.extend(_pressure(points))
        waiting = [p for p in points if (p.statistics.waiting or 0) > 0]
        if waiting:
            most = max(waiting, key=lambda p: p.statistics.waiting or 0)
            said.append(f"start {run}: up to {most.statistics.waiting:.0f} requests waited (at {most.stamp})")
    for start in timeline.starts:
        slowest = start.slowest
        if start.ready is not None and slowest is not None and slowest.seconds:
            said.append(
                f"start {start.run}: ready after {_span(start.ready)}; "
                f"slowest: {slowest.name}, {_span(slowest.seconds)}"
            )
    ready = [s for s in timeline.starts if s.ready]
    if len(ready) > 1:
        best, worst = min(ready, key=lambda s: s.ready or 0), max(ready, key=lambda s: s.ready or 0)
        if (worst.ready or 0) > 1.5 * (best.ready or 1) and (worst.ready or 0) - (best.ready or 0) > 10:
            said.append(f"start {worst.run} took {_span(worst.ready or 0)}, start {best.run} {_span(best.ready or 0)}")
    return tuple(said)


def _pressure(points: Sequence[Point]) -> Iterable[str]:
    first = next((p for p in points if (p.statistics.preemptions or 0) > 0), None)
    before = [p for p in points if first is None or p.time <= first.time]
    full = None
    for point in before:
        usage = point.statistics.kv_usage
        if usage is None or usage < HIGH_USAGE:
            full = None
        elif full is None:
            full = point
    if full is not None and first is not None:
        yield (
            f"start {first.run}: KV cache above {HIGH_USAGE:.0%} for {_span(first.time - full.time)} "
            f"before the first preemption (at {first.stamp})"
        )
    elif full is not None:
        yield f"start {full.run}: KV cache above {HIGH_USAGE:.0%} from {full.stamp} on"
    total = sum(p.statistics.preemptions or 0 for p in points)
    if total:
        yield f"start {points[0].run}: {total:.0f} preemptions in the statistics lines"


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def write_csv(timelines: Iterable[Timeline], file: IO[str]) -> None:
    """One row per statistics line; empty means the line did not say."""
    out = csv.writer(file)
    out.writerow(COLUMNS)
    for path, point in ((timeline.path, point) for timeline in timelines for point in timeline.points):
        s = point.statistics
        values = (
            s.engine,
            s.running,
            s.waiting,
            s.kv_usage,
            s.prompt,
            s.generation,
            s.preemptions,
            s.prefix_hits,
            s.media_hits,
        )
        out.writerow((path, point.stamp, point.run, *("" if v is None else f"{v:g}" for v in values)))

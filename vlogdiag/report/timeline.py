"""A log's time series as text: a table of starts, a sparkline per statistic, what stands out."""

from __future__ import annotations

from collections.abc import Callable

from vlogdiag.diagnosis.statistics import Statistics
from vlogdiag.report.live import sparkline
from vlogdiag.report.safe import plain
from vlogdiag.timeline import Point, Timeline, remarks

__all__ = ["render"]

ROWS: tuple[tuple[str, Callable[[Statistics], float | None], Callable[[float], str]], ...] = (
    ("KV usage", lambda s: s.kv_usage, lambda v: f"{v:.0%}"),
    ("running", lambda s: s.running, lambda v: f"{v:.0f}"),
    ("waiting", lambda s: s.waiting, lambda v: f"{v:.0f}"),
    ("tokens/s", lambda s: s.generation, lambda v: f"{v:.0f}"),
    ("prompt tokens/s", lambda s: s.prompt, lambda v: f"{v:.0f}"),
    ("preemptions", lambda s: s.preemptions, lambda v: f"{v:.0f}"),
    ("prefix hits", lambda s: s.prefix_hits, lambda v: f"{v:.0%}"),
    ("picture hits", lambda s: s.media_hits, lambda v: f"{v:.0%}"),
)


def render(timeline: Timeline, *, width: int, unicode: bool = True) -> str:
    """Lines of text, each at most `width` characters where the terminal's font has one cell a character."""
    lines = [f"timeline of {plain(timeline.path)}"]
    for start in timeline.starts:
        if not start.stages:
            continue
        steps = ", ".join(
            f"{s.name} {s.seconds:.0f} s" if s.seconds is not None else f"{s.name} …" for s in start.stages
        )
        ready = f"; ready after {start.ready:.0f} s" if start.ready is not None else ""
        lines.append(f"  start {start.run}: {steps}{ready}")
    for engine in sorted({p.statistics.engine for p in timeline.points}, key=lambda e: -1 if e is None else e):
        points = [p for p in timeline.points if p.statistics.engine == engine]
        if engine is not None and len({p.statistics.engine for p in timeline.points}) > 1:
            lines.append(f"  engine {engine}")
        lines.extend(_rows(points, width, unicode))
    if timeline.points:
        lines.append(f"  from {plain(timeline.points[0].stamp)} to {plain(timeline.points[-1].stamp)}")
    lines.extend(f"  {plain(text)}" for text in remarks(timeline))
    if len(lines) == 1:
        lines.append("  no statistics lines and no start in this log")
    return "\n".join(line[:width] for line in lines) + "\n"


def _rows(points: list[Point], width: int, unicode: bool) -> list[str]:
    rows = []
    for name, read, spell in ROWS:
        values = [read(p.statistics) for p in points]
        known = [v for v in values if v is not None]
        if not known:
            continue
        scale = f"{spell(min(known))} to {spell(max(known))}"
        line = sparkline(values, max(10, width - 22 - len(scale)), unicode=unicode)
        rows.append(f"  {name:<16} {line} {scale}")
    return rows

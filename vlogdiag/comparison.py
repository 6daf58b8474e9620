"""Holds two runs side by side, before and after a change: causes gone and new, memory, start-up, load, verdict."""

from __future__ import annotations

import statistics as mean_of
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vlogdiag.diagnosis.statistics import Statistics
from vlogdiag.model import Finding, RunSummary, Severity
from vlogdiag.timeline import Timeline

__all__ = ["Comparison", "Row", "compare"]

GIB = 2**30
TOLERANCE = 0.05
"""A figure that moved by less than this is "the same": two runs of one set-up differ that much."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure before and after; `better` None means it cannot or need not be judged."""

    name: str
    before: str
    after: str
    better: bool | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict: `ok` when nothing is wrong after, and nothing that can be judged is worse."""

    ok: bool
    verdict: str
    gone: tuple[str, ...]
    new: tuple[str, ...]
    stayed: tuple[str, ...]
    rows: tuple[Row, ...]


def compare(before: Timeline, after: Timeline) -> Comparison:
    """Compare the last starts of two logs."""
    old, new = _findings(before), _findings(after)
    gone = tuple(i for i in old if i not in new)
    came = tuple(i for i in new if i not in old)
    stayed = tuple(i for i in new if i in old)
    rows = (*_memory(before, after), *_starts(before, after), *_load(before, after))
    worse = [row.name for row in rows if row.better is False]
    trouble = {**{i: new[i] for i in stayed}, **{i: new[i] for i in came}}
    ok = not trouble and not worse
    return Comparison(ok, _verdict(gone, came, stayed, worse), gone, came, stayed, tuple(rows))


def _findings(timeline: Timeline) -> dict[str, Finding]:
    """Findings of the last start, warnings and errors: an earlier start's trouble may be what was mended."""
    if timeline.result is None:
        return {}
    last = max((r.run for r in timeline.result.summary.runs), default=1)
    return {f.id: f for f in timeline.result.findings if f.run == last and f.severity >= Severity.WARNING}


def _verdict(gone: tuple[str, ...], came: tuple[str, ...], stayed: tuple[str, ...], worse: list[str]) -> str:
    parts = []
    if stayed:
        parts.append(f"still there: {', '.join(stayed)}")
    if came:
        parts.append(f"new: {', '.join(came)}")
    if gone:
        parts.append(f"gone: {', '.join(gone)}")
    if worse:
        parts.append(f"worse: {', '.join(worse)}")
    head = (
        "better"
        if gone and not came and not stayed and not worse
        else "not better"
        if came or stayed or worse
        else "as good as before"
    )
    return f"{head}" + (f" ({'; '.join(parts)})" if parts else "")


def _last(timeline: Timeline) -> RunSummary | None:
    runs = timeline.result.summary.runs if timeline.result is not None else ()
    return runs[-1] if runs else None


def _memory(before: Timeline, after: Timeline) -> list[Row]:
    names: tuple[tuple[str, str, Callable[[float], str], int], ...] = (
        ("weights", "log.weights", _gib, -1),
        ("KV cache memory", "log.kv_memory", _gib, 1),
        ("KV cache tokens", "log.kv_tokens", _whole, 1),
        ("requests of full length at a time", "log.concurrency", _two, 1),
        ("CUDA graphs", "log.graph_memory", _gib, -1),
        ("loading the weights", "log.load_seconds", _seconds, -1),
    )
    rows = []
    old, new = _last(before), _last(after)
    for name, fact, spell, good in names:
        a, b = _fact(old, fact), _fact(new, fact)
        if a is not None or b is not None:
            judged = good if fact in ("log.kv_tokens", "log.concurrency", "log.load_seconds") else 0
            rows.append(_row(name, a, b, spell, judged))
    a_len, b_len = _argument(old, "max_model_len"), _argument(new, "max_model_len")
    if a_len != b_len:
        rows.append(Row("context length", str(a_len or "default"), str(b_len or "default")))
    if a_len != b_len or _argument(old, "gpu_memory_utilization") != _argument(new, "gpu_memory_utilization"):
        # A shorter context or a smaller share is the change itself: fewer KV tokens are its price, not a fault.
        rows = [Row(r.name, r.before, r.after) if r.name.startswith(("KV cache", "requests")) else r for r in rows]
    return rows


def _argument(run: RunSummary | None, name: str) -> Any:
    return None if run is None else run.args.get(name)


def _starts(before: Timeline, after: Timeline) -> list[Row]:
    a = before.starts[-1].ready if before.starts else None
    b = after.starts[-1].ready if after.starts else None
    if a is None and b is None:
        return []
    if a is not None and b is not None and abs(b - a) < 30:
        return [Row("ready after", _seconds(a), _seconds(b))]
    return [_row("ready after", a, b, _seconds, -1)]


def _load(before: Timeline, after: Timeline) -> list[Row]:
    readers: tuple[
        tuple[str, Callable[[Statistics], float | None], Callable[[list[float]], float], Callable[[float], str], int],
        ...,
    ] = (
        ("highest KV usage", lambda s: s.kv_usage, max, lambda v: f"{v:.0%}", 0),
        ("preemptions", lambda s: s.preemptions, sum, _whole, -1),
        ("most waiting requests", lambda s: s.waiting, max, _whole, 0),
        ("generated tokens/s while busy", lambda s: s.generation or None, mean_of.fmean, _whole, 0),
    )
    rows = []
    for name, read, fold, spell, good in readers:
        values = []
        for timeline in (before, after):
            last = timeline.starts[-1].run if timeline.starts else 1
            known = [v for p in timeline.points if p.run == last and (v := read(p.statistics)) is not None]
            values.append(fold(known) if known else None)
        if any(v is not None for v in values):
            rows.append(_row(name, values[0], values[1], spell, good))
    return rows


def _row(name: str, a: float | None, b: float | None, spell: Callable[[float], str], good: int) -> Row:
    """`good` is 1 where more is better, -1 where less is, 0 where nothing is judged."""
    better = None
    if good and a is not None and b is not None and abs(b - a) > TOLERANCE * max(abs(a), abs(b)):
        better = (b > a) == (good > 0)
    return Row(name, "-" if a is None else spell(a), "-" if b is None else spell(b), better)


def _fact(run: RunSummary | None, name: str) -> float | None:
    value = run.facts.get(name) if run is not None else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _gib(value: float) -> str:
    return f"{value / GIB:.2f} GiB"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _two(value: float) -> str:
    return f"{value:.2f}"


def _seconds(value: float) -> str:
    return f"{value:.0f} s"

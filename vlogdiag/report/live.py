"""What `tail` knows at one moment to the few rows of its display."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from vlogdiag.live.facts import SLOWING
from vlogdiag.model import Finding, Gpu, Phase, Process, Unavailable
from vlogdiag.report import words
from vlogdiag.report.blocks import finding_rows
from vlogdiag.report.fold import Folded
from vlogdiag.report.layout import DIM, NARROWEST, WIDEST, Look, cut, cut_left
from vlogdiag.report.terminal import to_text
from vlogdiag.values import GIB, Kind, Quantity, format_quantity

SPARK = 16
"""Samples of throughput on the status row: at one in ten seconds, vLLM's own interval, nearly three minutes."""
SHORTEST = 4
"""A curve of fewer samples says nothing."""
BAR = 6
FULL = 0.95
"""KV cache or GPU memory above this share is shown as a warning."""
HOT = 85
"""Degrees Celsius from which data-centre cards begin to slow down."""

SLOWED = {
    "hw_slowdown": "hardware",
    "hw_thermal_slowdown": "heat",
    "sw_thermal_slowdown": "heat",
    "hw_power_brake_slowdown": "power brake",
}
"""What slows a card down, in a word; a card at its power limit works as it should (`live.facts`)."""

PHASES = {
    Phase.STARTING: "starting",
    Phase.LOADING: "loading the model",
    Phase.PROFILING: "profiling memory",
    Phase.CAPTURING: "capturing CUDA graphs",
    Phase.SERVING: "serving",
    Phase.STOPPING: "stopping",
}


class StatusModel(Struct, frozen=True):
    """What is known at one moment; None is unknown and not shown. Shares are 0..1, `lag` and `quiet` seconds."""

    path: str
    phase: Phase | None = None
    lines: int = 0
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    tokens_per_second: float | None = None
    throughput: tuple[float | None, ...] = ()
    """Tokens a second, oldest first."""
    lag: float | None = None
    """How far reading is behind the log's end."""
    behind: int | None = None
    """The same in bytes, where only that is known."""
    quiet: float | None = None
    """How long the log has been silent."""
    errors: int = 0
    warnings: int = 0
    gpus: tuple[Gpu, ...] = ()
    unavailable: tuple[Unavailable, ...] = ()


def status_line(model: StatusModel, width: int, color: bool, *, unicode: bool = True) -> list[str]:
    """One row for the server and one for each GPU, at most `width` cells each; what does not fit is left out."""
    look = Look(width=max(NARROWEST, min(width, WIDEST)), unicode=unicode)
    rows = [_server(model, look), *(_gpu(gpu, look) for gpu in model.gpus)]
    if model.unavailable and not model.gpus:
        reasons = "; ".join(f"{item.source}: {item.reason}" for item in model.unavailable)
        rows.append(Text(cut(look.plain(reasons), look.width, look.marks.ellipsis), style=DIM))
    return to_text(rows, width=look.width, color=color).splitlines()


def finding_block(finding: Finding, width: int, color: bool, *, unicode: bool = True, verbose: bool = False) -> str:
    """One finding as it is printed when it happens, ending in an empty line."""
    look = Look(width=max(NARROWEST, min(width, WIDEST)), unicode=unicode, verbose=verbose)
    rows = finding_rows(Folded((finding,)), look, starts=finding.run)
    return to_text([*rows, Text()], width=look.width, color=color)


def sparkline(values: Sequence[float | None], width: int, *, unicode: bool = True) -> str:
    """At most `width` characters from low to high, scaled to the largest value; an unknown value is a blank.

    More values than characters are averaged in equal parts. Zero is the lowest mark, so that it differs from unknown.
    """
    marks = Look(unicode=unicode).marks.blocks
    shown = _averaged([_finite(value) for value in values], width)
    top = max((value for value in shown if value is not None), default=0.0)
    return "".join(" " if value is None else marks[_step(value, top, len(marks))] for value in shown)


def _averaged(values: Sequence[float | None], width: int) -> list[float | None]:
    if width <= 0:
        return []
    if len(values) <= width:
        return list(values)
    edges = [len(values) * part // width for part in range(width + 1)]
    return [_mean(values[start:end]) for start, end in pairwise(edges)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    # Dividing first keeps the sum of very large values finite.
    return sum(value / len(known) for value in known) if known else None


def _step(value: float, top: float, steps: int) -> int:
    return min(steps - 1, int(value / top * steps)) if top > 0 else 0


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else max(value, 0.0)


def _server(model: StatusModel, look: Look) -> Text:
    path = cut_left(look.plain(words.log_name(model.path)), look.width // 5, look.marks.ellipsis)
    parts = [Text(path, style="bold")]
    if model.phase is not None:
        parts.append(Text(PHASES[model.phase], style="green" if model.phase is Phase.SERVING else "yellow"))
    if model.errors or model.warnings:
        parts.append(_found(model))
    if model.kv_usage is not None:
        usage = _share(model.kv_usage)
        parts.append(Text(f"KV {_bar(usage, look, BAR)} {usage:.0%}", style=_alarm(usage >= FULL)))
    if model.waiting is not None and model.waiting > 0:
        parts.append(Text(f"{model.waiting:,.0f} waiting", style="yellow"))
    if model.running is not None:
        parts.append(Text(f"{model.running:,.0f} running"))
    if model.tokens_per_second is not None:
        parts.append(Text(f"{model.tokens_per_second:,.0f} tok/s"))
    if model.lag is not None and model.lag >= 1:
        parts.append(Text(f"{_seconds(model.lag)} behind", style="yellow"))
    elif model.behind:
        parts.append(Text(f"{format_quantity(Quantity(model.behind, Kind.SIZE))} behind", style="yellow"))
    if model.quiet is not None and model.quiet >= 1:
        parts.append(Text(f"quiet for {_seconds(model.quiet)}", style=DIM))
    row = _joined(parts, look)
    room = min(SPARK, look.width - cell_len(row.plain) - 2)
    if "tok/s" in row.plain and model.throughput and room >= SHORTEST:
        row = _joined([row, Text(sparkline(model.throughput[-room:], room, unicode=look.unicode), style="cyan")], look)
    lines = [Text(words.plural(model.lines, "line"), style=DIM)] if model.lines else []
    return _joined([row, *lines], look)


def _found(model: StatusModel) -> Text:
    counts = [(model.errors, "error", "bold red"), (model.warnings, "warning", "bold yellow")]
    shown = [Text(words.plural(count, noun), style=style) for count, noun, style in counts if count]
    return Text(", ").join(shown)


def _gpu(gpu: Gpu, look: Look) -> Text:
    parts = [Text(f"GPU {gpu.index}", style="bold")]
    if gpu.lost:
        return _joined([*parts, Text("fell off the bus", style="bold red")], look)
    if gpu.used is not None and gpu.total:
        share = _share(gpu.used / gpu.total)
        memory = f"{_bar(share, look, BAR)} {gpu.used / GIB:.1f}/{gpu.total / GIB:.1f} GiB"
        parts.append(Text(memory, style=_alarm(share >= FULL)))
    if gpu.utilization is not None:
        parts.append(Text(f"{_share(gpu.utilization):.0%} busy"))
    if slowed := list(dict.fromkeys(SLOWED.get(name, name) for name in gpu.throttle or () if name in SLOWING)):
        parts.append(look.clean(f"slowed: {', '.join(slowed)}", "bold yellow"))
    if gpu.temperature is not None:
        degrees = f"{gpu.temperature} °C" if look.unicode else f"{gpu.temperature} C"
        parts.append(Text(degrees, style=_alarm(gpu.temperature >= HOT)))
    if gpu.power is not None:
        limit = f"/{gpu.power_limit:.0f}" if gpu.power_limit is not None else ""
        parts.append(Text(f"{gpu.power:.0f}{limit} W"))
    row = _joined(parts, look)
    if gpu.processes:
        room = look.width - cell_len(row.plain) - 2
        fitting = (part for part in _processes(gpu.processes, look) if cell_len(part.plain) <= room)
        row = _joined([row, *islice(fitting, 1)], look)
    if gpu.unavailable:
        row = _joined([row, look.clean("; ".join(item.reason for item in gpu.unavailable), DIM)], look)
    return row


def _processes(processes: Sequence[Process], look: Look) -> Iterator[Text]:
    """The three, two or one that hold most memory, and how many others there are."""
    largest = sorted(processes, key=lambda process: process.memory or 0, reverse=True)
    for shown in range(min(3, len(largest)), 0, -1):
        more = f", +{len(largest) - shown}" if len(largest) > shown else ""
        yield look.clean(", ".join(map(_process, largest[:shown])) + more, DIM)
    yield look.clean(_process(largest[0]), DIM)


def _process(process: Process) -> str:
    """`python[229] 20.1 GiB`: the program's name, not its long command line."""
    command = (process.command or "").split()
    name = command[0].rsplit("/", 1)[-1] if command else "pid "
    held = f" {process.memory / GIB:.1f} GiB" if process.memory is not None else ""
    return f"{name}[{process.pid}]{held}"


def _joined(parts: Sequence[Text], look: Look) -> Text:
    """The parts with two blanks between, as many as fit; the first always, cut if need be."""
    row = Text.assemble(parts[0])
    row.truncate(look.width, overflow="crop")
    for part in parts[1:]:
        if cell_len(row.plain) + 2 + cell_len(part.plain) <= look.width:
            row = Text.assemble(row, "  ", part)
    return row


def _bar(share: float, look: Look, cells: int) -> str:
    full = round(share * cells)
    return look.marks.full * full + look.marks.empty * (cells - full)


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0


def _alarm(bad: bool) -> str:
    return "bold yellow" if bad else ""


def _seconds(value: float) -> str:
    return format_quantity(Quantity(value, Kind.DURATION))

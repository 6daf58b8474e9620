"""The GPUs of a snapshot as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlogdiag.report.safe import markdown_inline
from vlogdiag.snapshot.assemble import Snapshot

GIB = 2**30
MAX_PROCESSES = 3


def gpu_table(snapshot: Snapshot) -> str:
    """One row a card; empty where no card was seen."""
    reading = snapshot.data("gpu").get("reading")
    gpus = reading.get("gpus") if isinstance(reading, Mapping) else None
    rows = [_row(gpu) for gpu in gpus or () if isinstance(gpu, Mapping)]
    if not rows:
        return ""
    head = "| GPU | name | memory used | busy | power | temperature | slowed down by | ECC errors | processes |"
    return "\n".join([head, "|---" * 9 + "|", *rows])


def _row(gpu: Mapping[str, Any]) -> str:
    index = gpu.get("index")
    if gpu.get("lost"):
        return f"| {index} | lost to the driver |  |  |  |  |  |  |  |"
    slowed = [name for name in gpu.get("throttle") or () if name not in ("gpu_idle", "applications_clocks_setting")]
    cells = [
        str(index),
        gpu.get("name") or "?",
        _memory(gpu),
        _percent(gpu.get("utilization")),
        _power(gpu),
        "?" if gpu.get("temperature") is None else f"{gpu['temperature']} °C",
        ", ".join(slowed) if slowed else ("?" if gpu.get("throttle") is None else "nothing"),
        _errors(gpu),
        _processes(gpu.get("processes")),
    ]
    return "| " + " | ".join(markdown_inline(str(cell)) for cell in cells) + " |"


def _memory(gpu: Mapping[str, Any]) -> str:
    used, total = gpu.get("used"), gpu.get("total")
    if used is None:
        return "?"
    return f"{used / GIB:.1f} GiB" if not total else f"{used / GIB:.1f} of {total / GIB:.1f} GiB"


def _percent(share: object) -> str:
    return f"{share * 100:.0f} %" if isinstance(share, (int, float)) else "?"


def _power(gpu: Mapping[str, Any]) -> str:
    power, limit = gpu.get("power"), gpu.get("power_limit")
    if power is None:
        return "?"
    return f"{power:.0f} W" if not limit else f"{power:.0f} of {limit:.0f} W"


def _errors(gpu: Mapping[str, Any]) -> str:
    said = []
    if gpu.get("ecc_volatile") is not None:
        said.append(str(gpu["ecc_volatile"]))
    if gpu.get("remap_failed"):
        said.append("a row could not be remapped")
    return ", ".join(said) or "?"


def _processes(processes: object) -> str:
    if not isinstance(processes, list):
        return "?"
    shown = []
    for process in processes[:MAX_PROCESSES]:
        memory = process.get("memory")
        size = "" if memory is None else f" {memory / GIB:.1f} GiB"
        shown.append(f"{process.get('command') or '?'} (pid {process.get('pid')}){size}")
    more = f"; {len(processes) - MAX_PROCESSES} more" if len(processes) > MAX_PROCESSES else ""
    return ("; ".join(shown) + more) or "none"

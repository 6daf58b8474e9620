"""Turns a reading into lines for people: one for each GPU, one for the server, the host and each Xid event."""

from __future__ import annotations

from collections.abc import Iterable

from vlogdiag.live.facts import SLOWING, power_share
from vlogdiag.model import Gpu, HostState, Process, Reading, ServerMetrics
from vlogdiag.values import Kind, Quantity, format_quantity

MAX_PROCESSES = 3


def describe(reading: Reading) -> tuple[str, ...]:
    """What is known, nothing about what is not; `describe_missing` says the rest."""
    lines = [describe_gpu(gpu) for gpu in reading.gpus]
    if reading.metrics is not None:
        lines.append(_joined("server", _metrics_parts(reading.metrics)))
    if reading.host is not None:
        lines.append(_joined("host", _host_parts(reading.host)))
    lines += [f"GPU {xid.gpu}: Xid {xid.code}" for xid in reading.xids]
    return tuple(line for line in lines if line)


def describe_gpu(gpu: Gpu) -> str:
    """`GPU 0: 22.1 of 23.7 GiB used; pid 4711 (python train.py) holds 8.0 GiB; 31 % busy, 62 °C, 88 of 300 W`."""
    if gpu.lost:
        return f"GPU {gpu.index}: lost to the driver"
    parts = [_memory(gpu), *(_process(process) for process in _largest(gpu.processes or ()))]
    parts += [", ".join(_state(gpu)), ", ".join(_trouble(gpu))]
    return _joined(f"GPU {gpu.index}", parts) or f"GPU {gpu.index}: nothing known"


def describe_missing(reading: Reading) -> tuple[str, ...]:
    """`nvml: GPU 0 power: no permission`: all that could not be had; worth saying once, not with every reading."""
    holders = [reading, *reading.gpus, *(part for part in (reading.metrics, reading.host) if part is not None)]
    return tuple(dict.fromkeys(f"{item.source}: {item.reason}" for holder in holders for item in holder.unavailable))


def _memory(gpu: Gpu) -> str:
    if gpu.used is None:
        return ""
    return f"{_gib(gpu.used)} used" if gpu.total is None else f"{_gib(gpu.used, '')} of {_gib(gpu.total)} used"


def _largest(processes: Iterable[Process]) -> list[Process]:
    return sorted(processes, key=lambda process: -(process.memory or 0))[:MAX_PROCESSES]


def _process(process: Process) -> str:
    name = f"pid {process.pid}" + (f" ({process.command})" if process.command else "")
    return f"{name} holds {'an unknown amount' if process.memory is None else _gib(process.memory)}"


def _state(gpu: Gpu) -> list[str]:
    known = []
    if gpu.utilization is not None:
        known.append(f"{gpu.utilization * 100:.0f} % busy")
    if gpu.temperature is not None:
        known.append(f"{gpu.temperature} °C")
    if gpu.power is not None:
        known.append(
            f"{gpu.power:.0f} W" if power_share(gpu) is None else f"{gpu.power:.0f} of {gpu.power_limit:.0f} W"
        )
    return known


def _trouble(gpu: Gpu) -> list[str]:
    slowed = [name for name in gpu.throttle or () if name in SLOWING]
    known = [f"slowed down by {' and '.join(slowed)}"] if slowed else []
    if gpu.ecc_volatile:
        known.append(_count(gpu.ecc_volatile, "uncorrected ECC error"))
    if gpu.remap_failed:
        known.append("a memory row could not be remapped")
    if gpu.nvlinks_down:
        known.append(f"{_count(gpu.nvlinks_down, 'NVLink')} down")
    return known


def _metrics_parts(metrics: ServerMetrics) -> list[str]:
    counts = (("running", metrics.running), ("waiting", metrics.waiting), ("preemptions", metrics.preemptions))
    parts = [", ".join(f"{value:.0f} {name}" for name, value in counts if value is not None)]
    if metrics.kv_usage is not None:
        parts.append(f"KV cache {metrics.kv_usage * 100:.0f} % used")
    if metrics.healthy is not None:
        parts.append("/health answers 200" if metrics.healthy else "/health answers 503: the engine is dead")
    return parts


def _host_parts(host: HostState) -> list[str]:
    parts = []
    if host.memory_available is not None and host.memory_total is not None:
        parts.append(f"{_gib(host.memory_available, '')} of {_gib(host.memory_total)} available")
    if host.cgroup_used is not None and host.cgroup_limit is not None:
        parts.append(f"container uses {_gib(host.cgroup_used, '')} of {_gib(host.cgroup_limit)}")
    if host.oom_kills:
        parts.append(_count(host.oom_kills, "OOM kill"))
    if host.shm_free is not None and host.shm_total is not None:
        parts.append(f"/dev/shm {_gib(host.shm_free, '')} of {_gib(host.shm_total)} free")
    parts += [
        f"pid {pid} ({name}) is {state}" for pid, name, state, _ in host.processes if state in ("zombie", "stopped")
    ]
    return parts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _gib(size: int, unit: str = " GiB") -> str:
    """One digit, as people compare cards; below a tenth of a GiB in the unit that fits."""
    if unit and 0 < size < 2**30 // 10:
        return format_quantity(Quantity(size, Kind.SIZE))
    return f"{size / 2**30:.1f}{unit}"


def _joined(head: str, parts: Iterable[str]) -> str:
    said = "; ".join(part for part in parts if part)
    return f"{head}: {said}" if said else ""

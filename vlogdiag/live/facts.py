"""Turns a reading into the `gpu.*`, `metrics.*` and `host.*` values that rules may ask about in `corroborate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import fields

from vlogdiag.live.commands import looks_like_vllm
from vlogdiag.model import Gpu, HostState, Process, Reading, ServerMetrics, Value
from vlogdiag.signatures.names import NAMES
from vlogdiag.values import Kind

BUSY = 0.95
"""Utilisation from which a GPU is busy: a collective that spins and a wedged kernel both show 100 %."""
IDLE = 0.05
"""Utilisation up to which a GPU is idle: a desktop or a monitoring tool may cost a percent or two."""

SLOWING = frozenset(("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"))
"""Throttle reasons that mean trouble. `sw_power_cap` is not one: every well-used card runs at its power limit."""

Values = dict[str, tuple[Value | None, Kind]]


def reading_values(reading: Reading, gpu_index: int | None, own_pids: frozenset[int]) -> Values:
    """Name to (value, kind); every live name is there, None where unknown.

    `gpu_index` is NVML's index of the card that the record means (`cuda_mapping` finds it). None: the one card there
    is, else the fullest of those on which vLLM was seen; where none was, the values of a single card are unknown.
    `own_pids` are the process ids of the run, as the log prints them.
    """
    run = _run_gpus(reading.gpus, own_pids)
    gpu = _meant(reading.gpus, gpu_index, own_pids)
    values: dict[str, Value | None] = {}
    values |= _gpu_values(gpu)
    values |= _foreign_values(gpu, own_pids)
    values |= _comparison_values(run)
    codes = [xid.code for xid in reading.xids]
    values |= {
        "gpu.count": len(reading.gpus) or None,
        "gpu.any_xid": True if codes else None if _deaf(reading) else False,
        "gpu.xid": codes[-1] if codes else None,
    }
    values |= _plain("metrics", ServerMetrics, reading.metrics)
    values |= _plain("host", HostState, reading.host)
    return {name: (value, NAMES[name].kind) for name, value in values.items() if name in NAMES}


def foreign_processes(gpu: Gpu, own_pids: frozenset[int]) -> tuple[Process, ...] | None:
    """Processes on the card that are certainly not vLLM's, the largest first; None where that cannot be told.

    A process whose command is hidden may be either. With MIG on, another instance's processes take nothing from ours.
    """
    if gpu.processes is None or gpu.mig:
        return None
    others = [process for process in gpu.processes if process.pid not in own_pids]
    foreign = [process for process in others if process.command and not looks_like_vllm(process.command)]
    if not foreign and any(process.command is None for process in others):
        return None
    return tuple(sorted(foreign, key=lambda process: -(process.memory or 0)))


def _run_gpus(gpus: Sequence[Gpu], own_pids: frozenset[int]) -> tuple[Gpu, ...]:
    """The cards that the run uses: those where vLLM was seen; where it was seen nowhere, all."""
    return tuple(gpu for gpu in gpus if _has_vllm(gpu, own_pids)) or tuple(gpus)


def _meant(gpus: Sequence[Gpu], index: int | None, own_pids: frozenset[int]) -> Gpu | None:
    if index is not None:
        return next((gpu for gpu in gpus if gpu.index == index), None)
    if len(gpus) == 1:
        return gpus[0]
    used = [gpu for gpu in gpus if _has_vllm(gpu, own_pids)]
    return max(used, key=lambda gpu: (gpu.used or 0) / (gpu.total or 1), default=None)


def _has_vllm(gpu: Gpu, own_pids: frozenset[int]) -> bool:
    return any(
        process.pid in own_pids or (process.command is not None and looks_like_vllm(process.command))
        for process in gpu.processes or ()
    )


def _gpu_values(gpu: Gpu | None) -> dict[str, Value | None]:
    values = _plain("gpu", Gpu, gpu)
    values["gpu.power_share"] = None if gpu is None else power_share(gpu)
    throttle = None if gpu is None else gpu.throttle
    values["gpu.throttle"] = None if throttle is None else ", ".join(throttle)
    if gpu is not None and gpu.mig:  # the process sees its instance, not the card
        total, used = gpu.mig_devices[0][1:] if len(gpu.mig_devices) == 1 else (None, None)
        values |= {"gpu.total": total, "gpu.used": used, "gpu.reserved": None}
        values["gpu.free"] = None if total is None or used is None else total - used
    return values


def power_share(gpu: Gpu) -> float | None:
    """Power as share of the limit."""
    return gpu.power / gpu.power_limit if gpu.power is not None and gpu.power_limit else None


def _foreign_values(gpu: Gpu | None, own_pids: frozenset[int]) -> dict[str, Value | None]:
    foreign = None if gpu is None else foreign_processes(gpu, own_pids)
    sizes = None if foreign is None else [process.memory for process in foreign]
    known = [size for size in sizes or () if size is not None]
    largest = foreign[0] if foreign else None
    return {
        "gpu.foreign_count": None if foreign is None else len(foreign),
        "gpu.foreign_memory": sum(known) if sizes is not None and len(known) == len(sizes) else None,
        "gpu.foreign_pid": None if largest is None else largest.pid,
        "gpu.foreign_command": None if largest is None else largest.command,
    }


def _comparison_values(run: Sequence[Gpu]) -> dict[str, Value | None]:
    utilization = [gpu.utilization for gpu in run]
    busy = [None if share is None else share >= BUSY for share in utilization]
    idle = [None if share is None else share <= IDLE for share in utilization]
    straggler, one_idle = _odd_one(run, busy, idle)
    return {
        "gpu.all_busy": _all(busy),
        "gpu.all_idle": _all(idle),
        "gpu.one_idle": one_idle,
        "gpu.straggler": straggler,
        "gpu.any_throttled": _any([None if g.throttle is None else bool(SLOWING & set(g.throttle)) for g in run]),
        "gpu.any_ecc": _any([_has_ecc(gpu) for gpu in run]),
    }


def _odd_one(run: Sequence[Gpu], busy: list[bool | None], idle: list[bool | None]) -> tuple[int | None, bool | None]:
    """(index of the one that differs, whether it is the idle one); both need every card's utilisation."""
    if len(run) < 2 or None in busy:
        return None, False if len(run) == 1 else None
    if idle.count(True) == 1 and busy.count(True) == len(run) - 1:
        return run[idle.index(True)].index, True
    if len(run) > 2 and busy.count(True) == 1 and idle.count(True) == len(run) - 1:
        return run[busy.index(True)].index, False
    return None, False


def _has_ecc(gpu: Gpu) -> bool | None:
    """Uncorrected errors since the driver was loaded, or a row that could not be replaced; old errors prove nothing."""
    return _any([None if gpu.ecc_volatile is None else gpu.ecc_volatile > 0, gpu.remap_failed])


def _deaf(reading: Reading) -> bool:
    """True where some card's Xid events could not be asked for: none delivered then means nothing."""
    missing = [item for gpu in reading.gpus for item in gpu.unavailable] + list(reading.unavailable)
    return not reading.gpus or any(item.source.endswith("Xid events") for item in missing)


def _all(answers: Sequence[bool | None]) -> bool | None:
    if False in answers:
        return False
    return None if None in answers or not answers else True


def _any(answers: Sequence[bool | None]) -> bool | None:
    if True in answers:
        return True
    return None if None in answers or not answers else False


def _plain(root: str, kind: type[Any], holder: object | None) -> dict[str, Value | None]:
    """The fields that rules may name, as they stand."""
    names = [field.name for field in fields(kind) if f"{root}.{field.name}" in NAMES]
    return {f"{root}.{name}": None if holder is None else getattr(holder, name) for name in names}

"""Turns the GPU that a log line names (CUDA's index, a bus id or a UUID) into the index that NVML gives the same card.

CUDA counts what its process may see, in an order of its own; NVML counts all cards by bus. Where the two cannot be
matched for certain the answer is None: blaming the wrong card is worse than blaming none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from vlogdiag.model import Gpu, Unavailable

_BUS_ID = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?")
_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-f-]+)/\d+/\d+", re.IGNORECASE)
"""Before driver 470 a MIG device was named by its GPU and two instance numbers."""


class CudaEnvironment(Struct, frozen=True):
    """The variables that decide what CUDA calls device 0; None: not set."""

    visible: str | None = None
    """`CUDA_VISIBLE_DEVICES`."""
    order: str | None = None
    """`CUDA_DEVICE_ORDER`; unset means FASTEST_FIRST."""
    container: str | None = None
    """`NVIDIA_VISIBLE_DEVICES`, which the container runtime obeys."""


def environment_of(variables: Mapping[str, str]) -> CudaEnvironment:
    """The three variables out of a process's environment."""
    return CudaEnvironment(
        variables.get("CUDA_VISIBLE_DEVICES"),
        variables.get("CUDA_DEVICE_ORDER"),
        variables.get("NVIDIA_VISIBLE_DEVICES"),
    )


def process_environment(pid: int) -> CudaEnvironment | Unavailable:
    """What the process was started with; another user's is not readable. Under Ray each worker has its own."""
    import psutil  # whoever only maps indices, as every scan does, need not wait for it

    try:
        return environment_of(psutil.Process(pid).environ())
    except (psutil.Error, OSError) as error:
        return Unavailable(f"environment of process {pid}", str(error))


def gpu_of_index(index: int, gpus: Sequence[Gpu], environment: CudaEnvironment | None) -> int | None:
    """NVML index of CUDA device `index`; None where it cannot be told. `environment` None: nothing is known of it."""
    if index < 0:
        return None
    if len(gpus) == 1:  # whatever the order: a process that printed a CUDA message had a device, and there is but one
        return gpus[0].index if index == 0 else None
    if environment is None:
        return None
    base = _in_container(gpus, environment.container)
    if base is None:
        return None
    if environment.visible is None:
        return base[index].index if index < len(base) and _order_is_nvmls(base, environment) else None
    chosen = _visible(base, environment)
    return chosen[index] if index < len(chosen) else None


def gpu_of_bus_id(bus_id: str, gpus: Sequence[Gpu]) -> int | None:
    """`0000:c1:00.0`, `00000000:C1:00.0` or `c1:00`, as torch, the kernel and NVML write it, to NVML's index."""
    wanted = _bus(bus_id)
    return None if wanted is None else _only([gpu.index for gpu in gpus if gpu.bus_id and _bus(gpu.bus_id) == wanted])


def gpu_of_uuid(uuid: str, gpus: Sequence[Gpu]) -> int | None:
    """A GPU's or MIG device's UUID, or an unambiguous beginning of a GPU's, as CUDA accepts it."""
    text = uuid.strip().lower()
    old = _OLD_MIG.fullmatch(text)
    if old:
        text = old[1].lower()
    if text.startswith("mig-"):
        return _only([gpu.index for gpu in gpus if any(device[0].lower() == text for device in gpu.mig_devices)])
    if not text.startswith("gpu-") or text == "gpu-":
        return None
    return _only([gpu.index for gpu in gpus if (gpu.uuid or "").lower().startswith(text)])


def _visible(gpus: Sequence[Gpu], environment: CudaEnvironment) -> list[int | None]:
    """NVML indices in CUDA's order (None: there, but unknown); an entry that CUDA does not know ends the list."""
    chosen: list[int | None] = []
    for entry in (environment.visible or "").split(","):
        text = entry.strip()
        if text.isdecimal():
            if int(text) >= len(gpus):
                break
            chosen.append(gpus[int(text)].index if _order_is_nvmls(gpus, environment) else None)
        elif text.upper().startswith(("GPU-", "MIG-")):
            chosen.append(gpu_of_uuid(text, gpus))
        else:
            break  # -1, NoDevFiles and an empty text hide what follows
    return chosen


def _order_is_nvmls(gpus: Sequence[Gpu], environment: CudaEnvironment) -> bool:
    """NVML orders by bus; CUDA does so on request, and where no card is faster than another.

    With MIG on, CUDA's device 0 is an instance, of which NVML's index says nothing.
    """
    if any(gpu.mig for gpu in gpus):
        return False
    names = {gpu.name for gpu in gpus}
    return environment.order == "PCI_BUS_ID" or (len(names) == 1 and None not in names)


def _in_container(gpus: Sequence[Gpu], named: str | None) -> Sequence[Gpu] | None:
    """The cards that the container runtime let in, by bus. Seen from inside they are all that NVML shows.

    The numbers in the variable are the host's, so they mean something only where NVML shows more cards than it names.
    """
    entries = [entry.strip() for entry in (named or "").split(",") if entry.strip()]
    if not entries or entries[0].lower() in ("all", "none", "void") or len(entries) >= len(gpus):
        return gpus
    indices = {gpu_of_uuid(entry, gpus) if not entry.isdecimal() else int(entry) for entry in entries}
    inside = [gpu for gpu in gpus if gpu.index in indices]
    return inside if len(inside) == len(entries) else None


def _bus(text: str) -> tuple[int, int, int] | None:
    found = _BUS_ID.fullmatch(text.strip().lower())
    return (int(found[1] or "0", 16), int(found[2], 16), int(found[3], 16)) if found else None


def _only(indices: list[int]) -> int | None:
    return indices[0] if len(indices) == 1 else None

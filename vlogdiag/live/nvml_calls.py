"""Turns a GPU's handle into fields of `Gpu`, one call of the binding at a time, and the binding's errors into words.

The tables say how often each call is worth making; a call that an old driver lacks falls back to its predecessor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml as nv

Fields = dict[str, Any]

LOST = "the GPU is lost"

REASONS = {
    nv.NVML_ERROR_NOT_SUPPORTED: "not supported by this GPU",
    nv.NVML_ERROR_NO_PERMISSION: "no permission",
    nv.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    nv.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver library (libnvidia-ml.so.1) on this machine",
    nv.NVML_ERROR_FUNCTION_NOT_FOUND: "this driver does not have the call",
    nv.NVML_ERROR_GPU_IS_LOST: LOST,
    nv.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset",
    nv.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "driver and library versions differ (updated without a restart)",
    nv.NVML_ERROR_UNKNOWN: "unknown driver error",
}

THROTTLES = (
    (nv.nvmlClocksEventReasonGpuIdle, "gpu_idle"),
    (nv.nvmlClocksEventReasonApplicationsClocksSetting, "applications_clocks_setting"),
    (nv.nvmlClocksEventReasonSwPowerCap, "sw_power_cap"),
    (nv.nvmlClocksEventReasonHwSlowdown, "hw_slowdown"),
    (nv.nvmlClocksEventReasonSyncBoost, "sync_boost"),
    (nv.nvmlClocksEventReasonSwThermalSlowdown, "sw_thermal_slowdown"),
    (nv.nvmlClocksEventReasonHwThermalSlowdown, "hw_thermal_slowdown"),
    (nv.nvmlClocksEventReasonHwPowerBrakeSlowdown, "hw_power_brake_slowdown"),
    (nv.nvmlClocksEventReasonDisplayClockSetting, "display_clock_setting"),
)
"""Bits of the clock event reasons, by the names that `nvidia-smi --help-query-gpu` gives them."""


def reason_of(error: Exception) -> str:
    """Why a call gave nothing, in words."""
    code = getattr(error, "value", None)
    return REASONS.get(code, "") or f"{type(error).__name__}: {error}"


def _known(value: int) -> int | None:
    """NVML's all-ones "not available" is unknown."""
    return None if value in (2**32 - 1, 2**64 - 1) else value


def _text(value: str | bytes) -> str:
    """Older bindings hand out structures' texts as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _share(percent: int) -> float | None:
    return percent / 100 if 0 <= percent <= 100 else None


def _newest(*functions: Callable[[], Any]) -> Any:
    """The first function that this driver has; old drivers lack the newer ones or know an older structure."""
    absent = (nv.NVML_ERROR_FUNCTION_NOT_FOUND, nv.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
    for function in functions[:-1]:
        try:
            return function()
        except nv.NVMLError as error:
            if error.value not in absent:
                raise
    return functions[-1]()


def _memory(handle: Any) -> Fields:
    """The newer call tells the driver's own share apart; the older one counts it as used."""
    memory = _newest(
        lambda: nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2),
        lambda: nv.nvmlDeviceGetMemoryInfo(handle),
    )
    total = _known(memory.total) or None  # zero bytes is no size of a card
    return {
        "total": total,
        "used": _known(memory.used),
        "free": _known(memory.free),
        "reserved": _known(getattr(memory, "reserved", 2**64 - 1)),
    }


def _utilization(handle: Any) -> Fields:
    rates = nv.nvmlDeviceGetUtilizationRates(handle)
    return {"utilization": _share(rates.gpu), "memory_utilization": _share(rates.memory)}


def _watts(name: str, milliwatts: int) -> Fields:
    known = _known(milliwatts)
    return {name: None if known is None else known / 1000}


def _temperature(handle: Any) -> Fields:
    sensor = nv.NVML_TEMPERATURE_GPU
    return {
        "temperature": _known(
            _newest(
                lambda: nv.nvmlDeviceGetTemperatureV(handle, sensor),
                lambda: nv.nvmlDeviceGetTemperature(handle, sensor),
            )
        )
    }


def _throttle(handle: Any) -> Fields:
    bits = _newest(
        lambda: nv.nvmlDeviceGetCurrentClocksEventReasons(handle),
        lambda: nv.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    )
    return {"throttle": [name for bit, name in THROTTLES if bits & bit]}


def _processes(kind: str, handle: Any) -> Fields:
    call = f"nvmlDeviceGet{kind}RunningProcesses"
    found = _newest(lambda: getattr(nv, f"{call}_v3")(handle), lambda: getattr(nv, f"{call}_v2")(handle))
    return {kind: [[process.pid, process.usedGpuMemory] for process in found]}


def _ecc(name: str, counter: int, handle: Any) -> Fields:
    return {name: _known(nv.nvmlDeviceGetTotalEccErrors(handle, nv.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, counter))}


def _rows(handle: Any) -> Fields:
    corrected, uncorrected, _pending, failed = nv.nvmlDeviceGetRemappedRows(handle)
    return {"remapped_rows": corrected + uncorrected, "remap_failed": bool(failed)}


def _nvlinks(handle: Any) -> Fields:
    """Counts inactive links; the first link that the card does not have ends the count."""
    states = []
    for link in range(nv.NVML_NVLINK_MAX_LINKS):
        try:
            states.append(nv.nvmlDeviceGetNvLinkState(handle, link))
        except nv.NVMLError as error:
            if not states or error.value == nv.NVML_ERROR_GPU_IS_LOST:
                raise
            break
    return {"nvlinks_down": states.count(0)}


def _mig(handle: Any) -> Fields:
    return {"mig": nv.nvmlDeviceGetMigMode(handle)[0] == nv.NVML_DEVICE_MIG_ENABLE}


def mig_devices(handle: Any) -> Fields:
    """The instances of a card in MIG mode: their UUIDs, total and used bytes."""
    devices = []
    for index in range(nv.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = nv.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nv.NVMLError as error:
            if error.value == nv.NVML_ERROR_NOT_FOUND:  # instance numbers have gaps
                continue
            raise
        memory = nv.nvmlDeviceGetMemoryInfo(device)
        devices.append([nv.nvmlDeviceGetUUID(device), _known(memory.total), _known(memory.used)])
    return {"mig_devices": devices}


Call = tuple[str, Callable[[Any], Fields]]
"""What is asked, in words, and the function that asks a handle."""

ONCE: tuple[Call, ...] = (
    ("name", lambda handle: {"name": nv.nvmlDeviceGetName(handle)}),
    ("UUID", lambda handle: {"uuid": nv.nvmlDeviceGetUUID(handle)}),
    ("bus id", lambda handle: {"bus_id": _text(nv.nvmlDeviceGetPciInfo(handle).busId)}),
    ("MIG mode", _mig),
)
"""What never changes while the driver is loaded."""

SELDOM: tuple[Call, ...] = (
    ("power limit", lambda handle: _watts("power_limit", nv.nvmlDeviceGetEnforcedPowerLimit(handle))),
    ("maximum clock", lambda handle: {"sm_clock_max": _known(nv.nvmlDeviceGetMaxClockInfo(handle, nv.NVML_CLOCK_SM))}),
    ("volatile ECC errors", lambda handle: _ecc("ecc_volatile", nv.NVML_VOLATILE_ECC, handle)),
    ("aggregate ECC errors", lambda handle: _ecc("ecc_aggregate", nv.NVML_AGGREGATE_ECC, handle)),
    ("remapped rows", _rows),
    ("NVLink states", _nvlinks),
    ("PCIe generation", lambda handle: {"pcie_generation": _known(nv.nvmlDeviceGetCurrPcieLinkGeneration(handle))}),
    ("PCIe width", lambda handle: {"pcie_width": _known(nv.nvmlDeviceGetCurrPcieLinkWidth(handle))}),
)
OFTEN: tuple[Call, ...] = (
    ("memory", _memory),
    ("utilisation", _utilization),
    ("power", lambda handle: _watts("power", nv.nvmlDeviceGetPowerUsage(handle))),
    ("clock", lambda handle: {"sm_clock": _known(nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_SM))}),
    ("throttle reasons", _throttle),
    ("temperature", _temperature),
    ("processes", lambda handle: _processes("Compute", handle)),
    ("graphics processes", lambda handle: _processes("Graphics", handle)),
)

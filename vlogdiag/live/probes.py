"""Turns the three sources (driver, server, host) into the probes that the sampler asks, each with its own pace."""

from __future__ import annotations

import time
from collections.abc import Callable

from vlogdiag.live.metrics import sample_server
from vlogdiag.live.nvml import NvmlProbe
from vlogdiag.live.processes import HostProbe
from vlogdiag.live.sampler import Probe
from vlogdiag.model import Reading, Unavailable

GPU_EVERY = 2.0
SERVER_EVERY = 10.0
"""As often as vLLM prints its statistics; each look leaves two access lines in the very log that is followed."""
HOST_EVERY = 5.0

REOPEN_AFTER = 300.0
"""Seconds before a driver that could not be opened, or whose worker died, is tried again: each try starts a process."""

SERVER_LIMIT = 0.7
"""Seconds for each of `/metrics` and `/health`; together below the sampler's limit."""


class GpuProbe:
    """Opens NVML at the first sample, so that a slow or hanging driver delays nothing else; again after a failure."""

    name = "nvml"
    every = GPU_EVERY

    def __init__(
        self,
        *,
        open_driver: Callable[[], NvmlProbe | Unavailable] = NvmlProbe.open,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open = open_driver
        self._monotonic = monotonic
        self._driver: NvmlProbe | Unavailable | None = None
        self._retry_at = 0.0
        self._closed = False

    def sample(self) -> Reading:
        """GPUs and Xid events."""
        failed = self._driver is None or isinstance(self._driver, Unavailable) or self._driver.dead
        if failed and self._monotonic() >= self._retry_at:
            self._release()
            self._retry_at = self._monotonic() + REOPEN_AFTER
            self._driver = self._open()
            if self._closed:  # closed while the driver was being opened: nobody will ask again
                self._release()
        if self._driver is None or isinstance(self._driver, Unavailable):
            return Reading(None, unavailable=() if self._driver is None else (self._driver,))
        answer = self._driver.sample()
        return Reading(None, gpus=answer.gpus, xids=answer.xids, unavailable=answer.unavailable)

    def close(self) -> None:
        """Lets the worker process go."""
        self._closed = True
        self._release()

    def _release(self) -> None:
        if isinstance(self._driver, NvmlProbe):
            self._driver.close()
        self._driver = None


class ServerProbe:
    """`/metrics` and `/health` of one server."""

    name = "metrics"
    every = SERVER_EVERY

    def __init__(self, url: str) -> None:
        self._url = url

    def sample(self) -> Reading:
        """Metrics."""
        return Reading(None, metrics=sample_server(self._url, limit=SERVER_LIMIT))

    def close(self) -> None:
        """Nothing is held between samples."""


class MachineProbe:
    """Memory, control group, `/dev/shm` and vLLM's processes."""

    name = "host"
    every = HOST_EVERY

    def __init__(self, host: HostProbe | None = None) -> None:
        self._host = host or HostProbe()

    def sample(self) -> Reading:
        """The host's state."""
        return Reading(None, host=self._host.sample())

    def close(self) -> None:
        """Nothing is held between samples."""


def probes_for(url: str | None) -> tuple[Probe, ...]:
    """The driver, the host, and the server where there is a URL for it."""
    return (GpuProbe(), *((ServerProbe(url),) if url is not None else ()), MachineProbe())

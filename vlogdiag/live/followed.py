"""Finds what a followed log names on this machine: its server's `/metrics`, and the CUDA variables of its processes."""

from __future__ import annotations

from collections.abc import Callable

from vlogdiag.live.cuda_mapping import CudaEnvironment, process_environment
from vlogdiag.live.metrics import metrics_url, sample_server
from vlogdiag.live.probes import SERVER_EVERY, SERVER_LIMIT
from vlogdiag.model import Reading, Unavailable

__all__ = ["CudaOfServer", "FollowedServer"]

Address = tuple[str | None, int]
Variables = tuple[str | None, str | None, str | None]
MAX_KNOWN = 1_000


class FollowedServer:
    """A probe for the server that the log names; it asks nobody before the log does, and no other machine ever."""

    name = "metrics"
    every = SERVER_EVERY

    def __init__(self, address: Callable[[], Address | None]) -> None:
        self._address = address
        self._asked: tuple[Address, str | None] | None = None

    def sample(self) -> Reading:
        """Metrics, or nothing while no address of this machine is known."""
        address = self._address()
        if address is None:
            return Reading(None)
        if self._asked is None or self._asked[0] != address:
            self._asked = address, metrics_url(*address)
        url = self._asked[1]
        return Reading(None) if url is None else Reading(None, metrics=sample_server(url, limit=SERVER_LIMIT))

    def close(self) -> None:
        """Nothing is held between samples."""


class CudaOfServer:
    """The CUDA variables of vLLM's processes; None where they cannot be read or the processes disagree.

    Under Ray every worker has its own, and then CUDA's index in a log line means nothing without its process.
    """

    def __init__(self, environment: Callable[[int], CudaEnvironment | Unavailable] = process_environment) -> None:
        self._environment = environment
        self._known: dict[int, Variables | None] = {}

    def __call__(self, pids: frozenset[int], reading: Reading) -> Variables | None:
        """Of the processes that the log names; in another pid namespace its numbers are others, so of all there are."""
        running = {row[0] for row in reading.host.processes} if reading.host is not None else set()
        for gone in self._known.keys() - running:
            del self._known[gone]
        found = {self._of(pid) for pid in sorted(running & pids or running)[:MAX_KNOWN]}
        return found.pop() if len(found) == 1 else None

    def _of(self, pid: int) -> Variables | None:
        if pid not in self._known:
            read = self._environment(pid)
            self._known[pid] = None if isinstance(read, Unavailable) else (read.visible, read.order, read.container)
        return self._known[pid]

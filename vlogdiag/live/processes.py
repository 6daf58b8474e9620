"""Turns the host's memory, its control groups, `/dev/shm` and vLLM's processes into a `HostState`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from vlogdiag.live.cgroup import MemoryGroup, find_group, machine_oom_kills, read_group
from vlogdiag.live.commands import looks_like_vllm
from vlogdiag.live.process_names import describe_process
from vlogdiag.model import HostState, Unavailable

RESCAN = 15.0
"""Seconds between looks through the whole process table; on a busy host it has thousands of entries."""

_CANDIDATES = ("python", "pypy", "vllm", "VLLM::", "ray::", "pt_main")
"""How the kernel's names of processes that can be vLLM's begin; PyTorch renames its main thread `pt_main_thread`."""


class HostProbe:
    """Samples the host; remembers vLLM's processes between looks, and their control group after their death."""

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        listing: Callable[[], Iterable[psutil.Process]] = psutil.process_iter,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._listing = listing
        self._monotonic = monotonic
        self._known: dict[int, tuple[psutil.Process, str]] = {}
        self._next_scan = 0.0
        self._group: MemoryGroup | None = None
        self._group_pid: int | None = None

    def sample(self) -> HostState:
        """The host now; what cannot be read is in `unavailable`."""
        missing: list[Unavailable] = []
        total = available = None
        try:
            memory = psutil.virtual_memory()
            total, available = memory.total, memory.available
        except (psutil.Error, OSError) as error:
            missing.append(Unavailable("host: memory", str(error)))
        processes = self._processes(missing)
        leader = processes[0][0] if processes else None
        limit, used, kills = self._cgroup(leader)
        shm_total, shm_free = self._shared_memory(leader, missing)
        return HostState(
            memory_total=total,
            memory_available=available,
            cgroup_limit=limit,
            cgroup_used=used,
            oom_kills=machine_oom_kills(self._root) if kills is None else kills,
            shm_total=shm_total,
            shm_free=shm_free,
            processes=processes,
            unavailable=tuple(missing),
        )

    def _processes(self, missing: list[Unavailable]) -> tuple[tuple[int, str, str, int | None], ...]:
        if self._monotonic() >= self._next_scan:
            self._next_scan = self._monotonic() + RESCAN
            try:
                self._known = {process.pid: (process, name) for process, name in self._find()}
            except (psutil.Error, OSError) as error:
                missing.append(Unavailable("host: processes", str(error)))
        rows = []
        for pid, (process, name) in sorted(self._known.items()):
            try:
                with process.oneshot():
                    state = str(process.status())
                    try:
                        resident = process.memory_info().rss
                    except psutil.AccessDenied:
                        resident = None
            except psutil.NoSuchProcess:
                del self._known[pid]
                self._next_scan = 0.0  # something has changed: look again at the next sample
                continue
            except (psutil.Error, OSError) as error:
                missing.append(Unavailable(f"host: process {pid}", str(error)))
                continue
            rows.append((pid, name, state, resident))
        return tuple(rows)

    def _find(self) -> Iterable[tuple[psutil.Process, str]]:
        for process in self._listing():
            try:
                if process.pid == os.getpid() or not process.name().startswith(_CANDIDATES):
                    continue
                known = self._known.get(process.pid)
                if known is not None and known[0] == process:
                    yield known  # a zombie has no command line any more; it keeps the name that it had
                    continue
                name = describe_process(process)
            except (psutil.Error, OSError):
                continue  # gone, or another user's
            if name is not None and looks_like_vllm(name):
                yield process, name

    def _cgroup(self, leader: int | None) -> tuple[int | None, int | None, int | None]:
        """Of vLLM's first process, else of the last one seen, else of our own."""
        if self._group is None or (leader is not None and leader != self._group_pid):
            self._group = find_group(leader or "self", self._root) or self._group
            self._group_pid = leader
        if self._group is None:
            return None, None, None
        found = read_group(self._group)
        return found.limit, found.used, found.oom_kills

    def _shared_memory(self, leader: int | None, missing: list[Unavailable]) -> tuple[int | None, int | None]:
        """Size and free space of the `/dev/shm` that vLLM sees: a container has its own, often 64 MiB small."""
        folder = self._root / (f"proc/{leader}/root/dev/shm" if leader is not None else "dev/shm")
        try:
            state = os.statvfs(folder)
        except OSError as error:
            missing.append(Unavailable("host: /dev/shm", error.strerror or str(error)))
            return None, None
        return state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize

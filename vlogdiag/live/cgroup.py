"""Turns a process id into the memory limit, use and OOM-kill count of the control group that confines it (v1 or v2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# cgroup v1 writes "no limit" as the largest multiple of a page below 2**63; nothing real comes near it.
UNLIMITED = 2**60


@dataclass(frozen=True, slots=True)
class _Files:
    """Names and keys, which differ between the two versions."""

    limit: str
    used: str
    cache: tuple[str, ...]
    """Keys of `memory.stat` that the kernel frees before it kills anybody."""
    kills: str


_V2 = _Files("memory.max", "memory.current", ("active_file", "inactive_file"), "memory.events")
_V1 = _Files(
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
    "memory.oom_control",
)


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """Where the numbers of one process's group stand; outlives the process, so its death can be read afterwards."""

    files: _Files
    folders: tuple[Path, ...]
    """From the process's own group up to the outermost that is visible."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """Bytes; `used` without the file cache, which is given back before anything is killed. None: unknown, no limit."""

    limit: int | None = None
    used: int | None = None
    oom_kills: int | None = None


def find_group(pid: int | str, root: Path = Path("/")) -> MemoryGroup | None:
    """The group of a process (or of 'self'); None where the kernel shows none."""
    try:
        lines = (root / "proc" / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    mount = root / "sys/fs/cgroup"
    found: MemoryGroup | None = None
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if "memory" in controllers.split(","):
            folders = _chain(mount / "memory", path, _V1.used)
            if folders:
                return MemoryGroup(_V1, folders)
        elif not controllers:
            folders = _chain(mount, path, _V2.used)
            if folders:
                found = MemoryGroup(_V2, folders)
    return found


def read_group(group: MemoryGroup) -> GroupMemory:
    """The tightest limit on the way up with the use of the group that has it; without one, the own group's use."""
    files = group.files
    limits = [(limit, folder) for folder in group.folders if (limit := _number(folder / files.limit)) is not None]
    limit, folder = min(limits, key=lambda pair: pair[0], default=(None, group.folders[0]))
    used = _number(folder / files.used)
    statistics = _pairs(folder / "memory.stat")
    if used is not None:
        used = max(0, used - sum(statistics.get(key, 0) for key in files.cache))
    return GroupMemory(limit, used, _pairs(folder / files.kills).get("oom_kill"))


def machine_oom_kills(root: Path = Path("/")) -> int | None:
    """Processes that the kernel has killed for memory since the machine started (Linux 4.13 and later)."""
    return _pairs(root / "proc/vmstat").get("oom_kill")


def _chain(mount: Path, path: str, sign: str) -> tuple[Path, ...]:
    """Folders from the group up to the mount that hold `sign`.

    Inside a container the path is often the host's and does not exist; the mount itself is then the container's group.
    """
    parts = [part for part in path.split("/") if part not in ("", "..")]
    candidates = [mount.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return tuple(folder for folder in candidates if (folder / sign).is_file())


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and int(text) < UNLIMITED else None


def _pairs(path: Path) -> dict[str, int]:
    """`oom_kill 3` lines to a mapping; what is no such line is left out."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    words = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdecimal()}

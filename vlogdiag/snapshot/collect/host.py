"""The machine or container around the server: memory, limits, shared memory, disks, kernel."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from vlogdiag.live.cgroup import UNLIMITED, find_group, machine_oom_kills
from vlogdiag.model import Unavailable
from vlogdiag.snapshot.collect.base import Collected, Context
from vlogdiag.snapshot.collect.model_folder import find_model_folder

NAME = "host"
_GROUP_FILES = (
    "memory.max", "memory.high", "memory.current", "memory.swap.max", "memory.swap.current", "memory.events",
    "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.failcnt", "memory.oom_control", "cpu.max", "pids.max",
    "pids.current",
)  # fmt: skip


def collect(context: Context) -> Collected:
    """RAM, swap, control group, `/dev/shm`, disks, limits, kernel, and the marks that a container leaves."""
    missing: list[Unavailable] = []
    pid = context.leader.pid if context.leader else "self"
    data: dict[str, Any] = {
        "memory": _numbers(psutil.virtual_memory, missing, "memory"),
        "swap": _numbers(psutil.swap_memory, missing, "swap"),
        "cgroup": _group(pid, context.root),
        "oom_kills_since_start": machine_oom_kills(context.root),
        "shm": _space(context.root / "proc" / str(pid) / "root/dev/shm") or _space(context.root / "dev/shm"),
        "disks": {name: space for name, place in _places(context) if (space := _space(place)) is not None},
        "limits": _limits(pid, context.root, missing),
        "cpus": {"logical": os.cpu_count(), "usable": _usable(), "load": _load()},
        "kernel": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
        "distribution": _distribution(context.root),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "container": _container(context),
        "uptime_seconds": _uptime(context.root),
    }
    if data["shm"] is None:
        missing.append(Unavailable("/dev/shm", "not there, or not permitted"))
    return Collected(NAME, data, unavailable=tuple(missing))


def _numbers(ask: Any, missing: list[Unavailable], name: str) -> dict[str, Any] | None:
    try:
        return dict(ask()._asdict())
    except (psutil.Error, OSError, ValueError) as error:
        missing.append(Unavailable(name, str(error)))
        return None


def _group(pid: int | str, root: Path) -> dict[str, Any] | None:
    """The control group's own files, from the process's group up to the outermost visible one."""
    group = find_group(pid, root)
    if group is None:
        return None
    levels: dict[str, Any] = {}
    for folder in group.folders[:8]:
        level = {}
        for name in _GROUP_FILES:
            try:
                text = (folder / name).read_text(errors="replace")[:2000].strip()
                level[name] = "max" if text.isdecimal() and int(text) >= UNLIMITED else text
            except OSError:
                continue  # the other version's, or a controller that is off
        levels[str(folder)] = level
    return levels


def _places(context: Context) -> Iterator[tuple[str, Path]]:
    environment = context.seen_environment
    home = Path(environment.get("HOME") or "/root")
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    hugging_face = Path(environment.get("HF_HOME") or cache / "huggingface")
    yield "root", context.root
    yield "tmp", Path(environment.get("TMPDIR") or context.root / "tmp")
    yield "hugging_face_cache", hugging_face
    yield "vllm_cache", Path(environment.get("VLLM_CACHE_ROOT") or cache / "vllm")
    yield "triton_cache", Path(environment.get("TRITON_CACHE_DIR") or home / ".triton")
    folder = find_model_folder(context)
    if folder is not None:
        yield "model", folder


def _space(place: Path) -> dict[str, Any] | None:
    """Size and free bytes of the file system; of the nearest folder above where a cache was not created yet."""
    for folder in (place, *place.parents):
        try:
            state = os.statvfs(folder)
        except OSError:
            continue
        return {
            "path": str(folder),
            "total": state.f_blocks * state.f_frsize,
            "free": state.f_bavail * state.f_frsize,
            "free_inodes": state.f_favail,
        }
    return None


def _limits(pid: int | str, root: Path, missing: list[Unavailable]) -> dict[str, str]:
    try:
        lines = (root / "proc" / str(pid) / "limits").read_text(errors="replace").splitlines()[1:]
    except OSError as error:
        missing.append(Unavailable("ulimits", error.strerror or str(error)))
        return {}
    return {line[:26].strip(): " / ".join(line[26:68].split()) for line in lines if line.strip()}


def _usable() -> int | None:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return None


def _load() -> list[float] | None:
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except OSError:
        return None


def _distribution(root: Path) -> str | None:
    try:
        for line in (root / "etc/os-release").read_text(errors="replace").splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip("\"'")[:100]
    except OSError:
        return None
    return None


def _container(context: Context) -> list[str]:
    """What says that this is no plain machine."""
    root, marks = context.root, []
    if (root / ".dockerenv").exists():
        marks.append("/.dockerenv")
    if (root / "run/.containerenv").exists():
        marks.append("/run/.containerenv")
    if "KUBERNETES_SERVICE_HOST" in context.seen_environment:
        marks.append("KUBERNETES_SERVICE_HOST")
    if "microsoft" in platform.release().lower():
        marks.append("WSL kernel")
    try:
        groups = (root / "proc/1/cgroup").read_text(errors="replace")[:4000]
    except OSError:
        groups = ""
    marks += [
        f"control group of process 1: {word}" for word in ("docker", "kubepods", "containerd", "lxc") if word in groups
    ]
    return marks


def _uptime(root: Path) -> float | None:
    try:
        return float((root / "proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None

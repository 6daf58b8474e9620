"""Turns a process id into the words for what the process is, where this machine shows it."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from vlogdiag.live.commands import looks_like_vllm, printable, short_command

# include/linux/proc_ns.h: PROC_PID_INIT_INO, the inode of the machine's first pid namespace.
FIRST_PID_NAMESPACE = "pid:[4026531836]"

# Children that multiprocessing starts carry its bootstrap as command line; who they are, their parent says.
_BOOTSTRAP = re.compile(r"multiprocessing\.(?:spawn|forkserver|resource_tracker)")


def command_of(pid: int, *, proc: Path = Path("/proc")) -> str | None:
    """What the process is, or None where it cannot be seen.

    In a container the driver's process ids may be the host's, and the same number may be an unrelated process here; so
    outside the machine's first pid namespace a process counts only if it holds an NVIDIA device file open.
    """
    if not in_first_namespace(proc) and not _holds_gpu(pid, proc):
        return None
    try:
        return describe_process(psutil.Process(pid))
    except psutil.Error:
        return None


def describe_process(process: psutil.Process) -> str | None:
    """Short command of a process; a child that multiprocessing started is named after its nearest named ancestor."""
    argv = process.cmdline()
    if not _is_bootstrap(argv):
        return short_command(argv) or printable(process.name())
    for ancestor in process.parents():
        argv = ancestor.cmdline()
        if not _is_bootstrap(argv):
            named = short_command(argv) or ""
            # An orphan's parent is init or a shell, which says nothing of what it was.
            return f"{named} (child)" if named.startswith("python") or looks_like_vllm(named) else None
    return None


def _is_bootstrap(argv: list[str]) -> bool:
    return any(_BOOTSTRAP.search(word) for word in argv[:4])


def in_first_namespace(proc: Path = Path("/proc")) -> bool:
    """True where process ids are the machine's own, not a container's."""
    try:
        return str((proc / "self/ns/pid").readlink()) == FIRST_PID_NAMESPACE
    except OSError:
        return False


def _holds_gpu(pid: int, proc: Path) -> bool:
    try:
        files = list((proc / str(pid) / "fd").iterdir())
    except OSError:
        return False
    for file in files:
        try:
            if str(file.readlink()).startswith("/dev/nvidia"):
                return True
        except OSError:
            continue  # closed while we looked
    return False

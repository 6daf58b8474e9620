"""Finds vLLM's processes and reads what the kernel shows of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil

from vlogdiag.live.commands import looks_like_vllm
from vlogdiag.live.process_names import describe_process
from vlogdiag.snapshot.collect.arguments import arguments_of
from vlogdiag.snapshot.collect.base import ServerProcess

MAX_PROCESSES = 64


class NoSuchProcess(Exception):  # noqa: N818 - reads as what happened
    """The process id that was given by hand is not there."""


def find_processes(
    pid: int | None = None, *, listing: Callable[[], Iterable[psutil.Process]] = psutil.process_iter
) -> tuple[ServerProcess, ...]:
    """vLLM's processes, the server first; of several servers the one that runs longest. With `pid` that one's tree."""
    if pid is not None:
        try:
            process = psutil.Process(pid)
        except psutil.Error:
            raise NoSuchProcess(f"there is no process {pid}") from None
        return tuple(_read(each) for each in (process, *_children(process)))
    found: list[tuple[psutil.Process, bool]] = []
    for process in listing():
        try:
            name = describe_process(process)
            if name is not None and looks_like_vllm(name):
                found.append((process, arguments_of(process.cmdline()) is not None))
        except (psutil.Error, OSError):
            continue  # gone, or another user's
    servers = sorted((process for process, server in found if server), key=_created)
    if not servers:
        return tuple(_read(process) for process, _ in found[:MAX_PROCESSES])
    # `uv run vllm serve` and shell wrappers carry the same words: the innermost is the server.
    leader = next(
        (s for s in servers if not any(_created(o) > _created(s) and _is_child(o, s) for o in servers)), servers[0]
    )
    tree = [leader, *_children(leader)]
    others = [process for process, _ in found if process not in tree]
    return tuple(_read(process) for process in (*tree, *others)[:MAX_PROCESSES])


def environment_of(process: psutil.Process) -> Mapping[str, str] | None:
    """The environment it was started with; None where it may not be read, or a new title was written over it."""
    try:
        return process.environ() or None
    except (psutil.Error, OSError):
        return None


def _created(process: psutil.Process) -> float:
    try:
        return process.create_time()
    except psutil.Error:
        return float("inf")


def _is_child(process: psutil.Process, of: psutil.Process) -> bool:
    try:
        return process.ppid() == of.pid
    except psutil.Error:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)[:MAX_PROCESSES]
    except psutil.Error:
        return []


def _read(process: psutil.Process) -> ServerProcess:
    """What may be read; every single question may be refused."""

    def ask(question: Callable[[], object]) -> object:
        try:
            return question()
        except (psutil.Error, OSError, KeyError):
            return None

    argv = ask(process.cmdline)
    memory = ask(process.memory_info)
    return ServerProcess(
        process.pid,
        argv=tuple(word for word in argv if word) if isinstance(argv, list) else (),
        title=_text(ask(lambda: describe_process(process))) or _text(ask(process.name)) or "",
        parent=_int(ask(process.ppid)),
        status=_text(ask(process.status)),
        created=_float(ask(process.create_time)),
        user=_text(ask(process.username)),
        resident=getattr(memory, "rss", None),
        threads=_int(ask(process.num_threads)),
        folder=_text(ask(process.cwd)),
        environment=environment_of(process),
        standard_output=_text(ask(lambda: str(Path(f"/proc/{process.pid}/fd/1").readlink()))),
    )


def _text(value: object) -> str | None:
    return str(value) if value else None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None

"""How the server was started: command, start time, states and environment of its processes, arguments by the log."""

from __future__ import annotations

import shlex
import time
from typing import Any

from vlogdiag.model import Unavailable
from vlogdiag.snapshot.collect.arguments import arguments_of
from vlogdiag.snapshot.collect.base import Collected, Context, ServerProcess
from vlogdiag.snapshot.collect.environment import allowed

NAME = "launch"


def collect(context: Context) -> Collected:
    """The server's processes and its arguments."""
    missing: list[Unavailable] = []
    leader = context.leader
    # A process title that was written over the command line says no longer how the server was started.
    data: dict[str, Any] = {
        "command": shlex.join(leader.argv) if leader is not None and arguments_of(leader.argv) is not None else None,
        "arguments": dict(context.arguments),
        "processes": [_process(process) for process in context.processes],
    }
    if context.run is not None:
        data["arguments_by_log"] = dict(context.run.args)
        data["vllm_version_by_log"] = context.run.vllm_version or context.run.versions_possible
    if leader is None:
        missing.append(Unavailable("launch", "no vLLM process is running (or none that this user may see)"))
    elif context.seen is None:
        missing.append(Unavailable(f"environment of process {leader.pid}", "not permitted"))
    seen = context.seen_environment
    data["environment_of"] = "this program, not the server" if context.seen is None else f"process {context.seen.pid}"
    data["environment"] = allowed(seen)
    data["environment_left_out"] = len(seen) - len(data["environment"])
    return Collected(NAME, data, unavailable=tuple(missing))


def _process(process: ServerProcess) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "parent": process.parent,
        "title": process.title,
        "command": shlex.join(process.argv),
        "status": process.status,
        "started": None
        if process.created is None
        else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(process.created)),
        "user": process.user,
        "resident_bytes": process.resident,
        "threads": process.threads,
        "working_folder": process.folder,
        "standard_output": process.standard_output,
    }

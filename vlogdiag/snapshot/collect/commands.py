"""Runs a program that may hang, with limits on time and output; it never blocks the caller longer than its limit."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlogdiag.model import Unavailable

MAX_OUTPUT = 2 << 20


@dataclass(frozen=True, slots=True)
class Output:
    """What a program printed (both streams, in order) and how it ended."""

    text: str
    status: int | None
    """None: it was stopped because its output was too long."""


def run_command(
    argv: Sequence[str],
    *,
    limit: float,
    environment: Mapping[str, str] | None = None,
    max_output: int = MAX_OUTPUT,
) -> Output | Unavailable:
    """Run `argv` in the C locale with nothing on standard input; a program that is not there is `Unavailable`.

    A program stuck in a driver does not die of SIGKILL; it is left to the kernel, not waited for.
    """
    name = os.path.basename(argv[0])  # noqa: PTH119 - a command line's word, not a file to open
    path = os.environ.get("PATH") if environment is None else environment.get("PATH")
    program = shutil.which(argv[0], path=path)
    if program is None:
        return Unavailable(name, "not installed, or not on PATH")
    variables = {**(os.environ if environment is None else environment), "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,
        )
    except OSError as error:
        return Unavailable(name, error.strerror or str(error))
    assert process.stdout is not None  # it was asked for
    deadline = time.monotonic() + limit
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(data) <= max_output:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                _abandon(process)
                return Unavailable(name, f"no answer within {limit:g} s")
            block = os.read(process.stdout.fileno(), 1 << 16)
            if not block:
                break
            data += block
    text = bytes(data[:max_output]).decode("utf-8", "replace")
    if len(data) > max_output:
        _abandon(process)
        return Output(text, None)
    try:
        status = process.wait(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _abandon(process)
        return Unavailable(name, f"did not end within {limit:g} s")
    process.stdout.close()
    return Output(text, status)


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill the program with its children, and give it a moment to go."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.2)

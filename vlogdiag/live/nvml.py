"""Turns what the NVIDIA driver says about every GPU into `Gpu` values, with a time limit on each answer.

The calls are made by a worker process (`nvml_worker.py` says why). A call that does not come back costs one
`Unavailable` that names it; until it returns, later samples answer at once that the driver hangs. No exception leaves
this module.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vlogdiag.live.process_names import command_of
from vlogdiag.model import Gpu, Process, Unavailable, Xid

OPEN_LIMIT = 10.0
"""Without persistence mode the first user of a driver waits until every GPU is up: seconds on a big machine."""

SAMPLE_LIMIT = 1.0
"""Seconds; a healthy driver answers for eight GPUs in tens of milliseconds."""

HIDDEN_MEMORY = 2**30
"""An empty process list is believed only if less than this is in use; an idle card holds some hundred MiB itself."""


@dataclass(frozen=True, slots=True)
class NvmlSample:
    """One round of answers; a GPU's missing ones stand in the GPU, what concerns none of them here."""

    gpus: tuple[Gpu, ...] = ()
    xids: tuple[Xid, ...] = ()
    unavailable: tuple[Unavailable, ...] = ()


class NvmlProbe:
    """A worker process and the state of the conversation with it; `sample` never blocks longer than its limit."""

    def __init__(
        self, worker: subprocess.Popen[bytes], *, monotonic: Callable[[], float], command: Callable[[int], str | None]
    ) -> None:
        assert worker.stdin is not None and worker.stdout is not None, "the worker is talked to through pipes"
        self._worker = worker
        self._requests = worker.stdin
        self._answers = worker.stdout
        self._monotonic = monotonic
        self._command = command
        self._buffer = b""
        self._call: tuple[int | None, str] = (None, "start")
        self._asked_at = monotonic()
        self._owes = False
        """True while a request has not been answered to its end: the driver hangs."""
        self._late: list[list[Any]] = []
        self._dead: str | None = None

    @classmethod
    def open(
        cls,
        *,
        limit: float = OPEN_LIMIT,
        environment: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        command: Callable[[int], str | None] = command_of,
    ) -> NvmlProbe | Unavailable:
        """Starts the worker; `Unavailable` where there is no driver, permission or answer within `limit` seconds."""
        try:
            worker = _start_worker(environment)
        except OSError as error:
            return Unavailable("nvml", f"the probe process could not be started: {error}")
        probe = cls(worker, monotonic=monotonic, command=command)
        for message in probe._messages(limit):
            if message[0] == "ready":
                return probe
            if message[0] == "failed":
                probe.close()
                return Unavailable("nvml", str(message[1]))
        reason = probe._dead or f"{probe._where()} did not answer within {limit:g} s"
        probe.close()
        return Unavailable("nvml", reason)

    @property
    def hung(self) -> bool:
        """True from a call that ran into its limit until it returns."""
        return self._owes

    @property
    def dead(self) -> bool:
        """True once the worker has ended: only a new probe can answer."""
        return self._dead is not None

    def sample(self, *, limit: float = SAMPLE_LIMIT) -> NvmlSample:
        """Asks every GPU; what does not come within `limit` seconds is missing, and the guilty call is named."""
        if self._owes:
            for message in self._messages(0):
                if message[0] == "done":
                    self._owes = False
                    break
                if message[0] == "xid":  # an event is delivered once: it must not go down with the late answer
                    self._late.append(message)
            if self._owes and self._dead is None:
                waited = self._monotonic() - self._asked_at
                return _nothing(f"the driver hangs: {self._where()} has not answered for {waited:.0f} s")
        if self._dead is None:
            self._request()
        if self._dead is not None:
            return _nothing(self._dead)
        answer = _Answer()
        for message in self._late:
            answer.take(message)
        self._late.clear()
        for message in self._messages(limit):
            if message[0] == "done":
                self._owes = False
                break
            answer.take(message)
        else:
            gpu, what = self._call
            answer.take(["missing", gpu, what, self._dead or f"did not answer within {limit:g} s"])
        return answer.finish(self._command)

    def close(self) -> None:
        """Lets the worker go; one that sits in the driver is left to the kernel, nobody waits for it."""
        with contextlib.suppress(OSError):
            self._requests.close()
        self._worker.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._worker.wait(timeout=0.2)
        self._answers.close()

    def _where(self) -> str:
        gpu, what = self._call
        return _label(gpu, what)

    def _request(self) -> None:
        self._asked_at = self._monotonic()
        self._owes = True
        try:
            self._requests.write(b"sample\n")
            self._requests.flush()
        except OSError:
            self._dead = self._epitaph()

    def _messages(self, limit: float) -> Iterator[list[Any]]:
        """Yields the worker's messages until `limit` seconds have passed or it is dead; `call`s are noted instead."""
        deadline = self._monotonic() + limit
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                message = json.loads(line)
                if message[0] == "call":
                    self._call = (message[1], message[2])
                else:
                    yield message
            elif self._dead is not None or not self._read(deadline - self._monotonic()):
                return

    def _read(self, patience: float) -> bool:
        """Waits at most `patience` seconds for more bytes; False when none came."""
        descriptor = self._answers.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(max(patience, 0) * 1000):
            return False
        data = os.read(descriptor, 1 << 16)
        if not data:
            self._dead = self._epitaph()
            return False
        self._buffer += data
        return True

    def _epitaph(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._worker.wait(timeout=0.5)
            how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
            return f"the probe process {how} in {self._where()}"
        return f"the probe process went silent in {self._where()}"


class _Answer:
    """Messages of one sample, put together."""

    def __init__(self) -> None:
        self._fields: dict[int, dict[str, Any]] = {}
        self._missing: dict[int | None, list[Unavailable]] = {}
        self._xids: list[Xid] = []

    def take(self, message: list[Any]) -> None:
        """Adds one message of the worker."""
        kind, gpu, *rest = message
        if kind == "gpu":
            self._fields.setdefault(gpu, {}).update(rest[0])
        elif kind == "missing":
            what, reason = rest
            self._missing.setdefault(gpu, []).append(Unavailable(f"nvml: {_label(gpu, what)}", reason))
        elif kind == "xid":
            self._xids.append(Xid(gpu, rest[0]))

    def finish(self, command: Callable[[int], str | None]) -> NvmlSample:
        """The sample; command lines are looked up here, not by the worker."""
        gpus = tuple(self._gpu(index, self._fields[index], command) for index in sorted(self._fields))
        return NvmlSample(gpus, tuple(self._xids), tuple(self._missing.get(None, ())))

    def _gpu(self, index: int, fields: dict[str, Any], command: Callable[[int], str | None]) -> Gpu:
        missing = self._missing.get(index, [])
        listed = fields.pop("Compute", None)
        graphics = fields.pop("Graphics", None) or []
        processes = None
        if listed is not None:
            memory: dict[int, int | None] = {}
            for pid, used in [*listed, *graphics]:  # a process that computes and draws stands in both lists
                memory[pid] = max((size for size in (memory.get(pid), used) if size is not None), default=None)
            processes = tuple(Process(pid, used, command(pid)) for pid, used in sorted(memory.items()))
            if not processes and (fields.get("used") or 0) > HIDDEN_MEMORY:
                processes = None
                reason = "memory is in use but no process is visible (a container's process ids, or one that died)"
                missing = [*missing, Unavailable(f"nvml: {_label(index, 'processes')}", reason)]
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        if "mig_devices" in fields:
            fields["mig_devices"] = tuple(tuple(device) for device in fields["mig_devices"])
        return Gpu(index, **fields, processes=processes, unavailable=tuple(missing))


def _label(gpu: int | None, what: str) -> str:
    return what if gpu is None else f"GPU {gpu} {what}".rstrip()


def _nothing(reason: str) -> NvmlSample:
    return NvmlSample(unavailable=(Unavailable("nvml", reason),))


def _start_worker(environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    """Isolated mode keeps the user's folder, which may hold a `json.py`, off the path; ours is handed over instead."""
    path = [entry for entry in sys.path if entry]
    program = f"import sys; sys.path[:] = {path!r}; from vlogdiag.live.nvml_worker import main; main()"
    return subprocess.Popen(
        [sys.executable, "-I", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=None if environment is None else dict(environment),
        start_new_session=True,  # Ctrl-C at the terminal is the parent's to handle
    )

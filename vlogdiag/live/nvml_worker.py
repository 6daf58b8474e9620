"""Turns the word `sample` on stdin into NVML's answers on stdout, one JSON line before and after each call.

It runs as a process of its own (`nvml.py` starts it): a call into a wedged driver sits in the kernel where no signal,
not even SIGKILL, ends it, and a process with such a thread cannot exit. So the process that may hang is not the one
that the user waits for. Writing each call's name before it is made tells the parent which one did not come back.

Messages: `["ready", gpus]`, `["failed", reason]`, `["call", gpu, what]`, `["gpu", gpu, {field: value}]`,
`["missing", gpu, what, reason]`, `["xid", gpu, code]`, `["done"]`; `gpu` is null where a call concerns no single GPU.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from collections.abc import Iterable
from queue import SimpleQueue
from typing import Any

import pynvml as nv

from vlogdiag.live.nvml_calls import LOST, OFTEN, ONCE, SELDOM, Call, mig_devices, reason_of

Message = list[Any]

SELDOM_EVERY = 5
"""Limits, ECC counters, remapped rows, links and the like are asked in every fifth sample: they change rarely, and the
driver takes tens of microseconds for each."""

MAX_EVENTS = 64
"""A card that throws Xids without end must not keep the worker from answering."""


class _Writer:
    """Gathers messages and sends them before the next call that may not come back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending: list[Message] = []

    def put(self, *message: Any) -> None:
        self._pending.append(list(message))

    def send(self) -> None:
        data = memoryview("".join(json.dumps(message) + "\n" for message in self._pending).encode())
        self._pending.clear()
        while data:
            data = data[os.write(self._descriptor, data) :]


class _LostError(Exception):
    """A GPU that has fallen off the bus: its other calls would say the same."""


class _Worker:
    """Handles, and the rarely asked answers that go with every sample."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        self._handles: dict[int, Any] = {}
        self._fixed: dict[int, list[Message]] = {}
        self._seldom: dict[int, list[Message]] = {}
        self._mig: set[int] = set()
        self._events: Any = None
        self._samples = 0

    def open(self) -> bool:
        """Initialises NVML and asks what never changes; False (and the reason) where there is nothing to sample."""
        try:
            self._announce(None, "start")
            nv.nvmlInit()
            self._announce(None, "count")
            count = nv.nvmlDeviceGetCount()
        except nv.NVMLError as error:
            return self._fail(reason_of(error))
        if count == 0:
            return self._fail("the driver sees no GPU")
        for gpu in range(count):
            self._open_gpu(gpu)
        self._register()
        self._writer.put("ready", count)
        self._writer.send()
        return True

    def sample(self) -> None:
        """Answers one request; ends with `done`."""
        seldom_due = self._samples % SELDOM_EVERY == 0
        self._samples += 1
        for messages in self._fixed.values():
            self._put(messages)
        for gpu, handle in self._handles.items():
            try:
                if seldom_due:
                    self._seldom[gpu] = []
                    for call in SELDOM:
                        answer = self._ask(gpu, handle, call)
                        self._seldom[gpu] += answer
                        self._put(answer)
                else:
                    self._put(self._seldom.get(gpu, []))
                for call in OFTEN:
                    self._put(self._ask(gpu, handle, call))
                if gpu in self._mig:
                    self._put(self._ask(gpu, handle, ("MIG devices", mig_devices)))
            except _LostError:
                self._seldom.pop(gpu, None)
                self._put([["gpu", gpu, {"lost": True}], ["missing", gpu, "", LOST]])
        self._drain_events()
        self._writer.put("done")
        self._writer.send()

    def _fail(self, reason: str) -> bool:
        self._writer.put("failed", reason)
        self._writer.send()
        return False

    def _open_gpu(self, gpu: int) -> None:
        self._announce(gpu, "handle")
        fixed: list[Message] = [["gpu", gpu, {}]]
        try:
            handle = self._handles[gpu] = nv.nvmlDeviceGetHandleByIndex(gpu)
            for call in ONCE:
                fixed += self._ask(gpu, handle, call)
        except _LostError:
            pass  # the first sample asks again and says so
        except nv.NVMLError as error:
            lost = error.value == nv.NVML_ERROR_GPU_IS_LOST
            fixed += [["gpu", gpu, {"lost": lost}], ["missing", gpu, "", reason_of(error)]]
        if ["gpu", gpu, {"mig": True}] in fixed:
            self._mig.add(gpu)
        self._fixed[gpu] = fixed

    def _announce(self, gpu: int | None, what: str) -> None:
        self._writer.put("call", gpu, what)
        self._writer.send()

    def _put(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._writer.put(*message)

    def _ask(self, gpu: int, handle: Any, call: Call) -> list[Message]:
        what, function = call
        self._announce(gpu, what)
        try:
            return [["gpu", gpu, function(handle)]]
        except Exception as error:  # also what the binding makes of garbage, e.g. a name that is no UTF-8
            if getattr(error, "value", None) == nv.NVML_ERROR_GPU_IS_LOST:
                raise _LostError from None
            return [["missing", gpu, what, reason_of(error)]]

    def _register(self) -> None:
        """Asks for critical Xids; without permission or support there are none to wait for."""
        self._announce(None, "Xid events")
        try:
            events = nv.nvmlEventSetCreate()
        except nv.NVMLError as error:
            for gpu in self._handles:
                self._fixed[gpu].append(["missing", gpu, "Xid events", reason_of(error)])
            return
        for gpu, handle in self._handles.items():
            try:
                self._announce(gpu, "Xid events")
                nv.nvmlDeviceRegisterEvents(handle, nv.nvmlEventTypeXidCriticalError, events)
                self._events = events
            except nv.NVMLError as error:
                self._fixed[gpu].append(["missing", gpu, "Xid events", reason_of(error)])

    def _drain_events(self) -> None:
        if self._events is None:
            return
        self._announce(None, "Xid events")
        for _ in range(MAX_EVENTS):
            try:
                event = nv.nvmlEventSetWait(self._events, 0)
            except nv.NVMLError as error:
                if error.value != nv.NVML_ERROR_TIMEOUT:
                    self._writer.put("missing", None, "Xid events", reason_of(error))
                return
            gpu = self._gpu_of(event.device)
            if gpu is None:
                self._writer.put("missing", None, f"Xid {event.eventData}", "of a GPU that NVML did not name")
            else:
                self._writer.put("xid", gpu, event.eventData)

    def _gpu_of(self, device: Any) -> int | None:
        """By the handle's address: a lost GPU answers no question about its index."""
        address = ctypes.cast(device, ctypes.c_void_p).value
        for gpu, handle in self._handles.items():
            if ctypes.cast(handle, ctypes.c_void_p).value == address:
                return gpu
        return None


def _listen(requests: SimpleQueue[bytes]) -> None:
    """Passes requests on and ends the process with its parent, whatever call the other thread waits for meanwhile."""
    for request in sys.stdin.buffer:
        requests.put(request)
    os._exit(0)


def main() -> None:
    """Serves requests until stdin ends; stdout carries messages only, whatever a library prints goes to stderr."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    worker = _Worker(_Writer(descriptor))
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    try:
        if worker.open():
            while True:
                if requests.get() == b"sample\n":
                    worker.sample()
    except BrokenPipeError:
        pass  # the parent is gone: nobody to answer
    # No tidy shutdown: nvmlShutdown and the library's own exit handlers may hang, and the kernel frees everything.
    os._exit(0)

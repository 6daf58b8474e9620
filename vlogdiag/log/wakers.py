"""Decides when to look again: waiting as a thing that is handed in, so that no test sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

BUSY = 0.025
"""Seconds between two looks at a log that is being written: a record counts as over after 100 ms of quiet."""
IDLE = 0.25
"""Seconds between two looks at a quiet log: a quarter of a second late for the first line, 0.1 % of a core."""
_SLOWER = 1.5
"""Each look in vain makes the next pause so much longer: a second of quiet leads from BUSY to IDLE."""


class Waker(Protocol):
    """Something to wait for between two polls."""

    def active(self) -> None:
        """Say that the last look found something: look again soon."""

    def wait(self, timeout: float | None = None) -> None:
        """Return when it is time to look again, after `timeout` seconds at the latest."""


class PollingWaker:
    """Waits shortly while something happens and longer while nothing does; works on every file system."""

    def __init__(
        self, *, busy: float = BUSY, idle: float = IDLE, pause: Callable[[float], object] | None = None
    ) -> None:
        self._busy = busy
        self._idle = idle
        self._interval = busy
        self._woken = threading.Event()
        self._pause = pause or self._woken.wait

    def active(self) -> None:
        """Go back to the short interval."""
        self._interval = self._busy

    def wake(self) -> None:
        """End the current wait; may be called from another thread or a signal handler."""
        self._woken.set()

    def wait(self, timeout: float | None = None) -> None:
        """Pause for the current interval, or `timeout` if that is shorter, and make the next one longer."""
        self._pause(self._interval if timeout is None else max(0.0, min(self._interval, timeout)))
        self._woken.clear()
        self._interval = min(self._idle, self._interval * _SLOWER)


class ManualWaker:
    """Plays a script instead of waiting: every wait takes the next step; the end of the script ends the loop.

    `waits` records what was asked for. Raises EOFError when there is no step left.
    """

    def __init__(self, steps: Iterable[Callable[[], object]]) -> None:
        self._steps = iter(steps)
        self.waits: list[float | None] = []
        self.activity = 0
        """How often something was found."""

    def active(self) -> None:
        """Count it."""
        self.activity += 1

    def wait(self, timeout: float | None = None) -> None:
        """Take the next step of the script."""
        self.waits.append(timeout)
        step = next(self._steps, None)
        if step is None:
            raise EOFError("the script is at its end")
        step()

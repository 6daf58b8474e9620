"""Tells the outside world of an opened finding: a command with the finding as JSON on its standard input, or a message.

Log text never reaches a command line, and neither a slow command nor a dead service holds up the reading of logs.
"""

from __future__ import annotations

import json
import queue
import shlex
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from vlogdiag.model import Finding, Severity
from vlogdiag.report.json import encode_event
from vlogdiag.report.safe import plain

__all__ = ["CommandHook", "HookError", "Hooks", "MessageHook"]

TIME_LIMIT_S = 30.0
PER_MINUTE = 20
"""Calls in a minute at most; what comes beyond is counted and said."""
WAITING = 100


class HookError(ValueError):
    """A hook that cannot work, in one sentence."""


class Hook(Protocol):
    """Something to be told."""

    def tell(self, finding: Finding) -> str | None:
        """Tell of one finding; returns what went wrong, or None. May take its time."""


@dataclass(frozen=True, slots=True)
class CommandHook:
    """`--exec CMD`: run without a shell, the event as JSON on standard input."""

    words: tuple[str, ...]
    limit: float = TIME_LIMIT_S

    @classmethod
    def parse(cls, command: str) -> CommandHook:
        """Split as a shell splits words; raises HookError."""
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise HookError(f"--exec: {error}") from None
        if not words:
            raise HookError("--exec: no command")
        return cls(words)

    def tell(self, finding: Finding) -> str | None:
        """Run the command once."""
        from vlogdiag.model import Event

        text = json.dumps(encode_event(Event("finding.opened", finding=finding)))
        try:
            done = subprocess.run(
                self.words,
                input=text.encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self.limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"--exec: {self.words[0]} took longer than {self.limit:g} s and was ended"
        except OSError as error:
            return f"--exec: {self.words[0]}: {error.strerror or error}"
        return f"--exec: {self.words[0]} ended with status {done.returncode}" if done.returncode else None


class MessageHook:
    """`--notify URL` through apprise (WeCom, DingTalk, Slack, mail …): title, cause, first fix."""

    def __init__(self, urls: tuple[str, ...]) -> None:
        try:
            import apprise
        except ImportError:
            raise HookError("--notify needs the package apprise: pip install 'vlogdiag[notify]'") from None
        self._service: Any = apprise.Apprise()
        for url in urls:
            if not self._service.add(url):
                raise HookError("--notify: apprise does not know this kind of URL")

    def tell(self, finding: Finding) -> str | None:
        """Send one message."""
        body = [plain(finding.cause)]
        if finding.fixes:
            fix = finding.fixes[0]
            flags = " ".join(f"{k} {v}" if v is not True else k for k, v in fix.flags.items())
            body.append(plain(f"{fix.title} {flags}".strip()))
        body.append(plain(f"{finding.source}, {finding.id}"))
        sent = self._service.notify(title=plain(f"vLLM: {finding.title}"), body="\n".join(body), body_format="text")
        return None if sent else "--notify: the message could not be sent"


@dataclass(slots=True)
class Hooks:
    """Hooks called in one thread of their own, with a limit on how often."""

    hooks: tuple[Hook, ...]
    least: Severity
    complain: Callable[[str], None]
    clock: Callable[[], float]
    dropped: int = 0
    _times: list[float] = field(default_factory=list)
    _queue: queue.Queue[Finding | None] = field(default_factory=lambda: queue.Queue(WAITING))
    _thread: threading.Thread | None = None

    def opened(self, finding: Finding) -> None:
        """Tell of a finding, once, if it is severe enough and not too many came in the last minute."""
        if not self.hooks or finding.severity < self.least:
            return
        now = self.clock()
        self._times = [t for t in self._times if now - t < 60.0]
        if len(self._times) >= PER_MINUTE:
            self._drop()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="hooks")
            self._thread.start()
        try:
            self._queue.put_nowait(finding)
            self._times.append(now)
        except queue.Full:
            self._drop()

    def close(self, limit: float = TIME_LIMIT_S) -> None:
        """Wait for what is under way."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(limit)
        if self.dropped:
            self.complain(
                f"{self.dropped} findings were not told to --exec or --notify: more than {PER_MINUTE} a minute"
            )

    def _drop(self) -> None:
        self.dropped += 1

    def _work(self) -> None:
        while (finding := self._queue.get()) is not None:
            for hook in self.hooks:
                wrong = hook.tell(finding)
                if wrong:
                    self.complain(wrong)

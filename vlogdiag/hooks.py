"""Tells the outside world of an incident: a command with the event as JSON on its standard input, or a message.

Log text never reaches a command line, and neither a slow command nor a dead service holds up the reading of logs.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import subprocess
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from vlogdiag.model import Event, Finding, Severity
from vlogdiag.report.json import encode_event
from vlogdiag.report.safe import plain

__all__ = ["CommandHook", "HookError", "Hooks", "MessageHook"]

TIME_LIMIT_S = 30.0
CLOSE_S = 10.0
"""What is still under way when tail ends gets so long."""
PER_MINUTE = 20
"""Incidents told in a minute at most; what comes beyond is counted and said."""
WAITING = 100
AGAIN_S = 600.0
"""A server that crashes in a loop is one incident while the same happens at least every ten minutes."""
REMEMBERED = 1_000


class HookError(ValueError):
    """A hook that cannot work, in one sentence."""


class Hook(Protocol):
    """Something to be told."""

    def tell(self, event: Event) -> str | None:
        """Tell of one incident; returns what went wrong, or None. May take its time."""


@dataclass(frozen=True, slots=True)
class CommandHook:
    """`--exec CMD`: run without a shell, the event as JSON on standard input."""

    words: tuple[str, ...]
    limit: float = TIME_LIMIT_S
    _running: list[int] = field(default_factory=list, compare=False, repr=False)
    """Process group of the command that runs now."""

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

    def tell(self, event: Event) -> str | None:
        """Run the command once; it has its own session, so that Ctrl-C is tail's alone and all of it can be ended."""
        text = json.dumps(encode_event(event)) + "\n"
        try:
            process = subprocess.Popen(
                self.words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return f"--exec: {self.words[0]}: {reason.lower()}"
        self._running.append(process.pid)
        try:
            process.communicate(text.encode(), timeout=self.limit)
        except subprocess.TimeoutExpired:
            self.stop()
            process.communicate()
            return f"--exec: {self.words[0]} took longer than {self.limit:g} s and was ended"
        finally:
            self._running.clear()
        code = process.returncode
        return f"--exec: {self.words[0]} ended with status {code}" if code else None

    def stop(self) -> None:
        """End the command that runs, with all that it started."""
        for group in tuple(self._running):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


class MessageHook:
    """`--notify URL` through apprise (WeCom, DingTalk, Slack, mail …): title, cause, first fix."""

    def __init__(self, urls: tuple[str, ...]) -> None:
        try:
            import apprise
        except ImportError:
            raise HookError("--notify needs the package apprise: pip install 'vlogdiag[notify]'") from None
        self._service: Any = apprise.Apprise()
        for number, url in enumerate(urls, 1):
            if not self._service.add(url):
                # Not the URL itself: it holds a token as a rule.
                raise HookError(f"--notify: apprise does not know this kind of URL (the {number}. one)")

    def tell(self, event: Event) -> str | None:
        """Send one message."""
        if event.finding is None:
            return None
        title, body = message(event.finding)
        sent = self._service.notify(title=title, body=body, body_format="text")
        return None if sent else "--notify: the message could not be sent"


def message(finding: Finding) -> tuple[str, str]:
    """Title and body of a message, safe to show anywhere: what broke, why, the line, the first thing to do."""
    where = finding.source if finding.first.line is None else f"{finding.source}:{finding.first.line}"
    rows = [finding.cause]
    if finding.fixes:
        fix = finding.fixes[0]
        flags = [f"{name} {value}" if value is not True else name for name, value in fix.flags.items()]
        env = [f"{name}={value}" for name, value in fix.env.items()]
        removed = [f"without {name}" for name in fix.remove_flags]
        what = " ".join([*env, *flags, *removed]) or fix.run or fix.request or ""
        rows.append(f"{fix.title}: {what}" if what else fix.title)
    rows.append(f"{finding.id} in {where}" + (f", {finding.first.time}" if finding.first.time else ""))
    return plain(f"vLLM: {finding.title}"), "\n".join(plain(row) for row in rows)


@dataclass(slots=True)
class Hooks:
    """Hooks called in one thread of their own, with a limit on how often."""

    hooks: tuple[Hook, ...]
    least: Severity
    complain: Callable[[str], None]
    clock: Callable[[], float]
    dropped: int = 0
    _times: deque[float] = field(default_factory=deque)
    _last: OrderedDict[tuple[str, str], float] = field(default_factory=OrderedDict)
    _known: OrderedDict[tuple[str, object], None] = field(default_factory=OrderedDict)
    _queue: queue.Queue[Event | None] = field(default_factory=lambda: queue.Queue(WAITING))
    _thread: threading.Thread | None = None
    _closed: bool = False

    def event(self, event: Event) -> None:
        """Tell of an incident, once, if it is or has become severe enough and not too many came in the last minute."""
        finding = event.finding
        if not self.hooks or finding is None or event.type not in ("finding.opened", "finding.updated"):
            return
        if finding.severity < self.least:
            return
        now = self.clock()
        if not self._is_news(finding, event.details.get("incident"), now):
            return
        while self._times and now - self._times[0] >= 60.0:
            self._times.popleft()
        if len(self._times) >= PER_MINUTE:
            self._drop()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="hooks")
            self._thread.start()
        try:
            self._queue.put_nowait(event)
            self._times.append(now)
        except queue.Full:
            self._drop()

    def _is_news(self, finding: Finding, number: object, now: float) -> bool:
        """Neither an update of what was told, nor the same again in the next start of a server in a crash loop."""
        incident = (finding.source, number)
        if incident in self._known:
            return False
        self._known[incident] = None
        kind = (finding.source, finding.id)
        last = self._last.pop(kind, None)
        self._last[kind] = now
        for table in (self._known, self._last):
            while len(table) > REMEMBERED:
                table.popitem(last=False)
        return last is None or now - last >= AGAIN_S

    def close(self, limit: float = CLOSE_S) -> None:
        """Wait for what is under way, but not for ever."""
        if self._thread is not None:
            try:
                self._queue.put(None, timeout=limit)
            except queue.Full:
                pass
            else:
                self._thread.join(limit)
            if self._thread.is_alive():
                self._closed = True  # what still waits is not begun
                self.complain(f"--exec or --notify was still under way after {limit:g} s")
                for hook in self.hooks:
                    getattr(hook, "stop", lambda: None)()
                self._thread.join(1.0)
        if self.dropped > 1:
            self.complain(f"{self.dropped} findings in all were not told to --exec or --notify")

    def _drop(self) -> None:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:  # the first, second, fourth …: a storm is said a few times
            self.complain(f"not told to --exec or --notify, more than {PER_MINUTE} a minute: {self.dropped} so far")

    def _work(self) -> None:
        while (event := self._queue.get()) is not None and not self._closed:
            for hook in () if self._closed else self.hooks:
                try:
                    wrong = hook.tell(event)
                except Exception as error:  # of a service's own code: the next message may still get through
                    wrong = f"{type(error).__name__}: {error}"
                if wrong and not self._closed:
                    self.complain(wrong)

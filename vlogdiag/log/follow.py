"""Turns a path or a glob that somebody writes to into events: bytes as they come, and what became of the files."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable

from vlogdiag.log.discover import rotation_of
from vlogdiag.log.follow_events import (
    Appeared,
    Data,
    Ended,
    FollowEvent,
    Notice,
    Rotated,
    Truncated,
    Vanished,
)
from vlogdiag.log.follow_fs import FileSystem, OsFileSystem
from vlogdiag.log.follow_path import PathFollower
from vlogdiag.log.follow_state import FileMark, FollowState, Skipped, StateError, load_states, save_states
from vlogdiag.log.follow_stream import StreamFollower

__all__ = [
    "Appeared",
    "Data",
    "Ended",
    "FollowEvent",
    "FollowState",
    "Follower",
    "Notice",
    "Rotated",
    "StateError",
    "StreamFollower",
    "Truncated",
    "Vanished",
    "load_states",
    "save_states",
]

PER_FILE = 4 << 20
"""Bytes that one file may hand out in one poll, so that others get their turn; at 40 polls a second 160 MB/s."""
PER_POLL = 16 << 20
"""Bytes that all files together may hand out in one poll: memory does not follow their number."""
RESCAN_SECONDS = 2.0
"""A glob's folders are listed no more often than this."""
MOST_OPEN = 256
"""Descriptors kept by one glob; beyond that the files that have been quiet for longest are closed until they change."""


class Follower:
    """One path or one glob as a perpetual source; `poll` never waits, and costs one `stat` per idle file."""

    def __init__(
        self,
        path: str,
        *,
        fs: FileSystem | None = None,
        clock: Callable[[], float] = time.monotonic,
        from_start: bool = False,
        context_lines: int = 0,
        state: FollowState | None = None,
        per_file: int = PER_FILE,
        per_poll: int = PER_POLL,
        most_open: int = MOST_OPEN,
    ) -> None:
        self.path = path
        self.backlog = False
        """True when the last poll left bytes unread: poll again at once."""
        self._fs = fs or OsFileSystem()
        self._clock = clock
        self._from_start = from_start
        self._context_lines = context_lines
        self._state = state
        self._per_file = per_file
        self._per_poll = per_poll
        self._most_open = most_open
        self._is_glob = glob.has_magic(path)
        self._paths: dict[str, PathFollower] = {}
        self._skipped: dict[str, Skipped] = {}
        self._scanned: float | None = None
        self._turn = 0
        self._trouble = ""

    @property
    def lag(self) -> int:
        """Bytes known to be there and not handed out, as of the last poll."""
        return sum(follower.lag for follower in self._paths.values())

    @property
    def following(self) -> tuple[str, ...]:
        """Paths followed at the moment."""
        return tuple(self._paths)

    def poll(self) -> list[FollowEvent]:
        """Look once at everything that is followed, and hand out what came since the last look."""
        now = self._clock()
        events: list[FollowEvent] = []
        if self._scanned is None or (self._is_glob and now - self._scanned >= RESCAN_SECONDS):
            self._scan(now, events)
        followers = list(self._paths.values())
        budget = self._per_poll
        self.backlog = False
        self._turn += 1
        for place in range(len(followers)):
            follower = followers[(self._turn + place) % len(followers)]
            if budget <= 0:
                self.backlog = True
                break
            new = follower.poll(now, min(budget, self._per_file))
            budget -= sum(len(event.data) for event in new if isinstance(event, Data))
            self.backlog = self.backlog or follower.backlog
            events += new
        if self._is_glob:
            self._tidy()
        return events

    def state(self) -> FollowState:
        """How far everything was read: to the end of the last whole line, so that a resumed half line is read whole."""
        if self._state is not None and self._scanned is None:
            return self._state
        pairs = [follower.marks() for follower in self._paths.values()]
        return FollowState(
            self.path,
            files=tuple(mark for files, _ in pairs for mark in files),
            finished=tuple(mark for _, finished in pairs for mark in finished),
            skipped=tuple(self._skipped.values()),
        )

    def close(self) -> None:
        """Let go of every file; what `state` says is complete before, not after."""
        for follower in self._paths.values():
            follower.park()

    def _scan(self, now: float, events: list[FollowEvent]) -> None:
        first = self._scanned is None
        try:
            if first and self._is_glob and self._fs.stat(self.path) is not None:
                self._is_glob = False  # a file whose name contains brackets
            if first:
                self._resume()
            if not self._is_glob:
                if self.path not in self._paths:
                    # With a state that knows nothing of it the file came into being since.
                    self._follow(self.path, appeared=self._state is not None)
            else:
                self._match(appeared=not first or self._state is not None)
        except OSError as error:
            text = f"{self.path} cannot be searched at the moment: {(error.strerror or str(error)).lower()}"
            if text != self._trouble:
                events.append(Notice(self.path, text))
            self._trouble = text
            if not self._is_glob:
                return  # nothing is followed yet: look again at the next poll
        else:
            self._trouble = ""
        self._scanned = now

    def _resume(self) -> None:
        if self._state is None:
            return
        marks: dict[str, tuple[list[FileMark], list[FileMark]]] = {}
        for mark in self._state.files:
            marks.setdefault(mark.path, ([], []))[0].append(mark)
        for mark in self._state.finished:
            marks.setdefault(mark.path, ([], []))[1].append(mark)
        for path, (files, finished) in marks.items():
            self._paths[path] = PathFollower(path, self._fs, from_start=True, marks=files, finished=finished)
        self._skipped = {skipped.path: skipped for skipped in self._state.skipped}

    def _match(self, *, appeared: bool) -> None:
        """Follow what the glob matches, but no file under two names and no rotated sibling of a followed log."""
        matches = self._fs.glob(self.path)
        # Real names before links: `current.log -> vllm-2026.log` is the same log under a second name.
        new = sorted((self._fs.real(path) != path, path) for path in matches if path not in self._paths)
        logs = {*matches, *self._paths}
        self._skipped = {path: skipped for path, skipped in self._skipped.items() if path in logs}
        taken: set[tuple[int, int]] = set()
        for _, path in new:
            if _is_sibling(path, logs):
                continue
            try:
                stat = self._fs.stat(path)
                if stat is None or stat.kind != "file" or stat.identity in taken or self._is_known(path):
                    continue
                taken.add(stat.identity)
            except OSError:
                pass  # followed all the same: its own follower tells why it cannot be read
            self._follow(path, appeared=appeared)

    def _is_known(self, path: str) -> bool:
        """Tell whether a path is another name of a file that is or was followed; such a path is remembered."""
        handle = self._fs.open(path)
        try:
            stat = handle.stat()
            before = self._skipped.get(path)
            if before is not None and before.fits(handle, stat):
                return True
            known = any(follower.knows(handle, stat) for follower in self._paths.values())
            self._skipped.pop(path, None)
            if known:
                self._skipped[path] = Skipped.of(path, handle, stat)
            return known
        finally:
            handle.close()

    def _follow(self, path: str, *, appeared: bool) -> None:
        self._paths[path] = PathFollower(
            path,
            self._fs,
            from_start=self._from_start,
            context_lines=self._context_lines,
            appeared=appeared,
        )

    def _tidy(self) -> None:
        """Forget logs that are gone, and keep within the descriptors allowed."""
        self._paths = {path: follower for path, follower in self._paths.items() if not follower.over}
        held = sum(follower.open_files for follower in self._paths.values())
        if held <= self._most_open:
            return
        for follower in sorted(self._paths.values(), key=lambda follower: follower.quiet_since):
            if held <= self._most_open:
                return
            if follower.idle:
                held -= follower.open_files
                follower.park()


def _is_sibling(path: str, logs: set[str]) -> bool:
    """Tell whether a name is a rotated part of a log that is followed or matched, or a compressed one of any."""
    folder, name = os.path.split(path)
    rotation = rotation_of(name)
    if rotation.compressed:
        return True
    return rotation.kind != "current" and os.path.join(folder, rotation.base) in logs  # noqa: PTH118

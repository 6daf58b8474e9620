"""Turns the files that stood at one path, one after the other, into one stream of bytes without gap or repetition."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

from vlogdiag.log.follow_events import Data, Ended, FollowEvent, Rotated
from vlogdiag.log.follow_file import OpenFile
from vlogdiag.log.follow_fs import FileStat, Handle
from vlogdiag.log.follow_state import FileMark

QUIET_POLLS = 3
QUIET_SECONDS = 0.1
"""A renamed file is left when it had nothing new for so many polls and so long, and its successor has something."""
HALF_LINE_SECONDS = 1.0
"""The same where it ends inside a line: a writer needs microseconds from one half to the other."""
LONGEST_WAIT = 5.0
"""A renamed file whose writer never stops holds up its successor for so long; then both are read side by side."""
LATE_SECONDS = 60.0
"""A file that was left is looked at for so long after its last byte; then it is closed, and its disk space freed."""
MOST_LATE = 32
LONGEST_CHAIN = 8
MOST_FINISHED = 64


class Chain:
    """Files in the order of writing: the last one stands at the path, the first one is being read."""

    def __init__(self, path: str, finished: Iterable[FileMark] = ()) -> None:
        self.path = path
        self.files: deque[OpenFile] = deque()
        self.late: list[OpenFile] = []
        """Files that were left and may still get a line from whoever has them open."""
        self.finished = OrderedDict((mark.identity, mark) for mark in finished)
        """Files read to their end, by identity."""
        self.backlog = False
        """True when the last drain left bytes that were there."""
        self.error: OSError | None = None
        """What went wrong in the last drain."""

    @property
    def newest(self) -> OpenFile | None:
        """The file at the path."""
        return self.files[-1] if self.files else None

    @property
    def held(self) -> tuple[OpenFile, ...]:
        """Every file not finished, oldest first."""
        return (*self.late, *self.files)

    def marks(self) -> tuple[FileMark, ...]:
        """How far every file not finished was read, oldest first."""
        return tuple(mark for file in self.held for mark in (*file.carried, file.mark(self.path)))

    def drain(self, now: float, budget: int, *, sized: bool, events: list[FollowEvent]) -> None:
        """Hand out what came, at most `budget` bytes; `sized` says that the newest file's size was just looked up."""
        self.backlog = False
        self.error = None
        budget = self._drain_files(now, budget, sized, events)
        self._drain_late(now, budget, events)

    def succeed(self, new: Iterable[OpenFile], now: float) -> None:
        """Put files behind the others, and wait anew for late bytes of those."""
        for file in self.files:
            file.wake(now)
            file.succeeded = now if file.succeeded is None else file.succeeded
        for file in new:
            file.succeeded = None
            self.files.append(file)

    def remove(self, file: OpenFile) -> None:
        """Take a file out, wherever it is."""
        if file in self.late:
            self.late.remove(file)
        else:
            self.files.remove(file)

    def end(self, file: OpenFile, events: list[FollowEvent]) -> None:
        """Tell that a half line will not be continued."""
        if file.pending:
            events.append(Ended(self.path, file.serial))
            file.give_up_half_line()

    def was_read(self, handle: Handle, stat: FileStat) -> bool:
        """Tell whether a file is one of those that were read to their end."""
        mark = self.finished.get(stat.identity)
        return mark is not None and mark.is_still(handle, stat)

    def recall(self, handle: Handle, stat: FileStat) -> FileMark | None:
        """Take back the mark of a file that was read to its end and stands at the path again."""
        return self.finished.pop(stat.identity) if self.was_read(handle, stat) else None

    def finish(self, file: OpenFile) -> None:
        """Close a file, and remember how far it was read; an empty one could not be told from any other."""
        file.close()
        if not file.offset:
            return
        self.finished.pop(file.identity, None)
        self.finished[file.identity] = file.mark(self.path)
        while len(self.finished) > MOST_FINISHED:
            self.finished.popitem(last=False)

    def _drain_files(self, now: float, budget: int, sized: bool, events: list[FollowEvent]) -> int:
        counted = False
        while self.files and budget > 0:
            file = self.files[0]
            alone = len(self.files) == 1
            if file.handle is None:
                break
            try:
                if not (sized and alone):
                    file.look()
                offset, data = file.take(budget)
            except OSError as error:
                self.error = error
                file.lose()
                break
            if data:
                events.append(Data(self.path, offset, data, file.serial))
                budget -= len(data)
                file.wake(now)
                file.starved = 0
                if file.offset < file.size:
                    self.backlog = True
                    break
            elif file.in_hole and file.offset < file.size:
                self.backlog = True
                break
            elif file.offset < file.size:
                file.starved += 1
            if alone:
                break
            if not data and not counted:
                file.quiet_polls += 1
                counted = True
            if not self._may_leave(file, now):
                break
            self._move_on(events)
        return budget

    def _may_leave(self, file: OpenFile, now: float) -> bool:
        """Tell whether a file that was read to its end, and has a successor, may be left."""
        if file.copy or len(self.files) > LONGEST_CHAIN:
            return True
        # logrotate may create the new file for a writer that never opens it: then the old one goes on.
        if len(self.files) == 2 and self.files[1].size <= self.files[1].offset:
            return False
        if file.succeeded is not None and now - file.succeeded >= LONGEST_WAIT and not file.pending:
            return True
        quiet = HALF_LINE_SECONDS if file.pending else QUIET_SECONDS
        return file.quiet_polls >= QUIET_POLLS and now - file.quiet_since >= quiet

    def _move_on(self, events: list[FollowEvent]) -> None:
        file = self.files.popleft()
        new = self.files[0]
        if new.arrival is not None:
            events.append(new.arrival)
        elif not new.copy:
            events.append(Rotated(self.path, file.identity[1]))
        if new.serial != file.serial:
            self.end(file, events)
        elif file.pending:
            new.carried = (*file.carried, file.mark(self.path))
        if file.copy:
            self.finish(file)
        else:
            self.late.append(file)

    def _drain_late(self, now: float, budget: int, events: list[FollowEvent]) -> None:
        """Hand out whole lines that came to files already left, and close those that have been quiet for long."""
        for file in list(self.late):
            if budget <= 0:
                self.backlog = True
                return
            # In order: a state must not name a file and lack one that came after it.
            expired = file is self.late[0] and (now - file.quiet_since > LATE_SECONDS or len(self.late) > MOST_LATE)
            try:
                changed = file.handle is not None and file.look()
                if changed and not file.intact():  # truncated after it was left
                    self.end(file, events)
                    file.restart()
                offset, data = file.take(budget, whole_lines=not expired)
            except OSError as error:
                self.error = error
                file.lose()
                offset, data = file.offset, b""
            if data:
                events.append(Data(self.path, offset, data, file.serial))
                budget -= len(data)
                file.wake(now)
            elif expired:
                self.end(file, events)
                self.late.remove(file)
                self.finish(file)

"""Turns what stands at one path from one look to the next into a chain of files to be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from vlogdiag.log.discover import printable
from vlogdiag.log.follow_chain import LATE_SECONDS, Chain
from vlogdiag.log.follow_events import Appeared, FollowEvent, Notice, Truncated, Vanished
from vlogdiag.log.follow_file import OpenFile, context_start
from vlogdiag.log.follow_fs import FileStat, FileSystem, Handle
from vlogdiag.log.follow_kin import Kin, lineage
from vlogdiag.log.follow_state import ENOUGH, FileMark
from vlogdiag.log.sources_decode import is_followable

_STARVED_POLLS = 2
"""Polls in a row after which a path that promises bytes which the open file lacks must lead to another file."""


class PathFollower:
    """One path as a perpetual source.

    What cannot be known is stated here: bytes that were written and cut off between two polls, without a copy being
    left beside the log; a line that comes more than a minute after the last one to a file that was renamed and followed
    by another; the second half of a line that comes more than a second after the first and after a rotation is a line
    of its own.
    """

    def __init__(
        self,
        path: str,
        fs: FileSystem,
        *,
        from_start: bool,
        context_lines: int = 0,
        appeared: bool = False,
        marks: Sequence[FileMark] = (),
        finished: Sequence[FileMark] = (),
    ) -> None:
        self.path = path
        self.chain = Chain(path, finished)
        self._name = printable(path)
        self._fs = fs
        self._at_end = not from_start and not appeared
        """Only a file that is there at the first look is followed from its end."""
        self._context_lines = context_lines
        self._missing = appeared
        self._marks = tuple(marks)
        """How far a run before this one came; taken up when the path leads to a file."""
        self._serials = count()
        self._trouble = ""

    @property
    def backlog(self) -> bool:
        """True when the last poll left bytes that it could have read."""
        return self.chain.backlog

    @property
    def lag(self) -> int:
        """Bytes known to be there and not handed out."""
        return sum(max(0, file.size - file.offset) for file in self.chain.files)

    @property
    def open_files(self) -> int:
        """Descriptors held."""
        return sum(file.handle is not None for file in self.chain.held)

    @property
    def quiet_since(self) -> float:
        """When the last byte came."""
        return max((file.quiet_since for file in self.chain.held), default=0.0)

    @property
    def idle(self) -> bool:
        """True when nothing would be missed if every descriptor were let go."""
        return len(self.chain.held) == 1 and not self._missing and self.lag == 0

    @property
    def over(self) -> bool:
        """True when nothing stands at the path and nothing is left to read."""
        return self._missing and not self.chain.held and not self._marks

    def knows(self, identity: tuple[int, int]) -> bool:
        """Tell whether a file is, or was, one of this path's."""
        known = {file.identity for file in self.chain.held} | {mark.identity for mark in self._marks}
        return identity in known or identity in self.chain.finished

    def marks(self) -> tuple[tuple[FileMark, ...], tuple[FileMark, ...]]:
        """Marks of the files still being read, oldest first, and of those read to their end."""
        return self._marks + self.chain.marks(), tuple(self.chain.finished.values())

    def park(self) -> None:
        """Let go of every descriptor; the path is opened again when something changes there."""
        for file in self.chain.files:
            file.close()
        while self.chain.late:
            self.chain.finish(self.chain.late.pop(0))

    def poll(self, now: float, budget: int) -> list[FollowEvent]:
        """Look once; hand out at most `budget` bytes."""
        events: list[FollowEvent] = []
        trouble = ""
        sized = False
        try:
            stat = self._fs.stat(self.path)
            if stat is None:
                self._gone(now, events)
            elif stat.kind != "file":
                trouble = _not_a_file(stat, self._name)
            else:
                sized = self._arrange(stat, now, events)
            self._at_end = False
        except OSError as error:
            trouble = self._failed(error)
        self.chain.drain(now, budget, sized=sized, events=events)
        if self.chain.error is not None:
            trouble = self._failed(self.chain.error)
        if trouble and trouble != self._trouble:  # told once, until there was a poll without any
            events.append(Notice(self.path, trouble))
        self._trouble = trouble
        return events

    def _gone(self, now: float, events: list[FollowEvent]) -> None:
        if not self._missing:
            self._missing = True
            if self.chain.files:
                events.append(Vanished(self.path))
        if len(self.chain.files) == 1 and now - self.chain.files[0].quiet_since > LATE_SECONDS:
            file = self.chain.files[0]
            if file.handle is None or file.handle.stat().links == 0:
                # Deleted: kept open it would keep its disk space from whoever deleted it to get that back.
                self.chain.files.clear()
                self.chain.end(file, events)
                file.close()

    def _arrange(self, stat: FileStat, now: float, events: list[FollowEvent]) -> bool:
        """Bring the chain up to date with what stands at the path; True when the newest file's size is known now."""
        newest = self.chain.newest
        sized = False
        if newest is None:
            self._begin(now, events)
        elif newest.handle is None:
            unchanged = (newest.identity, newest.size, newest.mtime_ns) == (stat.identity, stat.size, stat.mtime_ns)
            if not unchanged or newest.offset < newest.size:
                self._reopen(newest, now, events)
        elif newest.identity != stat.identity:
            self._replaced(newest, now, events)
        else:
            sized = True
            changed = (newest.size, newest.mtime_ns) != (stat.size, stat.mtime_ns)
            newest.see(stat)
            if newest.starved >= _STARVED_POLLS or ((changed or newest.starved) and not newest.intact()):
                self._cut(newest, now, events)
        if self._missing:
            self._missing = False
            events.append(Appeared(self.path))
        return sized

    def _begin(self, now: float, events: list[FollowEvent]) -> None:
        """Open the first file, or go on where the run before stopped."""
        if self._marks:
            found = self._kin(self._marks)
            if not any(kin.mark for kin in found):
                self._tell("the file that was read before is gone; its last bytes may be missing", events)
            # The file at the path was there before: what lies between are copies, or the path would lead elsewhere.
            copies = len(found) if any(kin.path == self.path and kin.mark for kin in found) else 0
            self.chain.succeed(self._files(found, now, copies=copies), now)
            self._marks = ()
            return
        handle, stat = self._open(events)
        with _closed_on_error(handle):
            offset = 0
            if self._at_end:
                offset = context_start(handle, stat.size, self._context_lines)
            elif known := self.chain.recall(handle, stat):
                offset = known.offset
            self.chain.files.append(self._file(handle, stat, now, offset=offset))

    def _replaced(self, newest: OpenFile, now: float, events: list[FollowEvent]) -> None:
        """Another file stands at the path: rotation by renaming, a link that was switched, a file that came back."""
        newest.look()
        if newest.handle is not None and not newest.intact():
            self._cut(newest, now, events)
            return
        mark = newest.mark(self.path)
        handle, stat = self._open(events)
        back = next((file for file in self.chain.held if file.identity == stat.identity), None)
        if back is not None and not back.mark(self.path).fits(handle):
            handle.close()
            self._cut(back, now, events)
            return
        with _closed_on_error(handle):
            if mark.seen >= ENOUGH and mark.fits(handle):
                # An editor saved it, a network file system numbered it anew, somebody copied it back.
                newest.hold(handle, stat)
                self._tell("was replaced by a copy of itself; reading goes on at the same place", events)
                return
            if back is not None:
                self._come_back(back, handle, stat, now)
                return
            known = self.chain.recall(handle, stat)
            fresh = self._file(handle, stat, now, offset=known.offset if known else 0)
            # Rotated more than once since the last look: what stood here in between has a rotated name now.
            missed = [] if known else self._missed(mark, now)
        self.chain.succeed([*missed, fresh], now)

    def _come_back(self, back: OpenFile, handle: Handle, stat: FileStat, now: float) -> None:
        """A file that was here before, and is still held, stands at the path again: a link switched to and fro."""
        self.chain.remove(back)
        back.hold(handle, stat)
        back.wake(now)
        self.chain.succeed([back], now)

    def _missed(self, mark: FileMark, now: float) -> list[OpenFile]:
        found = self._kin([mark])
        missed = [kin for kin in found if not (kin.mark or kin.path == self.path)]
        _close(kin for kin in found if kin not in missed)
        return self._files(missed, now)

    def _cut(self, old: OpenFile, now: float, events: list[FollowEvent]) -> None:
        """A file does not continue what was read of it: it was truncated, and may have grown or moved since."""
        mark = old.mark(self.path)
        # Opened anew: where inode numbers are reused at once the path may lead to another file than the one held.
        handle, stat = self._open(events)
        with _closed_on_error(handle):
            if mark.fits(handle):
                old.hold(handle, stat)
                return
            old.look()
            if old.intact():
                self.chain.succeed([self._file(handle, stat, now)], now)
                return
            in_place = stat.identity == old.identity
            found = self._kin([mark], besides=old, copies=True)
            if not found and not in_place:
                found = self._kin([mark.blank()], besides=old)
            between = [kin for kin in found if kin.path != self.path]
            _close(kin for kin in found if kin.path == self.path)
            # What was made while the old file was still at the path is a copy.
            moved = [place for place, kin in enumerate(between) if kin.stat.identity == old.identity]
            copies = len(between) if in_place else moved[0] if moved else 0
            files = self._files(between, now, serial=old.serial, copies=copies)
            if old.handle is not None and not in_place and old.identity not in {file.identity for file in files}:
                # Truncated, grown and then moved away: only the handle still leads to what was written since.
                files.append(OpenFile(old.handle, old.handle.stat(), old.place, self._stream(files), now))
                old.handle = None
            fresh = self._file(handle, stat, now, serial=self._stream(files))
        self.chain.remove(old)
        old.close()
        files.append(fresh)
        if files[0].serial == old.serial:
            files[0].carried = old.carried
        else:
            self.chain.end(old, events)
        recovered = files[0].copy
        restarted = next(file for file in files if file.identity == old.identity or file is fresh)
        if restarted is files[0] and not self.chain.files:
            events.append(Truncated(self.path, recovered))
        else:
            restarted.arrival = Truncated(self.path, recovered)
        self.chain.succeed(files, now)

    def _reopen(self, lost: OpenFile, now: float, events: list[FollowEvent]) -> None:
        """Find a file again whose handle went stale or was let go, under its path or a rotated name."""
        found = self._kin([lost.mark(self.path)], besides=lost)
        first = found.pop(0) if found and found[0].mark else None
        later = self._files(found, now)
        if first is not None:
            lost.hold(first.handle, first.stat)
            lost.copy = first.is_copy
            lost.wake(now)
        else:
            self.chain.files.pop()
            self.chain.end(lost, events)
            self._tell("the file that was read is gone; its last bytes may be missing", events)
        self.chain.succeed(later, now)

    def _kin(self, marks: Sequence[FileMark], *, besides: OpenFile | None = None, copies: bool = False) -> list[Kin]:
        """Look for the log's files, and drop those that were read already or are held, apart from `besides`."""
        held = {file.identity for file in self.chain.held if file is not besides}
        kept, known = [], []
        for kin in lineage(self._fs, self.path, marks, copies=copies):
            new = kin.stat.identity not in held and not self.chain.was_read(kin.handle, kin.stat)
            (kept if kin.mark or kin.path == self.path or new else known).append(kin)
        _close(known)
        return kept

    def _open(self, events: list[FollowEvent]) -> tuple[Handle, FileStat]:
        handle = self._fs.open(self.path)
        with _closed_on_error(handle):
            stat = handle.stat()
            if not is_followable(handle.read(0, 8)):
                self._tell("is compressed or UTF-16; it can be scanned, but its new bytes are no text", events)
        return handle, stat

    def _file(
        self, handle: Handle, stat: FileStat, now: float, *, offset: int = 0, serial: int | None = None
    ) -> OpenFile:
        number = next(self._serials) if serial is None else serial
        return OpenFile(handle, stat, self._fs.real(self.path), number, now, offset=offset)

    def _files(self, found: Sequence[Kin], now: float, *, serial: int | None = None, copies: int = 0) -> list[OpenFile]:
        """Make files of kin, of which the first `copies` are copies even if they are new to us.

        A copy that comes first goes on with the stream `serial`, if given, where that one's bytes ended.
        """
        files: list[OpenFile] = []
        try:
            for place, kin in enumerate(found):
                is_copy = kin.is_copy or (place < copies and kin.mark is None)
                first = serial if is_copy and not files else None
                number = self._stream(files) if first is None else first
                goes_on = kin.mark if first is not None else None
                offset = goes_on.seen if goes_on else kin.mark.offset if kin.mark else 0
                real = self._fs.real(kin.path)
                file = OpenFile(kin.handle, kin.stat, real, number, now, offset=offset)
                if goes_on:
                    file.line_start = goes_on.offset
                file.copy = is_copy
                files.append(file)
        except OSError:
            _close(found)
            raise
        return files

    def _stream(self, files: Sequence[OpenFile]) -> int:
        """Number of the stream behind these files: after a copy the writer goes on in the middle of its line."""
        return files[-1].serial if files and files[-1].copy else next(self._serials)

    def _tell(self, text: str, events: list[FollowEvent]) -> None:
        events.append(Notice(self.path, f"{self._name}: {text}"))

    def _failed(self, error: OSError) -> str:
        return f"{self._name} cannot be read at the moment: {(error.strerror or str(error)).lower()}"


def _close(found: Iterable[Kin]) -> None:
    for kin in found:
        kin.handle.close()


@contextmanager
def _closed_on_error(handle: Handle) -> Iterator[None]:
    try:
        yield
    except OSError:
        handle.close()
        raise


def _not_a_file(stat: FileStat, name: str) -> str:
    if stat.kind == "folder":
        return f"{name} is a folder: name a pattern such as '{name.rstrip('/')}/*.log'"
    return f"{name} is a pipe or a device: give it as standard input, `vlogdiag tail - < {name}`"

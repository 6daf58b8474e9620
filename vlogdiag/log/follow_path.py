"""Turns what stands at one path from one look to the next into a chain of files to be read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from vlogdiag.log.discover import printable
from vlogdiag.log.follow_chain import LATE_SECONDS, Chain
from vlogdiag.log.follow_events import Appeared, FollowEvent, Notice, Truncated, Vanished
from vlogdiag.log.follow_file import OpenFile, context_start
from vlogdiag.log.follow_fs import FileStat, FileSystem, Handle
from vlogdiag.log.follow_kin import Kin
from vlogdiag.log.follow_open import Opener
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
        self._opener = Opener(path, fs)
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

    def knows(self, handle: Handle, stat: FileStat) -> bool:
        """Tell whether an open file is, or was, one of this path's."""
        for file in self.chain.held:
            if file.identity == stat.identity and (file.handle is not None or file.mark(self.path).fits(handle)):
                return True
        return any(mark.is_still(handle, stat) for mark in self._marks) or self.chain.was_read(handle, stat)

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
            if stat is not None and self._is_quiet(stat):
                return events
            self._recover(events)
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

    def _is_quiet(self, stat: FileStat) -> bool:
        """Tell whether there is nothing at all to do: what nearly every look at an idle log finds."""
        newest = self.chain.newest
        if newest is None or len(self.chain.held) > 1 or self._missing or self._trouble:
            return False
        seen = newest.identity, newest.size, newest.offset, newest.mtime_ns
        return seen == (stat.identity, stat.size, stat.size, stat.mtime_ns)

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
            self._resume(now, events)
            return
        with ExitStack() as opened:
            handle, stat = self._open(opened, events)
            offset = 0
            if self._at_end:
                offset = context_start(handle, stat.size, self._context_lines)
            elif known := self.chain.recall(handle, stat):
                offset = known.offset
            file = self._opener.at_path(handle, stat, now, offset=offset)
            opened.pop_all()
        self.chain.succeed([file], now)

    def _resume(self, now: float, events: list[FollowEvent]) -> None:
        with ExitStack() as opened:
            found = self._opener.kin(self._marks, opened, lambda kin: kin.path == self.path or self._is_news(kin))
            # The file at the path was there before: what lies between are copies, or the path would lead elsewhere.
            same = any(kin.path == self.path and kin.mark for kin in found)
            files = self._opener.files(found, now, copies=len(found) if same else 0)
            opened.pop_all()
        if not any(kin.mark for kin in found):
            self._tell("the file that was read before is gone; its last bytes may be missing", events)
        self._marks = ()
        self.chain.succeed(files, now)

    def _replaced(self, newest: OpenFile, now: float, events: list[FollowEvent]) -> None:
        """Another file stands at the path: rotation by renaming, a link that was switched, a file that came back."""
        newest.look()
        if newest.handle is not None and not newest.intact():
            self._cut(newest, now, events)
            return
        mark = newest.mark(self.path)
        with ExitStack() as opened:
            handle, stat = self._open(opened, events)
            new: list[OpenFile] | None
            back = next((file for file in self.chain.held if file.identity == stat.identity), None)
            if back is not None and not back.mark(self.path).fits(handle):
                new = None  # it was truncated
            elif mark.seen >= ENOUGH and mark.fits(handle):
                # An editor saved it, a network file system numbered it anew, somebody copied it back.
                newest.hold(handle, stat)
                self._tell("was replaced by a copy of itself; reading goes on at the same place", events)
                new = []
            elif back is not None:  # a link that was switched to and fro
                back.hold(handle, stat)
                back.wake(now)
                self.chain.remove(back)
                new = [back]
            elif known := self.chain.recall(handle, stat):
                new = [self._opener.at_path(handle, stat, now, offset=known.offset)]
            else:
                # Rotated more than once since the last look: what stood here in between has a rotated name now.
                missed = self._opener.kin(
                    [mark], opened, lambda kin: kin.path != self.path and kin.mark is None and self._is_news(kin)
                )
                new = [*self._opener.files(missed, now), self._opener.at_path(handle, stat, now)]
            if new is not None:
                opened.pop_all()
        if new is None and back is not None:
            self._cut(back, now, events)
        else:
            self.chain.succeed(new or [], now)

    def _cut(self, old: OpenFile, now: float, events: list[FollowEvent]) -> None:
        """A file does not continue what was read of it: it was truncated, and may have grown or moved since."""
        mark = old.mark(self.path)
        with ExitStack() as opened:
            # Opened anew: where inode numbers are reused at once the path may lead to another file than the one held.
            handle, stat = self._open(opened, events)
            if mark.fits(handle):
                old.hold(handle, stat)
                opened.pop_all()
                return
            old.look()
            if old.intact():
                self.chain.succeed([self._opener.at_path(handle, stat, now)], now)
                opened.pop_all()
                return
            files = self._since(old, mark, stat, opened, now)
            files.append(self._opener.at_path(handle, stat, now, behind=files))
            opened.pop_all()
        if old.handle in [file.handle for file in files]:
            old.handle = None
        old.close()
        self.chain.remove(old)
        if files[0].serial == old.serial:
            files[0].carried = old.carried
        else:
            self.chain.end(old, events)
        recovered = files[0].copy
        restarted = next(file for file in files if file.identity == old.identity or file is files[-1])
        if restarted is files[0] and not self.chain.files:
            events.append(Truncated(self.path, recovered))
        else:
            restarted.arrival = Truncated(self.path, recovered)
        self.chain.succeed(files, now)

    def _since(self, old: OpenFile, mark: FileMark, stat: FileStat, opened: ExitStack, now: float) -> list[OpenFile]:
        """Find the bytes between what was read of a truncated file and what stands at the path (`stat`) now."""

        def wanted(kin: Kin) -> bool:
            return kin.path != self.path and (kin.stat.identity == old.identity or self._is_news(kin))

        in_place = stat.identity == old.identity
        found = self._opener.kin([mark], opened, wanted, copies=True)
        if not found and not in_place:
            found = self._opener.kin([mark.blank()], opened, wanted)
        # What was made while the old file was still at the path is a copy.
        moved = [place for place, kin in enumerate(found) if kin.stat.identity == old.identity]
        copies = len(found) if in_place else moved[0] if moved else 0
        files = self._opener.files(found, now, serial=old.serial, copies=copies)
        if old.handle is not None and not in_place and not moved:
            # Truncated, grown and then deleted: only the handle still leads to what was written since.
            files.append(self._opener.again(old, old.handle, now, behind=files))
        return files

    def _reopen(self, lost: OpenFile, now: float, events: list[FollowEvent]) -> None:
        """Find a file again whose handle went stale or was let go, under its path or a rotated name."""

        def wanted(kin: Kin) -> bool:
            return kin.path == self.path or kin.stat.identity == lost.identity or self._is_news(kin)

        with ExitStack() as opened:
            found = self._opener.kin([lost.mark(self.path)], opened, wanted)
            first = found.pop(0) if found and found[0].mark else None
            later = self._opener.files(found, now)
            if first is not None:
                lost.hold(first.handle, first.stat)
                lost.copy = first.is_copy
                lost.wake(now)
            opened.pop_all()
        if first is None:
            self.chain.remove(lost)
            self.chain.end(lost, events)
            self._tell("the file that was read is gone; its last bytes may be missing", events)
        self.chain.succeed(later, now)

    def _recover(self, events: list[FollowEvent]) -> None:
        """Find older files again whose handles went stale: they have another name by now."""
        for file in [file for file in self.chain.held if file.handle is None and file is not self.chain.newest]:
            with ExitStack() as opened:
                found = self._opener.kin([file.mark(self.path)], opened, lambda kin: kin.mark is not None)
                if found:
                    file.hold(found[0].handle, found[0].stat)
                else:
                    self.chain.remove(file)
                    self.chain.end(file, events)
                    self._tell("a file that was renamed is gone; its last bytes may be missing", events)
                opened.pop_all()

    def _is_news(self, kin: Kin) -> bool:
        """Tell whether a file holds bytes that nobody hands out yet: one that was sought, or one never seen."""
        held = any(file.identity == kin.stat.identity for file in self.chain.held)
        return kin.mark is not None or not (held or self.chain.was_read(kin.handle, kin.stat))

    def _open(self, opened: ExitStack, events: list[FollowEvent]) -> tuple[Handle, FileStat]:
        handle, stat = self._opener.open(opened)
        if not is_followable(handle.read(0, 8)):
            self._tell("is compressed or UTF-16; it can be scanned, but its new bytes are no text", events)
        return handle, stat

    def _tell(self, text: str, events: list[FollowEvent]) -> None:
        events.append(Notice(self.path, f"{self._name}: {text}"))

    def _failed(self, error: OSError) -> str:
        return f"{self._name} cannot be read at the moment: {(error.strerror or str(error)).lower()}"


def _not_a_file(stat: FileStat, name: str) -> str:
    if stat.kind == "folder":
        return f"{name} is a folder: name a pattern such as '{name.rstrip('/')}/*.log'"
    return f"{name} is a pipe or a device: give it as standard input, `vlogdiag tail - < {name}`"

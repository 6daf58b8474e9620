"""Turns what a look at the disk found into open files of one stream, and leaves nothing open when that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count

from vlogdiag.log.follow_file import OpenFile
from vlogdiag.log.follow_fs import FileStat, FileSystem, Handle
from vlogdiag.log.follow_kin import Kin, lineage
from vlogdiag.log.follow_state import FileMark


class Opener:
    """Opens the files of one path and numbers their streams.

    Every handle goes into the ExitStack `opened` of the caller, who takes them out (`pop_all`) once all went well: an
    OSError on the way closes them all. A network file system that fails for a night must not cost descriptors.
    """

    def __init__(self, path: str, fs: FileSystem) -> None:
        self._path = path
        self._fs = fs
        self._serials = count()

    def open(self, opened: ExitStack) -> tuple[Handle, FileStat]:
        """Open what stands at the path now."""
        handle = self._fs.open(self._path)
        opened.callback(handle.close)
        return handle, handle.stat()

    def kin(
        self, marks: Sequence[FileMark], opened: ExitStack, wanted: Callable[[Kin], bool], *, copies: bool = False
    ) -> list[Kin]:
        """Open the files that hold the log since `marks`, as far as they are wanted; `copies` as in `lineage`."""
        kept = []
        with ExitStack() as others:
            for kin in lineage(self._fs, self._path, marks, copies=copies):
                keep = wanted(kin)
                (opened if keep else others).callback(kin.handle.close)
                if keep:
                    kept.append(kin)
        return kept

    def at_path(
        self, handle: Handle, stat: FileStat, now: float, *, offset: int = 0, behind: Sequence[OpenFile] = ()
    ) -> OpenFile:
        """Make a file of what `open` returned; `behind` are the files that it follows at once."""
        return OpenFile(handle, stat, self._fs.real(self._path), self._stream(behind), now, offset=offset)

    def again(self, old: OpenFile, handle: Handle, now: float, *, behind: Sequence[OpenFile] = ()) -> OpenFile:
        """Make a file that begins anew of one that was truncated and has no name any more."""
        return OpenFile(handle, handle.stat(), old.place, self._stream(behind), now)

    def files(self, found: Sequence[Kin], now: float, *, serial: int | None = None, copies: int = 0) -> list[OpenFile]:
        """Make files of kin, of which the first `copies` are copies even if they were never seen before.

        A copy that comes first goes on with the stream `serial`, if given, where that one's bytes ended.
        """
        files: list[OpenFile] = []
        for place, kin in enumerate(found):
            is_copy = kin.is_copy or (place < copies and kin.mark is None)
            goes_on = is_copy and not files and serial is not None
            number = serial if goes_on and serial is not None else self._stream(files)
            offset = 0
            if kin.mark is not None:
                offset = kin.mark.seen if goes_on else kin.mark.offset
            file = OpenFile(kin.handle, kin.stat, self._fs.real(kin.path), number, now, offset=offset)
            if goes_on and kin.mark is not None:
                file.line_start = kin.mark.offset
            file.copy = is_copy
            files.append(file)
        return files

    def _stream(self, files: Sequence[OpenFile]) -> int:
        """Number of the stream behind these files: after a copy the writer goes on in the middle of its line."""
        return files[-1].serial if files and files[-1].copy else next(self._serials)

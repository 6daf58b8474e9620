"""Turns one open file into the bytes that were added to it, and into the mark by which it is found again."""

from __future__ import annotations

from vlogdiag.log.follow_events import Truncated
from vlogdiag.log.follow_fs import FileStat, Handle
from vlogdiag.log.follow_state import TAIL, FileMark
from vlogdiag.log.sources import HEAD, head_fingerprint

_BLOCK = 64 << 10
_FURTHEST_BACK = 8 << 20
"""Context is sought no further from the end than this: a file may end in one line of 200 MB."""


class OpenFile:
    """One file of a followed log. `size` and `mtime_ns` are what the follower last saw, `offset` is where it stands."""

    __slots__ = (
        "arrival",
        "carried",
        "copy",
        "handle",
        "head",
        "identity",
        "in_hole",
        "line_start",
        "mtime_ns",
        "offset",
        "place",
        "quiet_polls",
        "quiet_since",
        "read_mtime_ns",
        "serial",
        "size",
        "starved",
        "succeeded",
        "tail",
    )

    def __init__(
        self,
        handle: Handle,
        stat: FileStat,
        place: str,
        serial: int,
        now: float,
        *,
        offset: int = 0,
        copy: bool = False,
    ) -> None:
        self.handle: Handle | None = handle
        self.identity = stat.identity
        self.size = stat.size
        self.mtime_ns = self.read_mtime_ns = stat.mtime_ns
        self.place = place
        self.serial = serial
        """Number of the byte stream, `Data.file`."""
        self.copy = copy
        """A copy that copytruncate left: nobody writes to it."""
        self.arrival: Truncated | None = None
        """What is told when reading comes to this file."""
        self.carried: tuple[FileMark, ...] = ()
        """Copies that end in the half line with which this file begins; a restart has to read it again."""
        self.offset = self.line_start = offset
        self.head = handle.read(0, min(HEAD, stat.size)) if stat.size else b""
        """First bytes as far as known; those of a file that waits for its turn are known before they are handed out."""
        self.tail = handle.read(max(0, offset - TAIL), min(TAIL, offset)) if offset else b""
        self.in_hole = not (self.head[:offset] + self.tail).strip(b"\0")
        """Nothing but NUL bytes stands before `offset`."""
        self.starved = 0
        """Polls in a row in which the path promised bytes that the open file did not have."""
        self.quiet_polls = 0
        self.quiet_since = now
        self.succeeded: float | None = None
        """When another file took this one's place at the path."""

    @property
    def pending(self) -> bool:
        """True when the last byte handed out is inside a line."""
        return self.offset > self.line_start or bool(self.carried)

    def see(self, stat: FileStat) -> None:
        """Remember a newer state of the file."""
        self.size = stat.size
        self.mtime_ns = stat.mtime_ns

    def look(self) -> bool:
        """Ask the open file for its state; True when that changed. Raises OSError."""
        if self.handle is None:
            return False
        before = self.size, self.mtime_ns
        self.see(self.handle.stat())
        return before != (self.size, self.mtime_ns)

    def hold(self, handle: Handle, stat: FileStat) -> None:
        """Go on with another handle to the same bytes, which may have become more. Raises OSError."""
        head = handle.read(0, min(HEAD, stat.size))
        self.close()
        self.handle, self.identity, self.head, self.starved = handle, stat.identity, head, 0
        self.see(stat)

    def restart(self) -> None:
        """Begin again at the file's beginning, because it was truncated."""
        self.offset = self.line_start = 0
        self.carried = ()
        self.head = self.tail = b""
        self.in_hole = True

    def give_up_half_line(self) -> None:
        """Begin a new line where reading stands."""
        self.line_start = self.offset
        self.carried = ()

    def wake(self, now: float) -> None:
        """Begin to count quiet anew."""
        self.quiet_polls = 0
        self.quiet_since = now

    def take(self, most: int, *, whole_lines: bool = False) -> tuple[int, bytes]:
        """Read on: the offset and up to `most` bytes, cut behind the last newline if so asked. Raises OSError.

        NUL bytes before the first other byte are passed over: a writer that did not open its log for appending leaves a
        hole as long as the old file when that is truncated.
        """
        if self.handle is None:
            return self.offset, b""
        if self.in_hole and (start := min(self.handle.data_start(self.offset), self.size)) > self.offset:
            self._pass(b"\0" * min(start - self.offset, TAIL), start)
        want = min(most, self.size - self.offset)
        data = self.handle.read(self.offset, want) if want > 0 else b""
        if self.in_hole and data:
            text = data.lstrip(b"\0")
            self._pass(data[: len(data) - len(text)], self.offset + len(data) - len(text))
            self.in_hole, data = not text, text
        if whole_lines and len(data) < most:
            data = data[: data.rfind(b"\n") + 1]
        offset = self.offset
        if data:
            end = offset + len(data)
            if len(self.head) < min(HEAD, end):  # first of all, since it may fail
                self.head = self.handle.read(0, min(HEAD, end))
            newline = data.rfind(b"\n")
            if newline >= 0:
                self.line_start = offset + newline + 1
                self.carried = ()
            self._advance(data, end)
            self.read_mtime_ns = self.mtime_ns
        return offset, data

    def intact(self) -> bool:
        """Tell whether the file still begins with what is known of it, whatever its size is now. Raises OSError."""
        if self.handle is None or self.size < self.offset:
            return False
        head = self.handle.read(0, min(HEAD, self.size))
        if not head.startswith(self.head):
            return False
        self.head = head
        return self.handle.read(self.offset - len(self.tail), len(self.tail)) == self.tail

    def mark(self, path: str) -> FileMark:
        """Say how far this file was read, for a state file or to look for it under another name."""
        return FileMark(
            path=path,
            place=self.place,
            device=self.identity[0],
            inode=self.identity[1],
            offset=self.line_start,
            seen=self.offset,
            head_size=len(self.head),
            head=head_fingerprint(self.head),
            tail=head_fingerprint(self.tail),
            mtime_ns=self.read_mtime_ns,
            copy=self.copy,
        )

    def lose(self) -> None:
        """Let go of a handle that failed; the file counts as changed then, so that it is opened again."""
        self.close()
        self.size = -1

    def close(self) -> None:
        """Let the file go."""
        if self.handle is not None:
            self.handle.close()
            self.handle = None

    def _pass(self, nuls: bytes, end: int) -> None:
        self._advance(nuls, end)
        self.line_start = end

    def _advance(self, data: bytes, end: int) -> None:
        self.tail = (self.tail + data[-TAIL:])[-TAIL:]
        self.offset = end


def context_start(handle: Handle, size: int, lines: int) -> int:
    """Offset of the last `lines` whole lines of a file, and of the half line behind them; never inside a line.

    Only where a single line is longer than 8 MiB the end of the file is returned, although it is inside that line.
    """
    wanted = lines + 1  # newlines: the one that ends the line before the first wanted one
    start = end = size
    best = None
    while start > 0 and end - start < _FURTHEST_BACK:
        block_start = max(0, start - _BLOCK)
        block = handle.read(block_start, start - block_start)
        place = len(block)
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            best = block_start + place + 1
            wanted -= 1
            if wanted == 0:
                return best
        start = block_start
    if start == 0:
        return 0
    return best if best is not None else size

"""Cuts bytes into numbered lines, and with a prefilter hands on only the windows that are worth reading.

A window begins where the record of a hit can begin and ends where it can have ended; what lies between windows is only
counted (`Reader.skip`). Nothing depends on where the bytes were cut: a chunk is read up to its last line end, and the
lines before a chunk's first hit are kept until it is known whether a record begins in them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol

from vlogdiag.log.bulk import holds, line_ends
from vlogdiag.log.headers import parse_line
from vlogdiag.log.prefilter import Prefilter

__all__ = ["MAX_LINE", "Reader", "Windows"]

MAX_LINE = 1 << 20
"""A longer line is cut (a base64 picture in a logged request); what is left out is counted."""
HEAD_LINES = 64
"""The beginning of a log is read whole: it says what kind of log this is."""
AFTER = 16
"""Lines read after a hit, and after the last line that joined a traceback: `records.MAX_BARE_GAP`."""
BEFORE = 64
"""At most this many lines before a hit are looked at for the beginning of its record."""
CARRY = 16 * 1024
"""Bytes before a hit's line in which its record's beginning is looked for; so many are kept for the next chunk."""
SERVING = (b"throughput: ", b'"POST ')
"""The first statistics line or answered request says that the run serves."""
SPECIAL = (b"\r", b"\x1b", b"across cluster]")
"""What lines must not hold to be read in one go: progress bars, colours, Ray's counts of repeats."""
SMALL = 32 * 1024
"""Chunks smaller than this are read whole: a scan would not pay."""


class Reader(Protocol):
    """Who reads the lines."""

    @property
    def growing(self) -> int:
        """Number of the last line that joined a traceback."""

    @property
    def served(self) -> bool:
        """The current run has reached serving (statistics lines are then no news)."""

    def stands_apart(self, text: str) -> bool:
        """A line without a hit continues no open record, and nothing can be missed by passing it over."""

    def line(self, number: int, offset: int, text: str) -> None:
        """One line."""

    def lines(self, number: int, offset: int, texts: Sequence[str]) -> None:
        """Many lines at once, plain ASCII with nothing `SPECIAL`; `number` and `offset` are the first one's."""

    def skip(self, data: bytes, start: int, end: int, first: int, last: int) -> None:
        """Lines `first` to `last` are `data[start:end]` and hold nothing worth reading."""


class Windows:
    """Bytes in, lines and skipped stretches out. Without prefilter every line is read."""

    def __init__(self, reader: Reader, prefilter: Prefilter | None = None) -> None:
        self.number = 0
        """Lines so far."""
        self.offset = 0
        """Bytes so far."""
        self.omitted_bytes = 0
        self.omitted_lines = 0
        self._reader = reader
        self._prefilter = prefilter
        self._rest = b""
        self._beyond = 0  # bytes of the current line that were left out
        self._carry = b""  # unread whole lines without a hit
        self._hot = HEAD_LINES  # lines up to this number are read whatever they hold

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        whole = self.whole_lines(data)
        if whole:
            hits = self._prefilter.scan(whole) if self._prefilter is not None and len(whole) >= SMALL else None
            self.take(whole, hits)

    def whole_lines(self, data: bytes) -> bytes:
        """What `data` completes, up to its last line end; the rest waits (a line without end is cut at MAX_LINE)."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return b""
        begin = 0
        if self._beyond:  # the line in progress was cut: it ends here, read as far as it was kept
            begin = data.find(b"\n") + 1
            self._settle()
            self._emit(self._rest, len(self._rest) + self._beyond + begin)
            self._rest, self._beyond = b"", 0
            if begin == end:
                self._rest = data[end:]
                return b""
        whole = data
        if self._rest or begin or end < len(data):
            whole = b"".join((self._rest, memoryview(data)[begin:end]))
        self._rest = b""
        self._keep(data[end:])
        return whole

    def leave_out(self, count: int) -> None:
        """The line in progress has `count` bytes more that whoever feeds it has left out."""
        self._beyond += count

    def _keep(self, data: bytes) -> None:
        rest = self._rest + data if self._rest else data
        if len(rest) > MAX_LINE:
            self._beyond += len(rest) - MAX_LINE
            rest = rest[:MAX_LINE]
        self._rest = rest

    def finish(self) -> None:
        """What stands after the last line end is a line too."""
        self._settle()
        if self._rest or self._beyond:
            self._emit(self._rest, len(self._rest) + self._beyond)
            self._rest, self._beyond = b"", 0

    @property
    def cutting(self) -> bool:
        """Some of the line in progress was left out; its end will be read by `whole_lines` itself."""
        return bool(self._beyond)

    @property
    def place(self) -> tuple[int, int]:
        """Whole lines and their bytes taken so far, those that are kept unread included."""
        return self.number + self._carry.count(b"\n"), self.offset + len(self._carry)

    @property
    def waiting(self) -> bool:
        """Something stands unread: half a line, or lines kept for a record that might begin in them."""
        return bool(self._rest or self._beyond or self._carry)

    def fork(self, reader: Reader) -> Windows:
        """A twin that goes its own way, handing lines to `reader`."""
        twin = copy.copy(self)
        twin._reader = reader
        return twin

    def take(self, chunk: bytes, hits: Sequence[int] | None) -> None:
        """Read whole lines; `hits` are offsets worth reading (None: all of it)."""
        if hits is None:
            chunk, self._carry = self._carry + chunk, b""  # its first record may have begun in what was kept
            self._read(chunk, 0, len(chunk))
            return
        reach = chunk.rfind(b"\n", 0, hits[0]) + 1 if hits else len(chunk)
        near = reach <= CARRY  # a record may begin in what was kept
        shift = 0
        if near or self._hot > self.number:
            chunk, shift, self._carry = self._carry + chunk, len(self._carry), b""
        else:
            self._settle()
        self._windows(chunk, hits, shift)

    def _windows(self, chunk: bytes, hits: Sequence[int], shift: int) -> None:
        position, size, index, count = 0, len(chunk), 0, len(hits)
        beside, lines = 0, 0  # where a stretch of lines begins that stand in a window and do not belong to it; how many
        while position < size:
            if self.number + lines < max(self._hot, self._reader.growing + AFTER):
                end = chunk.find(b"\n", position) + 1
                hit = False
                while index < count and hits[index] + shift < end:
                    index += 1
                    hit = True
                if (
                    not hit
                    and self.number >= HEAD_LINES
                    and self._reader.stands_apart(_text(chunk[position : end - 1]))
                ):
                    beside = beside if lines else position
                    lines += 1
                else:
                    if lines:
                        self._skip(chunk, beside, position)
                        lines = 0
                    if hit:
                        self._hot = max(self._hot, self.number + 1 + AFTER)
                    self._one(chunk, position, end)
                position = end
                continue
            if lines:  # they go with what follows
                position, lines = beside, 0
            while index < count and hits[index] + shift < position:
                index += 1
            if index == count:
                break
            place = hits[index] + shift
            begin = self._begin(chunk, position, chunk.rfind(b"\n", position, place) + 1 or position)
            if begin > position:
                self._skip(chunk, position, begin)
                position = begin
            # Every line from here to the hit, then as many as its record may last.
            before = chunk.count(b"\n", begin, place)
            self._hot = self.number + before + 1 + AFTER
        if lines:
            self._skip(chunk, beside, position)
        if position < size:
            keep = max(position, chunk.rfind(b"\n", position, max(position, size - CARRY)) + 1)  # at least CARRY
            if keep > position:
                self._skip(chunk, position, keep)
            self._carry += chunk[keep:] if keep < size else b""

    def _begin(self, chunk: bytes, low: int, line: int) -> int:
        """Where the record that holds the line at `line` may begin: lines before it with its header, or bare ones."""
        own = parse_line(_text(chunk[line : chunk.find(b"\n", line)]))
        if own.level is not None and own.level >= 40:
            return line  # every line of such a record is a hit itself
        begin = line
        low = max(low, line - CARRY)
        for _ in range(BEFORE if own.level is not None else AFTER):
            if begin <= low:
                break
            before = chunk.rfind(b"\n", low, begin - 1) + 1
            if not before:
                if low and chunk[low - 1 : low] != b"\n":
                    break  # it begins before all that is kept between chunks
                before = low
            other = parse_line(_text(chunk[before : begin - 1]))
            if own.level is not None:
                if other.key != own.key or not own.key:
                    break
            elif other.level is not None and other.level < 40 and other.kind == "vllm" and other.pid == own.pid:
                if "Received request" in other.text:
                    begin = before
                break
            begin = before
        return begin

    def _skip(self, chunk: bytes, start: int, end: int) -> None:
        places = {} if self._reader.served else {mark: chunk.find(mark, start, end) for mark in SERVING}
        while not self._reader.served:  # the first statistics line says that the run is serving
            at = min((at for at in places.values() if at >= 0), default=-1)
            if at < 0:
                break
            line = chunk.rfind(b"\n", start, at) + 1 or start
            if line > start:
                self._pass(chunk, start, line)
            start = chunk.find(b"\n", at) + 1
            self._one(chunk, line, start)
            for mark, place in places.items():
                if 0 <= place < start:  # each mark is looked for once in every stretch
                    places[mark] = chunk.find(mark, start, end)
        if start < end:
            self._pass(chunk, start, end)

    def _pass(self, chunk: bytes, start: int, end: int) -> None:
        lines = line_ends(chunk, start, end)
        self._reader.skip(chunk, start, end, self.number + 1, self.number + lines)
        self.number += lines
        self.offset += end - start

    def _settle(self) -> None:
        """What was kept for a record that might begin in it is passed over."""
        carry, self._carry = self._carry, b""
        if carry:
            self._skip(carry, 0, len(carry))

    def _read(self, chunk: bytes, start: int, end: int) -> None:
        if chunk.isascii() and end - start >= SMALL and not any(holds(chunk, mark) for mark in SPECIAL):
            # Nothing to decode, strip or measure: a character is a byte, and the lines can go in one list.
            lines = chunk[start:end].decode("ascii").split("\n")
            if chunk.endswith(b"\n", start, end):
                lines.pop()
            if max(map(len, lines), default=0) <= MAX_LINE:
                first, at = self.number + 1, self.offset
                self.number += len(lines)
                self.offset += end - start
                self._reader.lines(first, at, lines)
                return
        while start < end:
            stop = chunk.find(b"\n", start, end) + 1 or end
            self._one(chunk, start, stop)
            start = stop

    def _one(self, chunk: bytes, start: int, end: int) -> None:
        self._emit(chunk[start : end - 1] if chunk[end - 1 : end] == b"\n" else chunk[start:end], end - start)

    def _emit(self, raw: bytes, size: int) -> None:
        self.number += 1
        offset, self.offset = self.offset, self.offset + size
        if len(raw) > MAX_LINE:
            raw = raw[:MAX_LINE]
        if size - len(raw) > 1:
            self.omitted_bytes += size - len(raw) - 1
            self.omitted_lines += 1
        self._reader.line(self.number, offset, _text(raw))


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return text.rstrip("\r") if text.endswith("\r") else text

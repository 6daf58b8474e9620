"""Takes from a log what a bug report needs: all of a small one; else its start, the surroundings of causes, its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vlogdiag.model import Finding, RunSummary, SourceSummary

WHOLE = 8 << 20
"""Bytes up to which a log goes into the bundle whole: a start and some hours of service."""
BEGIN = 1 << 20
END = 2 << 20
BEFORE, AFTER = 96 << 10, 160 << 10
"""Bytes around the first line of a cause: what led to it, and the traceback that follows."""
AROUND_LAST = 48 << 10
AFTER_START = 96 << 10
"""Bytes after the first line of a start: version, arguments, memory profile."""
MAX_STARTS = 8
LONGEST_END = 64 << 10
"""A window is stretched to its last line's end, but not further than this."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive lines of the log; the bytes end with a newline unless the log does not."""

    line: int
    """Number of its first line in the log."""
    offset: int
    data: bytes

    @property
    def lines(self) -> int:
        """How many lines it holds."""
        return self.data.count(b"\n") + (not self.data.endswith(b"\n"))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What was taken of one log."""

    name: str
    bytes: int
    lines: int
    segments: tuple[Segment, ...]

    @property
    def whole(self) -> bool:
        """True if nothing was left out."""
        return sum(len(segment.data) for segment in self.segments) >= self.bytes


@dataclass(frozen=True, slots=True)
class Window:
    """A part that is wanted: bytes from `start` up to `end`, or `length` bytes from a line on if only that is known."""

    start: int = 0
    end: int = 0
    line: int | None = None
    length: int = 0


def windows(summary: SourceSummary, findings: Sequence[Finding]) -> tuple[Window, ...]:
    """What to take of a log of that size with those findings, most important first, `WHOLE` bytes in all."""
    if summary.bytes <= WHOLE:
        return (Window(0, summary.bytes),)
    wanted = [Window(0, BEGIN), Window(max(0, summary.bytes - END), summary.bytes)]
    room = WHOLE - BEGIN - END
    for each in (*_of_findings(findings), *_of_starts(summary.runs)):
        size = each.length or each.end - each.start
        if size <= room:
            wanted.append(each)
            room -= size
    return tuple(wanted)


def take(name: str, chunks: Iterable[bytes], wanted: Sequence[Window], summary: SourceSummary) -> Excerpt:
    """Read the log once, in the order of its bytes, and keep what the windows want; memory stays at what is kept."""
    lines = sorted((w.line, w.length) for w in wanted if w.line is not None)
    spans = _merged((w.start, w.end) for w in wanted if w.line is None)
    segments: list[Segment] = []
    open_segment: _Open | None = None
    offset, number = 0, 1  # of the line that begins next
    for piece in _lines_of(chunks, summary.bytes):
        end = offset + len(piece)
        count = piece.count(b"\n")
        while lines and lines[0][0] < number + max(count, 1):
            line, length = lines.pop(0)
            start = offset + _start_of(piece, line - number)
            spans = _merged((*spans, (start, start + length)))
        for start, stop in spans:
            if open_segment is not None and open_segment.stop < offset:
                segments.append(open_segment.close())
                open_segment = None
            if stop <= offset or start >= end:
                continue
            first = _line_start(piece, start - offset)
            last = _line_end(piece, stop - offset)
            if first >= last:
                continue
            if open_segment is None or open_segment.stop != offset + first:
                if open_segment is not None:
                    segments.append(open_segment.close())
                open_segment = _Open(number + piece.count(b"\n", 0, first), offset + first)
            open_segment.add(piece[first:last])
        offset, number = end, number + count
    if open_segment is not None:
        segments.append(open_segment.close())
    return Excerpt(name, summary.bytes, summary.lines, tuple(segments))


class _Open:
    """A segment that grows."""

    def __init__(self, line: int, offset: int) -> None:
        self.line = line
        self.offset = offset
        self._parts: list[bytes] = []
        self.stop = offset

    def add(self, data: bytes) -> None:
        self._parts.append(data)
        self.stop += len(data)

    def close(self) -> Segment:
        return Segment(self.line, self.offset, b"".join(self._parts))


def _lines_of(chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Pieces that end at line ends (or are part of one endless line), `limit` bytes in all: the log may have grown."""
    rest = b""
    left = limit
    for chunk in chunks:
        if not left:
            break
        data = chunk if len(chunk) <= left else chunk[:left]
        left -= len(data)
        first = data.find(b"\n") + 1
        if not first:
            rest += data
            if len(rest) > WHOLE:
                yield rest
                rest = b""
            continue
        last = data.rfind(b"\n") + 1
        if rest:  # only the line that two chunks share is copied
            yield rest + data[:first]
        else:
            first = 0
        if last > first:
            yield data[first:last]
        rest = data[last:]
    if rest:
        yield rest


def _of_findings(findings: Sequence[Finding]) -> Iterator[Window]:
    for finding in findings:
        first, last = finding.first, finding.last
        if first.offset is not None:
            yield Window(max(0, first.offset - BEFORE), first.offset + AFTER)
        elif first.line is not None:
            yield Window(line=first.line, length=AFTER)
        if last.offset is not None and last.offset != first.offset:
            yield Window(max(0, last.offset - AROUND_LAST), last.offset + AROUND_LAST)


def _of_starts(runs: Sequence[RunSummary]) -> Iterator[Window]:
    for run in list(reversed(runs))[:MAX_STARTS]:
        if run.first_line is not None:
            yield Window(line=run.first_line, length=AFTER_START)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _start_of(piece: bytes, line: int) -> int:
    """Offset in the piece of its `line`th line, from 0."""
    at = 0
    for _ in range(line):
        found = piece.find(b"\n", at)
        if found < 0:
            break
        at = found + 1
    return at


def _line_start(piece: bytes, at: int) -> int:
    """Start of the line at or after `at`; a line that begins before a window is left out, but for an endless one."""
    if at <= 0:
        return 0
    if piece[at - 1 : at] == b"\n":
        return at
    found = piece.find(b"\n", at, at + LONGEST_END)
    if found >= 0:
        return found + 1
    return at if at + LONGEST_END < len(piece) else len(piece)


def _line_end(piece: bytes, at: int) -> int:
    """End of the line that holds the byte before `at`."""
    if at >= len(piece) or (at > 0 and piece[at - 1 : at] == b"\n"):
        return min(at, len(piece))
    found = piece.find(b"\n", at, at + LONGEST_END)
    if found >= 0:
        return found + 1
    return at if at + LONGEST_END < len(piece) else len(piece)

"""Turns positions in a followed stream into positions in the file that stands at the path now.

A stream goes on through rotations and truncations, may begin in the middle of a file, and gets late lines of a file
that was rotated away: then a line's number in the stream says nothing, and is unknown unless its file is known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass

from msgspec.structs import replace

from vlogdiag.model import Consequence, Evidence, Finding, Position

__all__ = ["Numbering"]

MAX_SEGMENTS = 1_000


@dataclass(frozen=True, slots=True)
class _Segment:
    """A stretch of the stream: from line `first` at byte `start` on it is line `line` at byte `offset` of `file`."""

    first: int
    start: int
    line: int | None
    offset: int
    file: Hashable


class Numbering:
    """Where every stretch of one log's stream came from; the recent ones."""

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._file: Hashable = None

    def add(self, first: int, start: int, *, line: int | None, offset: int, file: Hashable, current: bool) -> None:
        """The stream goes on at line `first`, byte `start`, with that line and byte of a file.

        `current` says that it is the file at the path, not one that was rotated away.
        """
        if current:
            self._file = file
        last = self._segments[-1] if self._segments else None
        if (
            last is not None
            and last.file == file
            and last.offset - last.start == offset - start
            and (last.line is None) == (line is None)
            and (line is None or last.line is None or last.line - last.first == line - first)
        ):
            return
        self._segments.append(_Segment(first, start, line, offset, file))
        del self._segments[:-MAX_SEGMENTS]

    def finding(self, finding: Finding) -> Finding:
        """The finding with the file's own line numbers and offsets, None where they are not known."""
        if len(self._segments) == 1 and (s := self._segments[0]) and s.first == s.line and s.start == s.offset:
            return finding
        line = self.line(finding.first.line)
        return replace(
            finding,
            ask=finding.ask and finding.ask.replace(f"LOG:{finding.first.line}`", f"LOG:{line or 'LINE'}`"),
            first=self._position(finding.first),
            last=self._position(finding.last),
            evidence=tuple(self._evidence(e) for e in finding.evidence),
            consequences=tuple(self._consequence(c) for c in finding.consequences),
        )

    def line(self, number: int | None) -> int | None:
        """Line `number` of the stream as the file counts."""
        segment = self._of(number)
        if segment is None or segment.line is None or number is None:
            return None
        return segment.line + number - segment.first

    def _of(self, number: int | None) -> _Segment | None:
        if number is None:
            return None
        place = bisect_right(self._segments, number, key=lambda s: s.first) - 1
        segment = self._segments[place] if place >= 0 else None
        return segment if segment is not None and segment.file == self._file else None

    def _position(self, position: Position) -> Position:
        segment = self._of(position.line)
        if segment is None or position.offset is None:
            return replace(position, line=None, offset=None)
        offset = segment.offset + position.offset - segment.start
        # Negative: the line began in the file before, which was cut in the middle of it.
        return replace(position, line=self.line(position.line), offset=offset if offset >= 0 else None)

    def _evidence(self, item: Evidence) -> Evidence:
        return item if item.line is None else replace(item, line=self.line(item.line))

    def _consequence(self, item: Consequence) -> Consequence:
        return replace(item, line=self.line(item.line), last_line=self.line(item.last_line))

"""What following a log tells: bytes as they come, and what happened to the file that held them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes as they stand in the file; they may begin and end inside a line.

    `file` numbers the byte streams of one path: a half line is continued by the next Data of the same (path, file), and
    by no other. Where a log was truncated after a copy (`copytruncate`), the stream goes on in the same number.
    """

    path: str
    offset: int
    data: bytes
    file: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """A half line of this (path, file) will not be continued; late lines may still follow, each of them whole."""

    path: str
    file: int


@dataclass(frozen=True, slots=True)
class Rotated:
    """Another file stands at the path (rotation by renaming, a link that was switched); the old one was drained."""

    path: str
    old_inode: int


@dataclass(frozen=True, slots=True)
class Truncated:
    """The file was cut and begins again at offset 0; `recovered` is True when a copy of the old bytes was found."""

    path: str
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class Appeared:
    """A file that was not there is there now; it is read from its beginning."""

    path: str


@dataclass(frozen=True, slots=True)
class Vanished:
    """Nothing stands at the path any more; a writer that still has the old file open is followed on."""

    path: str


@dataclass(frozen=True, slots=True)
class Notice:
    """One sentence about the path that somebody should know; the same trouble is told once, not at every poll."""

    path: str
    text: str


FollowEvent = Data | Ended | Rotated | Truncated | Appeared | Vanished | Notice

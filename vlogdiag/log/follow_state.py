"""Turns how far logs were followed into a small file, and back, so that each line is read once across restarts."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from vlogdiag.log.discover import error_reason, printable
from vlogdiag.log.follow_fs import FileStat, Handle
from vlogdiag.log.sources import HEAD, head_fingerprint

FORMAT = "vlogdiag.state/1"
TAIL = 256
"""Bytes before the place reached that are compared too: logs whose heads are alike differ there."""
ENOUGH = 256
"""Bytes that must have been seen before content alone, under another inode, identifies a file."""


class StateError(Exception):
    """A state file that cannot be used, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FileMark:
    """How far one file was read, and by what it is recognised again."""

    path: str
    """The path that is followed; the file may since have been renamed."""
    place: str
    """Where the file stood, links followed."""
    device: int
    inode: int
    offset: int
    """Go on here: the beginning of the first line that was not handed out whole."""
    seen: int
    """Bytes before here were handed out."""
    head_size: int
    head: str
    """Fingerprint of the first `head_size` bytes."""
    tail: str
    """Fingerprint of the last (at most TAIL) bytes before `seen`."""
    mtime_ns: int
    """When the file was last written to, as far as was known when its last bytes were read."""
    copy: bool = False
    """True for a copy that copytruncate left."""

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        return self.device, self.inode

    def blank(self) -> FileMark:
        """The same file before anything of it was seen: recognised by its inode alone."""
        nothing = head_fingerprint(b"")
        return replace(self, offset=0, seen=0, head_size=0, head=nothing, tail=nothing)

    def fits(self, handle: Handle) -> bool:
        """Tell whether an open file begins with the bytes that were seen, as far as the fingerprints tell."""
        head = handle.read(0, self.head_size)
        if len(head) < self.head_size or head_fingerprint(head) != self.head:
            return False
        size = min(TAIL, self.seen)
        tail = handle.read(self.seen - size, size)
        return len(tail) == size and head_fingerprint(tail) == self.tail

    def is_still(self, handle: Handle, stat: FileStat) -> bool:
        """Tell whether a file of the same inode is the one that was read, and not a later one with that number.

        A few bytes may be alike by chance: then the file must not have changed at all.
        """
        unchanged = (self.seen, self.mtime_ns) == (stat.size, stat.mtime_ns)
        return stat.identity == self.identity and (self.seen >= ENOUGH or unchanged) and self.fits(handle)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path that a glob matches but that is another name of a file followed elsewhere."""

    path: str
    device: int
    inode: int
    head_size: int
    head: str

    @classmethod
    def of(cls, path: str, handle: Handle, stat: FileStat) -> Skipped:
        """Remember an open file."""
        head = handle.read(0, HEAD)
        return cls(path, stat.device, stat.inode, len(head), head_fingerprint(head))

    def fits(self, handle: Handle, stat: FileStat) -> bool:
        """Tell whether it is still the same file, and not a later one with that number."""
        same = (self.device, self.inode) == stat.identity
        return same and head_fingerprint(handle.read(0, self.head_size)) == self.head


@dataclass(frozen=True, slots=True)
class FollowState:
    """Everything that one follower must know to go on where it stopped."""

    path: str
    """The path or glob as it was given."""
    files: tuple[FileMark, ...] = ()
    """Files still being read, oldest first."""
    finished: tuple[FileMark, ...] = ()
    """Files read to their end; should one come back to its path, its lines are not read again."""
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class _StateFile:
    format: str
    logs: tuple[FollowState, ...]


def save_states(file: str | Path, states: Iterable[FollowState]) -> None:
    """Write the state file so that it is whole at every moment, power failure included. Raises StateError."""
    # A link to the state file stays a link; only the owner may read what tells the names and places of logs.
    target = Path(os.path.realpath(file))
    text = json.dumps({"format": FORMAT, "logs": [asdict(state) for state in states]})
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)  # noqa: PTH105 - beside mkstemp's string
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108
            raise
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StateError(printable(file), f"cannot be written: {(error.strerror or str(error)).lower()}") from error


def load_states(file: str | Path) -> dict[str, FollowState]:
    """Read the state file: path or glob to state; empty when there is no file yet. Raises StateError."""
    name = printable(file)
    try:
        raw = Path(file).read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StateError(name, error_reason(error)) from error
    advice = "delete it to start anew"
    try:
        # json, not msgspec's decoder: a path with bytes that are no UTF-8 is written as lone surrogates.
        data: Any = json.loads(raw)
        if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
            raise StateError(name, f"was written by another version of vlogdiag ({data['format']!r:.40}): {advice}")
        read = msgspec.convert(data, _StateFile)
    except (ValueError, RecursionError) as error:  # msgspec.ValidationError is a ValueError
        raise StateError(name, f"is no state file of vlogdiag or is damaged ({error}): {advice}") from error
    for state in read.logs:
        for mark in (*state.files, *state.finished):
            if not 0 <= mark.offset <= mark.seen or not 0 <= mark.head_size <= HEAD:
                raise StateError(name, f"is damaged (impossible numbers for {printable(mark.path)}): {advice}")
    return {state.path: state for state in read.logs}

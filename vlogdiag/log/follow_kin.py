"""Finds the files that a log's bytes went to while nobody looked: renamed, copied, or rotated more than once."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from vlogdiag.log.discover import rotation_of
from vlogdiag.log.follow_fs import FileStat, FileSystem, Handle
from vlogdiag.log.follow_state import ENOUGH, FileMark


@dataclass(frozen=True, slots=True)
class Kin:
    """An open file that continues a log: one that was read before (`mark`), or one that came after it."""

    path: str
    handle: Handle
    stat: FileStat
    mark: FileMark | None = None

    @property
    def is_copy(self) -> bool:
        """True when the file holds the bytes that were seen, but is another file: copytruncate's copy."""
        return self.mark is not None and (self.mark.copy or self.mark.identity != self.stat.identity)


def lineage(fs: FileSystem, path: str, marks: Sequence[FileMark], *, copies: bool = False) -> list[Kin]:
    """Open the files that hold the log from the oldest of `marks` on, oldest first, the one at `path` last.

    A file is recognised by inode and fingerprint, or by content under another inode: with `copies` by content alone,
    since the file of that inode was just truncated. Where no mark is found again the answer is the file at `path`, or
    with `copies` nothing. Raises OSError; nothing is left open then.
    """
    if not marks:
        return []
    opened: list[Kin] = []
    try:
        _open_all(fs, path, marks, opened)
        matched = _matched(opened, marks, copies=copies)
    except OSError:
        _close(opened)
        raise
    if matched:
        first = min(matched)
        since = matched[first].mtime_ns
        kept = [
            Kin(kin.path, kin.handle, kin.stat, matched.get(place))
            for place, kin in enumerate(opened)
            if place in matched or (place > first and (kin.path == path or kin.stat.mtime_ns >= since))
        ]
    else:
        kept = [] if copies else [kin for kin in opened if kin.path == path]
    handles = {id(kin.handle) for kin in kept}
    _close(kin for kin in opened if id(kin.handle) not in handles)
    return kept


def _open_all(fs: FileSystem, path: str, marks: Sequence[FileMark], opened: list[Kin]) -> None:
    """Open whatever may belong to the log; rotated siblings written before the marks were made cannot."""
    known = {mark.identity for mark in marks}
    since = min(mark.mtime_ns for mark in marks)
    # Where a link leads the rotated names stand beside its target: kubelet's /var/log/containers, for one.
    current = list(dict.fromkeys([fs.real(path), path]))
    siblings = [sibling for base in current for sibling in _siblings(fs, base)]
    # Where a link led before there may still be files that were read, under their names or rotated ones.
    former = [base for base in dict.fromkeys(_base(mark.place) for mark in marks) if base not in current]
    former = [candidate for base in former for candidate in (*_siblings(fs, base), base)]
    seen: set[tuple[int, int]] = set()
    for candidate in (*former, *siblings, path):
        stat = fs.stat(candidate)
        if stat is None or stat.kind != "file":
            continue
        if candidate != path and stat.identity not in known and stat.mtime_ns < since:
            continue
        if candidate in former and stat.identity not in known:
            continue
        handle = fs.open(candidate)
        try:
            stat = handle.stat()
        except OSError:
            handle.close()
            raise
        if stat.identity in seen:
            handle.close()
            continue
        seen.add(stat.identity)
        opened.append(Kin(candidate, handle, stat))


def _base(path: str) -> str:
    place = PurePath(path)
    return str(place.with_name(rotation_of(place.name).base))


def _siblings(fs: FileSystem, path: str) -> list[str]:
    """Rotated, uncompressed files of the log at `path`, oldest first."""
    found = []
    name = PurePath(path).name
    for candidate in fs.glob(glob.escape(path) + "*"):
        rotation = rotation_of(PurePath(candidate).name)
        if rotation.base == name and rotation.kind != "current" and not rotation.compressed:
            found.append((rotation, candidate))
    # Names of two schemes cannot be compared; within one scheme the order of the names is the order of writing.
    found.sort(key=lambda item: (item[0].kind, item[0].place))
    return [candidate for _, candidate in found]


def _matched(opened: Sequence[Kin], marks: Sequence[FileMark], *, copies: bool) -> dict[int, FileMark]:
    """Which of the open files hold what the marks saw: place in `opened` to mark."""
    matched: dict[int, FileMark] = {}
    if not copies:
        for mark in marks:
            for place, kin in enumerate(opened):
                if kin.stat.identity == mark.identity and mark.fits(kin.handle):
                    matched[place] = mark
    for mark in marks:
        if mark in matched.values():
            continue
        for place in reversed(range(len(opened))):
            kin = opened[place]
            if place in matched or kin.stat.identity == mark.identity or kin.stat.mtime_ns < mark.mtime_ns:
                continue
            # Few bytes may be alike by chance, unless the file was just truncated and this one is as young as that.
            if (mark.seen >= ENOUGH or (copies and mark.head_size)) and mark.fits(kin.handle):
                matched[place] = mark
                break
    return matched


def _close(kin: Iterable[Kin]) -> None:
    for each in kin:
        each.handle.close()

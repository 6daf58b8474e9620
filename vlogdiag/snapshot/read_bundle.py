"""Reads a snapshot's archive back: the log for a diagnosis elsewhere, and what the machine said when it was taken."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vlogdiag.live.readings import ReadingError, read_lines
from vlogdiag.model import Reading
from vlogdiag.snapshot.bundle import FORMAT, LOG, MANIFEST, MAX_TOTAL
from vlogdiag.snapshot.collect.gpu import READING_FILE
from vlogdiag.snapshot.columns import parseable

MAX_UNPACKED = MAX_TOTAL + (4 << 20)
"""Bytes that are unpacked at most: the files, their tar headers and the manifest."""
MAX_MANIFEST = 4 << 20
MAX_MEMBERS = 200
_WANTED = (MANIFEST, LOG, f"gpu/{READING_FILE}")


class BundleError(Exception):
    """A snapshot's archive that cannot be used, and why."""


@dataclass(frozen=True, slots=True)
class BundleLog:
    """The log inside a snapshot, and the machine as it was then."""

    name: str
    """The log's name where it was taken."""
    data: bytes
    """UTF-8 lines; of a long log the parts that were taken, one after the other."""
    readings: tuple[Reading, ...] = ()
    """Taken with the snapshot, after the log's last line: evidence of that moment, not of the failure's."""
    alive: bool = False
    """The server's processes were running then."""
    manifest: Mapping[str, Any] | None = None
    starts: tuple[tuple[int, int], ...] = ((1, 1),)
    """(line in `data`, line in the log) at the beginning of each part."""

    def original_line(self, line: int) -> int:
        """The number in the log of a line of `data`."""
        at = bisect_right(self.starts, line, key=lambda pair: pair[0]) - 1
        here, there = self.starts[max(at, 0)]
        return line - here + there

    def chunks(self, size: int = 4 << 20) -> Iterator[bytes]:
        """The log in chunks, as the diagnosis wants them."""
        for start in range(0, len(self.data), size):
            yield self.data[start : start + size]


def open_bundle(path: str | Path) -> BundleLog | None:
    """The log of a snapshot's archive; None if the file is something else. Raises BundleError for a damaged one.

    Everything happens in memory and within limits; names in the archive are compared, never used as paths.
    """
    try:
        with Path(path).open("rb") as file:
            return read_bundle(file)
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror or error}") from error


def read_bundle(file: IO[bytes]) -> BundleLog | None:
    """The same of an open file."""
    if file.read(2) != b"\x1f\x8b":
        return None
    file.seek(0)
    try:
        members = _members(gzip.GzipFile(fileobj=file, mode="rb"))
    except _NotOurs:
        return None
    manifest = _manifest(members.pop(MANIFEST))
    _compare(members, manifest)
    data, starts = _joined(members.get(LOG, b""), manifest)
    return BundleLog(
        name=str((manifest.get("log") or {}).get("name") or LOG),
        data=parseable(data),
        readings=_readings(members.get(f"gpu/{READING_FILE}", b"")),
        alive=bool(manifest.get("alive")),
        manifest=manifest,
        starts=starts,
    )


class _NotOurs(Exception):  # noqa: N818 - reads as what it is
    """The file is no snapshot."""


def _members(stream: gzip.GzipFile) -> dict[str, bytes]:
    """The wanted files by their names below the archive's folder; the manifest must be the first member."""
    found: dict[str, bytes] = {}
    limited = _Limited(stream)
    try:
        with tarfile.open(fileobj=limited, mode="r|", bufsize=1 << 16) as archive:
            for count, info in enumerate(archive):
                if count > MAX_MEMBERS:
                    raise BundleError("more files in the archive than a snapshot has")
                _, _, name = info.name.partition("/")
                if count == 0 and (name != MANIFEST or info.size > MAX_MANIFEST):
                    raise _NotOurs
                if name not in _WANTED or name in found or not info.isreg():
                    continue
                member = archive.extractfile(info)
                if member is not None:
                    found[name] = member.read()
                if count == 0 and FORMAT.encode() not in found[MANIFEST]:
                    raise _NotOurs
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        if MANIFEST not in found:
            raise _NotOurs from error
        raise BundleError(f"the archive is damaged: {error}") from error
    if MANIFEST not in found:
        raise _NotOurs
    return found


class _Limited(io.RawIOBase):
    """A stream that ends in an error after `MAX_UNPACKED` bytes: an archive may unpack to terabytes."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._left = MAX_UNPACKED

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, 1 << 20) if size >= 0 else 1 << 20)
        self._left -= len(data)
        if self._left < 0:
            raise BundleError("the archive unpacks to more than a snapshot holds")
        return data


def _manifest(data: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{MANIFEST} is damaged: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"{MANIFEST}: expected format {FORMAT!r}")
    return manifest


def _compare(members: Mapping[str, bytes], manifest: Mapping[str, Any]) -> None:
    """Every file must be the one that the manifest counts."""
    listed = {f.get("name"): f.get("sha256") for f in manifest.get("files", []) if isinstance(f, dict)}
    for name, data in members.items():
        if listed.get(name) != hashlib.sha256(data).hexdigest():
            raise BundleError(f"{name} is not the file that {MANIFEST} lists")


def _joined(log: bytes, manifest: Mapping[str, Any]) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """The parts of the log without the remarks between them, and where each begins."""
    entry = manifest.get("log")
    segments = entry.get("segments") if isinstance(entry, dict) else None
    if not isinstance(segments, list):
        return log, ((1, 1),)
    lines = log.split(b"\n")
    out: list[bytes] = []
    starts: list[tuple[int, int]] = []
    for segment in segments[:10_000]:
        at, number, count = (segment.get(key) if isinstance(segment, dict) else None for key in ("at", "line", "lines"))
        if not (isinstance(at, int) and isinstance(number, int) and isinstance(count, int) and at > 0 and count >= 0):
            raise BundleError(f"{MANIFEST}: the log's parts are not described as expected")
        starts.append((len(out) + 1, number))
        out += lines[at - 1 : at - 1 + count]
    return b"\n".join(out) + (b"\n" if out else b""), tuple(starts) or ((1, 1),)


def _readings(data: bytes) -> tuple[Reading, ...]:
    try:
        return tuple(read_lines(data.splitlines()))
    except ReadingError as error:
        raise BundleError(f"{READING_FILE}: {error}") from error

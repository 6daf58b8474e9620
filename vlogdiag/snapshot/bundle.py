"""Turns named texts into one archive with a manifest: deterministic, within a size, nothing in it but regular files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORMAT = "vlogdiag.snapshot/1"
MANIFEST = "manifest.json"
LOG = "vllm.log"
MAX_TOTAL = 24 << 20
"""Bytes before compression: whatever they are, the archive stays under the 25 MB that GitHub takes as attachment."""
MAX_FILE = 9 << 20
"""Above the largest log that goes in whole, with what its placeholders add."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the bundle, by a plain relative name."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """How much of a file was kept."""

    kept: int
    of: int


def build(entries: Sequence[Entry], about: Mapping[str, Any], *, folder: str, mtime: int) -> bytes:
    """The archive: a gzipped tar whose files lie in `folder`, first of all `manifest.json` with `about` in it.

    Equal arguments give equal bytes. Files beyond the limits are cut, which their last line and the manifest say.
    """
    kept: list[Entry] = []
    files: list[dict[str, Any]] = []
    room = MAX_TOTAL
    for entry in entries:
        fitted, cut = _fit(entry, min(MAX_FILE, room))
        room -= len(fitted.data)
        kept.append(fitted)
        files.append(
            {
                "name": fitted.name,
                "bytes": len(fitted.data),
                "sha256": hashlib.sha256(fitted.data).hexdigest(),
                "cut": None if cut is None else {"kept": cut.kept, "of": cut.of},
            }
        )
    manifest = {"format": FORMAT, **about, "files": files}
    head = Entry(MANIFEST, (json.dumps(manifest, indent=1, sort_keys=False) + "\n").encode())
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=mtime, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in (head, *kept):
            info = tarfile.TarInfo(f"{folder}/{entry.name}")
            info.size, info.mtime, info.mode = len(entry.data), mtime, 0o600
            archive.addfile(info, io.BytesIO(entry.data))
    return buffer.getvalue()


def _fit(entry: Entry, room: int) -> tuple[Entry, Cut | None]:
    if len(entry.data) <= room:
        return entry, None
    note = f"[vlogdiag: cut here, {len(entry.data)} bytes in all]\n".encode()
    at = max(0, room - len(note))
    at = entry.data.rfind(b"\n", 0, at) + 1 or at
    return Entry(entry.name, entry.data[:at] + note), Cut(at, len(entry.data))

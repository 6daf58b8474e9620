"""Keeps read and checked rules between starts, in the cache folder, where only the user can have written them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vlogdiag import __version__

__all__ = ["key", "read", "write"]

CODE = ("signatures", "loading.py", "diagnosis/facts.py", "diagnosis/engine.py", "values.py", "model.py", "catalog")
"""What the kept objects consist of: when this code changes, they are read anew."""
OTHERS_WRITE = 0o022


def key(files: Iterable[Path], users: Iterable[Path]) -> str:
    """Digest of everything that the rules depend on: the files' places, sizes and times, the code, the interpreter."""
    digest = hashlib.blake2b(f"{__version__} {sys.version}".encode(), digest_size=16)
    package = Path(__file__).parent
    for group in (files, users, _code(package)):
        digest.update(b"|")
        for path in group:
            try:
                found = path.stat()
            except OSError:
                continue
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _code(package: Path) -> Iterable[Path]:
    for name in CODE:
        place = package / name
        if place.is_dir():
            yield from sorted(p for p in place.rglob("*") if p.suffix in (".py", ".tsv", ".yaml", ".txt"))
        else:
            yield place


def read(digest: str) -> Any | None:
    """What was kept under `digest`; None if nothing was, or if somebody else could have written it."""
    try:
        path = _folder() / f"rules-{digest}.pickle"
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.getuid() or found.st_mode & OTHERS_WRITE:
                return None
            return pickle.load(file)
    except Exception:  # damaged bytes may raise anything
        return None  # a cache that cannot be read is no cache


def write(digest: str, value: object) -> None:
    """Keep `value`, quietly doing without where the folder cannot be written; older ones are removed."""
    name = None
    try:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            pickle.dump(value, file, protocol=5)
        Path(name).replace(folder / f"rules-{digest}.pickle")
    except (OSError, RuntimeError):  # RuntimeError: nobody's home
        if name is not None:
            with contextlib.suppress(OSError):
                Path(name).unlink()
        return
    kept = sorted(folder.glob("rules-*.pickle"), key=_age, reverse=True)
    for old in kept[8:]:
        with contextlib.suppress(OSError):
            old.unlink()


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vlogdiag"

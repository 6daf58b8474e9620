"""Writes the archive where the user said: a new file that only they can read, or a device; no half of it stays."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


class OutputError(Exception):
    """Why the archive could not be written, in one sentence."""


class OutputExists(OutputError):  # noqa: N818 - reads as what happened
    """The file is there already; it is not overwritten."""


def save(data: bytes, path: Path) -> None:
    """Create `path` (0600, links not followed, nothing overwritten) and write; what could not be finished is removed.

    A device or a named pipe is written to as it is. Raises OutputError.
    """
    created = True
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if not _is_device(path):
            raise OutputExists(f"{path} is there already; it is not overwritten") from None
        created = False
        descriptor = _open_device(path)
    except OSError as error:
        raise OutputError(f"{path}: {reason_of(error)}") from error
    try:
        _write(descriptor, data)
    except OSError as error:
        if created:
            with contextlib.suppress(OSError):
                path.unlink()
        raise OutputError(f"{path}: {reason_of(error)}") from error


def reason_of(error: OSError) -> str:
    """What went wrong; a full disk with the way round it."""
    if error.errno in FULL:
        return "no space left on that disk; write elsewhere with -o FILE, or to standard output with -o -"
    return error.strerror or str(error)


def _write(descriptor: int, data: bytes) -> None:
    """Write all, and wait for the disk where there is one: a full one may only say so then."""
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_device(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _open_device(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise OutputError(f"{path}: {reason_of(error)}") from error

"""Puts a changed text in a file's place: backup first, permissions and links kept, all or nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


class WriteRefused(Exception):  # noqa: N818 - reads as what happened
    """The file was not written; the text says why."""


def replace_file(path: Path, old: bytes, new: bytes) -> Path:
    """Writes `new` over `path`, which must still hold `old`; returns the backup's path.

    A symbolic link stays one: its target is rewritten, and the backup lies beside the target.

    Raises:
        WriteRefused: the file has changed meanwhile, is not a plain file, or the folder does not let it be replaced.
    """
    try:
        target = path.resolve(strict=True)
        if not target.is_file():
            raise WriteRefused(f"{path} is not a plain file")
        if target.read_bytes() != old:
            raise WriteRefused(f"{path} has changed since it was read; nothing was written")
        status = target.stat()
        if not os.access(target, os.W_OK):
            raise WriteRefused(f"{path} is write-protected")
        backup = _back_up(target, old)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(new)
                stream.flush()
                os.fsync(stream.fileno())
            shutil.copystat(target, temporary)
            with contextlib.suppress(PermissionError):  # only root can give a file away; then it stays the writer's
                os.chown(temporary, status.st_uid, status.st_gid)
            temporary.chmod(status.st_mode & 0o7777)
            os.utime(temporary)
            if target.read_bytes() != old:
                raise WriteRefused(f"{path} has changed since it was read; nothing was written")
            temporary.replace(target)
        except BaseException:
            backup.unlink(missing_ok=True)  # nothing was changed, so there is nothing to go back to
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise WriteRefused(f"{path}: {error.strerror or error}") from None
    return backup


def _back_up(target: Path, content: bytes) -> Path:
    """`start.sh.bak`, or with a number where that exists; never written over."""
    number = 0
    while True:
        backup = target.with_name(f"{target.name}.bak{number or ''}")
        try:
            with open(backup, "xb") as stream:
                stream.write(content)
            shutil.copystat(target, backup)
            return backup
        except FileExistsError:
            number += 1

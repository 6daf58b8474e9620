"""The few file operations that following a log needs, as an interface that tests can play."""

from __future__ import annotations

import errno
import glob
import os
import stat
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FileStat:
    """What a follower looks at; `links` is 0 for a file that was deleted while it is open."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    links: int = 1
    kind: str = "file"
    """'file', 'folder' or 'stream' (a pipe, a terminal, a socket)."""

    @property
    def identity(self) -> tuple[int, int]:
        """What tells two files apart while both exist."""
        return self.device, self.inode


class Handle(Protocol):
    """An open file; every method may raise OSError (a stale NFS handle, a failing disk)."""

    def stat(self) -> FileStat:
        """State of the open file, wherever it is named now."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; empty at the end."""

    def data_start(self, offset: int) -> int:
        """First offset from `offset` on that is not in a hole of a sparse file (the file's size if there is none)."""

    def close(self) -> None:
        """Let the file go; never raises."""


class FileSystem(Protocol):
    """Paths; every method but `close` may raise OSError."""

    def stat(self, path: str) -> FileStat | None:
        """State of the file that a path leads to, through links; None when there is none."""

    def open(self, path: str) -> Handle:
        """Open for reading without ever waiting."""

    def glob(self, pattern: str) -> list[str]:
        """Paths that match, in any order."""

    def real(self, path: str) -> str:
        """The path with its links followed."""


class OsFileSystem:
    """The real file system; nothing here is remembered between two calls."""

    def stat(self, path: str) -> FileStat | None:
        """See FileSystem."""
        try:
            return _file_stat(os.stat(path))  # noqa: PTH116 - called for every file at every poll
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, path: str) -> Handle:
        """See FileSystem."""
        # O_NONBLOCK: a FIFO that took the file's place would make us wait for its writer.
        return _OsHandle(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))

    def glob(self, pattern: str) -> list[str]:
        """See FileSystem."""
        return glob.glob(pattern, recursive=True)  # noqa: PTH207 - pathlib refuses absolute patterns

    def real(self, path: str) -> str:
        """See FileSystem."""
        return os.path.realpath(path)


class _OsHandle:
    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def stat(self) -> FileStat:
        return _file_stat(os.fstat(self._descriptor))

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def data_start(self, offset: int) -> int:
        try:
            return os.lseek(self._descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but hole up to the end
                return os.fstat(self._descriptor).st_size
            if error.errno in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):  # a file system without holes
                return offset
            raise
        except AttributeError:  # a platform without SEEK_DATA
            return offset

    def close(self) -> None:
        try:
            os.close(self._descriptor)
        except OSError as error:
            # NFS reports a failed write-back here; we only read, and the descriptor is gone either way.
            if error.errno == errno.EBADF:
                raise


def _file_stat(status: os.stat_result) -> FileStat:
    if stat.S_ISREG(status.st_mode):
        kind = "file"
    else:
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "stream"
    return FileStat(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_nlink, kind)

"""Turns one log, whatever it is stored in, into chunks of UTF-8 bytes."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from vlogdiag.log.discover import STDIN, LogPath, SourceError, error_reason, printable
from vlogdiag.log.sources_decode import decoded
from vlogdiag.log.sources_decompress import BrokenStreamError

CHUNK = 4 << 20
"""Bytes per chunk: large enough that a per-chunk cost does not count, small beside the memory limit."""
HEAD = 1 << 10
"""Bytes at the beginning of a file by which it is recognised again."""
_PIPE_READ = 64 << 10
"""A pipe holds 64 KiB by default; asking for more only allocates memory in vain."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes read from disk so far, and how many there will be (None: unknown)."""
Notice = Callable[[str], None]
"""Called with one sentence about something that the reader of the report should know."""
Step = Callable[[int], None]
"""Called with the number of bytes just read."""


class SourceBroken(SourceError):  # noqa: N818 - an error by its base; named for what happened to the source
    """A log broke off while it was read; all that came before was yielded."""


def read_chunks(
    log: LogPath,
    *,
    size: int = CHUNK,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    notice: Notice | None = None,
) -> Iterator[bytes]:
    """Yield the log's bytes in chunks of about `size`; memory stays at a few chunks whatever the log holds.

    Compression and UTF-16 are undone by content, not by name (`sources_decode`). A regular file is read up to the size
    that it had when it was opened, so a growing log ends; one that shrinks meanwhile ends quietly with a notice. Parts
    of a rotated log follow one another, with a newline between them where a part lacks its last one. Raises, while
    iterating: SourceError when nothing could be opened, SourceBroken after the last chunk when something was damaged or
    missing.
    """
    tell: Notice = notice or (lambda text: None)
    for text in log.notices:
        tell(text)
    step = _meter(log, progress)
    if log.is_stdin:
        stdin = stdin or getattr(sys.stdin, "buffer", None)
        if stdin is None:
            raise SourceError(log.name, "standard input is closed")
        yield from _text(log.name, _stdin_blocks(stdin, size, step, tell), size)
        return
    failures: list[SourceError] = []
    opened = 0
    unended = False
    for part in log.parts:
        name = printable(part)
        try:
            with _opened(part) as file:
                opened += 1
                glue = unended
                for chunk in _text(name, _file_blocks(file, name, size, step, tell), size):
                    if glue:
                        yield b"\n"
                        glue = False
                    yield chunk
                    unended = not chunk.endswith(b"\n")
        except SourceError as error:
            failures.append(error)
    if failures:
        raise _joined(log.name, failures, opened)


def head_fingerprint(head: bytes) -> str:
    """Digest of a file's first bytes (at most HEAD are used), by which a rotated or truncated log is told apart."""
    return hashlib.blake2b(head[:HEAD], digest_size=16).hexdigest()


def _text(name: str, blocks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Decode raw blocks, and name the source that broke."""
    try:
        yield from decoded(blocks, size)
    except BrokenStreamError as error:
        raise SourceBroken(name, str(error)) from error


def _opened(path: Path) -> FileIO:
    """Open for reading without a buffer of its own; a FIFO waits here for its writer."""
    try:
        return FileIO(path)
    except (OSError, ValueError) as error:
        raise SourceError(printable(path), error_reason(error)) from error


def _file_blocks(file: FileIO, name: str, size: int, step: Step, tell: Notice) -> Iterator[bytes]:
    descriptor = file.fileno()
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return _pipe_blocks(partial(os.read, descriptor, _PIPE_READ), size, step)
    if hasattr(os, "posix_fadvise"):  # twice the read-ahead
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    return _regular_blocks(descriptor, status.st_size - file.tell(), name, size, step, tell)


def _stdin_blocks(stdin: BinaryIO, size: int, step: Step, tell: Notice) -> Iterator[bytes]:
    """Read standard input; a file redirected into it is bounded like a named one, anything else ends when it ends."""
    try:
        descriptor = stdin.fileno()
    except (OSError, ValueError):  # an object in memory
        return _pipe_blocks(partial(stdin.read, size), size, step)
    return _file_blocks(FileIO(descriptor, closefd=False), STDIN, size, step, tell)


def _regular_blocks(descriptor: int, length: int, name: str, size: int, step: Step, tell: Notice) -> Iterator[bytes]:
    """Read `length` bytes and no more: whoever appends faster than we read would keep us for ever."""
    done = 0
    while done < length:
        # os.read fills a fresh bytes object from the page cache: one copy, 7 GB/s, where slices of a map gave 6.5
        # and raise SIGBUS when the file shrinks.
        block = _read(partial(os.read, descriptor, min(size, length - done)), done)
        if not block:
            tell(f"{name} shrank while it was read: {done} of {length} bytes were there")
            return
        done += len(block)
        step(len(block))
        yield block


def _pipe_blocks(read: Callable[[], bytes], size: int, step: Step) -> Iterator[bytes]:
    """Join a pipe's small portions to blocks of `size` bytes."""
    done = 0
    portions: list[bytes] = []
    have = 0
    while True:
        try:
            portion = _read(read, done)
        except BrokenStreamError:
            if portions:
                yield b"".join(portions)
            raise
        portions.append(portion)
        have += len(portion)
        done += len(portion)
        step(len(portion))
        if have >= size or (have and not portion):
            yield b"".join(portions)
            portions, have = [], 0
        if not portion:
            return


def _read(read: Callable[[], bytes], done: int) -> bytes:
    try:
        return read()
    except OSError as error:
        raise BrokenStreamError(
            f"could not be read past byte {done}: {(error.strerror or str(error)).lower()}"
        ) from error


def _joined(name: str, failures: list[SourceError], opened: int) -> SourceError:
    """Make one error of several; it is a SourceBroken when at least one part could be opened."""
    if len(failures) == 1 and failures[0].path == name:
        return failures[0]
    text = "; ".join(str(failure) for failure in failures)
    return SourceBroken(name, text) if opened else SourceError(name, text)


def _meter(log: LogPath, progress: Progress | None) -> Step:
    """Make a counter that adds up what is read of all parts."""
    if progress is None:
        return lambda count: None
    tell = progress
    total = _total(log.parts)
    done = 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        tell(done, total)

    return step


def _total(parts: Iterable[Path]) -> int | None:
    """Bytes on disk of all parts; None when one is a pipe or there is none."""
    total = 0
    for part in parts:
        try:
            status = part.stat()
        except (OSError, ValueError):
            continue  # read_chunks reports it when it opens the part
        if not stat.S_ISREG(status.st_mode):
            return None
        total += status.st_size
    return total or None

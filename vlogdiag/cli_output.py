"""Standard output and error that outlive their reader: what nobody reads any more is dropped, the exit status stays.

typer ends a program whose reader has gone with status 1, which here means that something was found.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

__all__ = ["outlive_readers", "reader_gone"]


class _Raw(io.FileIO):
    """A descriptor that takes everything once its reader has gone."""

    gone = False

    def write(self, data: Any, /) -> int:
        """As a file writes; from the first broken pipe on nothing is written, and that is no error."""
        if not self.gone:
            try:
                return super().write(data)
            except BrokenPipeError:
                self.gone = True
        return memoryview(data).nbytes


def outlive_readers() -> None:
    """Put such streams in the place of standard output and error; closed ones (`>&-`) become ones that take all."""
    sys.stdout = _open(sys.stdout)
    sys.stderr = _open(sys.stderr, at_once=True)


def reader_gone() -> bool:
    """Whether standard output has met a broken pipe: time for a command that writes on and on to end."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return bool(getattr(raw, "gone", False))


def _open(stream: TextIO | None, *, at_once: bool = False) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8", errors="backslashreplace")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Raw(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        # Bytes that are no text may stand in names and logs.
        errors="backslashreplace",
        line_buffering=at_once or stream.line_buffering or stream.write_through,
        write_through=stream.write_through,
    )

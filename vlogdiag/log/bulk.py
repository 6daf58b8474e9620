"""Looks at the bulk of a log, which nobody needs to read: counts its line ends, and finds a mark in it."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["holds", "line_ends"]

WORTH = 64 * 1024
"""Bytes from which on the library is asked: short logs are done before it would be loaded."""


@cache
def _library() -> Any:
    """The module, which uses the processor's vector instructions, or None where it cannot be loaded."""
    try:
        import stringzilla
    except ImportError:
        return None
    return stringzilla


def line_ends(data: bytes, start: int = 0, end: int | None = None) -> int:
    """How many `\\n` stand in `data[start:end]`."""
    end = len(data) if end is None else end
    library = _library() if end - start >= WORTH else None
    if library is None:
        return data.count(b"\n", start, end)
    return int(library.count(memoryview(data)[start:end], b"\n"))


def holds(data: bytes, mark: bytes) -> bool:
    """Whether `mark` stands in `data`."""
    library = _library() if len(data) >= WORTH else None
    return mark in data if library is None else library.find(data, mark) >= 0

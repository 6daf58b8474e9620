"""Says of a stretch of lines that nobody reads when it began and ended, and where a request was last answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from vlogdiag.log.headers import Parsed, parse_line

__all__ = ["edge_lines", "last_life"]

EDGE = 40
"""Lines looked at from each end for a time stamp: access lines have none."""
TRIES = 64
ANSWERED = re.compile(rb'"POST [^"\s]{1,200} HTTP/[\d.]{1,3}" 200|throughput: (?:[1-9]|0\.[1-9])')
"""A request answered, or a statistics line with work done (`diagnosis.runs` asks the same of single lines)."""


def edge_lines(data: bytes, start: int, end: int, off: Callable[[str], str]) -> Iterator[Parsed]:
    """The first and the last line with a time of its own in `data[start:end]` (whole lines, shorn by `off`)."""
    at = start
    for _ in range(EDGE):
        stop = data.find(b"\n", at, end)
        if stop < 0:
            break
        parsed = parse_line(off(data[at:stop].decode("utf-8", "replace").rstrip("\r")))
        if parsed.stamp is not None:
            yield parsed
            break
        at = stop + 1
    stop = end - 1
    for _ in range(EDGE):
        if stop <= at:
            break
        begin = data.rfind(b"\n", start, stop) + 1 or start
        parsed = parse_line(off(data[begin:stop].decode("utf-8", "replace").rstrip("\r")))
        if parsed.stamp is not None:
            yield parsed
            break
        stop = begin - 1


def last_life(data: bytes, start: int, end: int, last: int) -> int | None:
    """Number of the last line with a sign of life; `last` is the number of the line that ends at `end`.

    Looked for and counted from the end, where it stands as a rule: what lies before has been counted already.
    """
    high = end
    for _ in range(TRIES):
        at = data.rfind(b'" 200', start, high)
        at = max(at, data.rfind(b"throughput: ", max(at, start), high))
        if at < 0:
            return None
        line = data.rfind(b"\n", start, at) + 1 or start
        stop = data.find(b"\n", at, end)
        if ANSWERED.search(data, line, stop if stop >= 0 else end):
            return last + 1 - data.count(b"\n", at, end)
        high = line
        if high <= start:
            return None
    place = None
    for match in ANSWERED.finditer(data, start, end):
        place = match.start()
    return None if place is None else last + 1 - data.count(b"\n", place, end)

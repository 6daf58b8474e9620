"""Turns an export that lists its newest line first, as cloud consoles do, into the order of writing."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from vlogdiag.log.bulk import line_ends
from vlogdiag.log.discover import LogPath, SourceError, error_reason
from vlogdiag.log.sources import CHUNK
from vlogdiag.log.sources_decode import is_encoded

_DECIDING = 200
"""Changes of the time that decide; a file that lists its newest line first does so from the first line on."""
_FEWEST_STEPS = 4
_FEWEST_CLOSE_STEPS = 20
"""As many where all of them lie within a second, as a crash prints them."""
_LINE_HEAD = 400
"""A line's time stamp stands within this many bytes."""
_SEARCHED = 1 << 20
_DISORDER = 1.0
"""Seconds by which lines of several processes may stand out of order in any log."""
_HALF_YEAR = 180 * 86400.0
_YEAR = 366 * 86400.0
_LEAP_YEAR = 2000
"""Stands in where a stamp names no year, so that 29 February exists."""
_MONTHS = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_CLOCK = rb"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_STAMP = re.compile(
    # ISO 8601 and vLLM's own, syslog
    rb"(?<![\d-])(?:(?P<Y>20\d\d)[-/])?(?P<m>\d\d)[-/](?P<d>\d\d)[T ]"
    + _CLOCK
    + rb"|\b(?P<b>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(?P<e>\d\d?) (?P<h>\d\d):(?P<n>\d\d):(?P<s>\d\d)"
)


class Ordered(Struct, frozen=True):
    """A log's chunks, oldest line first."""

    chunks: Iterator[bytes]
    newest_first: bool = False
    lines: int | None = None
    """Lines of the file when it was turned round: the n-th line yielded (from 1) is its line `lines + 1 - n`."""


def oldest_first(log: LogPath, chunks: Iterator[bytes], *, size: int = CHUNK) -> Ordered:
    """Hand `chunks` (of `read_chunks`) on, turned round line by line if the log lists its newest line first.

    A plain file is then read from its end; anything else goes through a temporary file, so memory stays at a few
    chunks either way. Raises what iterating `chunks` raises; what it raises at its end comes behind the last line.
    """
    first = next(chunks, b"")
    if len(log.parts) > 1 or not newest_first(first):
        return Ordered(chain([first] if first else [], chunks))
    stack = ExitStack()
    try:
        plain = _plain_file(log)
        file: BinaryIO = stack.enter_context(plain if plain is not None else tempfile.TemporaryFile())  # noqa: SIM115
        length, lines, failure = _passed(chain([first], chunks), None if plain is not None else file)
    except OSError as error:
        stack.close()
        raise SourceError(
            log.name, f"its lines stand newest first and cannot be turned round: {error_reason(error)}"
        ) from error
    return Ordered(_turned(stack, file, length, size, failure), True, lines)


def newest_first(head: bytes) -> bool:
    """Tell whether the time stamps of a log's first lines descend all the way.

    Up to 200 changes of the time, in at most 1 MiB, decide. Lines of several processes stand out of order by up to a
    second in any log, so a few such steps upwards are allowed for.
    """
    up = down = 0
    fall = 0.0
    for step in islice(_steps(head[:_SEARCHED]), _DECIDING):
        up += step > 0
        if step > _DISORDER or up * 10 > _DECIDING:  # so many upwards that the rest cannot make up for them
            return False
        down += step < 0
        fall -= step
    return down >= _FEWEST_STEPS and up * 10 <= down and (fall >= _DISORDER or down >= _FEWEST_CLOSE_STEPS)


def reversed_lines(file: BinaryIO, length: int, *, size: int = CHUNK) -> Iterator[bytes]:
    """Yield the lines of the first `length` bytes of `file`, the last one first, in chunks of about `size` bytes.

    Every line ends in a newline then. A line longer than `size` is yielded in portions, so memory stays bounded.
    """
    descriptor = file.fileno()
    end = position = length  # yielded from `end` on, looked at from `position` on
    while position > 0:
        start = max(0, position - size)
        block = os.pread(descriptor, position - start, start)
        if len(block) < position - start:
            return  # it shrank
        begin = block.find(b"\n") + 1 if start else 0
        if start and not begin:
            position = start
            continue
        lines = block[begin:]
        if end > position:  # the last line here goes on behind this block
            cut = lines.rfind(b"\n") + 1
            yield from _portions(descriptor, start + begin + cut, end, size)
            lines = lines[:cut]
        if lines:
            pieces = lines.split(b"\n")
            if not pieces[-1]:
                pieces.pop()
            pieces.reverse()
            yield b"\n".join(pieces) + b"\n"
        end = start + begin
        position = start


def _portions(descriptor: int, start: int, end: int, size: int) -> Iterator[bytes]:
    portion = b""
    while start < end:
        portion = os.pread(descriptor, min(size, end - start), start)
        if not portion:
            break
        yield portion
        start += len(portion)
    if not portion.endswith(b"\n"):
        yield b"\n"


def _turned(stack: ExitStack, file: BinaryIO, length: int, size: int, failure: SourceError | None) -> Iterator[bytes]:
    with stack:
        yield from reversed_lines(file, length, size=size)
    if failure is not None:
        raise failure


def _passed(chunks: Iterator[bytes], copy: BinaryIO | None) -> tuple[int, int, SourceError | None]:
    """Run through all chunks once: bytes, lines, and what broke; `copy` receives the bytes."""
    length = lines = 0
    last = b""
    try:
        for chunk in chunks:
            length += len(chunk)
            lines += line_ends(chunk)
            last = chunk[-1:]
            if copy is not None:
                copy.write(chunk)
    except SourceError as error:
        failure: SourceError | None = error
    else:
        failure = None
    if copy is not None:
        copy.flush()
    return length, lines + (last not in (b"", b"\n")), failure


def _plain_file(log: LogPath) -> BinaryIO | None:
    """Open the log's file again if what it holds is what `read_chunks` yields."""
    if log.is_stdin or not Path(log.parts[0]).is_file():
        return None
    file = log.parts[0].open("rb")
    if is_encoded(os.pread(file.fileno(), 8, 0)):
        file.close()
        return None
    return file


def _steps(head: bytes) -> Iterator[float]:
    """Yield the changes of the time from stamped line to stamped line, in seconds, never 0."""
    earlier: tuple[bool, float] | None = None
    for line in head.split(b"\n"):
        # The first stamp of a line is the outermost, the exporter's.
        match = _STAMP.search(line, 0, _LINE_HEAD)
        later = _time(match.groupdict()) if match else None
        if later is None:
            continue
        if earlier is not None and (step := _step(earlier, later)):
            yield step
        earlier = later


def _time(part: dict[str, bytes]) -> tuple[bool, float] | None:
    """Read a stamp: whether it has a year, and its seconds; None for 13 o'clock on 31 February."""
    month = _MONTHS.index(part["b"]) + 1 if part["b"] else int(part["m"])
    names = ("e", "h", "n", "s") if part["b"] else ("d", "H", "M", "S")
    day, hour, minute, second = (int(part[name]) for name in names)
    try:
        moment = datetime(int(part["Y"] or _LEAP_YEAR), month, day, hour, minute, second)
    except ValueError:
        return None
    fraction = float(b"0." + part["f"]) if part["f"] else 0.0
    return part["Y"] is not None, (moment - datetime(1970, 1, 1)).total_seconds() + fraction


def _step(earlier: tuple[bool, float], later: tuple[bool, float]) -> float:
    """Seconds from one stamp to the next; without a year, half a year or more means New Year. Two kinds: no step."""
    if earlier[0] != later[0]:
        return 0.0
    step = later[1] - earlier[1]
    if not later[0] and abs(step) > _HALF_YEAR:
        step -= _YEAR if step > 0 else -_YEAR
    return step

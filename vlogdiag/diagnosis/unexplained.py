"""Keeps the errors that no signature claimed: distinct ones by their masked text, all of them counted."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from vlogdiag.model import Level, Line, Record, Unexplained

__all__ = ["CRASHES", "Leftovers", "code_line", "exception_line", "is_error"]

VARIES = re.compile(r"(?=[/0-9a-f])(?:(?:/[\w.@+-]+){2,}/?|0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+)")
"""Paths, hexadecimal and decimal numbers; what they can begin with is asked first, since every error is masked."""
EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.]{0,200}\.)?[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit|Failure|Refused|Timeout|Fault|Cancelled|Group|Denied|Died|Dead\w*)(?::\s|$)"
)
MAX_DISTINCT = 2_000
FRAMES = 24
"""Lines before the exception that are kept of its record: where it was raised."""
MAX_HEAD = 400
"""An exception's name stands in so much of its line."""
MAX_KEPT = 2_000
"""Characters kept of every line: no report shows more."""
SHOWN = 50
"""DESIGN section 6: at most this many are listed."""
TRACEBACK = "Traceback (most recent call last)"
CRASHES = ("Fatal Python error: ", "terminate called after throwing an instance of ")
"""How a death in native code begins, in Python's words and in C++'s."""
WHAT = "  what():"
"""Below the second: what was thrown."""
FRAME = '  File "'


class _Entry(Struct, frozen=True):
    record: Record
    line: Line


def is_error(record: Record, text: str) -> bool:
    """Whether a record is one that needs an explanation: an error level, or a traceback without level."""
    if record.level is not None:
        return record.level >= Level.ERROR and record.kind != "nccl"
    if TRACEBACK in text or any(crash in text for crash in CRASHES):
        return True
    return record.cut and FRAME in text and any(EXCEPTION.match(line.text[:MAX_HEAD]) for line in record.lines)


def exception_line(record: Record) -> Line:
    """The line that names what was raised: of chained tracebacks the first, which came first; else the first line."""
    inside = False
    crash: Line | None = None
    for line in record.lines:
        text = line.text
        if crash is not None:
            return line if text.startswith(WHAT) else crash
        if text < "!":  # empty or indented: most lines of a traceback
            continue
        if text.startswith(CRASHES):
            crash = line
        elif TRACEBACK in text:
            inside = True
        elif EXCEPTION.match(text) or (inside and not text.startswith(("The above", "During handling"))):
            return line
    return crash or record.first


def code_line(record: Record, raised: Line) -> Line | None:
    """The statement that failed: the last line of code that the traceback quotes before what was raised."""
    before = [line for line in record.lines if line.number < raised.number]
    for line in reversed(before):
        if line.text.startswith("    ") and line.text.strip(" ^~"):
            return line
        if line.text and line.text[0] not in " \t":
            return None
    return None


class Leftovers:
    """Unclaimed errors of one log; bounded, with what came beyond the bound only counted."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, str], _Entry] = {}
        self._counts: dict[tuple[int, str], int] = {}
        self.beyond = 0

    def add(self, record: Record) -> None:
        """Keep one record that no signature claimed."""
        line = exception_line(record)
        key = (record.run, mask(line.text))
        if key in self._entries:
            self._counts[key] += record.repeats
        elif len(self._entries) < MAX_DISTINCT:
            begin = next((each for each in record.lines if TRACEBACK in each.text), record.first)
            at = record.lines.index(line)
            kept = dict.fromkeys((record.first, begin, *record.lines[max(0, at - FRAMES) : at + 1], record.lines[-1]))
            lines = tuple(replace(each, text=each.text[:MAX_KEPT]) for each in kept)
            self._entries[key] = _Entry(replace(record, lines=lines), replace(line, text=line.text[:MAX_KEPT]))
            self._counts[key] = record.repeats
        else:
            self.beyond += record.repeats

    def fork(self) -> Leftovers:
        """A twin that goes its own way."""
        twin = copy.copy(self)
        twin._entries = dict(self._entries)
        twin._counts = dict(self._counts)
        return twin

    def forget(self, run: int) -> None:
        """Let go of runs up to `run`."""
        for key in [k for k in self._entries if k[0] <= run]:
            del self._entries[key], self._counts[key]

    def first(self, run: int) -> tuple[Record, Line] | None:
        """The run's first unclaimed record with an exception, else its first at all."""
        mine = sorted(
            (e for (number, _), e in self._entries.items() if number == run), key=lambda e: e.record.first.number
        )
        for entry in mine:
            if EXCEPTION.match(entry.line.text):
                return entry.record, entry.line
        return (mine[0].record, mine[0].line) if mine else None

    def listed(self, source: str, inside: Callable[[Record], bool]) -> tuple[Unexplained, ...]:
        """The first `SHOWN` distinct ones whose first record is `inside`, in order of their lines."""
        entries = sorted(
            ((e, self._counts[key]) for key, e in self._entries.items() if inside(e.record)),
            key=lambda each: each[0].line.number,
        )
        return tuple(
            Unexplained(source, e.line.number, e.line.text[:1000], count, e.record.run) for e, count in entries[:SHOWN]
        )

    @property
    def distinct(self) -> int:
        """How many distinct ones were kept."""
        return len(self._entries)


def mask(text: str) -> str:
    """Text with digits, hexadecimal numbers and paths made alike."""
    return VARIES.sub("#", text[:400])

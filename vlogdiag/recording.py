"""Finds the record that holds a line of a log, and the raw lines it was printed on."""

from __future__ import annotations

from pathlib import Path

from vlogdiag.log.headers import ESCAPES, Parsed
from vlogdiag.log.records import Assembler, Context
from vlogdiag.model import Line, Phase, Record

__all__ = ["record_at"]

AROUND = 400
"""Lines read before and after: no record that matters is longer."""
BEGINNING, NEAR = 2, 8
"""Raw lines that an example shows: the record's first ones, and those before the line that proves the cause."""


def record_at(path: Path, number: int) -> tuple[Record, Line, str] | None:
    """The record with line `number` (1-based), that line, and the record's raw text; None if there is none.

    Raises OSError when the file cannot be read.
    """
    raw: dict[int, str] = {}
    with path.open("rb") as file:
        for count, data in enumerate(file, 1):
            if count > number + AROUND:
                break
            if count >= number - AROUND:
                raw[count] = data.decode("utf-8", "replace").rstrip("\r\n")
    if number not in raw or not raw[number].strip():
        return None

    def track(parsed: Parsed, line: int, time: float | None) -> Context:
        return Context(1, Phase.STARTING)

    assembler = Assembler(track)
    records = [record for count, text in raw.items() for record in assembler.line(count, 0, text)]
    for record in (*records, *assembler.close()):
        for line in record.lines:
            if line.number == number:
                lines = list(dict.fromkeys(each.number for each in record.lines))
                place = lines.index(number)
                shown = sorted({*lines[:BEGINNING], *lines[max(0, place - NEAR) : place + 2]})
                return record, line, "\n".join(printable(raw[n]) for n in shown)
    return None


def printable(text: str) -> str:
    """A raw line as YAML can carry it: no colours, no control characters."""
    return "".join(c for c in ESCAPES.sub("", text) if c.isprintable() or c == "\t")

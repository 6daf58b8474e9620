"""Finds in a log's lines the record that proves a finding, and cuts its traceback down to what a reader needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlogdiag.log.headers import Parsed
from vlogdiag.log.records import Assembler, Context
from vlogdiag.model import Finding, Phase, Record
from vlogdiag.snapshot.assemble import CleanLog, CleanPart
from vlogdiag.snapshot.columns import parseable

AROUND = 400
"""Lines before and after the one that proves it: no record that matters is longer."""
MAX_LINES = 60
FIRST_FRAMES = 1
LAST_FRAMES = 8
MAX_TAIL = 12
"""Lines of the message behind the last frame: CUDA's advice, pydantic's list."""

_FRAME = re.compile(r'\s*File "[^"]{1,400}", line \d+')


def root_traceback(log: CleanLog, finding: Finding) -> str | None:
    """The message and the frames that matter, headers taken off; None where the log's part does not hold them."""
    lines = [item.line for item in finding.evidence if item.kind == "log" and item.line is not None]
    number = lines[0] if lines else finding.first.line
    part = next((p for p in log.parts if number is not None and p.line <= number < p.line + len(p.lines)), None)
    if part is None or number is None:
        return None
    record = _record_at(part, number)
    if record is None:
        return part.lines[number - part.line]
    return shorten(record.text.splitlines())


def shorten(lines: Sequence[str]) -> str:
    """A traceback of at most `MAX_LINES` lines: its first frames, its last ones, the message; the rest is counted."""
    texts = [line.rstrip() for line in lines]
    if len(texts) <= MAX_LINES:
        return "\n".join(texts)
    frames = [at for at, text in enumerate(texts) if _FRAME.match(text)]
    if len(frames) <= FIRST_FRAMES + LAST_FRAMES:
        kept = texts[: MAX_LINES - MAX_TAIL], texts[-MAX_TAIL:]
        return "\n".join([*kept[0], f"[… {len(texts) - MAX_LINES} lines]", *kept[1]])
    head = texts[: frames[FIRST_FRAMES]]
    tail = texts[frames[-LAST_FRAMES] :]
    if len(tail) > MAX_LINES - len(head):
        tail = [*tail[: MAX_LINES - len(head) - MAX_TAIL], "[…]", *tail[-MAX_TAIL:]]
    hidden = len(frames) - FIRST_FRAMES - LAST_FRAMES
    return "\n".join([*head, f"  [… {hidden} frames]", *tail])


def _record_at(part: CleanPart, number: int) -> Record | None:
    first = max(0, number - part.line - AROUND)
    assembler = Assembler(_nowhere)
    records: list[Record] = []
    lines = part.lines[first : number - part.line + AROUND]
    data = parseable("\n".join(lines).encode("utf-8", "surrogateescape"))
    for at, text in enumerate(data.decode("utf-8", "replace").split("\n"), part.line + first):
        records += assembler.line(at, 0, text)
    for record in (*records, *assembler.close()):
        if any(line.number == number for line in record.lines):
            return record
    return None


def _nowhere(parsed: Parsed, line: int, time: float | None) -> Context:
    """The assembler asks in which start a record lies; here it is the same for all."""
    return Context(1, Phase.STARTING)

"""Turns a `Reading` into one line of a recording (format `vlogdiag.reading/1`), and such a line back into it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from vlogdiag.model import Reading

FORMAT = "vlogdiag.reading/1"


class ReadingError(ValueError):
    """A line of a recording that is none, with its 1-based number and what is wrong with it."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def encode(reading: Reading) -> dict[str, Any]:
    """The reading as plain values; unknown ones are left out, all but `time`, which is null where unknown."""
    plain = _known(msgspec.to_builtins(reading))
    return {"format": FORMAT, "time": None, **plain}


def decode(value: object, *, line: int = 1) -> Reading:
    """The reading of one parsed line; keys that this version does not know are ignored. Raises `ReadingError`."""
    if not isinstance(value, Mapping):
        raise ReadingError(line, "expected an object")
    if value.get("format") != FORMAT:
        raise ReadingError(line, f"expected format {FORMAT!r}, got {value.get('format')!r}")
    try:
        return msgspec.convert(value, Reading)
    except msgspec.ValidationError as error:
        raise ReadingError(line, str(error)) from None


def to_line(reading: Reading) -> str:
    """One line of a recording, with its newline; in ASCII, for not everybody ends lines at newlines only (U+2028)."""
    return json.dumps(encode(reading), separators=(",", ":")) + "\n"


def read_lines(lines: Iterable[str | bytes]) -> Iterator[Reading]:
    """Readings of a recording in its order, blank lines skipped. Raises `ReadingError` at a line that is none."""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ReadingError(number, f"not JSON: {error}") from None
        yield decode(value, line=number)


def _known(value: Any) -> Any:
    """Without unknown fields; numbers that JSON cannot hold are unknown too. Positions in a row keep their null."""
    if isinstance(value, dict):
        return {key: kept for key, item in value.items() if (kept := _known(item)) is not None}
    if isinstance(value, (list, tuple)):
        return [_known(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

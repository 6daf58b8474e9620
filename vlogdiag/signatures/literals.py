"""Turns numbers with units in a condition (`4GiB`, `60 s`, `5%`) into names that Python's grammar knows."""

from __future__ import annotations

import math
import re

from vlogdiag.values import DURATION_UNITS, SIZE_UNITS, Kind, Quantity

_SIZES = ("KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB", "bytes")
_DURATIONS = ("ms", "s", "sec", "seconds", "min", "minutes", "h", "hours")
_UNITS: dict[str, tuple[float, Kind]] = {
    **{unit: (SIZE_UNITS[unit.lower()], Kind.SIZE) for unit in _SIZES},
    **{unit: (DURATION_UNITS[unit], Kind.DURATION) for unit in _DURATIONS},
}
# `5%` is a literal unless an operand follows, which makes `%` the remainder.
_PERCENT = r"%(?=\s*(?:$|[)\],=!<>+*/-]|(?:and|or|not|in)\b))"
_LITERAL = re.compile(
    r"(?P<text>'[^'\\]*'|\"[^\"\\]*\")"
    r"|(?<![\w.])(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"(?:\s*(?P<unit>{'|'.join(sorted(_UNITS, key=len, reverse=True))})(?![\w(])|(?P<percent>\s?{_PERCENT}))"
)


def take_literals(source: str) -> tuple[str, dict[str, Quantity]]:
    """The source with `_0`, `_1` … in place of its numbers with units, and what these stand for."""
    literals: dict[str, Quantity] = {}

    def replace(found: re.Match[str]) -> str:
        if found["text"] is not None:
            return found[0]
        name = f"_{len(literals)}"
        literals[name] = _literal(float(found["number"]), found["unit"])
        return f" {name} "  # blanks keep `2min` and `5%and` apart from their neighbours

    return _LITERAL.sub(replace, source).strip(), literals


def _literal(number: float, unit: str | None) -> Quantity:
    if unit is None:
        return Quantity(round(number / 100, 12), Kind.PERCENT)
    factor, kind = _UNITS[unit]
    value = number * factor
    return Quantity(round(value) if kind is Kind.SIZE and math.isfinite(value) else value, kind)

"""Turns hole types into the regular expressions that read them, each possessive and of bounded length."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vlogdiag.values import DURATION_UNITS, SIZE_UNITS, Kind

WORD = 200
TEXT = 2000

KINDS: Mapping[str, Kind] = {
    "int": Kind.INT,
    "float": Kind.FLOAT,
    "size": Kind.SIZE,
    "percent": Kind.PERCENT,
    "duration": Kind.DURATION,
    "word": Kind.TEXT,
    "text": Kind.TEXT,
    "GiB": Kind.SIZE,
    "MiB": Kind.SIZE,
}
"""Hole type to the kind of its capture."""

_DIGITS = r"(?:[0-9]{1,3}+(?:,[0-9]{3}){1,12}+(?![0-9])|[0-9]{1,40}+)"
_NUMBER = rf"{_DIGITS}(?:\.[0-9]{{1,40}}+)?+(?:[eE][+-]?[0-9]{{1,3}}+)?+"
NUMBER_END = r"(?![0-9]|[.,][0-9])"
NUMBER_START = r"(?<![0-9])(?<![0-9][.,])"


def _units(units: Mapping[str, float]) -> str:
    return "|".join(sorted(map(re.escape, units), key=len, reverse=True))


_SIZE_UNIT = rf"[ \t]{{0,3}}+(?i:{_units(SIZE_UNITS)})(?![A-Za-z])"
_DURATION_UNIT = rf"[ \t]{{0,3}}+(?i:{_units(DURATION_UNITS)})(?![A-Za-z])"

NUMBERS: Mapping[str, str] = {
    "int": rf"[+-]?+{_DIGITS}",
    "float": rf"(?:[+-]?+{_NUMBER}|[+-]?+(?i:nan|inf)\b)",
    "size": rf"[+-]?+{_NUMBER}{_SIZE_UNIT}",
    "percent": rf"[+-]?+{_NUMBER}[ \t]{{0,3}}+%",
    "duration": rf"(?:[0-9]{{1,5}}+:[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,9}}+)?+|[+-]?+{_NUMBER}(?:{_DURATION_UNIT})?+)",
    "GiB": rf"[+-]?+{_NUMBER}",
    "MiB": rf"[+-]?+{_NUMBER}",
}
PLAIN_INT = r"[+-]?+[0-9]{1,40}+"


def hole_expression(type_: str, *, first: bool, last: bool, after_gap: bool, before_comma: bool) -> str:
    """Expression of one hole, by where it stands in its pattern.

    A word or text that ends the pattern takes what there is, others as little as reaches the next literal; one that
    begins it is never the tail of a longer one. A number with no literal beside it is never a piece of a longer number.
    """
    greed = "+" if last else "?"
    if type_ == "word":
        return (r"(?<!\S)" if first else "") + rf"\S{{1,{WORD}}}{greed}"
    if type_ == "text":
        return (r"(?<![^\n])" if first else "") + rf"[^\n]{{1,{TEXT}}}{greed}"
    # In `({wanted:int}), …` nothing is at stake, in `[{height:int},{width:int}]` a comma is no thousands separator.
    body = PLAIN_INT if type_ == "int" and before_comma else NUMBERS[type_]
    start = NUMBER_START if first or after_gap else ""
    return start + body + (NUMBER_END if last and type_ not in ("size", "percent") else "")

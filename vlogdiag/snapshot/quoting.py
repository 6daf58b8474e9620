"""Finds where a quoted value ends, however often the text around it was quoted again (Python repr, JSON in JSON)."""

from __future__ import annotations

import re

import regex

_WRAPPED = regex.compile(r'[^{}\'"]{0,160}\{\s{0,4}"[\w.@-]{1,40}"\s{0,4}:')
_QUOTE = {"'": re.compile(r"\\*'"), '"': re.compile(r'\\*"')}
_EITHER = re.compile(r"\\*[\"']")


def wrapped(line: str) -> bool:
    """True if the line is a JSON object that a log shipper or a JSON formatter made of a log line."""
    return "{" in line and _WRAPPED.match(line) is not None


def closing(text: str, start: int, opening: str, inside_json: bool) -> int | None:
    """Index where the value ends that `opening` (a quote, backslashes before it) began at `start`; None if it is open.

    With n levels of JSON around it, a double quote is written with 2^n - 1 backslashes; one that belongs to the value
    has more of them, and one with fewer ends the text around the value, so the value was cut and ends there too. A
    single quote needs no backslash in JSON: there only a multiple of four of them closes what Python's repr opened.
    """
    depth = len(opening) - 1
    if opening[-1] == "'":
        return _closing_single(text, start, inside_json)
    period = 2 * (depth + 1)
    for match in _QUOTE['"'].finditer(text, start):
        slashes = len(match[0]) - 1
        if slashes < depth:
            return match.start()
        if slashes % period == depth:
            return match.end() - 1 - depth
    return None


def _closing_single(text: str, start: int, inside_json: bool) -> int | None:
    period = 4 if inside_json else 2
    for match in (_EITHER if inside_json else _QUOTE["'"]).finditer(text, start):
        slashes = len(match[0]) - 1
        if slashes % (period if match[0][-1] == "'" else 2) == 0:  # a double quote: the JSON string around it ends
            return match.start() + slashes  # the backslashes belong to the value
    return None

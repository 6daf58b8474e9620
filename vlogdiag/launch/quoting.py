"""Splits and unquotes words, every character keeping its place, the way shells and unit files spell them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vlogdiag.launch.inset import Piece

_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_UNIT = {**{key: _ANSI[key] for key in "abfnrtv"}, "s": " "}
_PLAIN = re.compile(r"^[A-Za-z0-9@%+=:,./_-]+$")
"""What needs no quotes in a shell; shlex.quote allows the same."""


@dataclass(frozen=True, slots=True)
class Unquoted:
    """A word's characters with their places, and whether something in it would still be expanded."""

    pieces: tuple[Piece, ...]
    literal: bool

    @property
    def text(self) -> str:
        """The plain word."""
        return "".join(char for char, _, _ in self.pieces)


def unquote(raw: str, unit: bool = False) -> Unquoted:
    """A shell word without its quotes; expansions stay as they are written.

    `unit`: a word of a systemd unit, where backslashes work inside single quotes too and `$'…'` is nothing special.
    """
    pieces: list[Piece] = []
    literal = True
    quote = ""
    i = 0
    while i < len(raw):
        char = raw[i]
        following = raw[i + 1 : i + 2]
        if unit and char == "\\" and following and following != "\n":
            pieces.append((_UNIT.get(following, following), i, i + 2))
            i += 1
        elif quote in ("'", "$'"):
            if char == "'":
                quote = ""
            elif quote == "$'" and char == "\\" and following:
                pieces.append((_ANSI.get(following, following), i, i + 2))
                i += 1
            else:
                pieces.append((char, i, i + 1))
        elif char == "\\" and following == "\n":
            i += 1
        elif char == "\\" and following and (not quote or following in '$`"\\'):
            pieces.append((following, i, i + 2))
            i += 1
        elif char == '"':
            quote = "" if quote else '"'
        elif char == "'" and not quote:
            quote = "'"
        elif char == "$" and following == "'" and not quote and not unit:
            quote = "$'"
            i += 1
        elif char in "$`" and not (unit and (char == "`" or following == "(")):
            end = _expansion_end(raw, i)
            literal = literal and end == i + 1 and char != "`"
            pieces += [(raw[k], k, k + 1) for k in range(i, end)]
            i = end - 1
        else:
            pieces.append((char, i, i + 1))
        i += 1
    return Unquoted(tuple(pieces), literal)


def _expansion_end(raw: str, start: int) -> int:
    """End of the `$NAME`, `${…}`, `$(…)` or backquoted text that begins at `start`; `start + 1` for a lone dollar."""
    if raw[start] == "`":
        end = raw.find("`", start + 1)
        return len(raw) if end < 0 else end + 1
    opener = raw[start + 1 : start + 2]
    if opener and opener in "{(":
        closer = {"{": "}", "(": ")"}[opener]
        depth = 0
        for i in range(start + 1, len(raw)):
            depth += (raw[i] == opener) - (raw[i] == closer)
            if not depth:
                return i + 1
        return len(raw)
    name = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])").match(raw, start)
    return name.end() if name else start + 1


def split(text: str, unit: bool = False) -> list[tuple[int, int]]:
    """Spans of the blank-separated words of `text`; quotes and backslashes as in a shell (in a systemd unit)."""
    spans: list[tuple[int, int]] = []
    start = -1
    quote = ""
    i = 0
    while i < len(text):
        char = text[i]
        if not quote and char.isspace():
            if start >= 0:
                spans.append((start, i))
                start = -1
        elif not quote and char == "\\" and text[i + 1 : i + 2] == "\n" and start < 0:
            i += 1
        else:
            if start < 0:
                start = i
            if char == "\\" and (unit or quote != "'"):
                i += 1
            elif char in "'\"":
                quote = "" if quote == char else quote or char
        i += 1
    if start >= 0:
        spans.append((start, min(i, len(text))))
    return spans


def quote_word(text: str) -> str:
    """`text` as one shell word: bare where possible, single quotes else."""
    if _PLAIN.match(text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def quote_plainly(text: str) -> str:
    """`text` as one word for unit files and their like: both quotes there know backslashes, `'\\''` is not known."""
    if _PLAIN.match(text):
        return text
    if "'" not in text and "\\" not in text:
        return f"'{text}'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

"""Joins continued lines of Dockerfiles and unit files, every character keeping its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vlogdiag.launch.inset import Inset, Piece, whole


@dataclass(frozen=True, slots=True)
class LogicalLine:
    """One instruction or setting with its continued lines."""

    inset: Inset
    start: int
    """Document offset of the first physical line."""
    end: int
    """Document offset behind the last physical line's break."""


def logical_lines(document: str, comments: str, escape: str = "\\", joint: str = "") -> Iterator[LogicalLine]:
    """Every line that is neither blank nor a comment; comments between continued lines are dropped, as both formats do.

    `joint` takes the place of a continuation: nothing in a Dockerfile, a blank in a unit file.
    """
    base = whole(document)
    pieces: list[Piece] = []
    start = at = 0
    for raw in document.splitlines(keepends=True):
        line_at, at = at, at + len(raw)
        text = raw.rstrip("\r\n")
        if not text.strip() or text.lstrip()[0] in comments:
            if pieces and not text.strip() and joint:  # a blank line ends a unit file's setting, not a Dockerfile's
                yield LogicalLine(base.unwrap(0, pieces, None), start, line_at)
                pieces = []
            continue
        if not pieces:
            start = line_at
        continued = re.search(re.escape(escape) + r"[ \t]*$" if not joint else re.escape(escape) + "$", text)
        body = text[: continued.start()] if continued else text
        pieces += [(char, line_at + k, line_at + k + 1) for k, char in enumerate(body)]
        if continued:
            pieces += [(char, line_at + len(body), at) for char in joint]
            continue
        yield LogicalLine(base.unwrap(0, pieces, None), start, at)
        pieces = []
    if pieces:
        yield LogicalLine(base.unwrap(0, pieces, None), start, at)

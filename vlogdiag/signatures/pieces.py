"""Turns the parts of a template into pieces that are searched one after the other, in time linear in the text.

A piece is what stands between two gaps (`...` and `text` holes). A gap takes the shortest text that reaches the next
piece, and that choice is never taken back; so where a piece comes next after a position is one answer for all starts,
and is remembered. A single expression would look for it again from every start: hostile lines cost their square.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import regex
from msgspec import Struct

from vlogdiag.signatures.holes import TEXT, hole_expression
from vlogdiag.signatures.language import Gap, Hole, Literal, Part, is_stretch

GAP = 200
"""Characters that `...` takes at most."""
BLANKS = 64
"""Longest run of blanks that a blank matches."""

# `model {name:word}.` ends at the full stop, not at the dot inside Qwen2.5.
_FULL_STOP = r"(?![A-Za-z0-9_])"
_BLANKS = rf"[ \t]{{1,{BLANKS}}}+"
_MARGIN = rf"[ \t]{{0,{BLANKS}}}+"


@dataclass(frozen=True)
class Piece:
    """An expression, and the gap before it: `least` to `limit` characters of one line, kept as `hole`."""

    expression: str
    least: int = 0
    limit: int = 0
    hole: str = ""

    @cached_property
    def compiled(self) -> regex.Pattern[str]:
        """The expression, compiled on first use."""
        return regex.compile(self.expression)


def cut(parts: Sequence[Part]) -> tuple[Piece, ...]:
    """The pieces of a template's parts; the first has no gap before it."""
    pieces: list[Piece] = []
    gap: tuple[int, int, str] = (0, 0, "")
    run: list[int] = []
    for index, part in enumerate(parts):
        last = index + 1 == len(parts)
        if isinstance(part, Gap):
            following = gap_limit(parts, index)
        elif isinstance(part, Hole) and part.type == "text" and not last:
            following = (1, TEXT, part.name)
        else:
            run.append(index)
            continue
        pieces.append(Piece(_expression(parts, run), *gap))
        gap, run = following, []
    pieces.append(Piece(_expression(parts, run), *gap))
    return tuple(pieces)


def gap_limit(parts: Sequence[Part], index: int) -> tuple[int, int, str]:
    """Least, limit and name of the gap `parts[index]`: beside a newline it takes the rest of the line."""
    before, after = parts[index - 1], parts[index + 1]
    beside_newline = (isinstance(before, Literal) and before.text.rstrip(" \t").endswith("\n")) or (
        isinstance(after, Literal) and after.text.lstrip(" \t").startswith("\n")
    )
    return (0, TEXT if beside_newline else GAP, "")


def _expression(parts: Sequence[Part], run: Sequence[int]) -> str:
    """The expression of neighbouring parts; a word and what follows up to the next word is an atomic group."""
    if not run:
        # Only a leading text hole leaves nothing before it: it begins with its line.
        return r"(?<![^\n])"
    written: list[str] = []
    opened = False
    for index in run:
        part = parts[index]
        before = parts[index - 1] if index else None
        after = parts[index + 1] if index + 1 < len(parts) else None
        if isinstance(part, Literal):
            written.append(_literal(part.text, begins=index == run[0] and index > 0, after_gap=isinstance(before, Gap)))
            if part.text == "." and is_stretch(before):
                written.append(_FULL_STOP)
        elif isinstance(part, Hole):
            if part.type == "word":
                written.append(")(?>" if opened else "(?>")
                opened = True
            written.append(_hole(part, before, after))
    return "".join(written) + (")" if opened else "")


def _literal(text: str, *, begins: bool, after_gap: bool) -> str:
    if after_gap and text[0] in " \t" and text.lstrip(" \t")[:1] != "\n":
        # `free. ... Of` also finds `free. Of`: the blank before the gap is the blank after it.
        rest = text.lstrip(" \t")
        return r"(?<=[ \t])" + (_literal(rest, begins=False, after_gap=False) if rest else "")
    fragments = re.split(r"([ \t]*\n[ \t]*|[ \t]+)", text)
    written = ""
    for index, fragment in enumerate(fragments):
        if index % 2 == 0:
            written += regex.escape(fragment, special_only=True)
        elif "\n" not in fragment:
            written += _BLANKS
        elif begins and not written:
            written += rf"\n{_MARGIN}"  # the gap before takes the blanks at the end of its line
        else:
            written += rf"{_MARGIN}\r?\n{_MARGIN}"
    return written


def _hole(hole: Hole, before: Part | None, after: Part | None) -> str:
    body = hole_expression(
        hole.type,
        first=before is None,
        last=after is None,
        after_gap=isinstance(before, Gap),
        before_comma=isinstance(after, Literal) and after.text.startswith(","),
    )
    return f"(?P<{hole.name}>{body})" if hole.name else f"(?:{body})"


class Found(Struct, frozen=True):
    """Where the pieces stand, and the text of each hole."""

    texts: Mapping[str, str]
    start: int
    end: int


def find(pieces: Sequence[Piece], text: str, start: int, end: int) -> Found | None:
    """The first place in `text[start:end]` where the pieces follow each other, gaps between them."""
    later = [_Next(piece, text, end) for piece in pieces[1:]]
    head = pieces[0].compiled.search(text, start, end)
    while head is not None:
        found = _follow(head, later, text)
        if found is not None:
            return found
        head = pieces[0].compiled.search(text, head.start() + 1, end) if head.start() < end else None
    return None


class _Next:
    """Answers where a piece comes next, remembering the last answer."""

    def __init__(self, piece: Piece, text: str, end: int) -> None:
        self.piece = piece
        self.text = text
        self.end = end
        self.asked = -1
        self.answer: regex.Match[str] | None = None

    def after(self, position: int) -> regex.Match[str] | None:
        """The first match at or after `position`."""
        fresh = 0 <= self.asked <= position and (self.answer is None or self.answer.start() >= position)
        if not fresh:
            self.asked, self.answer = position, self.piece.compiled.search(self.text, position, self.end)
        return self.answer


def _follow(head: regex.Match[str], later: Sequence[_Next], text: str) -> Found | None:
    texts = dict(head.groupdict())
    position = head.end()
    for following in later:
        piece = following.piece
        match = following.after(position + piece.least)
        if match is None or match.start() - position > piece.limit or text.find("\n", position, match.start()) >= 0:
            return None
        texts.update(match.groupdict())
        if piece.hole:
            texts[piece.hole] = text[position : match.start()]
        position = match.end()
    return Found(texts, head.start(), position)

"""Turns the source of a template into its gate and a regular expression whose cost is bounded by construction.

A gap takes the shortest text that reaches what stands between it and the next gap, and that choice is never taken back
(atomic groups), so the cost of one start is the sum of its gaps, not their product.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

import regex

from vlogdiag.signatures.holes import KINDS, TEXT, hole_expression
from vlogdiag.values import DURATION_UNITS, SIZE_UNITS

MIN_GATE = 6
GAP = 200

# Characters that some wrapper or JSON encoder writes differently (\" \u003c &amp; …): a gate must survive all of them.
_UNSAFE = frozenset("\"'\\<>&")

# `model {name:word}.` ends at the full stop, not at the dot inside Qwen2.5.
_FULL_STOP = r"(?![A-Za-z0-9_])"

_HOLE = re.compile(r"\{(?P<name>[^{}:]*):(?P<type>[^{}]*)\}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class TemplateError(ValueError):
    """A pattern that cannot be used: what is wrong, and at which character of its source."""

    def __init__(self, message: str, position: int = 0, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.position = position


def is_gate(text: str) -> bool:
    """Whether `text` may serve as a gate: long enough, and the same in every wrapper and encoding."""
    return len(text) >= MIN_GATE and all(_is_gate_character(character) for character in text)


@dataclass(frozen=True, slots=True)
class _Literal:
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class _Gap:
    at: int


@dataclass(frozen=True, slots=True)
class _Hole:
    name: str
    type: str
    at: int


_Part = _Literal | _Gap | _Hole


@dataclass(frozen=True, slots=True)
class Template:
    """A template read: the expression that searches it, its gate and its holes (name to type)."""

    expression: str
    gate: str
    types: Mapping[str, str]


def read_template(source: str) -> Template:
    """Read a template; raises TemplateError."""
    parts = _trim(_parse(source))
    holes = [part for part in parts if isinstance(part, _Hole)]
    named = [hole for hole in holes if hole.name]
    for index, hole in enumerate(named):
        if any(hole.name == other.name for other in named[:index]):
            raise TemplateError(f"hole {{{hole.name}}} appears twice", hole.at)
    texts = [hole for hole in holes if hole.type == "text"]
    if len(texts) > 1:
        raise TemplateError("at most one `text` hole a pattern", texts[1].at)
    gate = _gate(parts)
    if gate is None:
        raise TemplateError(
            f"no gate: a pattern needs {MIN_GATE} literal characters in a row between holes, without quotes, "
            "backslash, <, >, & or non-ASCII characters"
        )
    types = {hole.name: hole.type for hole in named}
    return Template(_expression(parts), gate, types)


def _parse(source: str) -> list[_Part]:
    """Cut the source into literals, gaps and holes."""
    parts: list[_Part] = []
    buffer = ""
    began = position = 0

    def flush() -> None:
        nonlocal buffer
        if buffer:
            parts.append(_Literal(buffer, began))
            buffer = ""

    while position < len(source):
        character = source[position]
        if not buffer:
            began = position
        if source.startswith(("{{", "}}"), position):
            buffer += character
            position += 2
        elif source.startswith("{...}", position):
            buffer += "..."
            position += 5
        elif character == "{":
            found = _HOLE.match(source, position)
            if found is None:
                raise TemplateError("`{` opens a hole `{name:type}`; a literal brace is written `{{`", position)
            _check_hole(found["name"], found["type"], position)
            flush()
            parts.append(_Hole(found["name"], found["type"], position))
            position = found.end()
        elif character == "}":
            raise TemplateError("a literal brace is written `}}`", position)
        elif source.startswith("...", position) and _dots(source, position) == 3:
            flush()
            parts.append(_Gap(position))
            position += 3
        else:
            buffer += character
            position += 1
    flush()
    return parts


def _dots(source: str, position: int) -> int:
    """Length of the run of dots from `position` on: three are a gap, so `is free....` is a full stop before a gap."""
    return len(source[position:]) - len(source[position:].lstrip("."))


def is_hole_name(name: str) -> bool:
    """Whether a hole may be called so."""
    return _NAME.fullmatch(name) is not None


def _check_hole(name: str, kind: str, position: int) -> None:
    if kind not in KINDS:
        raise TemplateError(f"unknown hole type {kind!r}; types are {', '.join(KINDS)}", position)
    if name and not is_hole_name(name):
        raise TemplateError(f"hole name {name!r}: lower-case letters, digits and _, a letter first", position)


def _trim(parts: list[_Part]) -> list[_Part]:
    """Drop gaps and blanks at the ends, where they say nothing; refuse neighbours that have no border."""
    _check_neighbours(parts)
    while parts and (isinstance(parts[0], _Gap) or (isinstance(parts[0], _Literal) and not parts[0].text.strip())):
        parts = parts[1:]
    while parts and (isinstance(parts[-1], _Gap) or (isinstance(parts[-1], _Literal) and not parts[-1].text.strip())):
        parts = parts[:-1]
    return parts


def _check_neighbours(parts: list[_Part]) -> None:
    for left, right in itertools.pairwise(parts):
        if isinstance(left, _Hole) and isinstance(right, _Hole):
            raise TemplateError("two holes need literal text between them", right.at)
        if _is_stretch(left) and _is_stretch(right):
            raise TemplateError("`...` beside a word or text hole leaves open where the hole ends", right.at)
        if isinstance(left, _Hole) and isinstance(right, _Literal):
            _check_unit(left, right)


def _check_unit(hole: _Hole, after: _Literal) -> None:
    """A hole that reads its unit must not be followed by that unit."""
    word = re.match(r"[ \t]?([A-Za-z]+|%)", after.text)
    if word is None:
        return
    units: Mapping[str, Mapping[str, float]] = {"size": SIZE_UNITS, "duration": DURATION_UNITS, "percent": {"%": 1}}
    if word[1].lower() in units.get(hole.type, {}):
        raise TemplateError(f"a {hole.type} hole reads its unit; drop {word[1]!r} after it", after.at)


def _is_stretch(part: _Part | None) -> bool:
    return isinstance(part, _Gap) or (isinstance(part, _Hole) and part.type in ("word", "text"))


def _is_gate_character(character: str) -> bool:
    return " " <= character <= "~" and character not in _UNSAFE


def _gate(parts: list[_Part]) -> str | None:
    """The longest literal run that every wrapper leaves alone; the first of equals."""
    best = ""
    for part in parts:
        if isinstance(part, _Literal):
            # A run of blanks in the source may be one blank in the log, so it ends a gate; so do blanks at the ends.
            for run in re.split(r"[^ -~]|[\"'\\<>&]| {2,}", part.text):
                run = run.strip(" ")
                if len(run) > len(best):
                    best = run
    return best if len(best) >= MIN_GATE else None


def _expression(parts: list[_Part]) -> str:
    """The regular expression: each gap or stretch and what follows up to the next one is an atomic group."""
    pieces: list[str] = []
    opened = False
    for index, part in enumerate(parts):
        before = parts[index - 1] if index else None
        after = parts[index + 1] if index + 1 < len(parts) else None
        if _is_stretch(part):
            if opened:
                pieces.append(")")
            pieces.append("(?>")
            opened = True
        if isinstance(part, _Literal):
            pieces.append(_literal(part.text, after_gap=isinstance(before, _Gap)))
            if part.text == "." and _is_stretch(before):
                pieces.append(_FULL_STOP)
        elif isinstance(part, _Gap):
            beside_newline = (isinstance(before, _Literal) and before.text.rstrip(" \t").endswith("\n")) or (
                isinstance(after, _Literal) and after.text.lstrip(" \t").startswith("\n")
            )
            pieces.append(rf"[^\n]{{0,{TEXT if beside_newline else GAP}}}?")
        else:
            pieces.append(_hole(part, before=before, after=after))
    if opened:
        pieces.append(")")
    return "".join(pieces)


def _literal(text: str, *, after_gap: bool) -> str:
    if after_gap and text[0] in " \t":
        # `free. ... Of` also finds `free. Of`: the blank before the gap is the blank after it.
        rest = text.lstrip(" \t")
        return r"(?<=[ \t])" + (_literal(rest, after_gap=False) if rest else "")
    pieces = re.split(r"([ \t]*\n[ \t]*|[ \t]+)", text)
    return "".join(
        (r"[ \t]*+\r?\n[ \t]*+" if "\n" in piece else r"[ \t]++")
        if index % 2
        else regex.escape(piece, special_only=True)
        for index, piece in enumerate(pieces)
    )


def _hole(hole: _Hole, *, before: _Part | None, after: _Part | None) -> str:
    body = hole_expression(
        hole.type,
        first=before is None,
        last=after is None,
        after_gap=isinstance(before, _Gap),
        before_comma=isinstance(after, _Literal) and after.text.startswith(","),
    )
    return f"(?P<{hole.name}>{body})" if hole.name else f"(?:{body})"

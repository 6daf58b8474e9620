"""Turns the source of a template into its parts (literals, gaps, holes) and its gate, or says what is wrong with it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from vlogdiag.signatures.holes import KINDS
from vlogdiag.values import DURATION_UNITS, SIZE_UNITS

MIN_GATE = 6

# Characters that some wrapper or JSON encoder writes differently (\" \u003c &amp; …): a gate must survive all of them.
_UNSAFE = frozenset("\"'\\<>&")

_HOLE = re.compile(r"\{(?P<name>[^{}:]*):(?P<type>[^{}]*)\}")
_PLAIN = re.compile(r"[^{}.]*")
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


class Literal(Struct, frozen=True):
    """Text that must be there."""

    text: str
    at: int


class Gap(Struct, frozen=True):
    """`...`: any text on the line."""

    at: int


class Hole(Struct, frozen=True):
    """A typed hole; an empty name drops it."""

    name: str
    type: str
    at: int


Part = Literal | Gap | Hole


class Template(Struct, frozen=True):
    """A template read: its gate and its holes (name to type)."""

    gate: str
    types: Mapping[str, str]


@lru_cache(maxsize=4096)
def read_template(source: str) -> Template:
    """Read a template; raises TemplateError."""
    parts = _trim(_parse(source))
    holes = [part for part in parts if isinstance(part, Hole)]
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
    return Template(gate, types)


def template_parts(source: str) -> list[Part]:
    """The parts of a template that read_template took."""
    return _trim(_parse(source))


def _parse(source: str) -> list[Part]:
    """Cut the source into literals, gaps and holes."""
    parts: list[Part] = []
    buffer = ""
    began = position = 0

    def flush() -> None:
        nonlocal buffer
        if buffer:
            parts.append(Literal(buffer, began))
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
            parts.append(Hole(found["name"], found["type"], position))
            position = found.end()
        elif character == "}":
            raise TemplateError("a literal brace is written `}}`", position)
        elif source.startswith("...", position) and _dots(source, position) == 3:
            flush()
            parts.append(Gap(position))
            position += 3
        else:
            end = _PLAIN.match(source, position + 1).end()  # type: ignore[union-attr]
            buffer += source[position:end]
            position = end
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


def _trim(parts: list[Part]) -> list[Part]:
    """Drop gaps and blanks at the ends, where they say nothing; refuse neighbours that have no border."""
    _check_neighbours(parts)
    while parts and (isinstance(parts[0], Gap) or (isinstance(parts[0], Literal) and not parts[0].text.strip())):
        parts = parts[1:]
    while parts and (isinstance(parts[-1], Gap) or (isinstance(parts[-1], Literal) and not parts[-1].text.strip())):
        parts = parts[:-1]
    return parts


def _check_neighbours(parts: list[Part]) -> None:
    for left, right in itertools.pairwise(parts):
        if isinstance(left, Hole) and isinstance(right, Hole):
            raise TemplateError("two holes need literal text between them", right.at)
        if is_stretch(left) and is_stretch(right):
            raise TemplateError("`...` beside a word or text hole leaves open where the hole ends", right.at)
        if isinstance(left, Hole) and isinstance(right, Literal):
            _check_unit(left, right)


def _check_unit(hole: Hole, after: Literal) -> None:
    """A hole that reads its unit must not be followed by that unit."""
    word = re.match(r"[ \t]?([A-Za-z]+|%)", after.text)
    if word is None:
        return
    units: Mapping[str, Mapping[str, float]] = {"size": SIZE_UNITS, "duration": DURATION_UNITS, "percent": {"%": 1}}
    if word[1].lower() in units.get(hole.type, {}):
        raise TemplateError(f"a {hole.type} hole reads its unit; drop {word[1]!r} after it", after.at)


def is_stretch(part: Part | None) -> bool:
    """Whether the part's length is open: a gap, a word, a text."""
    return isinstance(part, Gap) or (isinstance(part, Hole) and part.type in ("word", "text"))


def _is_gate_character(character: str) -> bool:
    return " " <= character <= "~" and character not in _UNSAFE


def _gate(parts: list[Part]) -> str | None:
    """The longest literal run that every wrapper leaves alone; the first of equals."""
    best = ""
    for part in parts:
        if isinstance(part, Literal):
            # A run of blanks in the source may be one blank in the log, so it ends a gate; so do blanks at the ends.
            for run in re.split(r"[^ -~]|[\"'\\<>&]| {2,}", part.text):
                run = run.strip(" ")
                if len(run) > len(best):
                    best = run
    return best if len(best) >= MIN_GATE else None

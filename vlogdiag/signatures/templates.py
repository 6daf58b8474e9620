"""Turns a pattern that looks like the log line (`{wanted:int} tokens need …`) into a search with typed captures.

literal text      itself; a run of blanks matches a run of blanks (never a newline); `{{` and `}}` are braces
`{name:type}`     a typed hole; `{:type}` is matched and dropped
`...`             any text on the same line, as little as will do: at most 200 characters, beside a newline 2,000
`{...}`           three literal dots
newline           the end of a line, with blanks around it

Types: `int` (`65,536`, `-1`), `float`, `size` (`2.00 GiB`), `percent` (`13.9%`), `duration` (`60s`, `600000 ms`, a
bare number of seconds), `word` (no blanks, at most 200 characters), `text` (one line, at most 2,000, at most one a
pattern), and `GiB` or `MiB` for a bare number whose unit the message prints elsewhere (`(9.83/79.10 GiB)`).

A text that lacks the gate cannot match; that is the definition, with and without a prefilter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import regex
from msgspec import Struct

from vlogdiag.signatures.holes import KINDS
from vlogdiag.signatures.language import (
    MIN_GATE,
    TemplateError,
    is_gate,
    is_hole_name,
    read_template,
    template_parts,
)
from vlogdiag.signatures.pieces import Found, Piece, cut, find
from vlogdiag.values import GIB, MIB, Kind, Quantity, parse_float, parse_quantity

__all__ = [
    "KINDS",
    "MIN_GATE",
    "Pattern",
    "PatternMatch",
    "PatternTimeout",
    "TemplateError",
    "compile_pattern",
    "is_gate",
]

WINDOW_BEFORE = 2048
WINDOW_AFTER = 4096
TIMEOUT_S = 0.2
"""Seconds that one search of a `regex:` pattern may take; templates need no limit."""


class PatternTimeout(Exception):  # noqa: N818 - it says what happened, the caller counts it
    """A `regex:` pattern ran into its time limit: reported, never read as "no match"."""

    def __init__(self, pattern: Pattern) -> None:
        super().__init__(f"pattern ran longer than {TIMEOUT_S} s: {pattern.source}")
        self.pattern = pattern


class PatternMatch(Struct, frozen=True):
    """What a pattern found: captures by hole (None = unknown) and offsets into the text searched."""

    captures: Mapping[str, Quantity | None]
    start: int
    end: int


@dataclass(frozen=True)
class Pattern:
    """One pattern of a signature; compiled on first use."""

    source: str
    gate: str
    holes: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Hole name to hole type."""
    is_regex: bool = False

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in ("source", "gate", "holes", "types", "is_regex")}

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """What a template's text must hold, in order."""
        return cut(template_parts(self.source))

    @cached_property
    def expression(self) -> regex.Pattern[str]:
        """The compiled expression of a `regex:` pattern."""
        return regex.compile(plain_groups(self.source))

    @property
    def is_literal(self) -> bool:
        """Whether the gate is all of it: a text that holds the gate matches."""
        return not self.is_regex and self.source == self.gate

    def search(self, text: str) -> PatternMatch | None:
        """First match near an occurrence of the gate; raises PatternTimeout if a `regex:` one takes too long."""
        for start, end in _windows(text, self.gate):
            found = self._match(text, start, end) if self.is_regex else find(self.pieces, text, start, end)
            if found is not None:
                captures = {name: _capture(found.texts.get(name), kind) for name, kind in self.types.items()}
                return PatternMatch(captures, found.start, found.end)
        return None

    def _match(self, text: str, start: int, end: int) -> Found | None:
        try:
            match = self.expression.search(text, start, end, timeout=TIMEOUT_S)
        except TimeoutError as error:
            raise PatternTimeout(self) from error
        return None if match is None else Found(match.groupdict(), match.start(), match.end())


def compile_pattern(
    source: str, *, regex: bool = False, literal: str | None = None, where: str | None = None
) -> Pattern:
    """Read a template, or with `regex=True` an expression whose `literal` every match's neighbourhood must hold.

    Raises TemplateError; `where` (file, rule) is put before its message.
    """
    try:
        if regex:
            return _from_regex(source, literal)
        if literal is not None:
            raise TemplateError("`literal` belongs to `regex:` patterns only")
        return _from_template(source)
    except TemplateError as error:
        raise TemplateError(error.message, error.position, where) from None


def _from_template(source: str) -> Pattern:
    template = read_template(source)
    return Pattern(source, template.gate, tuple(template.types), template.types)


def _from_regex(source: str, literal: str | None) -> Pattern:
    if literal is None:
        raise TemplateError("a `regex:` pattern must state its `literal:`")
    if not is_gate(literal):
        raise TemplateError(
            f"literal {literal!r} cannot be a gate: at least {MIN_GATE} characters, without quotes, backslash, <, >, & "
            "or non-ASCII characters"
        )
    try:
        compiled = regex.compile(source)
    except regex.error as error:
        raise TemplateError(f"not a regular expression: {error}") from error
    types: dict[str, str] = {}
    for group in compiled.groupindex:
        name, _, kind = group.partition("__")
        if not is_hole_name(name) or (kind or "word") not in KINDS:
            raise TemplateError(
                f"group {group!r}: write (?P<name>…) or (?P<name__type>…), type one of {', '.join(KINDS)}"
            )
        if name in types:
            raise TemplateError(f"group {name!r} appears with two types")
        types[name] = kind or "word"
    return Pattern(source, literal, tuple(types), types, is_regex=True)


def plain_groups(source: str) -> str:
    """The expression with its groups named `name` in place of `name__type`."""
    return re.sub(r"\(\?P<([^>]+?)__[A-Za-z]+>", r"(?P<\1>", source)


def _windows(text: str, gate: str) -> list[tuple[int, int]]:
    """Stretches around the gate's occurrences; overlapping ones are one, so that the cost is linear in the text."""
    windows: list[tuple[int, int]] = []
    at = text.find(gate)
    while at >= 0:
        start, end = max(0, at - WINDOW_BEFORE), min(len(text), at + len(gate) + WINDOW_AFTER)
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((start, end))
        at = text.find(gate, at + len(gate))
    return windows


def _capture(text: str | None, type_: str) -> Quantity | None:
    if text is None:
        return None
    if type_ in ("GiB", "MiB"):
        number = parse_float(text)
        return (
            None if number is None else parse_quantity(str(round(number * (GIB if type_ == "GiB" else MIB))), Kind.SIZE)
        )
    return parse_quantity(text.strip() if type_ == "text" else text, KINDS[type_])

"""Turns conditions and texts of rules (`known(fits)`, `{wanted} tokens need {needed}`) into values that may be unknown.

In a text `{expression}` is a hole; `{expression:raw}` and `{expression:h}` fix how it is written (for a flag, for
people), `{{` and `}}` are braces, and `[[ … {x} … ]]` is left out as a whole when a hole inside is unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Struct

from vlogdiag.signatures.arithmetic import truth
from vlogdiag.signatures.conditions import FUNCTIONS, MAX_SOURCE, Evaluator, ExprError, Scope, compile_condition
from vlogdiag.values import Kind, Quantity, format_quantity, raw

__all__ = ["FUNCTIONS", "MAX_SOURCE", "Expr", "ExprError", "Scope", "Text", "parse_expr", "parse_text"]


@dataclass(frozen=True)
class Expr:
    """One condition or computed value; compiled on first use, so that most rules of most runs cost nothing."""

    source: str
    names: frozenset[str]
    """Captures and dotted names that it reads."""

    @cached_property
    def _evaluator(self) -> Evaluator:
        return compile_condition(self.source, lambda name: True)[0]  # names were checked when the rule was read

    def __getstate__(self) -> dict[str, object]:
        return {"source": self.source, "names": self.names}

    def evaluate(self, scope: Scope) -> Quantity | None:
        """The value; None is unknown. Never raises for a value."""
        return self._evaluator(scope)

    def truth(self, scope: Scope) -> bool | None:
        """Three-valued truth."""
        return truth(self._evaluator(scope))


class _Hole(Struct, frozen=True):
    expr: Expr
    form: str | None


_Segment = str | _Hole
_PLAIN = re.compile(r"[^{}\[\]]*")


@dataclass(frozen=True, slots=True)
class Text:
    """Text with computed holes."""

    source: str
    names: frozenset[str]
    _segments: tuple[_Segment | tuple[_Segment, ...], ...] = field(repr=False, compare=False)

    def render(self, scope: Scope, raw: bool = False, quote: bool = False) -> str | None:
        """The text with its numbers, `raw` as flags want them; None when a hole outside `[[ ]]` is unknown.

        `quote` makes words of the log safe for a shell.
        """
        pieces: list[str] = []
        for segment in self._segments:
            if isinstance(segment, tuple):
                inner = [_render(part, scope, raw, quote) for part in segment]
                pieces += [] if None in inner else [piece for piece in inner if piece is not None]
                continue
            piece = _render(segment, scope, raw, quote)
            if piece is None:
                return None
            pieces.append(piece)
        return "".join(pieces)


def parse_expr(source: str, *, names: Callable[[str], bool], where: str | None = None) -> Expr:
    """Read a condition; `names` says which names exist. Raises ExprError, `where` put before its message."""
    try:
        _, used = compile_condition(source, names)
    except ExprError as error:
        raise ExprError(error.message, error.position, where) from error
    return Expr(source, used)


def parse_text(source: str, *, names: Callable[[str], bool], where: str | None = None) -> Text:
    """Read a text with holes; raises ExprError, `where` put before its message."""
    try:
        segments = _segments(source, names)
    except ExprError as error:
        raise ExprError(error.message, error.position, where) from error
    used: frozenset[str] = frozenset()
    for segment in segments:
        for part in segment if isinstance(segment, tuple) else (segment,):
            if isinstance(part, _Hole):
                used |= part.expr.names
    return Text(source, used, segments)


def _render(segment: _Segment, scope: Scope, is_raw: bool, quote: bool) -> str | None:
    if isinstance(segment, str):
        return segment
    value = segment.expr.evaluate(scope)
    if value is None:
        return None
    text = raw(value) if segment.form == "raw" or (is_raw and segment.form is None) else format_quantity(value)
    return shlex.quote(text) if quote and value.kind is Kind.TEXT else text


def _segments(source: str, names: Callable[[str], bool]) -> tuple[_Segment | tuple[_Segment, ...], ...]:
    outer: list[_Segment | tuple[_Segment, ...]] = []
    optional: list[_Segment] | None = None
    buffer = ""
    position = 0

    def put(segment: _Segment) -> None:
        nonlocal buffer
        into = outer if optional is None else optional
        if buffer:
            into.append(buffer)
            buffer = ""
        if segment:
            into.append(segment)

    while position < len(source):
        if source.startswith(("{{", "}}"), position):
            buffer += source[position]
            position += 2
        elif source.startswith("[[", position):
            if optional is not None:
                raise ExprError("`[[` inside `[[`", position)
            put("")
            optional = []
            position += 2
        elif source.startswith("]]", position) and optional is not None:
            put("")
            if not any(isinstance(part, _Hole) for part in optional):
                raise ExprError("`[[ ]]` without a hole is never left out", position)
            outer.append(tuple(optional))
            optional = None
            position += 2
        elif source[position] == "{":
            end = _closing(source, position)
            put(_hole(source[position + 1 : end], names, position))
            position = end + 1
        elif source[position] == "}":
            raise ExprError("a literal brace is written `}}`", position)
        else:
            end = _PLAIN.match(source, position + 1).end()  # type: ignore[union-attr]
            buffer += source[position:end]
            position = end
    if optional is not None:
        raise ExprError("`[[` is not closed", len(source))
    put("")
    return tuple(outer)


def _closing(source: str, start: int) -> int:
    """Index of the brace that closes the hole; braces inside quotes do not count."""
    quote = ""
    for position in range(start + 1, len(source)):
        character = source[position]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "}":
            return position
    raise ExprError("`{` is not closed; a literal brace is written `{{`", start)


def _hole(body: str, names: Callable[[str], bool], position: int) -> _Hole:
    found = re.search(r":(raw|h)\s*$", body)
    form = found[1] if found else None
    source = body[: found.start()] if found else body
    try:
        return _Hole(parse_expr(source, names=names), form)
    except ExprError as error:
        raise ExprError(error.message, position + error.position) from error

"""Turns the checked nodes of `match`, a step or a silence into compiled patterns and what else a record must be."""

from __future__ import annotations

import keyword
from typing import Any

from vlogdiag.model import Level, Phase
from vlogdiag.signatures.keys import NO_LEVEL
from vlogdiag.signatures.names import ROOTS
from vlogdiag.signatures.positions import Node, Scalar, child, items_of, text_of, texts_of
from vlogdiag.signatures.shapes import Complain
from vlogdiag.signatures.templates import Pattern, TemplateError, compile_pattern
from vlogdiag.signatures.types import Match

_TAKEN = frozenset((*ROOTS, "true", "false", *(word.lower() for word in keyword.kwlist)))
"""Words that a condition could not read as a name; functions can, for they are followed by a bracket."""


def read_pattern(node: Node, complain: Complain) -> Pattern | None:
    """A template, or a mapping of `regex` and `literal`."""
    try:
        if isinstance(node, Scalar):
            # A block scalar ends in a newline that nobody means.
            pattern = compile_pattern(node.text.strip("\n"))
        else:
            pattern = compile_pattern(
                text_of(child(node, "regex")) or "", regex=True, literal=text_of(child(node, "literal"))
            )
    except TemplateError as error:
        complain(node, f"pattern: {error.message}" + (f" (character {error.position + 1})" if error.position else ""))
        return None
    for hole in pattern.holes:
        if hole in _TAKEN:
            complain(node, f"pattern: a hole cannot be called {hole!r}: the word is taken")
            return None
    return pattern


def read_patterns(node: Node | None, complain: Complain) -> tuple[Pattern, ...]:
    """The patterns of a list that can be used."""
    found = (read_pattern(item, complain) for item in items_of(node))
    return tuple(pattern for pattern in found if pattern is not None)


def read_match(node: Node, complain: Complain) -> Match:
    """The keys that `match`, a step and a silence share."""
    return Match(**match_fields(node, complain))


def match_fields(node: Node, complain: Complain) -> dict[str, Any]:
    """The fields of a Match, for it and for a Step."""
    frames = child(node, "frames")
    levels = child(node, "level")
    kinds = child(node, "kind")
    return {
        "lines": read_patterns(child(node, "line"), complain),
        "captures": read_patterns(child(node, "capture"), complain),
        "frames_all": texts_of(child(frames, "all")),
        "frames_any": texts_of(child(frames, "any")),
        "frames_none": texts_of(child(frames, "none")),
        "phases": frozenset(Phase(word) for word in texts_of(child(node, "phase"))),
        "levels": None
        if levels is None
        else frozenset(None if word == NO_LEVEL else Level[word.upper()] for word in texts_of(levels)),
        "unless": read_patterns(child(node, "unless"), complain),
        "kinds": None if kinds is None else frozenset(texts_of(kinds)),
    }

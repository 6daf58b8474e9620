"""Shapes of YAML nodes: each checks a node, returning what is sound of it, and describes itself as JSON Schema."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from vlogdiag.signatures.positions import Listing, Node, Scalar, Table

Complain = Callable[[Node, str], None]
"""Called with the node that is wrong and what is wrong with it."""


class Shape(Protocol):
    """What a node must look like."""

    def check(self, node: Node, complain: Complain) -> Node | None:
        """The sound part of the node; None when nothing is."""

    def json(self) -> dict[str, Any]:
        """The shape as JSON Schema."""

    @property
    def noun(self) -> str:
        """What an author should have written."""


def nearest(word: str, words: Iterable[str]) -> str:
    """` (did you mean 'severity'?)`, or nothing."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


@dataclass(frozen=True, slots=True)
class Words:
    """Text; numbers count as the text they are written as."""

    noun: str = "text"
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    empty: bool = False

    def check(self, node: Node, complain: Complain) -> Node | None:
        """Sound if it is a scalar of the right words."""
        if not isinstance(node, Scalar) or node.type == "null":
            complain(node, f"expected {self.noun}")
            return None
        if not self.empty and not node.text.strip():
            complain(node, f"expected {self.noun}, found nothing")
            return None
        if self.choices and node.text not in self.choices:
            complain(node, f"expected one of {', '.join(self.choices)}{nearest(node.text, self.choices)}")
            return None
        if self.pattern and not re.fullmatch(self.pattern, node.text):
            complain(node, f"expected {self.noun}, found {node.text!r}")
            return None
        return node

    def json(self) -> dict[str, Any]:
        """A string, or a number or truth value where any text will do."""
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        if self.pattern:
            # A version such as 0.11 is a number to YAML and text to us; JSON Schema tries patterns on strings only.
            return {"type": ["string", "number"], "pattern": f"^(?:{self.pattern})$"}
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class Switch:
    """`true` or `false`."""

    noun: str = "true or false"

    def check(self, node: Node, complain: Complain) -> Node | None:
        """Sound if YAML takes it for a truth value and a person does."""
        if isinstance(node, Scalar) and node.type == "bool" and node.text.lower() in ("true", "false"):
            return node
        complain(node, "expected true or false")
        return None

    def json(self) -> dict[str, Any]:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    least: int = 0
    noun: str = "a whole number"

    def check(self, node: Node, complain: Complain) -> Node | None:
        """Sound if it is a plain decimal number, not too small."""
        if isinstance(node, Scalar) and re.fullmatch(r"[0-9]{1,9}", node.text) and int(node.text) >= self.least:
            return node
        complain(node, f"expected a whole number of at least {self.least}")
        return None

    def json(self) -> dict[str, Any]:
        """An integer."""
        return {"type": "integer", "minimum": self.least}


@dataclass(frozen=True, slots=True)
class Null:
    """`null`: unknown."""

    noun: str = "null"

    def check(self, node: Node, complain: Complain) -> Node | None:
        """Sound if it is null."""
        if isinstance(node, Scalar) and node.type == "null":
            return node
        complain(node, "expected null")
        return None

    def json(self) -> dict[str, Any]:
        """Null."""
        return {"type": "null"}


@dataclass(frozen=True, slots=True)
class Many:
    """A list; `one` also takes a single item without the dashes."""

    item: Shape
    one: bool = False
    least: int = 1

    @property
    def noun(self) -> str:
        """`text` or a list of it."""
        return f"{self.item.noun} or a list of such" if self.one else f"a list of {self.item.noun}"

    def check(self, node: Node, complain: Complain) -> Node | None:
        """A Listing of the sound items, always."""
        if not isinstance(node, Listing):
            if not self.one:
                complain(node, f"expected {self.noun}")
                return None
            item = self.item.check(node, complain)
            return None if item is None else Listing((item,), node.line, node.column)
        if len(node.items) < self.least:
            complain(node, f"expected at least {self.least} item{'s' if self.least > 1 else ''}")
        items = [self.item.check(item, complain) for item in node.items]
        return Listing(tuple(item for item in items if item is not None), node.line, node.column)

    def json(self) -> dict[str, Any]:
        """An array, or the item."""
        array = {"type": "array", "items": self.item.json(), "minItems": self.least}
        return {"anyOf": [self.item.json(), array]} if self.one else array


@dataclass(frozen=True, slots=True)
class Free:
    """A mapping with keys of the author's choice."""

    value: Shape
    key: str = r".+"
    key_noun: str = "a name"
    noun: str = "a mapping"

    def check(self, node: Node, complain: Complain) -> Node | None:
        """A Table of the sound entries."""
        if not isinstance(node, Table):
            complain(node, f"expected {self.noun}")
            return None
        entries = []
        for key, value in node.entries:
            if not re.fullmatch(self.key, key.text):
                complain(key, f"expected {self.key_noun}, found {key.text!r}")
                continue
            sound = self.value.check(value, complain)
            if sound is not None:
                entries.append((key, sound))
        return Table(tuple(entries), node.line, node.column)

    def json(self) -> dict[str, Any]:
        """An object with pattern properties."""
        return {
            "type": "object",
            "patternProperties": {f"^(?:{self.key})$": self.value.json()},
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a Fields shape."""

    shape: Shape
    meaning: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping with known keys."""

    keys: Mapping[str, Key]
    noun: str = "a mapping"

    def check(self, node: Node, complain: Complain) -> Node | None:
        """A Table of the sound known entries; unknown and missing keys are complained of."""
        if not isinstance(node, Table):
            complain(node, f"expected {self.noun} with the keys {', '.join(self.keys)}")
            return None
        entries = []
        for name, value in node.entries:
            key = self.keys.get(name.text)
            if key is None:
                complain(name, f"unknown key {name.text!r}{nearest(name.text, self.keys)}")
                continue
            sound = key.shape.check(value, complain)
            if sound is not None:
                entries.append((name, sound))
        for word, key in self.keys.items():
            if key.required and node.get(word) is None:
                complain(node, f"key {word!r} is missing")
        return Table(tuple(entries), node.line, node.column)

    def json(self) -> dict[str, Any]:
        """An object with described properties."""
        properties = {name: {**key.shape.json(), "description": key.meaning} for name, key in self.keys.items()}
        required = [name for name, key in self.keys.items() if key.required]
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**schema, "required": required} if required else schema


@dataclass(frozen=True, slots=True)
class Either:
    """One of several shapes, told apart by what the node is: the first whose kind of node it is."""

    options: tuple[Shape, ...] = field(default_factory=tuple)

    @property
    def noun(self) -> str:
        """All options."""
        return " or ".join(dict.fromkeys(option.noun for option in self.options))

    def check(self, node: Node, complain: Complain) -> Node | None:
        """The first option that is silent; else the complaints of the one whose kind of node it is."""
        heard: list[tuple[Shape, list[tuple[Node, str]]]] = []
        for option in self.options:
            complaints: list[tuple[Node, str]] = []
            sound = option.check(node, lambda at, message, into=complaints: into.append((at, message)))  # type: ignore[misc]
            if sound is not None and not complaints:
                return sound
            heard.append((option, complaints))
        for option, complaints in heard:
            if _fits(option, node):
                for at, message in complaints:
                    complain(at, message)
                return None
        complain(node, f"expected {self.noun}")
        return None

    def json(self) -> dict[str, Any]:
        """Any of the options."""
        return {"anyOf": [option.json() for option in self.options]}


def _fits(shape: Shape, node: Node) -> bool:
    if isinstance(node, Table):
        return isinstance(shape, Fields | Free)
    if isinstance(node, Listing):
        return isinstance(shape, Many)
    return isinstance(shape, Words)

"""Turns YAML text into nodes that know their line and column, and mistakes in it into faults."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from vlogdiag.signatures.faults import Fault, RuleError

__all__ = ["Fault", "RuleError"]  # and the nodes below, which the other modules of this room import by name


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text as written, and what YAML takes it for: str, int, float, bool, null."""

    text: str
    type: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A YAML sequence."""

    items: tuple[Node, ...]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Table:
    """A YAML mapping with text keys."""

    entries: tuple[tuple[Scalar, Node], ...]
    line: int
    column: int

    def get(self, key: str) -> Node | None:
        """The value under `key`."""
        return next((value for name, value in self.entries if name.text == key), None)

    def key(self, key: str) -> Scalar | None:
        """The key itself, for its position."""
        return next((name for name, _ in self.entries if name.text == key), None)


Node = Scalar | Listing | Table

_TYPES = {
    "tag:yaml.org,2002:str": "str",
    "tag:yaml.org,2002:int": "int",
    "tag:yaml.org,2002:float": "float",
    "tag:yaml.org,2002:bool": "bool",
    "tag:yaml.org,2002:null": "null",
    # Dates and `=` are text to rules; YAML 1.1 thinks otherwise.
    "tag:yaml.org,2002:timestamp": "str",
    "tag:yaml.org,2002:value": "str",
}


def text_of(node: Node | None) -> str | None:
    """The text of a scalar."""
    return node.text if isinstance(node, Scalar) else None


def is_true(node: Node | None) -> bool:
    """Whether the node says `true`."""
    return isinstance(node, Scalar) and node.type == "bool" and node.text.lower() == "true"


def texts_of(node: Node | None) -> tuple[str, ...]:
    """The texts of a list of scalars."""
    return tuple(item.text for item in items_of(node) if isinstance(item, Scalar))


def items_of(node: Node | None) -> tuple[Node, ...]:
    """The items of a list, none of anything else."""
    return node.items if isinstance(node, Listing) else ()


def entries_of(node: Node | None) -> tuple[tuple[Scalar, Node], ...]:
    """The entries of a mapping, none of anything else."""
    return node.entries if isinstance(node, Table) else ()


def child(node: Node | None, key: str) -> Node | None:
    """What a mapping holds under `key`."""
    return node.get(key) if isinstance(node, Table) else None


def read_yaml(path: str, text: str) -> tuple[Node | None, tuple[Fault, ...]]:
    """The document's root and what is wrong with it; the root is None where YAML itself is broken or empty."""
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return None, (Fault(path, *place, f"not YAML: {error.problem or error.context}"),)
    except (yaml.YAMLError, RecursionError) as error:
        return None, (Fault(path, 1, 1, f"not YAML: {' '.join(str(error).split())}"),)
    if root is None:
        return None, (Fault(path, 1, 1, "empty file"),)
    faults: list[Fault] = []
    return _convert(root, path, faults, set()), tuple(faults)


def _convert(node: yaml.Node, path: str, faults: list[Fault], seen: set[int]) -> Node | None:
    line, column = node.start_mark.line + 1, node.start_mark.column + 1

    def fault(message: str, at: yaml.Node = node) -> None:
        faults.append(Fault(path, at.start_mark.line + 1, at.start_mark.column + 1, message))

    if id(node) in seen:
        # An alias is the same node again; a handful of them can unfold to gigabytes, and rules have no use for them.
        fault("anchors and aliases are not used in rules")
        return None
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        type_ = _TYPES.get(node.tag)
        if type_ is None:
            fault(f"tag {node.tag} is not used in rules")
            return None
        return Scalar(node.value, type_, line, column)
    if isinstance(node, yaml.SequenceNode):
        items = [_convert(item, path, faults, seen) for item in node.value]
        return Listing(tuple(item for item in items if item is not None), line, column)
    entries: dict[str, tuple[Scalar, Node]] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            fault("keys are plain words", key_node)
            continue
        key = Scalar(key_node.value, "str", key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        value = _convert(value_node, path, faults, seen)
        if key.text in entries:
            fault(f"key {key.text!r} appears twice", key_node)
        elif value is not None:
            entries[key.text] = (key, value)
    return Table(tuple(entries.values()), line, column)

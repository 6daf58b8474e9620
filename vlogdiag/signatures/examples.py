"""Turns the `examples` of a rule into typed expectations."""

from __future__ import annotations

from collections.abc import Mapping

from vlogdiag.signatures.names import LIVE_ROOTS, NAMES, is_argument
from vlogdiag.signatures.positions import Node, Scalar, Table, child, entries_of, is_true, items_of, text_of
from vlogdiag.signatures.readings import read_reading
from vlogdiag.signatures.shapes import Complain, nearest
from vlogdiag.signatures.templates import KINDS
from vlogdiag.signatures.types import Example, ExpectedValue
from vlogdiag.values import Quantity, guess_quantity, parse_duration, parse_quantity


def read_examples(node: Node | None, holes: Mapping[str, str], complain: Complain) -> tuple[Example, ...]:
    """All examples, firing ones first; `holes` gives the type of each capture."""
    found: list[Example] = []
    for kind in ("fires", "quiet"):
        for number, item in enumerate(items_of(child(node, kind)), 1):
            if isinstance(item, Table):
                found.append(_example(kind, number, item, holes, complain))
    return tuple(found)


def _example(kind: str, number: int, table: Table, holes: Mapping[str, str], complain: Complain) -> Example:
    tick = table.get("tick")
    seconds = parse_duration(tick.text) if isinstance(tick, Scalar) else None
    if isinstance(tick, Scalar) and seconds is None:
        complain(tick, f"{tick.text!r} is no duration such as 60s")
    readings = [read_reading(item, complain) for item in items_of(table.get("readings"))]
    return Example(
        kind,
        text_of(table.get("name")) or f"{kind} {number}",
        text_of(table.get("log")) or "",
        facts=_facts(table.get("facts"), complain),
        captures=_captures(table.get("captures"), holes, complain),
        readings=tuple(reading for reading in readings if reading is not None),
        tick=seconds,
        fixes=tuple(_expected(item) for item in items_of(table.get("fixes"))),
        line=table.line,
    )


def _facts(node: Node | None, complain: Complain) -> dict[str, Quantity]:
    facts: dict[str, Quantity] = {}
    for key, value in entries_of(node):
        name = key.text
        known = NAMES.get(name)
        if not isinstance(value, Scalar) or value.type == "null":
            continue
        if is_argument(name):
            quantity = guess_quantity(value.text)
        elif known is None or name.split(".")[0] in LIVE_ROOTS:
            complain(key, f"{name!r} is no fact of a run{nearest(name, NAMES)}; readings go under `readings`")
            continue
        else:
            quantity = parse_quantity(value.text, known.kind)
        if quantity is None:
            complain(value, f"{name}: {value.text!r} is no {known.kind.value if known else 'value'}")
        else:
            facts[name] = quantity
    return facts


def _captures(node: Node | None, holes: Mapping[str, str], complain: Complain) -> dict[str, Quantity | None]:
    captures: dict[str, Quantity | None] = {}
    for key, value in entries_of(node):
        type_ = holes.get(key.text)
        if type_ is None:
            complain(key, f"the rule has no capture {key.text!r}{nearest(key.text, holes)}")
        elif isinstance(value, Scalar) and value.type == "null":
            captures[key.text] = None
        elif isinstance(value, Scalar):
            quantity = parse_quantity(value.text, KINDS[type_])
            if quantity is None:
                complain(value, f"{key.text}: {value.text!r} is no {type_}")
            captures[key.text] = quantity
    return captures


def _expected(node: Node) -> dict[str, ExpectedValue]:
    return {key.text: _plain(value) for key, value in entries_of(node)}


def _plain(node: Node) -> ExpectedValue:
    if isinstance(node, Table):
        return _expected(node)
    if isinstance(node, Scalar) and node.type == "bool":
        return is_true(node)
    return text_of(node) or ""

"""Turns the `examples` of a rule into typed expectations."""

from __future__ import annotations

from collections.abc import Mapping

from vlogdiag.signatures.names import LIVE_ROOTS, NAMES, is_argument
from vlogdiag.signatures.positions import Listing, Node, Scalar, Table
from vlogdiag.signatures.readings import read_reading
from vlogdiag.signatures.shapes import Complain, nearest
from vlogdiag.signatures.templates import KINDS
from vlogdiag.signatures.types import Example, ExpectedValue
from vlogdiag.values import Quantity, guess_quantity, parse_duration, parse_quantity


def read_examples(node: Node | None, holes: Mapping[str, str], complain: Complain) -> tuple[Example, ...]:
    """All examples, firing ones first; `holes` gives the type of each capture."""
    found: list[Example] = []
    for kind in ("fires", "quiet"):
        listing = node.get(kind) if isinstance(node, Table) else None
        for number, item in enumerate(listing.items if isinstance(listing, Listing) else (), 1):
            if isinstance(item, Table):
                found.append(_example(kind, number, item, holes, complain))
    return tuple(found)


def _example(kind: str, number: int, table: Table, holes: Mapping[str, str], complain: Complain) -> Example:
    name, log, tick = table.get("name"), table.get("log"), table.get("tick")
    seconds = parse_duration(tick.text) if isinstance(tick, Scalar) else None
    if isinstance(tick, Scalar) and seconds is None:
        complain(tick, f"{tick.text!r} is no duration such as 60s")
    readings = table.get("readings")
    read = [read_reading(item, complain) for item in readings.items] if isinstance(readings, Listing) else []
    fixes = table.get("fixes")
    return Example(
        kind,
        name.text if isinstance(name, Scalar) else f"{kind} {number}",
        log.text if isinstance(log, Scalar) else "",
        facts=_facts(table.get("facts"), complain),
        captures=_captures(table.get("captures"), holes, complain),
        readings=tuple(reading for reading in read if reading is not None),
        tick=seconds,
        fixes=tuple(_expected(item) for item in fixes.items) if isinstance(fixes, Listing) else (),
        line=table.line,
    )


def _facts(node: Node | None, complain: Complain) -> dict[str, Quantity]:
    facts: dict[str, Quantity] = {}
    for key, value in node.entries if isinstance(node, Table) else ():
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
    for key, value in node.entries if isinstance(node, Table) else ():
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
    return {key.text: _plain(value) for key, value in node.entries} if isinstance(node, Table) else {}


def _plain(node: Node) -> ExpectedValue:
    if isinstance(node, Table):
        return _expected(node)
    if isinstance(node, Scalar) and node.type == "bool":
        return node.text.lower() == "true"
    return node.text if isinstance(node, Scalar) else ""

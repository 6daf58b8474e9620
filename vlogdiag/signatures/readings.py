"""Turns the `readings` of an example into model.Reading, by the field names of the types in model.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import fields

from vlogdiag.model import Gpu, HostState, Process, Reading, ServerMetrics, Unavailable, Xid
from vlogdiag.signatures.names import NAMES
from vlogdiag.signatures.positions import Listing, Node, Scalar, entries_of
from vlogdiag.signatures.shapes import Complain, Fields, Key, Many, Shape, Words
from vlogdiag.values import Kind, parse_quantity


def _named(type_: type, root: str) -> dict[str, Kind]:
    """Fields of `type_` that conditions know as `root.field`."""
    names = (field.name for field in fields(type_))
    return {name: NAMES[f"{root}.{name}"].kind for name in names if f"{root}.{name}" in NAMES}


_KINDS: Mapping[type, Mapping[str, Kind]] = {
    Gpu: {**_named(Gpu, "gpu"), "uuid": Kind.TEXT, "bus_id": Kind.TEXT},
    ServerMetrics: _named(ServerMetrics, "metrics"),
    HostState: _named(HostState, "host"),
    Process: {"pid": Kind.INT, "memory": Kind.SIZE, "command": Kind.TEXT},
    Xid: {"gpu": Kind.INT, "code": Kind.INT},
    Unavailable: {"source": Kind.TEXT, "reason": Kind.TEXT},
    Reading: {"time": Kind.DURATION, "stamp": Kind.TEXT},
}
"""Scalar fields of each type and how their text is read."""

_PARTS: Mapping[type, Mapping[str, type]] = {
    Gpu: {"processes": Process, "unavailable": Unavailable},
    ServerMetrics: {"unavailable": Unavailable},
    HostState: {"unavailable": Unavailable},
    Reading: {"gpus": Gpu, "xids": Xid, "unavailable": Unavailable, "metrics": ServerMetrics, "host": HostState},
}
"""Fields that hold other types."""

_SINGLE = ("metrics", "host")
_REQUIRED: Mapping[type, tuple[str, ...]] = {
    Gpu: ("index",),
    Process: ("pid",),
    Xid: ("gpu", "code"),
    Unavailable: ("source", "reason"),
}


def _shape(type_: type) -> Shape:
    keys: dict[str, Key] = {}
    for name, kind in _KINDS[type_].items():
        # `throttle` is a tuple of names in model.Gpu, though conditions see it as one text.
        shape: Shape = (
            Many(Words(), least=0) if (type_, name) == (Gpu, "throttle") else Words(f"a value of kind {kind.value}")
        )
        keys[name] = Key(shape, f"{kind.value}", required=name in _REQUIRED.get(type_, ()))
    for name, part in _PARTS.get(type_, {}).items():
        inner = _shape(part)
        keys[name] = Key(inner if name in _SINGLE else Many(inner, least=0), f"model.{part.__name__}")
    return Fields(keys)


READING: Shape = _shape(Reading)


def read_reading(node: Node, complain: Complain) -> Reading | None:
    """A checked node as a Reading; None where a value cannot be read."""
    reading = _build(Reading, node, complain)
    return reading if isinstance(reading, Reading) else None


def _build(type_: type, node: Node, complain: Complain) -> object | None:
    values: dict[str, Any] = {}
    sound = True
    for key, value in entries_of(node):
        part = _PARTS.get(type_, {}).get(key.text)
        if part is not None:
            built = [_build(part, item, complain) for item in (value.items if isinstance(value, Listing) else (value,))]
            sound = sound and None not in built
            values[key.text] = built[0] if key.text in _SINGLE else tuple(built)
        elif isinstance(value, Listing):
            values[key.text] = tuple(item.text for item in value.items if isinstance(item, Scalar))
        elif isinstance(value, Scalar):
            quantity = parse_quantity(value.text, _KINDS[type_][key.text])
            if quantity is None:
                complain(value, f"{value.text!r} is no {_KINDS[type_][key.text].value}")
                sound = False
            else:
                values[key.text] = quantity.value
    missing = [name for name in _REQUIRED.get(type_, ()) if name not in values]
    return type_(**values) if sound and not missing else None

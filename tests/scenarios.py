"""Scenarios of a log with the readings beside it: what stands in tests/data/scenarios, as values."""

from __future__ import annotations

import re
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from vlogdiag.log.headers import Stamp
from vlogdiag.log.records import LogClock
from vlogdiag.model import Reading
from vlogdiag.values import Kind, parse_quantity

FOLDER = Path(__file__).parent / "data" / "scenarios"
DAY = re.compile(r" (\d\d)-(\d\d) \d\d:\d\d:\d\d ")


@dataclass(frozen=True)
class Scenario:
    """`expect`: id, confidence, says (fragments of readings), never, fix (title), flags, env of the first fix."""

    name: str
    what: str
    log: str
    readings: tuple[Reading, ...]
    expect: dict[str, Any]


def scenarios() -> list[Scenario]:
    return [_scenario(path) for path in sorted(FOLDER.glob("*.yaml"))]


def _scenario(path: Path) -> Scenario:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    day = DAY.search(data["log"])
    assert day is not None, path
    readings = []
    for entry in data["readings"]:
        at = entry.pop("at")
        hour, minute, second = map(float, at.split(":"))
        stamp = Stamp(int(day[1]), int(day[2]), hour * 3600 + minute * 60 + second, None, "")
        readings.append(_build(Reading, {"time": LogClock().time(stamp), "stamp": f"{day[1]}-{day[2]} {at}", **entry}))
    return Scenario(path.stem, data["what"], data["log"], tuple(readings), data["expect"])


def _build(kind: Any, value: Any) -> Any:
    """A value of the model out of plain YAML: `8.0 GiB` where a size stands, lists where tuples stand."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        kinds = [each for each in typing.get_args(kind) if each is not type(None)]
        return None if value is None else _build(kinds[0], value)
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)
        return tuple(
            _build(inner[0] if len(inner) == 2 and inner[1] is ... else each, item)
            for each, item in _paired(inner, value)
        )
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return kind(**{name: _build(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    if kind is int and isinstance(value, str):
        quantity = parse_quantity(value, Kind.SIZE)
        assert quantity is not None, value
        return quantity.value
    return float(value) if kind is float else value


def _paired(inner: tuple[Any, ...], value: list[Any]) -> list[tuple[Any, Any]]:
    if len(inner) == 2 and inner[1] is ...:
        return [(inner[0], item) for item in value]
    return list(zip(inner, value, strict=True))

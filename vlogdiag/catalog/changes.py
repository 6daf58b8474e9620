"""Turns two releases into what an upgrade from one to the other adds, removes and changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vlogdiag.catalog.load import catalogue
from vlogdiag.catalog.store import Entry
from vlogdiag.catalog.versions import Versions

_COMPARED = ("kind", "type", "default", "choices", "deprecated", "hidden", "also", "off")


@dataclass(frozen=True, slots=True)
class Change:
    """One property of one name that differs between two releases."""

    name: str
    what: str
    """'default', 'choices', 'kind', 'deprecated' …: a column of the catalogue."""
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs between two releases, each part by name."""

    old: str
    new: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[Change, ...]


def diff(old: Versions, new: Versions) -> Diff:
    """Options, variables and metrics that differ between the newest release of each set."""
    before, after = _newest(old), _newest(new)
    added: list[str] = []
    removed: list[str] = []
    changed: list[Change] = []
    for table in (catalogue().flags, catalogue().envs, catalogue().metrics):
        for name in sorted(table, key=lambda text: text.lstrip("-")):
            one, two = _at(table, name, before), _at(table, name, after)
            if (one is None) != (two is None) and _under_another_name(table, name, before if one is None else after):
                continue
            if one is None and two is not None:
                added.append(name)
            elif one is not None and two is None:
                removed.append(name)
            elif one is not None and two is not None:
                changed += compare(one, two)
    return Diff(old.newest or "", new.newest or "", tuple(added), tuple(removed), tuple(changed))


def _under_another_name(table: Mapping[str, tuple[Entry, ...]], name: str, release: int) -> bool:
    """Whether a metric is there by its other spelling: Prometheus prints a counter with `_total` either way."""
    if not name.startswith("vllm:"):
        return False
    other = name.removesuffix("_total") if name.endswith("_total") else f"{name}_total"
    return other in table and _at(table, other, release) is not None


def compare(one: Entry, two: Entry) -> list[Change]:
    """The properties in which two entries of one name differ."""
    pairs = ((what, getattr(one, what), getattr(two, what)) for what in _COMPARED)
    return [Change(one.name, what, a, b) for what, a, b in pairs if a != b or type(a) is not type(b)]


def _newest(versions: Versions) -> int:
    return 1 << (versions.mask.bit_length() - 1)


def _at(table: Mapping[str, tuple[Entry, ...]], name: str, release: int) -> Entry | None:
    return next((entry for entry in table[name] if entry.where & release), None)

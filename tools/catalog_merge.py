"""Turns what single releases hold into the catalogue's tables, and what changed between two of them into text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from vlogdiag.catalog.changes import compare
from vlogdiag.catalog.store import Entry, format_table, parse_line

Shape = Entry
"""An Entry without releases (`where` is 0): what a name is in one release."""


def expand(text: str, releases: tuple[str, ...]) -> dict[str, dict[str, Shape]]:
    """A table's text as release to name to shape; `releases` is the list that the text was written with."""
    result: dict[str, dict[str, Shape]] = {release: {} for release in releases}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            entry = parse_line(line, releases)
            for number, release in enumerate(releases):
                if entry.where >> number & 1:
                    result[release][entry.name] = replace(entry, where=0)
    return result


def fold(held: Mapping[str, Mapping[str, Shape]], releases: tuple[str, ...], comment: str) -> str:
    """The table's text for release to name to shape, the inverse of `expand`."""
    masks: dict[tuple[str, str], tuple[Shape, int]] = {}
    for number, release in enumerate(releases):
        for name, shape in held[release].items():
            _, mask = masks.get((name, repr(shape)), (shape, 0))
            masks[name, repr(shape)] = (shape, mask | 1 << number)
    return format_table((replace(shape, where=mask) for shape, mask in masks.values()), comment, releases)


def differences(before: Mapping[str, Shape], after: Mapping[str, Shape]) -> Iterable[str]:
    """What a release adds, removes and changes against the one before it, one line each, for the change log."""
    for name in sorted(after.keys() - before.keys()):
        yield f"added {name}"
    for name in sorted(before.keys() - after.keys()):
        yield f"removed {name}"
    for name in sorted(before.keys() & after.keys()):
        for change in compare(before[name], after[name]):
            yield f"{name}: {change.what} {change.old!r} -> {change.new!r}"

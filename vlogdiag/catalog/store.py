"""Turns the catalogue's text files into entries by name, and entries back into the same bytes.

One line is one shape of one name: `name TAB ranges TAB kind TAB key=JSON …`; `docs/catalog.md` describes every column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from vlogdiag.catalog.ranges import CatalogueError, VersionError, mask_range, range_mask

KINDS = ("switch", "pair", "value", "optional", "list", "variable", "gauge", "counter", "histogram", "metric")
"""`switch` takes nothing, `pair` is a switch with negations, `optional` may take a value, `list` takes several."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a name is in the releases of `where` (a bit mask): an option, a variable or a metric."""

    name: str
    where: int
    kind: str
    also: tuple[str, ...] = ()
    """Other spellings with the same meaning."""
    off: tuple[str, ...] = ()
    """Spellings that mean the opposite."""
    type: str | None = None
    """int, float, str, json, size (`4k`), size-or-auto, pairs (`image=1`), pairs-or-json, text-or-json, bool."""
    default: Any = None
    """The value without the option; None where it has none or computes one at start."""
    choices: tuple[Any, ...] | None = None
    deprecated: bool = False
    by: str | None = None
    """`serve` or `module`: only `vllm serve`, or only the API server's module, has the option; None: both."""
    hidden: bool = False
    """Metrics: shown only with `--show-hidden-metrics-for-version`."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every text that argparse registers for it."""
        return (self.name, *self.also, *self.off)


_EXTRA = tuple(f.name for f in fields(Entry) if f.name not in ("name", "where", "kind"))
_EMPTY = {f.name: f.default for f in fields(Entry) if f.name in _EXTRA}


def parse_line(line: str, releases: tuple[str, ...] | None = None) -> Entry:
    """One line as an Entry.

    Raises:
        ValueError: the line does not follow the format (the message says how).
    """
    name, ranges, kind, *rest = line.split("\t")
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}")
    extra: dict[str, Any] = {}
    for item in rest:
        key, _, value = item.partition("=")
        if key not in _EMPTY:
            raise ValueError(f"unknown column {key!r}")
        read: Any = json.loads(value) if value else True
        extra[key] = tuple(read) if key in ("also", "off", "choices") else read
    return Entry(name, range_mask(ranges, releases), kind, **extra)


def format_line(entry: Entry, releases: tuple[str, ...] | None = None) -> str:
    """The Entry as its line; `parse_line` gives it back."""
    parts = [entry.name, mask_range(entry.where, releases), entry.kind]
    for key in _EXTRA:
        value = getattr(entry, key)
        if value == _EMPTY[key] and type(value) is type(_EMPTY[key]):
            continue
        if value is True and _EMPTY[key] is False:
            parts.append(key)
        else:
            parts.append(f"{key}={json.dumps(value, ensure_ascii=False, separators=(',', ':'))}")
    return "\t".join(parts)


class Table(Mapping[str, tuple[Entry, ...]]):
    """One catalogue file: name to its entries, oldest first; a line is parsed when its name is first asked for."""

    def __init__(self, text: str, path: Path | str) -> None:
        self._path = path
        self._text = text
        self._lines: dict[str, list[tuple[int, str]]] = {}
        self._parsed: dict[str, tuple[Entry, ...]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if line and not line.startswith("#"):
                name, tab, _ = line.partition("\t")
                if not tab:
                    raise CatalogueError(path, "a line without columns", number)
                self._lines.setdefault(name, []).append((number, line))
        if not self._lines:
            raise CatalogueError(path, "holds no entries")

    def __getitem__(self, name: str) -> tuple[Entry, ...]:
        if name not in self._parsed:
            entries = []
            for number, line in self._lines[name]:
                try:
                    entries.append(parse_line(line))
                except (ValueError, TypeError, VersionError) as error:
                    raise CatalogueError(self._path, str(error), number) from error
            self._parsed[name] = tuple(entries)
        return self._parsed[name]

    def mentioning(self, text: str) -> tuple[str, ...]:
        """Names whose lines hold `text` among their properties (as a quoted word), found without parsing any."""
        quoted = json.dumps(text, ensure_ascii=False)
        found = []
        position = self._text.find(quoted)
        while position >= 0:
            start = self._text.rfind("\n", 0, position) + 1
            found.append(self._text[start:position].partition("\t")[0])
            position = self._text.find(quoted, position + 1)
        return tuple(dict.fromkeys(found))

    def spellings(self) -> Iterator[tuple[str, int, list[str]]]:
        """(name, releases, aliases and negations) of every line; the other properties are left unread."""
        for name, lines in self._lines.items():
            for number, line in lines:
                columns = line.split("\t")
                try:
                    others = [json.loads(c.partition("=")[2]) for c in columns[3:] if c.startswith(("also=", "off="))]
                    yield name, range_mask(columns[1]), [text for texts in others for text in texts]
                except (ValueError, TypeError, VersionError) as error:
                    raise CatalogueError(self._path, str(error), number) from error

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Any:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def format_table(entries: Iterable[Entry], comment: str, releases: tuple[str, ...] | None = None) -> str:
    """A whole file: comment lines, then the entries by name, oldest first."""
    ordered = sorted(entries, key=lambda entry: (entry.name.lstrip("-"), entry.name, entry.where & -entry.where))
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return head + "".join(format_line(entry, releases) + "\n" for entry in ordered)

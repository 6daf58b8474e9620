"""Turns the packaged catalogue files into one `Catalogue`, read when the first question is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from vlogdiag.catalog.ranges import DATA, CatalogueError, VersionError, range_mask, releases
from vlogdiag.catalog.store import Entry, Table
from vlogdiag.catalog.versions import Versions


@dataclass(frozen=True, slots=True)
class Note:
    """One hand-kept remark about a name, for the releases of `where`."""

    where: int
    note: str | None = None
    source: str | None = None
    instead: str | None = None
    """What to write instead, in words; may contain a value."""
    renamed: str | None = None
    """A name that takes the same value and means the same."""
    effective: bool = True
    """False: accepted there, and without effect."""
    deprecated: bool = False
    never: bool = False
    """Never existed in any release."""
    foreign: bool = False
    """Not vLLM's own (PyTorch's), so that no release 'has' it."""
    accepted: bool = True
    """Values: False where the server refuses it although the parser may pass it."""
    value: str | None = None
    pattern: str | None = None


_NOTE_KEYS = {f.name for f in fields(Note)}
_SECTIONS = ("behaviours", "flags", "values", "envs", "metrics", "endpoints")


def read_notes(text: str, path: Path | str) -> dict[str, dict[str, tuple[Note, ...]]]:
    """The hand-kept file: section to name to its notes.

    Raises:
        CatalogueError: not YAML, an unknown section or key, a range of unknown releases, or a note without a source.
    """
    import yaml  # only questions that need notes pay for it

    try:
        tree = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise CatalogueError(path, str(error)) from error
    if not isinstance(tree, dict) or set(tree) - set(_SECTIONS):
        raise CatalogueError(path, f"sections must be {', '.join(_SECTIONS)}")
    result: dict[str, dict[str, tuple[Note, ...]]] = {}
    for section in _SECTIONS:
        names = tree.get(section) or {}
        result[section] = {
            name: tuple(_note(raw, f"{section}.{name}", path) for raw in _list(names[name])) for name in names
        }
    return result


def _list(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else [raw]


def _note(raw: Any, name: str, path: Path | str) -> Note:
    if not isinstance(raw, dict) or set(raw) - _NOTE_KEYS:
        raise CatalogueError(path, f"{name}: keys must be among {', '.join(sorted(_NOTE_KEYS))}")
    if not raw.get("source"):
        raise CatalogueError(path, f"{name}: a note without a source")
    try:
        where = range_mask(str(raw["where"])) if "where" in raw else Versions.all().mask
    except VersionError as error:
        raise CatalogueError(path, f"{name}: {error}") from error
    return Note(**{**raw, "where": where})


class Catalogue:
    """All that is known about vLLM's options, variables, metrics and endpoints; parts are read on first use."""

    def __init__(self, folder: Path, notes: Path) -> None:
        self._folder = folder
        self._notes_path = notes

    @cached_property
    def flags(self) -> Table:
        """Options by canonical name."""
        return self._table("flags.tsv")

    @cached_property
    def envs(self) -> Table:
        """Variables by name."""
        return self._table("envs.tsv")

    @cached_property
    def metrics(self) -> Table:
        """Metrics by the name that vLLM declares."""
        return self._table("metrics.tsv")

    @cached_property
    def notes(self) -> Mapping[str, Mapping[str, tuple[Note, ...]]]:
        """Hand-kept notes by section and name."""
        return read_notes(_read(self._notes_path), self._notes_path)

    def spelled(self, text: str) -> tuple[Entry, ...]:
        """The entries that register this option text as their name, alias or negation, without reading all others."""
        found = list(self.flags.get(text, ()))
        for name in self.flags.mentioning(text):
            found += [entry for entry in self.flags[name] if text in entry.also or text in entry.off]
        return tuple(found)

    def registered(self, text: str) -> int:
        """The releases (a bit mask) that register this option text."""
        mask = 0
        for entry in self.spelled(text):
            mask |= entry.where
        return mask

    @cached_property
    def masks(self) -> Mapping[str, int]:
        """Every option text of any release to the releases that register it; reads the whole table."""
        result: dict[str, int] = {}
        for name, where, others in self.flags.spellings():
            for text in (name, *others):
                result[text] = result.get(text, 0) | where
        return result

    def behaviour(self, name: str) -> Versions:
        """Releases whose parser behaves in the named way (section `behaviours` of the notes)."""
        return Versions(self.notes["behaviours"][name][0].where)

    def _table(self, name: str) -> Table:
        path = self._folder / name
        return Table(_read(path), path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(path, str(error)) from error


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """The catalogue that ships with vlogdiag."""
    releases()
    return Catalogue(DATA, DATA.with_name("notes.yaml"))


def entry_at(spelling: str, versions: Versions) -> Entry | None:
    """The entry behind a registered text in the newest release of the set that has it."""
    found = [entry for entry in catalogue().spelled(spelling) if entry.where & versions.mask]
    return max(found, key=lambda entry: (entry.where & versions.mask).bit_length(), default=None)

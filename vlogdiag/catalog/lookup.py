"""Turns a name and a set of vLLM releases into what those releases know about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from vlogdiag.catalog.load import Note, catalogue, entry_at
from vlogdiag.catalog.store import Entry
from vlogdiag.catalog.versions import Versions

_SERIES = ("_sum", "_count", "_bucket", "_created")
"""What Prometheus appends to a histogram's name."""


class FlagAnswer(Struct, frozen=True):
    """What the asked releases know about an option, a variable, a metric or an endpoint."""

    name: str
    """The option's own name (`--tensor-parallel-size` for `-tp`); otherwise as asked."""
    exists: bool | None
    """None: only a part of the asked releases has it, `present` says which."""
    since: str | None
    """First release that has it; the catalogue begins with 0.4.0, so that means '0.4.0 or earlier'."""
    until: str | None
    """Last release that has it; None while the newest one does."""
    present: Versions
    """All releases that have it, asked about or not."""
    replacement: str | None = None
    """What to write instead in the asked releases, in words."""
    note: str | None = None
    source: str | None = None
    effective: bool | None = None
    """Whether it does anything where it exists; None: differs over the asked releases, or it does not exist."""
    deprecated: bool = False
    never: bool = False
    """Known never to have existed."""


def flag(name: str, versions: Versions) -> FlagAnswer:
    """An option by any registered text: name, alias, negation; `_` for `-` counts as `-`."""
    spelling = registered(name)
    entry = entry_at(spelling, versions) or entry_at(spelling, Versions.all())
    own = entry.name if entry and spelling not in catalogue().flags else spelling
    present = Versions(catalogue().registered(spelling))
    key = own if entry and spelling in entry.also and spelling not in catalogue().notes["flags"] else spelling
    return _answer("flags", key, own, present, versions, catalogue().spelled(spelling))


def env(name: str, versions: Versions) -> FlagAnswer:
    """An environment variable of vLLM."""
    entries = catalogue().envs.get(name, ())
    return _answer("envs", name, name, _union(entries), versions, entries)


def metric(name: str, versions: Versions) -> FlagAnswer:
    """A metric, as vLLM declares it or as `/metrics` prints it (`_total`, `_sum`, `_count`); hidden ones are absent."""
    entries, base = metric_entries(name)
    present = _union(entry for entry in entries if not entry.hidden)
    return _answer("metrics", base, name, present, versions, entries)


def endpoint(path: str, versions: Versions) -> FlagAnswer:
    """An HTTP path of the OpenAI-compatible server (the hand-kept few that diagnosis needs)."""
    notes = catalogue().notes["endpoints"].get(path, ())
    present = Versions(0)
    for note in notes:
        present |= Versions(0 if note.never else note.where)
    return _answer("endpoints", path, path, present, versions, ())


def knows_flag(name: str) -> bool:
    """True when some release registers this option text."""
    return catalogue().registered(registered(name)) != 0


def knows_env(name: str) -> bool:
    """True when some release defines the variable, or it is a known foreign one (PyTorch's)."""
    return name in catalogue().envs or any(note.foreign for note in catalogue().notes["envs"].get(name, ()))


def default(name: str, versions: Versions) -> Any | None:
    """The value without the option; None where it differs over the releases, is decided at start, or is unknown."""
    return _same((entry.default for entry in entries_of(name, versions)), None)


def env_default(name: str, versions: Versions) -> Any | None:
    """What a variable means when it is not set; None where that differs over the releases or depends on the machine."""
    entries = [entry for entry in catalogue().envs.get(name, ()) if entry.where & versions.mask]
    whole = _union(entries).mask & versions.mask == versions.mask
    return _same((entry.default for entry in entries), None) if whole else None


def choices(name: str, versions: Versions) -> tuple[Any, ...] | None:
    """The values that argparse takes; None where it takes any or the releases differ."""
    result: tuple[Any, ...] | None = _same((entry.choices for entry in entries_of(name, versions)), None)
    return result


def takes_value(name: str, versions: Versions) -> bool | None:
    """Whether a value must follow; None where it may, where the releases differ, or where the option is unknown."""
    kinds = {"switch": False, "pair": False, "value": True, "list": True}
    result: bool | None = _same((kinds.get(entry.kind) for entry in entries_of(name, versions)), None)
    return result


def most_values(name: str) -> int | None:
    """Most words that the option takes in any release; None where it takes a list, may take one, or is unknown."""
    kinds = {entry.kind for entry in catalogue().spelled(registered(name))}
    if not kinds or not kinds <= {"switch", "pair", "value"}:
        return None
    return int("value" in kinds)


def counterpart(name: str, versions: Versions) -> str | None:
    """The option with the same value and meaning that *every* asked release has, when `name` is not one of them."""
    for note in _notes("flags", registered(name), versions, whole=True):
        if note.renamed and flag(note.renamed, versions).exists:
            return note.renamed
    return None


def registered(name: str) -> str:
    """The text as some release registers it: with `-` for `_`, unless that release spelled it with `_`."""
    if not name.startswith("--") or "_" not in name or catalogue().registered(name):
        return name
    return "--" + name[2:].replace("_", "-")


def entries_of(name: str, versions: Versions) -> list[Entry]:
    """Entries behind an option text (abbreviations too); empty unless they cover every asked release."""
    spelling = registered(name)
    if not catalogue().registered(spelling):
        from vlogdiag.catalog.names import ABBREVIATION, EXACT, resolve  # most names are whole: spare its import

        found = resolve(name, versions)
        spelling = found.spelling if found.kind in (EXACT, ABBREVIATION) and found.spelling else spelling
    entries = [entry for entry in catalogue().spelled(spelling) if entry.where & versions.mask]
    return entries if _union(entries).mask & versions.mask == versions.mask else []


def _union(entries: Iterable[Entry]) -> Versions:
    mask = 0
    for entry in entries:
        mask |= entry.where
    return Versions(mask)


def _same(values: Iterable[Any], otherwise: Any) -> Any:
    found = list(values)
    return found[0] if found and all(type(v) is type(found[0]) and v == found[0] for v in found) else otherwise


def _notes(section: str, name: str, versions: Versions, whole: bool = False) -> list[Note]:
    """Notes that speak to the asked releases, those that speak to all of them first."""
    notes = catalogue().notes[section].get(name, ())
    covering = [note for note in notes if note.where & versions.mask == versions.mask]
    return covering if whole else covering + [n for n in notes if n not in covering and n.where & versions.mask]


def metric_entries(name: str) -> tuple[tuple[Entry, ...], str]:
    """The entries behind a metric's name with or without Prometheus's suffixes, and the name that notes know it by."""
    table = catalogue().metrics
    names = [name, f"{name}_total", name.removesuffix("_total")]
    names += [name.removesuffix(suffix) for suffix in _SERIES]
    found: list[Entry] = []
    for text in dict.fromkeys(names):
        for entry in table.get(text, ()):
            histogram = text != name and name.startswith(text) and not name.endswith("_total")
            if not histogram or entry.kind == "histogram":
                found.append(entry)
    noted = catalogue().notes["metrics"]
    base = next((text for text in names if text in noted), name)
    return tuple(found), base


def _answer(
    section: str, key: str, name: str, present: Versions, versions: Versions, entries: Iterable[Entry]
) -> FlagAnswer:
    notes = _notes(section, key, versions)
    here = versions & present
    idle = Versions(0)
    deprecated = _union(entry for entry in entries if entry.deprecated)
    for note in notes:
        idle |= Versions(0 if note.effective else note.where)
        deprecated |= Versions(note.where if note.deprecated else 0)
    idle_here = here.within(idle)
    exists = versions.within(present) if present else False if versions else None
    return FlagAnswer(
        name=name,
        exists=exists,
        since=present.oldest,
        until=None if present.newest == Versions.all().newest else present.newest,
        present=present,
        replacement=next((note.renamed or note.instead for note in notes if note.renamed or note.instead), None),
        note=next((note.note for note in notes if note.note), None),
        source=next((note.source for note in notes), None),
        effective=None if not here or idle_here is None else not idle_here,
        deprecated=here.within(deprecated) is True,
        never=any(note.never for note in notes) and not present,
    )

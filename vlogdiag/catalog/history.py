"""Turns a name (option, variable, metric, endpoint) into its history over the releases, for people and for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vlogdiag.catalog.load import Note, catalogue
from vlogdiag.catalog.lookup import FlagAnswer, endpoint, env, flag, metric, metric_entries, registered
from vlogdiag.catalog.store import Entry
from vlogdiag.catalog.versions import Versions


@dataclass(frozen=True, slots=True)
class History:
    """All that the catalogue holds about one name."""

    name: str
    what: str
    """'option', 'variable', 'metric' or 'endpoint'."""
    answer: FlagAnswer
    shapes: tuple[Entry, ...]
    """Its forms, oldest first."""
    notes: tuple[Note, ...]


def history(name: str) -> History | None:
    """What became of a name over the releases; None when no release and no note knows it."""
    everywhere = Versions.all()
    notes = catalogue().notes
    if name.startswith("-"):
        text = registered(name)
        shapes = catalogue().spelled(text)
        own = flag(text, everywhere).name
        noted = notes["flags"].get(text) or (notes["flags"].get(own, ()) if text in _aliases(shapes) else ())
        found = History(text, "option", flag(text, everywhere), shapes, tuple(noted))
    elif name.startswith("vllm:"):
        shapes, base = metric_entries(name)
        found = History(name, "metric", metric(name, everywhere), shapes, notes["metrics"].get(base, ()))
    elif name.startswith("/"):
        found = History(name, "endpoint", endpoint(name, everywhere), (), notes["endpoints"].get(name, ()))
    else:
        shapes = catalogue().envs.get(name, ())
        found = History(name, "variable", env(name, everywhere), shapes, notes["envs"].get(name, ()))
    return found if found.shapes or found.notes else None


def nearest(name: str) -> tuple[str, ...]:
    """Known names that look like `name`, best first."""
    from difflib import get_close_matches

    known = [*catalogue().masks, *catalogue().envs, *catalogue().metrics, *catalogue().notes["endpoints"]]
    return tuple(get_close_matches(name, known, n=3, cutoff=0.7))


def _aliases(shapes: Iterable[Entry]) -> set[str]:
    return {text for entry in shapes for text in (entry.name, *entry.also)}

"""Spells an environment variable the way each kind of launch file wants it."""

from __future__ import annotations

import json
from collections.abc import Callable

from vlogdiag.launch.command import Edits, EnvPlace, NotCertain
from vlogdiag.launch.inset import spell
from vlogdiag.launch.quoting import quote_plainly, quote_word

FORMS: dict[str, Callable[[str, str], str]] = {
    "shell assignment": lambda name, value: f"{name}={quote_word(value)}",
    "shell word": lambda name, value: quote_word(f"{name}={value}"),
    "yaml scalar": lambda name, value: json.dumps(value, ensure_ascii=False),
    "yaml pair": lambda name, value: f"{name}: {json.dumps(value, ensure_ascii=False)}",
    "kubernetes item": lambda name, value: f"name: {name}\nvalue: {json.dumps(value, ensure_ascii=False)}",
    "yaml flow item": lambda name, value: f"name: {name}, value: {json.dumps(value, ensure_ascii=False)}",
    "yaml list item": lambda name, value: (
        quote_word(f"{name}={value}") if "'" not in value else json.dumps(f"{name}={value}")
    ),
    "dockerfile pair": lambda name, value: (
        f"{name}={value}" if quote_word(value) == value else f"{name}={json.dumps(value)}"
    ),
    "dockerfile text": lambda name, value: value,
    "systemd word": lambda name, value: quote_plainly(f"{name}={value}"),
    "supervisor pair": lambda name, value: f"{name}={json.dumps(value, ensure_ascii=False)}",
}
"""How `NAME` with a value is spelled, by form; written from the formats' manuals."""

Splice = tuple[int, int, str]
"""Document text `[start:end]` becomes the string."""


def environment_splices(place: EnvPlace, edits: Edits) -> list[Splice]:
    """The changes of the document that set and unset the variables of `edits`.

    Raises NotCertain where the file has no place for them.
    """
    if not (edits.env_set or edits.env_unset):
        return []
    doubtful = [name for name in edits.env_unset if name in place.uncertain]
    if doubtful:
        raise NotCertain(f"{doubtful[0]} is set under a condition; remove it by hand")
    fixed = [name for name in (*edits.env_set, *edits.env_unset) if name in place.fixed]
    if fixed:
        raise NotCertain(f"{fixed[0]} takes its value from elsewhere; change it there")
    splices: list[Splice] = []
    fresh = []
    for name, value in edits.env_set.items():
        own = [entry for entry in place.entries if entry.name == name]
        for entry in own[-1:]:
            if entry.value != value:
                splices.append((entry.start, entry.end, spell(FORMS[entry.form](name, value), entry.layers)))
        if not own:
            form = FORMS[place.form](name, value).replace("\n", "\n" + place.indent)
            fresh.append(place.before + spell(form, place.layers) + place.after)
    if fresh:
        if place.at is None:
            raise NotCertain("this file has no place for environment variables")
        splices.append((place.at, place.at, place.opening + place.between.join(fresh) + place.closing))
    inherited = [name for name in edits.env_unset if name not in {e.name for e in place.entries} | set(place.cleared)]
    if inherited and place.unset_at is not None:
        text = "".join(place.unset_before + name + place.unset_after for name in inherited)
        splices.append((place.unset_at, place.unset_at, spell(text, place.layers)))
    splices += [(e.drop_start, e.drop_end, e.drop_text) for e in place.entries if e.name in edits.env_unset]
    return splices

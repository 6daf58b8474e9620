"""Turns an option's value into whether the asked releases take it, and a mapping into their spelling of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from vlogdiag.catalog.load import Note, catalogue
from vlogdiag.catalog.lookup import entries_of, flag, registered
from vlogdiag.catalog.store import Entry
from vlogdiag.catalog.versions import Versions

_SIZE = re.compile(r"\s*(\d+[kmgtKMGT]?|\d+\.\d+[kmgt])\s*")
_PAIRS = re.compile(r"[^=,{}]+=[^=,]+(,[^=,]+=[^=,]+)*")
_OBJECT = re.compile(r"\s*\{.*\}\s*", re.DOTALL)


def value_allowed(name: str, value: Any, versions: Versions) -> bool | None:
    """Whether the option takes the value in every asked release (True), in none (False), in some or unknown (None)."""
    text = value if isinstance(value, str) else json.dumps(value) if isinstance(value, (dict, list)) else str(value)
    spelling = registered(name)
    refused = 0
    for note in value_notes(flag(name, versions).name, text, versions):
        refused |= note.where if not note.accepted else 0
    good = bad = 0
    for entry in entries_of(spelling, versions):
        if entry_takes(entry, text):
            good |= entry.where
        else:
            bad |= entry.where
    bad = (bad | good & refused) & versions.mask
    good = good & ~refused & versions.mask
    if good | bad != versions.mask or (good and bad):
        return None
    return bool(good) if versions.mask else None


def value_notes(name: str, text: str, versions: Versions) -> list[Note]:
    """Hand-kept notes about this value of the option in some of these releases."""
    notes = catalogue().notes["values"].get(name, ())
    return [note for note in notes if note.where & versions.mask and _note_matches(note, text)]


def entry_takes(entry: Entry, text: str) -> bool:
    """Whether argparse takes `text` as the option's value in the entry's releases."""
    if entry.kind in ("switch", "pair"):
        return False
    if entry.choices is not None:
        return text in {str(choice) for choice in entry.choices}
    if text in ("", "None"):
        return True
    match entry.type:
        case "int":
            return _reads(int, text)
        case "float":
            return _reads(float, text)
        case "size":
            return bool(_SIZE.fullmatch(text))
        case "size-or-auto":
            return bool(_SIZE.fullmatch(text)) or text.strip().lower() in ("auto", "-1")
        case "text-or-json":
            return not _OBJECT.fullmatch(text) or _reads(json.loads, text)
        case "json":
            return _reads(json.loads, text)
        case "pairs":
            return bool(_PAIRS.fullmatch(text))
        case "pairs-or-json":
            return bool(_PAIRS.fullmatch(text)) or _reads(json.loads, text)
        case "bool":
            return text.lower() in ("true", "false")
        case _:
            return True


def spell_mapping(name: str, mapping: Mapping[str, Any], versions: Versions) -> str:
    """A mapping as the option wants it: `image=1,video=0` where JSON is not taken yet, JSON everywhere else."""
    types = {entry.type for entry in entries_of(name, versions)}
    if types and types <= {"pairs", "pairs-or-json"} and "pairs" in types:
        return ",".join(f"{key}={value}" for key, value in mapping.items())
    return json.dumps(dict(mapping), ensure_ascii=False, separators=(", ", ": "))


def _reads(reader: Any, text: str) -> bool:
    try:
        reader(text)
    except ValueError:
        return False
    return True


def _note_matches(note: Note, text: str) -> bool:
    return text == note.value or (note.pattern is not None and re.fullmatch(note.pattern, text, re.DOTALL) is not None)

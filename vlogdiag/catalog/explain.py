"""Turns an option or a value that vLLM refuses into the reason and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from vlogdiag.catalog.load import catalogue
from vlogdiag.catalog.lookup import choices, flag
from vlogdiag.catalog.names import (
    ABBREVIATION,
    AMBIGUOUS,
    EXACT,
    FUTURE,
    NEVER,
    REMOVED,
    Resolution,
    entry_at,
    is_option,
    resolve,
)
from vlogdiag.catalog.optionvalues import entry_takes, value_allowed, value_notes
from vlogdiag.catalog.store import Entry
from vlogdiag.catalog.versions import Versions

REFUSED, IGNORED, DEPRECATED = "refused", "ignored", "deprecated"


class ArgProblem(Struct, frozen=True):
    """One word of a command line that does not do what its author hoped for."""

    argument: str
    value: str | None
    verdict: str
    """'refused' (the server does not start), 'ignored' (taken, without effect) or 'deprecated'."""
    reason: str
    instead: str | None = None
    versions: Versions | None = None
    """The part of the asked releases that this is true of."""


def explain_unrecognized(arguments: Sequence[str], versions: Versions) -> tuple[ArgProblem, ...]:
    """One answer per option of argparse's `unrecognized arguments: …`: never existed, removed, arrives later, mistyped.

    Words that are no options are the values of the option before them; without one, argparse had no place for them.
    """
    problems = []
    position = 0
    while position < len(arguments):
        word = arguments[position]
        position += 1
        if not is_option(word):
            problems.append(ArgProblem(word, None, REFUSED, "no option takes this word", versions=versions))
            continue
        name, equals, value = word.partition("=")
        values = [value] if equals else []
        while position < len(arguments) and not is_option(arguments[position]):
            values.append(arguments[position])
            position += 1
        found = resolve(name, versions)
        text = " ".join(values) or None
        if found.kind in (EXACT, ABBREVIATION):
            problems.append(ArgProblem(name, text, REFUSED, f"{versions.words()} knows this option", versions=versions))
        else:
            problems.append(unknown(name, text, found))
    return tuple(problems)


def explain_value(name: str, value: str, versions: Versions) -> ArgProblem | None:
    """Why a known option refuses a value, with the allowed ones of these releases; None: nothing speaks against it."""
    found = resolve(name, versions)
    if found.kind not in (EXACT, ABBREVIATION) or found.canonical is None:
        return unknown(name, value, found)
    entry = entry_at(found.spelling or found.canonical, versions)
    return bad_value(name, value, found, entry, versions) if entry else None


def bad_value(text: str, value: str, found: Resolution, entry: Entry, versions: Versions) -> ArgProblem | None:
    """Why the option of `entry` refuses `value`; None where it does not."""
    words = value.split() if entry.kind == "list" else [value]
    refused = [word for word in words if value_allowed(found.spelling or entry.name, word, versions) is False]
    if not refused:
        return None
    notes = [note for note in value_notes(entry.name, refused[0], versions) if note.note]
    allowed = choices(entry.name, versions)
    reason = f"{refused[0]!r} is no value of {entry.name} in {versions.words()}"
    if notes and notes[0].note:
        reason += f": {notes[0].note}"
    elif allowed is None and not entry_takes(entry, refused[0]) and entry.type:
        reason += f", which wants {_WANTED.get(entry.type, entry.type)}"
    instead = notes[0].instead if notes else None
    if allowed:
        listed = ", ".join(str(choice) for choice in allowed if choice is not None)
        reason += f"; allowed: {listed}"
    return ArgProblem(text, value, REFUSED, reason, instead and f"{entry.name} {instead}", versions)


_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "size": "a number such as 4096 or 4k",
    "size-or-auto": "a number such as 4096 or 4k, or auto",
    "json": "JSON",
    "text-or-json": "a word, or valid JSON in braces",
    "pairs": "name=value pairs such as image=2",
    "pairs-or-json": "JSON, or name=value pairs such as image=2",
    "bool": "true or false",
}


def unknown(text: str, value: str | None, found: Resolution) -> ArgProblem:
    """Why `text`, which resolved to `found`, is no option of those releases."""
    answer = flag(found.spelling or text, found.where)
    instead = answer.replacement
    if found.kind == NEVER:
        reason = f"no vLLM release has {text}" if answer.never else f"vLLM does not know {text}"
    elif found.kind in (REMOVED, FUTURE) and found.spelling == "-O" and found.dotted:
        reason = f"-O.key means --compilation-config only in {catalogue().behaviour('dash-o-dotted').words()}"
        instead = f"-cc.{found.dotted}" if found.kind == REMOVED else "--compilation-config with JSON"
    elif found.kind == REMOVED:
        reason = _removed(found, answer.present)
    elif found.kind == FUTURE and found.dotted:
        reason = f"{text}: option.key is understood only from 0.9.0"
    elif found.kind == FUTURE:
        later = Versions(answer.present.mask & ~((1 << found.where.mask.bit_length()) - 1))
        reason = f"{found.spelling or text} arrives in {later.oldest}, this is {found.where.words()}"
    elif found.kind == AMBIGUOUS:
        reason = f"{text} is ambiguous in {found.where.words()}: {', '.join(found.candidates)}"
    else:
        reason = f"{found.where.words()} does not know {text}; nearest: {', '.join(found.candidates)}"
        instead = found.candidates[0]
    if answer.note and answer.note not in reason:
        reason += f" ({answer.note})"
    return ArgProblem(text, value, REFUSED, reason, instead, found.where)


def _removed(found: Resolution, present: Versions) -> str:
    before = Versions(present.mask & ((found.where.mask & -found.where.mask) - 1))
    gone = Versions(Versions.all().mask & ~((1 << before.mask.bit_length()) - 1)).oldest
    back = Versions(present.mask & ~((1 << found.where.mask.bit_length()) - 1)).oldest
    again = f", back in {back}" if back else ""
    return f"{found.spelling} was removed in {gone} (last in {before.newest}){again}"

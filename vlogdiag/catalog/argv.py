"""Turns the words of a vLLM command into what the given releases would refuse, ignore or call deprecated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from vlogdiag.catalog.load import catalogue
from vlogdiag.catalog.lookup import choices, default, entry_takes, flag, value_allowed, value_notes
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
from vlogdiag.catalog.store import Entry
from vlogdiag.catalog.versions import Versions

REFUSED, IGNORED, DEPRECATED = "refused", "ignored", "deprecated"
API_SERVER = "vllm.entrypoints.openai.api_server"
_BOOLEAN_WORDS = frozenset({"true", "false", "True", "False", "1", "0"})


@dataclass(frozen=True, slots=True)
class ArgProblem:
    """One word of a command line that does not do what its author hoped for."""

    argument: str
    value: str | None
    verdict: str
    """'refused' (the server does not start), 'ignored' (taken, without effect) or 'deprecated'."""
    reason: str
    instead: str | None = None
    versions: Versions | None = None
    """The part of the asked releases that this is true of."""


class NoCommandError(ValueError):
    """The words hold no `vllm serve` and no `python -m vllm.entrypoints.openai.api_server`."""


@dataclass(frozen=True, slots=True)
class _Use:
    """One option as the command line has it; `stray` is a word that no option takes."""

    text: str
    value: str | None
    found: Resolution
    entry: Entry | None
    stray: bool = False


def check_argv(argv: Sequence[str], versions: Versions) -> tuple[ArgProblem, ...]:
    """What `versions` have to say against a whole command, in its own order.

    Raises:
        NoCommandError: no vLLM server is started by these words.
    """
    words, positionals = server_arguments(argv)
    by = "serve" if positionals else "module"
    problems: list[ArgProblem] = []
    if positionals and versions:
        serving = versions & catalogue().behaviour("serve-command")
        if not serving:
            reason = f"vllm serve arrives in {catalogue().behaviour('serve-command').oldest}"
            return (ArgProblem("serve", None, REFUSED, reason, f"python -m {API_SERVER} --model …", versions),)
        versions = serving
    uses = tuple(_uses(words, positionals, versions))
    for use in uses:
        problem = _stray(use, versions) if use.stray else _judge(use, versions, by)
        if problem:
            problems.append(problem)
    return tuple(problems)


def server_arguments(argv: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The words after `vllm serve` (or the API server's module), and how many positional words that parser takes.

    Raises:
        NoCommandError: neither is there.
    """
    for number, word in enumerate(argv):
        if PurePath(word).name == "vllm" and "serve" in argv[number + 1 : number + 2]:
            return tuple(argv[number + 2 :]), 1
        if word == API_SERVER or word.endswith("vllm/entrypoints/openai/api_server.py"):
            return tuple(argv[number + 1 :]), 0
    raise NoCommandError("no 'vllm serve' and no 'python -m vllm.entrypoints.openai.api_server' in these words")


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
            problems.append(_unknown(name, text, found))
    return tuple(problems)


def explain_value(name: str, value: str, versions: Versions) -> ArgProblem | None:
    """Why a known option refuses a value, with the allowed ones of these releases; None: nothing speaks against it."""
    found = resolve(name, versions)
    if found.kind not in (EXACT, ABBREVIATION) or found.canonical is None:
        return _unknown(name, value, found)
    entry = entry_at(found.spelling or found.canonical, versions)
    return _bad_value(name, value, found, entry, versions) if entry else None


def _uses(words: Sequence[str], positionals: int, versions: Versions) -> Iterator[_Use]:
    position = 0
    previous: _Use | None = None
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            break
        if not is_option(word):
            if positionals:
                positionals -= 1
            else:
                found = previous.found if previous else resolve("--help", versions)
                yield _Use(word, None, found, previous.entry if previous else None, stray=True)
            continue
        name, equals, value = word.partition("=")
        found = resolve(word, versions)
        entry = entry_at(found.spelling, found.where) if found.spelling else None
        if entry is None and found.kind == EXACT and found.canonical and not found.dotted:
            entry = entry_at(found.canonical, found.where)  # -O, which no parser registers since 0.12.0
        if name.startswith("-O") and len(name) > 2 and "." not in name:
            name, equals, value = "-O", "=", value or name[2:]
        values = [value] if equals else []
        if not equals:
            limit = _values_wanted(entry, found)
            while len(values) < limit and position < len(words) and not is_option(words[position]):
                values.append(words[position])
                position += 1
        previous = _Use(name, " ".join(values) if values else None, found, entry)
        yield previous


def _values_wanted(entry: Entry | None, found: Resolution) -> int:
    if found.dotted:
        return 1
    if entry is None:
        return 1  # an unknown option: the word after it is most likely its value
    return {"switch": 0, "pair": 0, "value": 1, "optional": 1}.get(entry.kind, 1 << 30)


def _judge(use: _Use, versions: Versions, by: str) -> ArgProblem | None:
    if use.found.kind not in (EXACT, ABBREVIATION):
        return _unknown(use.text, use.value, use.found)
    outside = versions - use.found.where
    if outside:
        part = resolve(use.text, outside)
        if part.kind not in (EXACT, ABBREVIATION):
            return _unknown(use.text, use.value, part)
    elsewhere = _elsewhere(use, versions, by)
    if elsewhere:
        return elsewhere
    if use.entry is not None and use.entry.kind in ("switch", "pair") and use.value is not None:
        reason = f"{use.entry.name} takes no value"
        return ArgProblem(use.text, use.value, REFUSED, reason, _without_value(use.entry, use.value), versions)
    if use.entry is not None and use.value is None and use.entry.kind in ("value", "list"):
        return ArgProblem(use.text, None, REFUSED, f"{use.entry.name} wants a value", versions=versions)
    if use.text == "-O" and use.found.canonical == "--optimization-level" and use.value not in ("0", "1", "2", "3"):
        return ArgProblem(use.text, use.value, REFUSED, "-O wants a level from 0 to 3", versions=versions)
    if use.entry is not None and use.value is not None and not use.found.dotted and use.text != "-O":
        problem = _bad_value(use.text, use.value, use.found, use.entry, versions)
        if problem:
            return problem
    return _useless(use, versions)


def _elsewhere(use: _Use, versions: Versions, by: str) -> ArgProblem | None:
    """Options that only the other way of starting the server takes; `--model`, which `vllm serve` wants as a word."""
    name = use.entry.name if use.entry else None
    if by == "serve" and name == "--model":
        instead = f"vllm serve {use.value or 'MODEL'}"
        refused = versions & catalogue().behaviour("serve-refuses-model")
        if refused:
            return ArgProblem(use.text, use.value, REFUSED, "vllm serve wants the model as a word", instead, refused)
        return ArgProblem(use.text, use.value, DEPRECATED, "vllm serve wants the model as a word", instead, versions)
    if use.entry is None or use.entry.by in (None, by):
        return None
    where = "vllm serve" if use.entry.by == "serve" else f"python -m {API_SERVER}"
    return ArgProblem(use.text, use.value, REFUSED, f"only {where} takes {name}", versions=versions)


def _useless(use: _Use, versions: Versions) -> ArgProblem | None:
    answer = flag(use.found.spelling or use.text, versions)
    verdict = IGNORED if answer.effective is False else DEPRECATED if answer.deprecated else None
    if verdict is None:
        return None
    reason = answer.note or ("accepted, without effect" if verdict == IGNORED else "deprecated")
    return ArgProblem(use.text, use.value, verdict, reason, answer.replacement, versions & answer.present)


def _bad_value(text: str, value: str, found: Resolution, entry: Entry, versions: Versions) -> ArgProblem | None:
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


def _unknown(text: str, value: str | None, found: Resolution) -> ArgProblem:
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


def _stray(use: _Use, versions: Versions) -> ArgProblem:
    entry = use.entry
    if entry is not None and entry.kind in ("switch", "pair") and use.text in _BOOLEAN_WORDS:
        reason = f"{entry.name} takes no value"
        return ArgProblem(entry.name, use.text, REFUSED, reason, _without_value(entry, use.text), versions)
    return ArgProblem(use.text, None, REFUSED, "no option takes this word", versions=versions)


def _without_value(entry: Entry, word: str) -> str | None:
    if word.lower() in ("true", "1"):
        return entry.name
    if entry.off:
        return entry.off[0]
    return f"leave out {entry.name}" if default(entry.name, Versions(entry.where)) is False else None

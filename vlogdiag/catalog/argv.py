"""Turns the words of a vLLM command into what the given releases would refuse, ignore or call deprecated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from vlogdiag.catalog.explain import DEPRECATED as DEPRECATED
from vlogdiag.catalog.explain import IGNORED, REFUSED, ArgProblem, bad_value, unknown
from vlogdiag.catalog.load import catalogue
from vlogdiag.catalog.lookup import default, flag
from vlogdiag.catalog.names import ABBREVIATION, EXACT, Resolution, entry_at, is_option, resolve
from vlogdiag.catalog.store import Entry
from vlogdiag.catalog.versions import Versions

API_SERVER = "vllm.entrypoints.openai.api_server"
_BOOLEAN_WORDS = frozenset({"true", "false", "True", "False", "1", "0"})


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
        return unknown(use.text, use.value, use.found)
    outside = versions - use.found.where
    if outside:
        part = resolve(use.text, outside)
        if part.kind not in (EXACT, ABBREVIATION):
            return unknown(use.text, use.value, part)
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
        problem = bad_value(use.text, use.value, use.found, use.entry, versions)
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

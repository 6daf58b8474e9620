"""Turns a server's arguments into options, and changes to options into changes of words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from vlogdiag.catalog import Versions, resolve, spell_mapping
from vlogdiag.catalog.names import entry_at, is_option
from vlogdiag.catalog.store import Entry
from vlogdiag.launch.command import Edits

_TRUTH = frozenset(("true", "false", "True", "False"))


@dataclass(frozen=True, slots=True)
class Option:
    """One option with its values, or one word that belongs to none (`flag` is None), at `argv[start:end]`."""

    flag: str | None
    values: tuple[str, ...]
    start: int
    end: int
    joined: bool = False
    """True for `--flag=value`."""
    name: str | None = None
    """The option's own name, aliases, negations and `_` resolved; as spelled where no release knows it."""
    dotted: str | None = None
    """`image` of `--limit-mm-per-prompt.image`."""


@dataclass(frozen=True, slots=True)
class WordChange:
    """`argv[start:end]` becomes `words`; an empty range at the end appends."""

    start: int
    end: int
    words: tuple[str, ...]


def read_options(argv: Sequence[str], versions: Versions | None = None) -> tuple[Option, ...]:
    """The options of `argv` (a server's arguments only), each with its place, as the given releases would read them."""
    versions = versions or Versions.all()
    options: list[Option] = []
    i = 0
    while i < len(argv):
        word = argv[i]
        if word == "--":
            options += [Option(None, (rest,), k, k + 1) for k, rest in enumerate(argv[i + 1 :], i + 1)]
            break
        if not is_option(word) or word.startswith("-$"):
            options.append(Option(None, (word,), i, i + 1))
            i += 1
            continue
        flag, equals, value = word.partition("=")
        if flag.startswith("-O") and len(flag) > 2 and flag[2] != ".":  # `-O3`: vLLM's parser splits it itself
            flag, equals, value = "-O", "=", value or flag[2:]
        name, dotted, entry = _meaning(flag, versions)
        values: tuple[str, ...] = (value,)
        end = i + 1
        if not equals:
            following = tuple(takewhile(lambda text: not is_option(text) and text != "--", argv[i + 1 :]))
            values = following[: _wanted(entry, dotted, following)]
            end = i + 1 + len(values)
        options.append(Option(flag, values, i, end, bool(equals), name, dotted))
        i = end
    return tuple(options)


def _meaning(flag: str, versions: Versions) -> tuple[str, str | None, Entry | None]:
    """Own name, dotted key and entry of an option; options of other releases are read as these had them."""
    found = resolve(flag, versions)
    entry = entry_at(found.spelling or flag, found.where)
    if entry is None:
        found = resolve(flag, Versions.all())
        entry = entry_at(found.spelling or flag, Versions.all())
    name = found.canonical if entry and found.canonical else flag.partition(".")[0]
    return name, found.dotted, entry


def option_name(flag: str, versions: Versions | None = None) -> str:
    """The option's own name for any spelling of it (`-tp`, `--no-enable-prefix-caching`, `--max_model_len`)."""
    return _meaning(flag.partition("=")[0], versions or Versions.all())[0]


def _wanted(entry: Entry | None, dotted: str | None, following: Sequence[str]) -> int:
    """How many of the following words the option takes."""
    if entry is None or dotted:
        return 1
    if entry.kind in ("switch", "pair"):
        # `--enforce-eager true` is an error to argparse, but the word goes with the option when that is changed.
        return 1 if following and following[0] in _TRUTH else 0
    return len(following) if entry.kind == "list" else 1


def parse_args(argv: Sequence[str], versions: Versions | None = None) -> tuple[tuple[str, str | bool | None], ...]:
    """Pairs of option and value as spelled: True for a bare switch, several pairs for several values.

    A word that belongs to no option (the model of `vllm serve MODEL`) is paired with None. `argv` holds the arguments
    only (`LaunchCommand.arguments`).
    """
    pairs: list[tuple[str, str | bool | None]] = []
    for option in read_options(argv, versions):
        if option.flag is None:
            pairs += [(value, None) for value in option.values]
        elif option.values:
            pairs += [(option.flag, value) for value in option.values]
        else:
            pairs.append((option.flag, True))
    return tuple(pairs)


def plan(
    argv: Sequence[str],
    edits: Edits,
    versions: Versions | None = None,
    locked: Callable[[int], str | None] = lambda _: None,
    joined: bool = False,
) -> tuple[WordChange, ...]:
    """The changes of words that carry out the option part of `edits`.

    An option whose words are `locked` is overridden by a later one instead of changed (argparse takes the last).
    `joined` appends `--flag=value` as one word.
    """
    versions = versions or Versions.all()
    options = read_options(argv, versions)
    changes: list[WordChange] = []
    removed = [*edits.remove, *(flag for flag, value in edits.set.items() if value is False)]
    gone = {(name, dotted) for name, dotted, _ in (_meaning(flag, versions) for flag in removed)}
    for option in options:
        if option.flag and (
            (option.name, option.dotted) in gone or (option.name, None) in gone or option.flag in removed
        ):
            changes.append(WordChange(option.start, option.end, ()))
    taken = {change.start for change in changes}
    for flag, value in edits.set.items():
        if value is not False:
            own = [option for option in options if option.flag and option.start not in taken]
            changes += _set(flag, value, own, versions, locked, joined, len(argv))
    return tuple(sorted(changes, key=lambda change: (change.start, change.end)))


def _set(
    flag: str,
    value: str | bool,
    options: Iterable[Option],
    versions: Versions,
    locked: Callable[[int], str | None],
    joined: bool,
    end: int,
) -> list[WordChange]:
    name, dotted, entry = _meaning(flag, versions)
    same = [option for option in options if option.name == name]
    plain = [option for option in same if option.dotted == dotted]
    changes = []
    if dotted is None and entry is not None and entry.type in ("json", "pairs", "pairs-or-json"):
        value = _merged(name, value, same, versions)
        changes = [WordChange(o.start, o.end, ()) for o in same if o.dotted and not locked(o.start)]
    words = _value_words(value, entry)
    if not plain or any(locked(k) for k in range(plain[-1].start, plain[-1].end)):
        # `-O=2` would be the text "=2" to some releases: short options are always two words.
        together = joined and len(words) == 1 and flag.startswith("--")
        return [*changes, WordChange(end, end, (f"{flag}={words[0]}",) if together else (flag, *words))]
    option = plain[-1]  # argparse takes the last one, so the earlier ones do not matter
    spelled = option.flag or flag
    if value is True:
        return (
            [*changes, WordChange(option.start, option.end, (flag,))]
            if (spelled, ()) != (flag, option.values)
            else changes
        )
    if option.values == words:
        return changes
    if option.joined and len(words) == 1:
        glue = "" if spelled == "-O" else "="
        return [*changes, WordChange(option.start, option.end, (f"{spelled}{glue}{words[0]}",))]
    if option.joined or not option.values:
        return [*changes, WordChange(option.start, option.end, (flag, *words))]
    return [*changes, WordChange(option.start + 1, option.end, words)]


def _value_words(value: str | bool, entry: Entry | None) -> tuple[str, ...]:
    if value is True or value is False:
        return ()
    return tuple(value.split()) if entry is not None and entry.kind == "list" else (value,)


def _merged(name: str, value: str | bool, same: Sequence[Option], versions: Versions) -> str | bool:
    """A mapping laid over the one that is there: setting the images must not lift the limit on videos."""
    new = _mapping(value)
    if new is None:
        return value
    old: dict[str, Any] = {}
    for option in same:
        if option.dotted and "." not in option.dotted and option.values:
            old[option.dotted] = _scalar(option.values[-1])
        elif not option.dotted and option.values:
            old.update(_mapping(option.values[-1]) or {})
    return spell_mapping(name, {**old, **new}, versions) if old else value


def _mapping(value: str | bool) -> dict[str, Any] | None:
    """`{"image": 2}` or `image=2,video=0` as a mapping; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        read = json.loads(value)
    except ValueError:
        pairs = [pair.split("=", 1) for pair in value.split(",")]
        if not all(len(pair) == 2 and pair[0].isidentifier() and pair[1] for pair in pairs):
            return None
        return {key: _scalar(text) for key, text in pairs}
    return read if isinstance(read, dict) else None


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def carry_out(argv: Sequence[str], changes: Sequence[WordChange]) -> tuple[str, ...]:
    """`argv` after the changes."""
    result: list[str] = []
    done = 0
    for change in changes:
        result += [*argv[done : change.start], *change.words]
        done = change.end
    return (*result, *argv[done:])


def rewrite_argv(argv: Sequence[str], edits: Edits, versions: Versions | None = None) -> tuple[str, ...]:
    """A server's arguments (without program and entry) with the edits carried out."""
    return carry_out(argv, plan(argv, edits, versions))


def args_to_edits(flags: Mapping[str, str | bool], remove: Iterable[str], env: Mapping[str, str]) -> Edits:
    """The parts of a `model.Fix` as edits: an empty variable means unset, False means remove."""
    return Edits(
        set={flag: value for flag, value in flags.items() if value is not False},
        remove=(*remove, *(flag for flag, value in flags.items() if value is False)),
        env_set={name: value for name, value in env.items() if value},
        env_unset=tuple(name for name, value in env.items() if not value),
    )

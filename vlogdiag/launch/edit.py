"""Carries out changes of a launch command in the text of its file, every other character kept."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from vlogdiag.catalog import Versions
from vlogdiag.launch.argv import WordChange, carry_out, plan, read_options
from vlogdiag.launch.command import Edits, LaunchCommand, NotCertain, Site, Word, position
from vlogdiag.launch.environment import Splice, environment_splices
from vlogdiag.launch.find import find_commands, the_command
from vlogdiag.launch.inset import spell
from vlogdiag.launch.placing import append, delete, gap_before
from vlogdiag.launch.spelling import compact, written


def apply(text: str, command: LaunchCommand, edits: Edits, versions: Versions | None = None) -> str:
    """`text` with the edits carried out in `command`, which was found in it.

    Raises NotCertain when the command is not certain, when a change would touch words that others use too, and when
    the result, read again, does not hold exactly the arguments that were meant.
    """
    expected = carry_out(command.known_arguments, _plan(command, edits, versions))
    done = _pass(text, command, edits, versions, appending=False)
    done = splice(done, environment_splices(the_command(find_commands(done, command.kind), done).env, edits))
    result = _pass(done, the_command(find_commands(done, command.kind), done), edits, versions, appending=True)
    _verify(result, command, expected, edits)
    return result


def _plan(command: LaunchCommand, edits: Edits, versions: Versions | None) -> tuple[WordChange, ...]:
    words = command.words[command.arguments_at :]
    locked = [command.sites[word.site].locked for word in words]
    return plan(command.known_arguments, edits, versions, lambda k: locked[k], _joins(command))


def _pass(text: str, command: LaunchCommand, edits: Edits, versions: Versions | None, appending: bool) -> str:
    """Changes and deletions first, what is added after them: where that goes depends on what is left."""
    if not command.certain:
        raise NotCertain(f"line {command.line}: {command.reason}")
    words = command.words[command.arguments_at :]
    splices: list[Splice] = []
    for change in _plan(command, edits, versions):
        if appending and change.start == len(words):
            splices.append(append(text, command, change.words))
        elif not appending and change.start < len(words):
            splices += _splices(text, command, words, change)
    return splice(text, splices)


def splice(text: str, splices: Sequence[Splice]) -> str:
    """`text` with the pieces replaced; raises NotCertain when they overlap."""
    parts: list[str] = []
    done = 0
    for start, end, new in sorted(splices, key=lambda piece: (piece[0], piece[1])):
        if start < done:
            line, _ = position(text, start)
            raise NotCertain(f"the changes around line {line} overlap")
        parts += [text[done:start], new]
        done = end
    return "".join((*parts, text[done:]))


def unified_diff(old: str, new: str, name: str) -> str:
    """A unified diff that `patch` takes, with `name` on both sides; empty when nothing differs."""
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), name, name)
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def _joins(command: LaunchCommand) -> bool:
    """True when the file mostly writes `--flag=value`."""
    options = [word.text for word in command.words if word.text.startswith("--")]
    joined = sum("=" in text for text in options)
    return joined > len(options) - joined


def _verify(result: str, command: LaunchCommand, expected: tuple[str, ...], edits: Edits) -> None:
    """Reads the result again: the guard against every kind of quoting that was not thought of."""
    again = find_commands(result, command.kind)
    same = [other for other in again if other.certain and _meanings(other.known_arguments) == _meanings(expected)]
    if len(again) != 1 or not same:
        raise NotCertain(f"line {command.line}: the changed command would not be read as meant")
    variables = {entry.name: entry.value for entry in same[0].env.entries}
    wrong = [name for name, value in edits.env_set.items() if variables.get(name) != value]
    wrong += [name for name in edits.env_unset if name in variables]
    if wrong:
        raise NotCertain(f"line {command.line}: the changed file would not give the server {wrong[0]} as meant")


def _meanings(arguments: Sequence[str]) -> dict[str | None, list[tuple[str | None, tuple[str, ...]]]]:
    """Options by name, in order; where options of different names stand among each other does not matter."""
    meanings: dict[str | None, list[tuple[str | None, tuple[str, ...]]]] = {}
    for option in read_options(arguments):
        shown = option.name if option.values else option.flag  # `--x` and `--no-x` have one name
        meanings.setdefault(shown, []).append((option.dotted, tuple(compact(value) for value in option.values)))
    return meanings


def _splices(text: str, command: LaunchCommand, words: Sequence[Word], change: WordChange) -> list[Splice]:
    old = words[change.start : change.end]
    locked = next((reason for word in old if (reason := command.sites[word.site].locked)), None)
    if locked:
        raise NotCertain(f"{old[0].text} cannot be changed: {locked}")
    pairs = list(zip(old, change.words, strict=False))
    splices = [_respell(text, command.sites[word.site], word, new) for word, new in pairs if word.known != new]
    splices += delete(text, command, old[len(pairs) :])
    if change.words[len(pairs) :]:
        last = old[-1]
        site = command.sites[last.site]
        more = [written(site, new) for new in change.words[len(pairs) :]]
        gap = gap_before(text, site, None)
        splices.append((last.end, last.end, "".join(gap + word for word in more)))
    return splices


def _respell(text: str, site: Site, word: Word, new: str) -> Splice:
    """The word in its place, in its own quotes where that is possible; at the assignment of a variable of its own."""
    if word.source and word.source.editable:
        raw = text[word.source.start : word.source.end]
        own = Site("shell", word.source.layers)
        return word.source.start, word.source.end, written(own, new, raw)
    flag, equals, value = new.partition("=")
    if equals and new.startswith("-") and word.raw.startswith(flag + "=") and site.quoting == "shell":
        return word.start, word.end, spell(flag + "=", site.layers) + written(site, value, word.raw[len(flag) + 1 :])
    return (
        word.start,
        word.end,
        written(site, new, text[word.start : word.end] if site.quoting == "yaml item" else word.raw),
    )

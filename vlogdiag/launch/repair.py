"""Turns a fix into edits of a launch command that its vLLM version accepts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from vlogdiag.catalog import ArgProblem, Versions, counterpart, default
from vlogdiag.catalog.argv import DEPRECATED
from vlogdiag.catalog.names import is_option
from vlogdiag.launch.argv import args_to_edits, option_name, read_options
from vlogdiag.launch.check import check_command
from vlogdiag.launch.command import Edits, LaunchCommand
from vlogdiag.launch.edit import apply
from vlogdiag.launch.find import find_commands, the_command
from vlogdiag.launch.secrets import MASK, is_secret_option, mask_value
from vlogdiag.model import Fix


@dataclass(frozen=True, slots=True)
class Correction:
    """One option that goes or is rewritten because of the version, not because of the fix."""

    argument: str
    value: str | None
    verdict: str
    """'refused' or 'ignored'."""
    reason: str
    instead: str | None
    done: str
    """'removed', 'replaced' or 'left'."""
    versions: str = ""
    """The releases that this is true of, in words."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The changed file, and why each option besides those of the fix was touched."""

    text: str
    corrections: tuple[Correction, ...] = ()


_PLACEHOLDER = re.compile(r"^\?$|<[^<>]*>|…|\.\.\.|/path/")
"""A number that the log does not give (`?`), or a value that only its owner knows (`<layers of stage 1>`)."""


def edits_command(fix: Fix) -> bool:
    """True when a fix changes options or variables of the launch command."""
    return bool(fix.flags or fix.remove_flags or fix.env)


def missing_values(fix: Fix) -> tuple[str, ...]:
    """Options and variables of a fix whose values somebody must fill in."""
    values = {**fix.flags, **fix.env}
    return tuple(name for name, value in values.items() if isinstance(value, str) and _PLACEHOLDER.search(value))


def disagreements(command: LaunchCommand, fix: Fix, args: Mapping[str, object], versions: Versions) -> tuple[str, ...]:
    """Options of the fix that the log's run had with another value than the file: is it the file of this log?

    `args` are those that the log printed; what it printed of others is their default. Without any, nothing is known.
    """
    found = []
    if not args:
        return ()
    for option in read_options(command.known_arguments):
        name = (option.name or "").lstrip("-").replace("-", "_")
        value = args.get(name, default(option.name or "", versions))
        here = option.values[0] if len(option.values) == 1 and not option.dotted else "$"
        touched = any(option_name(flag) == option.name for flag in fix.flags)
        if touched and isinstance(value, (int, float, str)) and "$" not in here and not _same(here, value):
            found.append(f"{option.flag} is {here} in the file, but was {value} in the log")
    return tuple(found)


def _same(text: str, value: object) -> bool:
    try:
        return float(text) == float(str(value))
    except ValueError:
        return text == str(value)


def repair(text: str, command: LaunchCommand, fix: Fix, versions: Versions) -> Repair:
    """`text` with the fix in `command`, and without options that `versions` refuse or ignore.

    Raises NotCertain (see `edit.apply`).
    """
    wanted = args_to_edits(fix.flags, fix.remove_flags, fix.env)
    touched = {option_name(flag, versions) for flag in (*wanted.set, *wanted.remove)}
    corrections: list[Correction] = []
    more: dict[str, str | bool] = {}
    gone: list[str] = []
    for problem in check_command(command, versions):
        if problem.verdict == DEPRECATED or option_name(problem.argument, versions) in touched:
            continue
        put = _instead(problem, versions)
        everywhere = problem.versions is None or versions.within(problem.versions) is True
        if not is_option(problem.argument) or not everywhere:
            corrections.append(_correction(problem, "left"))
            continue
        if put is None or option_name(next(iter(put)), versions) != option_name(problem.argument, versions):
            gone.append(problem.argument)
        more.update(put or {})
        corrections.append(_correction(problem, "replaced" if put else "removed"))
    # The version's corrections first: they must find the options as they are spelled, the fix must have the last word.
    corrected = apply(text, command, Edits(set=more, remove=tuple(gone)), versions) if more or gone else text
    if corrected != text:
        command = the_command(find_commands(corrected, command.kind), corrected)
    return Repair(apply(corrected, command, wanted, versions), tuple(corrections))


def _instead(problem: ArgProblem, versions: Versions) -> Mapping[str, str | bool] | None:
    """What to write in place of a refused option, where that is certain: its renamed twin, or a corrected value."""
    renamed = counterpart(problem.argument, versions)
    if renamed and renamed != problem.argument:
        return {renamed: problem.value if problem.value is not None else True}
    try:
        words = shlex.split(problem.instead or "")
    except ValueError:
        return None
    if words and is_option(words[0]) and len(words) <= 2:
        same = option_name(words[0], versions) == option_name(problem.argument, versions)
        if same and (len(words) == 2 or problem.value is not None):
            return {words[0]: words[1] if len(words) == 2 else True}
    return None


def _correction(problem: ArgProblem, done: str) -> Correction:
    where = problem.versions.words() if problem.versions is not None else ""
    value, reason = problem.value, mask_value(problem.reason)
    if value is not None:
        value = MASK if is_secret_option(problem.argument) else mask_value(value)
    return Correction(problem.argument, value, problem.verdict, reason, problem.instead, done, where)

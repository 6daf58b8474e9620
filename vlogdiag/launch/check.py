"""Holds a launch command against the flag catalogue, without judging what the file does not say."""

from __future__ import annotations

from vlogdiag.catalog import ArgProblem, Versions, check_argv
from vlogdiag.launch.command import LaunchCommand


def check_command(command: LaunchCommand, versions: Versions) -> tuple[ArgProblem, ...]:
    """What the releases refuse or ignore in the command; values in variables of unknown content are not judged."""
    prefix = command.server_argv[: len(command.server_argv) - len(command.words) + command.arguments_at]
    words = command.words[command.arguments_at :]
    visible = [word for word in words if not word.opaque or _is_value(command, word.start)]
    unknown = {word.text for word in words if not word.literal and word.source is None}
    problems = check_argv((*prefix, *(word.known for word in visible)), versions)
    return tuple(p for p in problems if p.value is None or not any(text in unknown for text in _values(p.value)))


def _values(value: str) -> tuple[str, ...]:
    return (value, *value.split())


def _is_value(command: LaunchCommand, start: int) -> bool:
    """True when the word at `start` follows an option that has no other value: `--port $PORT`."""
    words = command.words
    k = next(k for k, word in enumerate(words) if word.start == start)
    return k > 0 and words[k - 1].text.startswith("--") and "=" not in words[k - 1].text

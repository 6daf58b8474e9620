"""Finds the vLLM launch commands in a file of any known kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from vlogdiag.launch.command import Kind, LaunchCommand, NotCertain
from vlogdiag.launch.inset import whole

MAX_CHARACTERS = 1 << 20
"""A launch file of more than a MiB is something else, and the parsers are not meant for it."""


def _read(text: str, kind: Kind) -> list[LaunchCommand]:
    """The commands of a text of known kind; a parser is loaded only when it is needed."""
    match kind:
        case "shell":
            from vlogdiag.launch.shell import read_shell

            return read_shell(whole(text))
        case "compose":
            from vlogdiag.launch.yaml_files import read_compose

            return read_compose(text)
        case "kubernetes":
            from vlogdiag.launch.yaml_files import read_kubernetes

            return read_kubernetes(text)
        case "dockerfile":
            from vlogdiag.launch.dockerfile import read_dockerfile

            return read_dockerfile(text)
        case "systemd":
            from vlogdiag.launch.units import read_systemd

            return read_systemd(text)
        case "supervisor":
            from vlogdiag.launch.units import read_supervisor

            return read_supervisor(text)


def guess_kind(text: str, name: str = "") -> Kind:
    """What kind of launch file this is, by its name and, where that does not say, by its first words."""
    base = PurePath(name).name.lower()
    if base.startswith(("dockerfile", "containerfile")) or base.endswith((".dockerfile", ".containerfile")):
        return "dockerfile"
    if base.endswith(".service"):
        return "systemd"
    yaml = base.endswith((".yaml", ".yml"))
    if not text.startswith("#!") and not base.endswith((".sh", ".bash", ".env")):
        if re.search(r"^services\s*:", text, re.MULTILINE) and (
            yaml or not re.search(r"^\s*kind\s*:", text, re.MULTILINE)
        ):
            return "compose"
        if re.search(r"^\s*-?\s*(apiVersion|kind)\s*:", text, re.MULTILINE):
            return "kubernetes"
        if re.search(r"^\[program:", text, re.MULTILINE):
            return "supervisor"
        if re.search(r"^\[Service\]", text, re.MULTILINE):
            return "systemd"
        if re.search(r"\A(\s*#[^\n]*\n|\s*\n|\s*ARG\s[^\n]*\n)*\s*FROM\s+\S", text, re.IGNORECASE):
            return "dockerfile"
    return "compose" if yaml else "shell"


def find_commands(text: str, kind: Kind | None = None, name: str = "") -> tuple[LaunchCommand, ...]:
    """Every command in `text` that starts a vLLM server, in the order of the file.

    Raises NotCertain when the file cannot be read as its kind at all.
    """
    if len(text) > MAX_CHARACTERS:
        raise NotCertain(f"{name or 'the file'} is larger than a launch file can be ({len(text)} characters)")
    return tuple(_read(text, kind or guess_kind(text, name)))


def the_command(commands: Sequence[LaunchCommand], text: str = "") -> LaunchCommand:
    """The only command there is; raises NotCertain with the reason where there is none, several, or a doubtful one."""
    if not commands:
        hit = re.search(r"vllm[\"',\s]+serve\b|vllm\.entrypoints\.openai\.api_server", text)
        where = f"; line {text.count(chr(10), 0, hit.start()) + 1} only mentions one" if hit else ""
        raise NotCertain(f"no command that starts a vLLM server was found{where}")
    if len(commands) > 1:
        lines = ", ".join(str(command.line) for command in commands)
        raise NotCertain(f"{len(commands)} commands that start a vLLM server were found (lines {lines}), not one")
    command = commands[0]
    if not command.certain:
        raise NotCertain(f"the command in line {command.line} cannot be changed with certainty: {command.reason}")
    return command

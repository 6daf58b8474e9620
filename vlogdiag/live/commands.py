"""Turns a command line into the few words that say what the process is, without its options and their secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_LENGTH = 120

_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
# Where setproctitle is installed vLLM names its processes; RayWorkerWrapper is vLLM's class under Ray.
_VLLM = re.compile(
    r"(?:^|[\s/])vllm(?:[\s.]|$)|\bvllm\.entrypoints\b|^VLLM::|^ray::(?:RayWorkerWrapper|EngineCore|DPMoEEngineCore)"
)


def short_command(argv: Sequence[str]) -> str | None:
    """`['/usr/bin/python3', 'train.py', '--token', 'x']` to `python3 train.py`: options and their values are left out.

    Command lines hold keys (`--api-key`), and readings are written to files that people attach to bug reports.
    """
    words = [printable(word) for word in argv if word.strip()]
    if len(words) == 1:  # a process that has renamed itself: one text in place of the arguments
        words = words[0].split()
    if not words:
        return None
    program = words[0] if "::" in words[0] else words[0].rsplit("/", 1)[-1]
    kept = [program]
    rest = words[1:]
    if _PYTHON.fullmatch(program):
        while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
            rest = rest[1:]  # interpreter switches (-u, -O) before the script
        if rest[:1] == ["-c"]:
            return f"{program} -c …"
        kept += rest[:2] if rest[:1] == ["-m"] else rest[:1]
        rest = rest[len(kept) - 1 :]
    if kept[-1].rsplit("/", 1)[-1] == "vllm":  # `vllm serve MODEL` says which server it is
        kept += [word for word in rest[:2] if not word.startswith("-")]
    text = " ".join(kept)
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"


def looks_like_vllm(command: str) -> bool:
    """True for vLLM's server, engine and worker processes as `command_of` words them."""
    return bool(_VLLM.search(command))


def printable(text: str) -> str:
    """Command lines are written by strangers: a control character in one must not reach a terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)

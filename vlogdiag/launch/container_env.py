"""Reads the environment variables that `docker run` gives a container, and where another one would go."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlogdiag.launch.command import EnvEntry, EnvPlace, Word

_ASSIGNMENT = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.DOTALL)


def container_environment(document: str, layers: tuple[str, ...], before: Sequence[Word]) -> EnvPlace:
    """`docker run -e NAME=value --env=NAME=value`; `before` are the words up to the image."""
    entries = []
    run = next((k for k, word in enumerate(before) if word.text == "run"), 0)
    at, lead = before[run].end, " -e "
    for k, word in enumerate(before[run + 1 :], run + 1):
        if word.text in ("-e", "--env") and k + 1 < len(before):
            last, text, start = before[k + 1], before[k + 1].text, before[k + 1].start
        elif word.raw.startswith("--env="):
            last, text, start = word, word.text[6:], word.start + 6
        else:
            continue
        previous = before[k - 1].end
        gap = document[previous : word.start]
        if re.fullmatch(r"[ \t]*(\\?\r?\n[ \t]*)?", gap):
            at, lead = last.end, gap + "-e "
        hit = _ASSIGNMENT.match(text)
        if hit:
            entries.append(EnvEntry(hit[1], hit[2], start, last.end, previous, last.end, "shell word", layers))
    return EnvPlace(tuple(entries), at, lead, form="shell word", layers=layers)

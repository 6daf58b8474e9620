"""Unwraps a word that a nested shell will read as a command line."""

from __future__ import annotations

import re

from vlogdiag.launch.inset import Inset, double_quoted, verbatim
from vlogdiag.launch.quoting import unquote


def inside(inset: Inset, start: int, raw: str, unit: bool = False) -> tuple[Inset, str | None]:
    """The text inside the word spelled `raw` at `inset.text[start:]`, and what makes it doubtful."""
    inner = raw[1:-1]
    if unit and len(raw) >= 2 and raw[0] == raw[-1] and raw[0] in "'\"":
        layer = "unit single quotes" if raw[0] == "'" else "unit double quotes"
        return inset.unwrap(start, unquote(raw, unit).pieces, layer), None
    if len(raw) >= 2 and raw[0] == raw[-1] == "'" and "'" not in inner:
        return inset.unwrap(start + 1, verbatim(inner), "shell single quotes"), None
    if len(raw) >= 2 and raw[0] == raw[-1] == '"' and not re.search(r'(?<!\\)(\\\\)*"', inner):
        return inset.unwrap(start + 1, double_quoted(inner), "shell double quotes"), None
    return inset.unwrap(start, unquote(raw, unit).pieces, None), "its command line is put together from quoted pieces"

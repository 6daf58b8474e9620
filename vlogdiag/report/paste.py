"""A fix to the lines that its reader pastes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from rich.cells import cell_len
from rich.text import Text

from vlogdiag.model import Fix
from vlogdiag.report.layout import wrap_text
from vlogdiag.report.safe import plain

CAP = 4000
"""A command that is longer is not cut, which would make another command of it, but left to `--json`."""

QUOTE = "'"
_QUOTABLE = re.compile(r"[\w.,<>=!~*+\[\] -]+", re.ASCII)
"""What may stand between double quotes as it is."""


@dataclass(frozen=True, slots=True)
class Paste:
    """One thing to paste; `shell` says that a shell reads it, else a person."""

    text: str
    shell: bool = True
    label: str = ""
    """Words in front, for what is not to be pasted as it stands."""


def pastes(fix: Fix) -> Iterator[Paste]:
    """What to paste for `fix`, in the order of doing: an upgrade, what to run, variables, flags, the request."""
    if fix.upgrade:
        yield _upgrade(fix.upgrade)
    if fix.run:
        yield from (Paste(line) for line in fix.run.strip("\r\n").split("\n"))
    if fix.script:
        yield Paste(f"vlogdiag rules script {shlex.quote(fix.script)}")
    for name, value in fix.env.items():
        yield Paste(f"export {name}={shlex.quote(value)}" if value else f"unset {name}")
    switched = [flag for flag, value in fix.flags.items() if value is False]
    wanted = [_flag(flag, value) for flag, value in fix.flags.items() if value is not False]
    if wanted:
        yield Paste(" ".join(wanted))
    if fix.remove_flags or switched:
        yield Paste(" ".join([*fix.remove_flags, *switched]), shell=False, label="take out")
    if fix.request:
        yield Paste(fix.request, shell=False, label="in the request")


def _flag(flag: str, value: str | bool) -> str:
    return flag if value is True else f"{flag} {shlex.quote(str(value))}"


def _upgrade(release: str) -> Paste:
    """`>=0.11.1`, `0.11.1`, `vllm>=0.11.1` and `vllm>=0.11.1 transformers>=4.57` as pip takes them; else words."""
    names = (
        release if re.match(r"[A-Za-z]", release) else f"vllm{release if release[:1] in '<>=!~' else '>=' + release}"
    )
    parts = re.split(r"\s+(?=[A-Za-z])", names.strip())
    try:
        plain_names = all(Requirement(part).url is None and _QUOTABLE.fullmatch(part) for part in parts)
    except InvalidRequirement:
        plain_names = False
    if not plain_names:
        return Paste(release, shell=False, label="upgrade")
    return Paste("pip install -U " + " ".join(f'"{part}"' for part in parts))


def wrap_shell(text: str, width: int, *, indent: int = 0, ascii_only: bool = False) -> list[str]:
    """`text` on lines of at most `width` cells that a shell still reads as the same command.

    It breaks at blanks between words, with a backslash at the line's end. A word that is longer than a line breaks
    inside, and the next line then starts in the first column, where the shell joins the two; a single-quoted one is
    closed and opened again, since a backslash means nothing between single quotes. A comment goes before the command.
    """
    margin, rest, quote = " " * indent, plain(text, cap=CAP, ascii_only=ascii_only), ""
    if cell_len(margin + rest) <= width:
        return [margin + rest]
    states = _states(rest, "")
    command = next((i for i, state in enumerate(states[:-1]) if state == "#"), len(rest))
    words = rest[command:].lstrip("# ")
    rows = [f"{margin}# {row.plain}" for row in wrap_text(Text(words), width - indent - 2)] if words else []
    rest = rest[:command].rstrip()
    while cell_len(margin + rest) > width:
        states = _states(rest, quote)
        fits = _fitting(rest, width - len(margin) - len(" \\"))
        blank = next((i for i in range(fits, 0, -1) if rest[i] == " " and states[i] == "" and rest[:i].strip()), None)
        if blank is not None:
            rows.append(f"{margin}{rest[:blank].rstrip()} \\")
            margin, rest, quote = " " * (indent + 2), rest[blank:].lstrip(), ""
            continue
        at = max((i for i in range(1, fits + 1) if states[i] != "\\"), default=1)
        single = states[at] == "'"
        rows.append(f"{margin}{rest[:at]}{QUOTE if single else ''}\\")
        margin, rest, quote = "", (QUOTE if single else "") + rest[at:], "" if single else states[at]
    return [*rows, margin + rest] if rest else rows


def _states(text: str, quote: str) -> list[str]:
    """What each character stands in: '' none, `'` or `"` a quote, a backslash if one is in front, `#` a comment."""
    states = []
    escaped = False
    for index, character in enumerate(text):
        states.append("\\" if escaped else quote)
        if quote == "#":
            continue
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif character == quote:
            quote = ""
        elif character in "'\"" and not quote:
            quote = character
        elif character == "#" and not quote and text[index - 1 : index] in {"", " "}:
            states[-1] = quote = "#"
    return [*states, "\\" if escaped else quote]


def _fitting(text: str, room: int) -> int:
    """How many characters of `text` fit `room` cells; at least one."""
    cells = 0
    for index, character in enumerate(text):
        cells += cell_len(character)
        if cells > room:
            return max(index, 1)
    return len(text)

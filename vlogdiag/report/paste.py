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
from vlogdiag.report.safe import plain, workflow

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
    margin, rest, nest = " " * indent, plain(text, cap=CAP, ascii_only=ascii_only, wrapped=False), ""
    if cell_len(margin + rest) <= width:
        return [margin + rest]
    comment = next((i for i, nest in enumerate(_nests(rest, "")[:-1]) if nest == "#"), len(rest))
    words = rest[comment:].lstrip("# ")
    rows = [f"{margin}# {row.plain}" for row in wrap_text(Text(workflow(words)), width - indent - 2)] if words else []
    rest = rest[:comment].rstrip()
    while cell_len(margin + rest) > width:
        nests = _nests(rest, nest)
        fits = _fitting(rest, width - len(margin) - len(" \\"))
        blanks = (i for i in range(fits, 0, -1) if rest[i] == " " and nests[i][-1:] in _OPEN and rest[:i].strip())
        blank = next(blanks, None)
        if blank is not None:
            rows.append(f"{margin}{rest[:blank].rstrip()} \\")
            margin, rest, nest = " " * (indent + 2), workflow(rest[blank:].lstrip(), wrapped=False), nests[blank]
            continue
        whole = (i for i in range(1, fits + 1) if nests[i][-1:] != "\\" and not rest.startswith("::", i))
        at = max(whole, default=fits)
        quoted = nests[at].endswith(QUOTE)
        rows.append(f"{margin}{rest[:at]}{QUOTE if quoted else ''}\\")
        margin, rest = "", (QUOTE if quoted else "") + rest[at:]
        nest = nests[at].removesuffix(QUOTE)
    return [*rows, margin + rest] if rest else rows


_OPEN = ("", "(", "`")
"""What a command is read in: nothing, or the innermost of `$(…)`, `(…)` and backquotes."""


def _nests(text: str, nest: str) -> list[str]:
    """What each character stands in, outermost first: quotes, `(`, backquote; then `\\` if one is in front, or `#`."""
    nests = []
    escaped = False
    for index, character in enumerate(text):
        inner = nest[-1:]
        nests.append(nest + "\\" if escaped else nest)
        if inner == "#":
            continue
        if escaped:
            escaped = False
        elif character == "\\" and inner != "'":
            escaped = True
        elif character == inner or (inner == "(" and character == ")"):
            nest = nest[:-1]
        elif inner == "'":
            continue
        elif character in '"`' or (character == "'" and inner in _OPEN):
            nest += character
        elif character == "(" and (inner in _OPEN or text[index - 1 : index] == "$"):
            nest += "("
        elif character == "#" and not nest and text[index - 1 : index] in {"", " "}:
            nests[-1] = nest = "#"
    return [*nests, nest + "\\" if escaped else nest]


def _fitting(text: str, room: int) -> int:
    """How many characters of `text` fit `room` cells; at least one."""
    cells = 0
    for index, character in enumerate(text):
        cells += cell_len(character)
        if cells > room:
            return max(index, 1)
    return len(text)

"""Log text to text that can be shown: nothing in it can steer a terminal, a Markdown page or a build server."""

from __future__ import annotations

import regex
from rich.text import Text

CAP = 1000
"""Evidence is cut to this many characters where it is collected; here it guards everything else."""

# Control, format (bidi overrides, zero width), surrogate, private and unassigned characters, line separators, and
# letters drawn as nothing (Hangul fillers). After four combining marks the next ones would climb over the lines above.
_HAZARD = regex.compile(r"[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?<=\p{M}{4})\p{M}")
_BREAK = regex.compile(r"\r?\n")
_BLANK = regex.compile(r"[\t\p{Zs}]")
_VARIATION = regex.compile("[\ufe0e\ufe0f]")
"""Asks for an emoji's coloured or plain form, which every terminal measures differently: dropped, nothing is lost."""

# GitHub's runner trims a line, then obeys `::name …::`; Azure's and TeamCity's obey `##vso[`, `##[` and `##teamcity[`
# anywhere in it.
_COMMAND_WORD = regex.compile(r"(^|\s)::")
_COMMAND_LINE = regex.compile(r"^(\s*)::")
_COMMAND_ANYWHERE = regex.compile(r"##(?=\w*\[)")

_ASCII = str.maketrans(
    {
        "×": "x",
        "…": "...",
        "–": "-",
        "—": "-",
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "≥": ">=",
        "≤": "<=",
        "→": "->",
        "·": "-",
        "│": "|",
        "°": " deg ",
        "µ": "u",
    }
)
_NON_ASCII = regex.compile(r"[^\x00-\x7f]")


def plain(text: str, *, cap: int = CAP, ascii_only: bool = False, wrapped: bool = True) -> str:
    """One line of `text` that prints as what it is: hazards as visible escapes, tabs as spaces, up to `cap` characters.

    Line breaks become blanks, since a field is one line; an escape character shows as `\\x1b`. With `ascii_only`, what
    has no ASCII spelling is escaped as well, for terminals whose encoding could not print it. Text that will not be
    `wrapped` keeps a `::` that is not at its start, which matters to commands.
    """
    ellipsis = "..." if ascii_only else "…"
    short = text if len(text) <= cap else text[: cap - len(ellipsis)] + ellipsis
    short = _BREAK.sub(" ", short.strip("\r\n"))
    short = _BLANK.sub(" ", _VARIATION.sub("", short))
    short = _HAZARD.sub(_escape, short)
    if ascii_only:
        short = _NON_ASCII.sub(_escape, short.translate(_ASCII))
    short = workflow(short, wrapped=wrapped)
    return short if len(short) <= cap else short[: cap - len(ellipsis)] + ellipsis


def workflow(line: str, *, wrapped: bool = True) -> str:
    """`line` with the commands that build servers read from output (`::error …`, `##vso[`) broken by a backslash.

    Where it may yet be `wrapped`, any word could come to stand at the start of a line.
    """
    starts = _COMMAND_WORD if wrapped else _COMMAND_LINE
    return _COMMAND_ANYWHERE.sub(r"#\\#", starts.sub(r"\1\\::", line))


def markup(text: str, style: str = "", *, cap: int = CAP, ascii_only: bool = False) -> Text:
    """`text` for rich: a Text built from characters, so that `[red]` or `[link=…]` in it stay what they are."""
    return Text(plain(text, cap=cap, ascii_only=ascii_only), style=style)


_PUNCTUATION = regex.compile(r"([\\`*_\[\]|~$])")
_ENTITY = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LINE_START = regex.compile(r"^(?=[#+=:-]|\d+[.)])")
# Mentions, issue links and bare addresses are found by GitHub in the finished text, where a backslash no longer helps.
_AUTOLINK = regex.compile(
    r"(?<=[@#])(?=\w)|(?<=\bGH-)(?=\d)|(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=\b(?:mailto|xmpp):)", regex.I
)
_NOTHING = "<!-- -->"


def markdown_inline(text: str) -> str:
    """`text` as words of a Markdown paragraph, heading or table cell: no format, HTML, link, mention or issue link."""
    marked = _PUNCTUATION.sub(r"\\\1", plain(text).strip().translate(_ENTITY))
    digits = regex.match(r"(\d+)([.)].*)", marked, regex.S)
    if digits:
        marked = f"{digits[1]}\\{digits[2]}"
    elif _LINE_START.match(marked):
        marked = "\\" + marked
    return _AUTOLINK.sub(_NOTHING, marked)


def markdown_code(text: str, *, cell: bool = False) -> str:
    """`text` as a Markdown code span; in a table's `cell` a bar is escaped, since the table is cut up first."""
    shown = plain(text).replace("|", "\\|") if cell else plain(text)
    ticks = "`" * (_longest_run(shown) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def markdown_fence(text: str, info: str = "text", *, cap: int = CAP) -> str:
    """`text` as a fenced block whose fence is longer than any run of backticks in it; its lines are kept."""
    body = "\n".join(plain(line, cap=cap, wrapped=False) for line in text.split("\n"))
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}{info}\n{body}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in regex.findall(r"`+", text)), default=0)


def _escape(match: regex.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

"""Guarded text to rows that fit a width: marks, styles, hanging indents, cuts around what matters."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from vlogdiag.model import Severity
from vlogdiag.report.safe import markup, plain

NARROWEST, WIDEST = 40, 200
PROSE = 100
"""Sentences wider than this are hard to read; log lines and commands use the whole width."""

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold blue"}
GOOD = "bold green"
DIM = "dim"
PASTE = "bold green"
ASK = "yellow"

WORD = 12
"""A cut goes back by at most this many characters to end after a whole word."""

_RAISED = re.compile(r"[\w.]+(?:Error|Exception|Warning): ")
_MEASURE = Console(file=io.StringIO(), width=WIDEST, _environ={})


@dataclass(frozen=True, slots=True)
class Marks:
    """The few characters beyond letters that a report draws with."""

    error: str
    warning: str
    info: str
    good: str
    bar: str
    dot: str
    times: str
    ellipsis: str
    blocks: str
    full: str
    empty: str

    def of(self, severity: Severity | None) -> str:
        """The mark of a severity, or of a log in which nothing is wrong."""
        if severity is None:
            return self.good
        return {Severity.ERROR: self.error, Severity.WARNING: self.warning, Severity.INFO: self.info}[severity]


UNICODE = Marks("✗", "!", "i", "✓", "│", "·", "×", "…", "▁▂▃▄▅▆▇█", "█", "░")
ASCII = Marks("x", "!", "i", "+", "|", "-", "x", "...", "_.-:=+*#", "#", ".")


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is to look: cells of width, whether the terminal's encoding has more than ASCII, how much to show."""

    width: int = 80
    unicode: bool = True
    verbose: bool = False

    @property
    def marks(self) -> Marks:
        """The marks that the encoding can print."""
        return UNICODE if self.unicode else ASCII

    def clean(self, text: str, style: str = "", *, cap: int = 1000) -> Text:
        """`text` guarded for this page, as rich Text."""
        return markup(text, style, cap=cap, ascii_only=not self.unicode)

    def plain(self, text: str, *, cap: int = 1000) -> str:
        """`text` guarded for this page."""
        return plain(text, cap=cap, ascii_only=not self.unicode)


def wrap_text(text: Text, width: int) -> list[Text]:
    """`text` on rows of at most `width` cells; a backslash goes before a row's `::`, which GitHub would obey."""
    spare = 1 if "::" in text.plain else 0
    rows = []
    for row in text.wrap(_MEASURE, width - spare, overflow="fold"):
        row.rstrip()
        start = len(row.plain) - len(row.plain.lstrip())
        rows.append(Text.assemble(row[:start], "\\", row[start:]) if row.plain.startswith("::", start) else row)
    return rows


def hang(text: Text, first: str | Text, width: int, *, rest: str | None = None) -> list[Text]:
    """`text` wrapped behind `first`, later rows behind `rest` (blanks of the same width by default)."""
    head = Text(first) if isinstance(first, str) else first
    margin = " " * cell_len(head.plain) if rest is None else rest
    if cell_len(head.plain + text.plain) <= width:
        return [Text.assemble(head, text)]
    rows = wrap_text(text, width - max(cell_len(head.plain), len(margin))) or [Text()]
    return [Text.assemble(head, rows[0]), *(Text.assemble(margin, row) for row in rows[1:])]


def cut(text: str, room: int, ellipsis: str, needles: Iterable[str] = ()) -> str:
    """At most `room` cells of guarded `text`: its beginning, or the part that holds most of the `needles`."""
    if cell_len(text) <= room:
        return text
    raised = _RAISED.match(text)
    # What was raised stays in view, unless it would take the room of what is looked for.
    name = raised[0] if raised and len(raised[0]) <= room // 4 else ""
    wanted = [needle for needle in needles if needle in text]
    start = _focus(text, room - len(ellipsis), room - len(name) - 2 * len(ellipsis), wanted)
    head = "" if start == 0 else (name if len(name) <= start else "") + ellipsis
    body = text[start:]
    if cell_len(head + body) <= room:
        return head + body
    kept = chop_cells(body, room - cell_len(head) - len(ellipsis))[0]
    whole = not body[len(kept)].isalnum()
    word = 0 if whole else kept.rfind(" ", max(len(kept) - WORD, 1))
    return head + (kept[:word] if word > 0 else kept).rstrip() + ellipsis


def cut_left(text: str, room: int, ellipsis: str) -> str:
    """The end of a path, which tells logs apart, in at most `room` cells."""
    if cell_len(text) <= room:
        return text
    kept = ""
    for character in reversed(text):
        if cell_len(character + kept) > room - len(ellipsis):
            break
        kept = character + kept
    return ellipsis + kept


def _focus(text: str, first: int, later: int, needles: Sequence[str]) -> int:
    """Where to begin so that most needles are seen: `first` characters fit at the beginning, `later` further on."""
    places = [(text.index(needle), len(needle)) for needle in needles]

    def seen(start: int) -> tuple[int, int]:
        end = start + (later if start else first)
        return sum(start <= at and at + size <= end for at, size in places), -start

    return max([0, *(_word_before(text, place) for place, _ in places)], key=seen)


def _word_before(text: str, place: int) -> int:
    """The first beginning of a word in the 24 characters before `place`, so that its context is read too."""
    left = max(place - 24, 0)
    blank = text.find(" ", left, place)
    return blank + 1 if blank >= 0 and left else left if not left else place

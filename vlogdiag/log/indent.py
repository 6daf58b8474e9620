"""Takes off what a paste put before every line: the blanks of a code block, the `> ` of a quotation."""

from __future__ import annotations

import re

from vlogdiag.log.headers import parse_line

__all__ = ["Indent"]

BEFORE = re.compile(r"(?:> ?|[ \t])+")
BEGINS = ("Traceback (most recent call last)", "usage: ", "docker: Error ")
LOOKED_AT = 64
"""Lines in which the first header must come; a log that shows none until then has no indentation to take off."""


class Indent:
    """Decided by the first line that is a header with or without it, so that it never depends on how bytes were cut."""

    def __init__(self) -> None:
        self.text: str | None = None
        """None while undecided; mostly empty."""
        self._seen = 0

    def off(self, line: str) -> str:
        """The line without the log's indentation."""
        if self.text is None:
            self.text = self._decide(line)
        if not self.text:
            return line
        if line.startswith(self.text):
            return line[len(self.text) :]
        if line == self.text.rstrip():
            return ""
        if _begins(line):
            self.text = ""  # a header without it: it was that one line's own
        return line

    def _decide(self, line: str) -> str | None:
        before = BEFORE.match(line)
        if _begins(line[before.end() :] if before else line):
            return before.group() if before else ""
        self._seen += 1
        return "" if self._seen >= LOOKED_AT else None


def _begins(text: str) -> bool:
    if text.startswith(BEGINS):
        return True
    parsed = parse_line(text)
    # A progress bar begins with blanks of its own.
    return parsed.kind not in ("bare", "progress") or parsed.pid is not None

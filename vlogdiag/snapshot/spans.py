"""Parts of a line that must not leave the machine, and which of several claims to the same letters wins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vlogdiag.snapshot.placeholders import PLACEHOLDER

TIMEOUT = 2.0
"""Seconds that one pattern may take on one line. All are linear; a line that runs into this is withheld as a whole."""

START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtv])|(?<=\[[\d;]{0,9}m)|(?<=%[0-9A-Fa-f]{2}))"
"""Where a word begins: also after an escape (`\\n`), a colour (`[32m`) or a percent code (`%20`)."""

_ORDER = (
    *("private-key", "prompt", "output", "image", "token-ids", "token", "password", "data"),
    *("email", "ip", "host", "user", "mac", "serial"),
)
_PRIORITY = {kind: place for place, kind in enumerate(_ORDER)}


class Span(NamedTuple):
    """A part of a line, and what kind of secret it is."""

    start: int
    end: int
    kind: str


def words(text: str) -> frozenset[str]:
    """The words of a list that reads better as running text."""
    return frozenset(text.split())


def settle(spans: Iterable[Span], line: str) -> list[Span]:
    """Claims that do not overlap, in order: the more important one wins, and what is left of the other goes as well."""
    claimed: list[Span] = []
    starts: list[int] = []
    for span in sorted(spans, key=lambda s: (_PRIORITY[s.kind], s.start - s.end)):
        for start, end in list(_unclaimed(claimed, starts, span)):
            if not any(c.isalnum() for c in PLACEHOLDER.sub("", line[start:end])):
                continue  # punctuation, or cleaned before
            at = bisect_left(starts, start)
            starts.insert(at, start)
            claimed.insert(at, Span(start, end, span.kind))
    return claimed


def _unclaimed(claimed: list[Span], starts: list[int], span: Span) -> Iterator[tuple[int, int]]:
    """The parts of `span` that no claim covers yet (claims are sorted and do not overlap)."""
    start = span.start
    at = bisect_right(starts, start) - 1
    if at >= 0:
        start = max(start, claimed[at].end)
    for claim in claimed[at + 1 :]:
        if claim.start >= span.end:
            break
        if claim.start > start:
            yield start, claim.start
        start = max(start, claim.end)
    if start < span.end:
        yield start, span.end

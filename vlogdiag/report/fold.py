"""Findings of several starts to one for each cause, as people read them (JSON keeps one for each start)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from vlogdiag.model import Finding, Severity

NEAR = 0.05
"""Starts that fail alike print memory figures a little apart (9.83, 9.81 GiB); another setting moves them further."""

_NUMBER = re.compile(r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Folded:
    """The same cause seen in one or more starts (or logs)."""

    members: tuple[Finding, ...]
    """In the report's order: the first is the one to show."""

    @property
    def lead(self) -> Finding:
        """The member to show: the one that the reader came for."""
        return self.members[0]

    @property
    def runs(self) -> tuple[int, ...]:
        """Numbers of the starts in the lead's log, ascending."""
        return tuple(sorted({each.run for each in self.members if each.source == self.lead.source}))

    @property
    def sources(self) -> tuple[str, ...]:
        """The logs that hold it, in the report's order."""
        return tuple(dict.fromkeys(each.source for each in self.members))

    @property
    def severity(self) -> Severity:
        """As severe as its worst member."""
        return max(each.severity for each in self.members)


def fold(findings: Iterable[Finding], *, across_files: bool = False) -> tuple[Folded, ...]:
    """Groups by (source, id, cause with numbers rounded), in order; `across_files` drops the source."""
    groups: list[list[Finding]] = []
    by_words: dict[tuple[str, str, str], list[list[Finding]]] = {}
    for finding in findings:
        words = ("" if across_files else finding.source, finding.id, _NUMBER.sub("#", finding.cause))
        alike = by_words.setdefault(words, [])
        group = next((each for each in alike if _near(each[0].cause, finding.cause)), None)
        if group is None:
            group = []
            alike.append(group)
            groups.append(group)
        group.append(finding)
    return tuple(Folded(tuple(group)) for group in groups)


def _near(one: str, other: str) -> bool:
    """Whether the numbers of two causes with the same words are the same but for noise."""
    pairs = zip(_numbers(one), _numbers(other), strict=True)
    return all(abs(a - b) <= NEAR * max(abs(a), abs(b)) for a, b in pairs)


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(text)]

"""Runs signatures over records: one Detection for each signature that a record matches, folded into Hits.

Only what a record itself can decide is decided here (patterns, frames, phase, level); conditions over the run's facts
wait until the run is judged (`incidents.py`), so that the order in which processes' lines arrive changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec import field as part

from vlogdiag.model import Level, Line, Record, Role, Severity, line_at
from vlogdiag.signatures.templates import Pattern, PatternMatch, PatternTimeout
from vlogdiag.signatures.types import Match, Signature
from vlogdiag.values import Quantity, Series

__all__ = ["Detection", "Hit", "Matcher", "Rulebook"]

MAX_HITS = 4_000
"""Distinct (signature, refinements, key) held per run; beyond it repeats of known ones still count."""
APART_S = 600.0
"""The same error after so long a pause, with signs of life in it, is another incident (DESIGN section 6)."""
MAX_SERIES = 256
MAX_LABELS = 64


class Detection(Struct, frozen=True):
    """One signature found in one record, with the refinements that the record allows (deepest last)."""

    signature: Signature
    record: Record
    captures: Mapping[str, Quantity | None]
    line: Line
    """The physical line on which the match begins."""
    start: int
    """Offset of the match in the record's text."""
    refinements: tuple[Signature, ...] = ()
    capture_lines: tuple[Line, ...] = ()
    """Other lines that gave a capture, or that a sequence consists of."""
    at_end: bool = False
    """A silence in which the log ends: the process may still be running."""
    last: Record | None = None
    """Last record of a sequence."""
    moment: float | None = None
    """Log time at which a silence had lasted long enough."""

    @property
    def key(self) -> tuple[str, tuple[str, ...], tuple[object, ...]]:
        """Repeats with one key are one event."""
        origin = self.record.origin
        own = {
            "rank": origin.rank,
            "process": origin.process,
            "pid": origin.pid,
            "engine": origin.engine,
            "host": origin.host,
        }
        by = tuple(
            own[name] if name in own else getattr(self.captures.get(name), "value", None) for name in self.signature.by
        )
        return (self.signature.id, tuple(r.id for r in self.refinements), by)


class Hit(Struct):
    """All detections of one key in one run: the leading one, and what the rest add up to."""

    lead: Detection
    count: int = 0
    last: Record | None = None
    speakers: list[str] = part(default_factory=list)
    ranks: set[int] = part(default_factory=set)
    series: dict[str, Series] = part(default_factory=dict)
    times: list[float] = part(default_factory=list)
    """Log times: the first, the last, and evenly many of those between."""

    def is_over(self, detection: Detection) -> bool:
        """Whether a detection of the same key is an event of its own: long after, and the server lived on in between.

        Warnings are states, not events: they are never split.
        """
        signature, record = detection.signature, detection.record
        if signature.role is Role.NOISE or (signature.role is Role.CAUSE and signature.severity < Severity.ERROR):
            return False
        if self.last is None or self.last.time is None or record.time is None:
            return False
        return record.time - self.last.time >= APART_S and (record.life or 0) > self.last.lines[-1].number

    def fork(self) -> Hit:
        """A twin that goes its own way."""
        series = {name: values.fork() for name, values in self.series.items()}
        return Hit(self.lead, self.count, self.last, list(self.speakers), set(self.ranks), series, list(self.times))

    def add(self, detection: Detection) -> None:
        """Count one more; the earliest leads."""
        record = detection.record
        self.count += record.repeats
        if record.first.number < self.lead.record.first.number:
            self.lead = detection
        last = detection.last or record
        if self.last is None or last.lines[-1].number >= self.last.lines[-1].number:
            self.last = last
        label = record.origin.label
        if label not in self.speakers and len(self.speakers) < MAX_LABELS:
            self.speakers.append(label)
        if record.origin.rank is not None and len(self.ranks) < 4096:
            self.ranks.add(record.origin.rank)
        for name, value in detection.captures.items():
            if value is not None:
                self.series.setdefault(name, Series()).add(value, MAX_SERIES)
        if record.time is not None:
            if len(self.times) >= MAX_SERIES:
                del self.times[1::2]
            self.times.append(record.time)


@dataclass(frozen=True)
class Rulebook:
    """Signatures arranged for matching: bases with the tree of their refinements."""

    signatures: tuple[Signature, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {s.id: s for s in self.signatures})
        children: dict[str, list[Signature]] = {}
        for signature in self.signatures:
            if signature.refines:
                children.setdefault(signature.refines, []).append(signature)
        object.__setattr__(self, "children", children)
        bases = [s for s in self.signatures if not s.refines and s.match is not None]
        object.__setattr__(self, "bases", tuple(sorted(bases, key=lambda s: (s.order, s.id))))

    by_id: Mapping[str, Signature] = field(init=False, default_factory=dict)
    children: Mapping[str, Sequence[Signature]] = field(init=False, default_factory=dict)
    bases: tuple[Signature, ...] = field(init=False, default=())

    def base(self, ident: str) -> str:
        """The root of a refinement's chain."""
        signature = self.by_id.get(ident)
        while signature is not None and signature.refines:
            ident = signature.refines
            signature = self.by_id.get(ident)
        return ident


class Matcher:
    """Finds the signatures of a record."""

    def __init__(self, rules: Rulebook) -> None:
        self.rules = rules
        self.timeouts = 0
        table: dict[str, list[Signature]] = {}
        for signature in rules.bases:
            assert signature.match is not None
            for gate in dict.fromkeys(pattern.gate for pattern in signature.match.lines):
                table.setdefault(gate, []).append(signature)
        self.index = {gate: tuple(owners) for gate, owners in table.items()}

    @property
    def gates(self) -> tuple[str, ...]:
        """Literals without which no signature can match."""
        return tuple(self.index)

    def match(self, record: Record, text: str, gates: frozenset[str]) -> list[Detection]:
        """Every base signature that `record` matches, in order of the match's place.

        `text` is the record's joined text, `gates` the literals in it.
        """
        found: list[Detection] = []
        wanted: dict[str, Signature] = {}
        for gate in gates:
            for signature in self.index.get(gate, ()):
                wanted[signature.id] = signature
        for signature in wanted.values():
            detection = self._try(signature, record, text)
            if detection is not None:
                found.append(detection)
        found.sort(key=lambda d: (d.start, d.signature.order, d.signature.id))
        return found

    def _try(self, signature: Signature, record: Record, text: str) -> Detection | None:
        match = signature.match
        if match is None or not reaches(match, record) or not self.holds(match, record, text):
            return None
        prose = without_code(record, text)
        place = self.first(match.lines, prose) or (self.first(match.lines, text) if prose is not text else None)
        if place is None:
            return None
        captures: dict[str, Quantity | None] = {
            name: None for pattern in (*match.lines, *match.captures) for name in pattern.holes
        }
        captures.update(place.captures)
        lines: list[Line] = []
        self.capture(match.captures, text, record, captures, lines)
        refinements: list[Signature] = []
        self._refine(signature, record, text, captures, lines, refinements)
        return Detection(
            signature, record, captures, line_at(record, place.start), place.start, tuple(refinements), tuple(lines)
        )

    def _refine(
        self,
        base: Signature,
        record: Record,
        text: str,
        captures: dict[str, Quantity | None],
        lines: list[Line],
        out: list[Signature],
    ) -> None:
        for child in self.rules.children.get(base.id, ()):
            match = child.match
            if match is not None:
                if match.lines:
                    place = self.first(match.lines, text)
                    if place is None:
                        continue
                    if not self.holds(match, record, text):
                        continue
                    for name, value in place.captures.items():
                        captures[name] = value if value is not None else captures.get(name)
                    lines.insert(0, line_at(record, place.start))
                elif not self.holds(match, record, text):
                    continue
                self.capture(match.captures, text, record, captures, lines)
            out.append(child)
            self._refine(child, record, text, captures, lines, out)

    def first(self, patterns: Iterable[Pattern], text: str) -> PatternMatch | None:
        """The first alternative that matches."""
        for pattern in patterns:
            found = self.search(pattern, text)
            if found is not None:
                return found
        return None

    def search(self, pattern: Pattern, text: str) -> PatternMatch | None:
        """One pattern in a record's text; a search that ran into its time limit is counted."""
        if pattern.gate not in text:
            return None
        try:
            return pattern.search(text)
        except PatternTimeout:
            self.timeouts += 1
            return None

    def capture(
        self,
        patterns: Iterable[Pattern],
        text: str,
        record: Record,
        captures: dict[str, Quantity | None],
        lines: list[Line],
    ) -> None:
        """Add what `patterns` find in the record; holes of those that are missing are unknown."""
        for pattern in patterns:
            found = self.search(pattern, text)
            if found is None:
                for name in pattern.holes:
                    captures.setdefault(name, None)
                continue
            fresh = False
            for name, value in found.captures.items():
                if captures.get(name) is None:
                    captures[name] = value
                    fresh = fresh or value is not None
            if fresh or not found.captures:
                lines.append(line_at(record, found.start))

    def holds(self, match: Match, record: Record, text: str) -> bool:
        """Whether phase, kind and frames allow it and nothing of `unless` is there."""
        if match.phases and (record.phase is None or record.phase not in match.phases):
            return False
        if match.kinds is not None and record.kind not in match.kinds:
            return False
        if match.frames_all and not all(fragment in text for fragment in match.frames_all):
            return False
        if match.frames_any and not holds_any(text, match.frames_any):
            return False
        if match.frames_none and holds_any(text, match.frames_none):
            return False
        return not any(self.search(pattern, text) is not None for pattern in match.unless)


def holds_any(text: str, fragments: Iterable[str]) -> bool:
    """Whether one of them is in the text (a loop: it is asked of every error, and `any` costs twice as much)."""
    for fragment in fragments:  # noqa: SIM110
        if fragment in text:
            return True
    return False


def without_code(record: Record, text: str) -> str:
    """The text with a traceback's source lines blanked, at the same offsets.

    A frame shows the very `raise` whose message is looked for; the exception's own line proves more.
    """
    if len(record.lines) < 3 or 'File "' not in text:
        return text
    parts: list[str] = []
    code = False
    for line in record.lines:
        content = line.text
        framed = content.lstrip()
        if framed.startswith('File "'):
            code = True
            parts.append(content)
        elif code and content[:1].isspace():
            parts.append(" " * len(content))
        else:
            code = False
            parts.append(content)
    return "\n".join(parts)


def reaches(match: Match, record: Record) -> bool:
    """INFO and DEBUG records are out of reach unless the rule asks for them: a prompt may quote any error."""
    if record.level is None:
        return record.kind != "shell" or (match.kinds is not None and "shell" in match.kinds)
    if match.levels is not None:
        return record.level in match.levels
    return record.level >= Level.WARNING

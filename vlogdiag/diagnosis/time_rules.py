"""Rules about time: several records in a row (`sequence`), or something that then fails to come (`silence`).

Time is log time only. A silence is decided by the moment of the record that ends it, or by the last value of the clock,
never by the lines between, so that skipping lines that match nothing changes nothing. Order is that of the lines, since
records arrive when they are complete: a message of one line overtakes the longer one before it.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from vlogdiag.diagnosis.engine import Detection, Matcher, reaches
from vlogdiag.diagnosis.scope import RunScope
from vlogdiag.model import Line, Record, line_at
from vlogdiag.signatures.templates import Pattern
from vlogdiag.signatures.types import Match, Sequence, Signature, Silence, Step
from vlogdiag.values import Quantity

__all__ = ["TimeRules"]

MAX_KEYS = 1_000
"""States held per rule (distinct runs and `by` values); beyond it the oldest is forgotten."""
MAX_GATHERED = 200
"""Records held per step: no rule wants more."""
MAX_EARLY = 16
"""Records kept for later steps of a sequence before its first: only a message still open then can come before them."""
MAX_SHOWN = 4

ScopeOf = Callable[[Record, Mapping[str, Quantity | None]], RunScope]
Captures = dict[str, Quantity | None]
Key = tuple[int, tuple[object, ...]]


class _Found(Struct):
    """A record that matched a step, reduced to what is needed later."""

    record: Record
    start: int
    captures: Captures
    _line: Line | None = None

    @property
    def time(self) -> float | None:
        return self.record.time

    @property
    def line(self) -> Line:
        """Where it stands: asked of few, and looked for in all of a traceback's lines."""
        if self._line is None:
            self._line = line_at(self.record, self.start)
        return self._line


class _Gathering(Struct):
    """What a sequence has seen of its steps, for one key."""

    steps: list[list[_Found]] = field(default_factory=list)


class _Plan(NamedTuple):
    """The rules that a record concerns by its gates."""

    sequences: tuple[tuple[Signature, Sequence], ...]
    resets: tuple[tuple[Signature, Sequence], ...]
    """Sequences of which the record can only undo what was gathered."""
    later: tuple[tuple[Signature, Sequence], ...]
    """Sequences in order of which it can only be a later step: nothing to look at before the first one is there."""
    silences: tuple[tuple[Signature, Silence], ...]
    enders: tuple[tuple[Signature, Silence], ...]
    """Silences that the record can only end, and does."""


class TimeRules:
    """All rules with a `sequence` or a `silence`, fed record by record."""

    def __init__(self, signatures: Iterable[Signature], matcher: Matcher, scope_of: ScopeOf) -> None:
        self._matcher = matcher
        self._scope_of = scope_of
        timed = [s for s in signatures if s.sequence is not None or s.silence is not None]
        self._sequences: tuple[tuple[Signature, Sequence], ...] = tuple(
            (s, s.sequence) for s in timed if s.sequence is not None
        )
        self._silences: tuple[tuple[Signature, Silence], ...] = tuple(
            (s, s.silence) for s in timed if s.silence is not None
        )
        self._gates_of = {s.id: frozenset(p.gate for p in s.patterns) for s in timed}
        self._plans: dict[frozenset[str], _Plan] = {}
        self._gates = frozenset(self.gates)
        self._gathered: dict[str, OrderedDict[Key, _Gathering]] = {s.id: OrderedDict() for s, _ in self._sequences}
        self._early: dict[str, deque[tuple[Record, frozenset[str]]]] = {
            s.id: deque(maxlen=MAX_EARLY) for s, _ in self._sequences
        }
        self._pending: dict[str, OrderedDict[Key, _Found]] = {s.id: OrderedDict() for s, _ in self._silences}
        self._ended: dict[tuple[str, int], int] = {}  # last line of what ends a silence, by rule and run
        self._floods: dict[tuple[frozenset[str], int], int] = {}  # the same, by a record's gates and run

    @property
    def gates(self) -> tuple[str, ...]:
        """Literals without which no step, ending or reset can match."""
        return tuple({p.gate for s, _ in (*self._sequences, *self._silences) for p in s.patterns})

    def take(self, record: Record, text: str, gates: frozenset[str]) -> list[Detection]:
        """Account for one record (`gates` are the literals in its text); returns what it completed."""
        fired: list[Detection] = []
        touched = gates & self._gates
        if not touched:
            return fired
        plan = self._plans.get(touched) or self._plan(touched)
        for signature, sequence in plan.later:
            if self._gathered[signature.id]:
                fired.extend(self._sequence(signature, sequence, record, text, gates))
            else:
                self._early[signature.id].append((record, gates))
        for signature, sequence in plan.resets:
            self._resets(signature, sequence, record, text, gates)
        for signature, sequence in plan.sequences:
            fired.extend(self._sequence(signature, sequence, record, text, gates))
        for signature, silence in plan.silences:
            fired.extend(self._silence(signature, silence, record, text, gates))
        if plan.enders:
            for signature, silence in plan.enders:
                if self._pending[signature.id]:
                    fired.extend(self._silence(signature, silence, record, text, gates))
            key, number = (touched, record.run), record.first.number
            if self._floods.get(key, 0) < number:
                self._floods[key] = number
                if len(self._floods) > MAX_KEYS:
                    self._fold_floods()
        return fired

    def _fold_floods(self) -> None:
        """By rule again, of which there are few: a hostile log has ever new sets of gates."""
        for (touched, run), line in self._floods.items():
            for signature, _ in (self._plans.get(touched) or self._plan(touched)).enders:
                self._ended[signature.id, run] = max(line, self._ended.get((signature.id, run), 0))
        self._floods.clear()

    def _plan(self, touched: frozenset[str]) -> _Plan:
        """What a record with these gates concerns: worked out once, for a flood of errors asks for each of them."""
        silences: list[tuple[Signature, Silence]] = []
        enders: list[tuple[Signature, Silence]] = []
        for signature, silence in self._silences:
            if touched.isdisjoint(self._gates_of[signature.id]):
                continue
            begins = any(p.gate in touched for p in silence.match.lines)
            ends = any(p.is_literal and p.gate in touched for p in silence.until)
            (enders if ends and not begins else silences).append((signature, silence))
        sequences: list[tuple[Signature, Sequence]] = []
        resets: list[tuple[Signature, Sequence]] = []
        later: list[tuple[Signature, Sequence]] = []
        for each in self._sequences:
            signature, sequence = each
            if touched.isdisjoint(self._gates_of[signature.id]):
                continue
            steps = [any(p.gate in touched for p in step.lines) for step in sequence.steps]
            if not any(steps):
                resets.append(each)
            elif steps[0] or not _waits(sequence) or any(p.gate in touched for p in sequence.unless):
                sequences.append(each)
            else:
                later.append(each)
        if len(self._plans) > MAX_KEYS:
            self._plans.clear()
        plan = self._plans[touched] = _Plan(
            tuple(sequences), tuple(resets), tuple(later), tuple(silences), tuple(enders)
        )
        return plan

    def _ended_at(self, signature: Signature, silence: Silence, run: int) -> int:
        """The last line that has ended the silence in this run; 0 if none has."""
        literal = frozenset(p.gate for p in silence.until if p.is_literal)
        floods = (line for (touched, of), line in self._floods.items() if of == run and not literal.isdisjoint(touched))
        return max(self._ended.get((signature.id, run), 0), *floods, 0)

    def overdue(self, now: float | None) -> list[Detection]:
        """Silences that have lasted long enough by `now` (seconds on the log's clock)."""
        fired: list[Detection] = []
        if now is None:
            return fired
        for signature, silence in self._silences:
            pending = self._pending[signature.id]
            for key, found in list(pending.items()):
                limit = self._limit(silence, found)
                if self._lived(found):
                    del pending[key]
                elif limit is not None and found.time is not None and now - found.time >= limit:
                    del pending[key]
                    fired.append(self._detection(signature, [found], moment=found.time + limit))
        return fired

    def at_end(self, runs_open: Callable[[int], bool], now: float | None) -> list[Detection]:
        """Silences that a log finished at `now` ends in, by rules with `at_end`, in runs that have not ended."""
        fired: list[Detection] = []
        for signature, silence in self._silences:
            if silence.at_end:
                for (run, _), found in self._pending[signature.id].items():
                    if runs_open(run) and not self._lived(found):
                        fired.append(self._detection(signature, [found], at_end=True, moment=now))
        return fired

    def deadlines(self) -> list[float]:
        """Log times from which on `overdue` has something to say, if nothing ends it; ascending."""
        return sorted(
            found.time + limit
            for signature, silence in self._silences
            for found in self._pending[signature.id].values()
            if found.time is not None and (limit := self._limit(silence, found)) is not None and not self._lived(found)
        )

    def _lived(self, found: _Found) -> bool:
        """A request was answered since: the lines that say so are not read one by one, so `until` cannot name them."""
        run = self._scope_of(found.record, found.captures).run
        return run is not None and (run.last_life or 0) > found.line.number

    def forget(self, run: int) -> None:
        """A run has ended: what it was silent about, and what would have followed, no longer matters."""
        tables: tuple[dict[Key, Any], ...] = (*self._pending.values(), *self._gathered.values())
        for states in tables:
            for key in [k for k in states if k[0] == run]:
                del states[key]
        for early in self._early.values():
            _forget_early(early, run)
        self._ended = {key: line for key, line in self._ended.items() if key[1] != run}
        self._floods = {key: line for key, line in self._floods.items() if key[1] != run}

    def fork(self, scope_of: ScopeOf) -> TimeRules:
        """A twin that goes its own way, asking `scope_of`."""
        twin = copy.copy(self)
        twin._scope_of = scope_of
        twin._gathered = {
            rule: OrderedDict((key, _Gathering([list(step) for step in state.steps])) for key, state in states.items())
            for rule, states in self._gathered.items()
        }
        twin._early = {rule: early.copy() for rule, early in self._early.items()}
        twin._pending = {rule: OrderedDict(states) for rule, states in self._pending.items()}
        twin._ended = dict(self._ended)
        twin._floods = dict(self._floods)
        return twin

    # --- sequences ---

    def _sequence(
        self, signature: Signature, sequence: Sequence, record: Record, text: str, gates: frozenset[str]
    ) -> Iterator[Detection]:
        if self._resets(signature, sequence, record, text, gates):
            return
        states, early = self._gathered[signature.id], self._early[signature.id]
        if not states and _waits(sequence):
            if not any(pattern.gate in gates for pattern in sequence.steps[0].lines):
                early.append((record, gates))
                return
            yield from self._steps(signature, sequence, record, text, gates)
            if states:
                for before, held in early:
                    yield from self._steps(signature, sequence, before, before.text, held)
                early.clear()
            return
        yield from self._steps(signature, sequence, record, text, gates)

    def _resets(
        self, signature: Signature, sequence: Sequence, record: Record, text: str, gates: frozenset[str]
    ) -> bool:
        """Whether the record undoes what was gathered in its run; it is gone then."""
        states, early = self._gathered[signature.id], self._early[signature.id]
        if not self._any(sequence.unless, text, gates):
            return False
        for key in [k for k in states if k[0] == record.run]:
            del states[key]
        _forget_early(early, record.run)
        return True

    def _steps(
        self, signature: Signature, sequence: Sequence, record: Record, text: str, gates: frozenset[str]
    ) -> Iterator[Detection]:
        """The record as the first step that it can be."""
        states = self._gathered[signature.id]
        for number, step in enumerate(sequence.steps):
            found = self._find(step, record, text, gates)
            if found is None:
                continue
            key = (record.run, _by(sequence.by, record, found.captures))
            state = states.get(key)
            if state is None:
                state = states[key] = _Gathering([[] for _ in sequence.steps])
                if len(states) > MAX_KEYS:
                    states.popitem(last=False)
            self._add(sequence, state, number, found)
            chain = _chain(sequence, state)
            if chain:
                del states[key]
                yield self._detection(signature, chain)
            return  # one record serves one step

    def _add(self, sequence: Sequence, state: _Gathering, number: int, found: _Found) -> None:
        state.steps[number].append(found)
        del state.steps[number][:-MAX_GATHERED]
        limit = None
        if sequence.within is not None:
            quantity = sequence.within.evaluate(self._scope_of(found.record, found.captures))
            limit = float(quantity.number) if quantity is not None and quantity.number is not None else None
        if limit is not None and found.time is not None:
            for gathered in state.steps:
                gathered[:] = [f for f in gathered if f.time is None or found.time - f.time <= limit]

    # --- silences ---

    def _silence(
        self, signature: Signature, silence: Silence, record: Record, text: str, gates: frozenset[str]
    ) -> Iterator[Detection]:
        pending = self._pending[signature.id]
        begins = self._find(silence.match, record, text, gates)
        ends = self._any(silence.until, text, gates) if silence.until else begins is not None
        if silence.until and ends:
            mine = (signature.id, record.run)
            self._ended[mine] = max(record.first.number, self._ended.get(mine, 0))
        if ends and pending:
            by = _by(silence.by, record, begins.captures if begins is not None else {})
            for key, found in [
                (k, f) for k, f in pending.items() if k[0] == record.run and (k[1] == by or begins is None)
            ]:
                if record.lines[-1].number < found.line.number:
                    continue  # it was printed before and only completed later
                del pending[key]
                limit = self._limit(silence, found)
                if (
                    limit is not None
                    and found.time is not None
                    and record.time is not None
                    and record.time - found.time >= limit
                    and (record.life or 0) <= found.line.number
                ):
                    yield self._detection(signature, [found], moment=found.time + limit)
        if begins is not None and (
            silence.when is None or silence.when.truth(self._scope_of(record, begins.captures)) is True
        ):
            place = (record.run, _by(silence.by, record, begins.captures))
            if silence.until and (
                place in pending or self._ended_at(signature, silence, record.run) > begins.line.number
            ):
                return  # the first one counts, and what came later has ended it
            pending[place] = begins
            if len(pending) > MAX_KEYS:
                pending.popitem(last=False)

    def _limit(self, silence: Silence, found: _Found) -> float | None:
        quantity = silence.for_.evaluate(self._scope_of(found.record, found.captures))
        return float(quantity.number) if quantity is not None and quantity.number is not None else None

    # --- what is reported ---

    def _detection(
        self, signature: Signature, chain: list[_Found], *, at_end: bool = False, moment: float | None = None
    ) -> Detection:
        """The chain's first record leads; the last one's captures win, since they say how it ended."""
        captures: Captures = {}
        for found in chain:
            for name, value in found.captures.items():
                if value is not None or name not in captures:
                    captures[name] = value
        lead = chain[0]
        others = [found.line for found in chain[1:]]
        if len(others) > MAX_SHOWN:
            others = [*others[: MAX_SHOWN - 1], others[-1]]
        return Detection(
            signature,
            lead.record,
            captures,
            lead.line,
            lead.start,
            tuple(self._refinements(signature, lead.record, lead.record.text)),
            tuple(others),
            at_end=at_end,
            last=chain[-1].record,
            moment=moment,
        )

    def _refinements(self, base: Signature, record: Record, text: str) -> Iterator[Signature]:
        """Refinements that the leading record allows, each before its own; their conditions are asked when judging."""
        for child in self._matcher.rules.children.get(base.id, ()):
            match = child.match
            if match is not None and not (
                (not match.lines or self._matcher.first(match.lines, text) is not None)
                and self._matcher.holds(match, record, text)
            ):
                continue
            yield child
            yield from self._refinements(child, record, text)

    # --- matching one record ---

    def _any(self, patterns: Iterable[Pattern], text: str, gates: frozenset[str]) -> bool:
        """Whether one of them is in the text; a flood asks for every record, so what the gates say is not searched."""
        for pattern in patterns:
            if pattern.gate in gates and (pattern.is_literal or self._matcher.search(pattern, text) is not None):
                return True
        return False

    def _find(self, match: Match, record: Record, text: str, gates: frozenset[str]) -> _Found | None:
        for pattern in match.lines:
            if pattern.gate in gates:
                break
        else:
            return None
        if not reaches(match, record):
            return None
        if not self._matcher.holds(match, record, text):
            return None
        place = self._matcher.first([p for p in match.lines if p.gate in gates], text)
        if place is None:
            return None
        captures: Captures = dict(place.captures)
        self._matcher.capture(match.captures, text, record, captures, [])
        if (
            isinstance(match, Step)
            and match.when is not None
            and match.when.truth(self._scope_of(record, captures)) is not True
        ):
            return None
        return _Found(record, place.start, captures)


def _chain(sequence: Sequence, state: _Gathering) -> list[_Found]:
    """The records of a complete sequence in order of their lines; empty while something is missing.

    Ordered steps are looked up from the last one backwards, nearest first: of ten kernels compiled while serving, the
    last one before the time-out explains it, and the time-out itself must not drown among them.
    """
    required = zip(sequence.steps, state.steps, strict=True)
    if any(len(found) < step.at_least for step, found in required if not step.optional):
        return []
    limit: float = float("inf")
    links: list[_Found] = []
    for step, found in zip(reversed(sequence.steps), reversed(state.steps), strict=True):
        before = sorted((f for f in found if f.line.number < limit), key=lambda f: f.line.number)
        if step.optional:
            links.extend(before)
            continue
        if sequence.any_order:
            if len(before) < step.at_least:
                return []
            links.extend(before[-step.at_least :])  # one step's repeats would hide the others
            continue
        if len(before) < step.at_least:
            return []
        chosen = before[-1:] if step.at_least == 1 else before
        links.extend(chosen)
        limit = chosen[-step.at_least].line.number
    return sorted(links, key=lambda f: f.line.number)


def _waits(sequence: Sequence) -> bool:
    """Most errors are some sequence's last step: they are not looked at before the first one is there."""
    return not sequence.any_order and not sequence.steps[0].optional


def _forget_early(early: deque[tuple[Record, frozenset[str]]], run: int) -> None:
    kept = [each for each in early if each[0].run != run]
    early.clear()
    early.extend(kept)


def _by(names: tuple[str, ...], record: Record, captures: Mapping[str, Quantity | None]) -> tuple[object, ...]:
    if not names:
        return ()
    origin = record.origin
    own = {
        "rank": origin.rank,
        "process": origin.process,
        "pid": origin.pid,
        "engine": origin.engine,
        "host": origin.host,
    }
    return tuple(own[name] if name in own else getattr(captures.get(name), "value", None) for name in names)

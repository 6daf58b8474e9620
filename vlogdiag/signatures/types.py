"""What a rule file becomes: the frozen signature and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct, field

from vlogdiag.model import Confidence, Level, Phase, Reading, Role, Severity
from vlogdiag.signatures.expr import Expr, Text
from vlogdiag.signatures.templates import Pattern
from vlogdiag.values import Quantity

FlagValue: TypeAlias = "Text | bool | Mapping[str, FlagValue]"
"""Text with holes, True (a bare switch), or a mapping written as JSON or `image=1`, as the version wants."""

ExpectedValue: TypeAlias = "str | bool | Mapping[str, ExpectedValue]"
"""A value that an example expects of a fix, as written."""


class Match(Struct, frozen=True):
    """What one record must look like."""

    lines: tuple[Pattern, ...] = ()
    """Alternatives; the first that matches wins. Empty only in a refinement."""
    captures: tuple[Pattern, ...] = ()
    """Searched in the same record; each may be missing."""
    frames_all: tuple[str, ...] = ()
    """Substrings of the joined traceback, all of which must be there."""
    frames_any: tuple[str, ...] = ()
    frames_none: tuple[str, ...] = ()
    phases: frozenset[Phase] = frozenset()
    """Phases of the run in which it counts; empty means any."""
    levels: frozenset[Level | None] | None = None
    """Exactly these levels (None: a line without level); None means no level, WARNING and above."""
    unless: tuple[Pattern, ...] = ()
    """None of these may be in the same record."""
    kinds: frozenset[str] | None = None
    """Header forms (`Record.kind`); None means any."""


class Step(Match, frozen=True):
    """One step of a sequence."""

    when: Expr | None = None
    at_least: int = 1
    optional: bool = False


class Sequence(Struct, frozen=True):
    """Steps in order (or any order) inside a duration."""

    steps: tuple[Step, ...]
    any_order: bool = False
    within: Expr | None = None
    """Seconds; may use captures."""
    by: tuple[str, ...] = ()
    unless: tuple[Pattern, ...] = ()
    """A record that resets what was gathered."""


class Silence(Struct, frozen=True):
    """After `match` (with `when`) nothing that ends it for a duration."""

    match: Match
    for_: Expr
    """Seconds; may use captures."""
    when: Expr | None = None
    until: tuple[Pattern, ...] = ()
    """What ends the silence; empty means the same line."""
    by: tuple[str, ...] = ()
    at_end: bool = False
    """Also fires when a finished log ends in that state."""


class YieldsTo(Struct, frozen=True):
    """Rules or families whose finding, near in time, makes this one a consequence."""

    any_of: tuple[str, ...]
    within: Expr | None = None
    """Seconds; may use captures; None means the whole run."""


class AfterRun(Struct, frozen=True):
    """Rules or families whose finding in the run before explains this one."""

    any_of: tuple[str, ...]


class Corroborate(Struct, frozen=True):
    """What a live reading adds."""

    when: Expr
    say: Text
    confidence: str | None = None
    """'raise' or 'lower'."""
    prefer_fix: str | None = None
    """Title of the fix to put first."""


class FixTemplate(Struct, frozen=True):
    """One remedy before its numbers are filled in."""

    title: Text
    when: Expr | None = None
    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    remove_flags: tuple[str, ...] = ()
    env: Mapping[str, Text] = field(default_factory=dict)
    """Variable to value; an empty value means: unset it."""
    run: Text | None = None
    script: str | None = None
    upgrade: str | None = None
    request: Text | None = None
    trade_off: Text | None = None
    question: Text | None = None
    """What to look up when `when` cannot be decided."""
    vllm: str | None = None
    """Versions that the fix is for."""


class KnownBug(Struct, frozen=True):
    """A fault of vLLM's own: where it is discussed, which releases have it."""

    thread: str
    introduced: str | None = None
    fixed_in: str | None = None


class Example(Struct, frozen=True):
    """A log that a rule must fire on, or must leave alone."""

    kind: str
    """'fires' or 'quiet'."""
    name: str
    log: str
    facts: Mapping[str, Quantity] = field(default_factory=dict)
    captures: Mapping[str, Quantity | None] = field(default_factory=dict)
    readings: tuple[Reading, ...] = ()
    tick: float | None = None
    """Seconds of silence after the last line, then a tick."""
    fixes: tuple[Mapping[str, ExpectedValue], ...] = ()
    """Expected fixes in order: flags, variables, or run, script, upgrade, request, title, remove."""
    line: int = 1


@dataclass(frozen=True)
class Signature:
    """One rule, checked and ready."""

    id: str
    family: str
    title: Text
    severity: Severity
    role: Role = Role.CAUSE
    order: int = 100
    confidence: Confidence = Confidence.HIGH
    match: Match | None = None
    sequence: Sequence | None = None
    silence: Silence | None = None
    refines: str | None = None
    when: Expr | None = None
    cause: Text | None = None
    fixes: tuple[FixTemplate, ...] = ()
    ask: Text | None = None
    yields_to: YieldsTo | None = None
    after_run: AfterRun | None = None
    corroborate: tuple[Corroborate, ...] = ()
    known_bug: KnownBug | None = None
    vllm: str | None = None
    references: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    quiet_reason: str | None = None
    by: tuple[str, ...] = ()
    path: str = ""
    line: int = 1
    user: bool = False

    @property
    def matches(self) -> tuple[Match, ...]:
        """Every match of the rule: its own, its sequence's steps, its silence's start."""
        own = () if self.match is None else (self.match,)
        steps = () if self.sequence is None else self.sequence.steps
        start = () if self.silence is None else (self.silence.match,)
        return (*own, *steps, *start)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Every pattern that must be looked for in the log: lines, and what ends a silence or resets a sequence."""
        ends = () if self.silence is None else self.silence.until
        resets = () if self.sequence is None else self.sequence.unless
        return (*(line for match in self.matches for line in match.lines), *ends, *resets)

    @property
    def gates(self) -> tuple[str, ...]:
        """Gates of all lines of `matches`, each once."""
        return tuple(dict.fromkeys(line.gate for match in self.matches for line in match.lines))

    @property
    def holes(self) -> tuple[str, ...]:
        """Names of the rule's own captures, each once."""
        found = (pattern.holes for match in self.matches for pattern in (*match.lines, *match.captures))
        return tuple(dict.fromkeys(name for holes in found for name in holes))

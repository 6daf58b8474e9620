"""Collects what each run says about itself: version, arguments, model, device, memory profile, statistics.

The version is a set: where no line prints it, the shapes of headers narrow it (which process prefix, with or without
bracket), and every look-up answers for the whole set.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from vlogdiag.catalog import Versions
from vlogdiag.diagnosis import arguments
from vlogdiag.log.quoted import QUOTING
from vlogdiag.model import Level, Line, Record, line_at
from vlogdiag.signatures.templates import Pattern
from vlogdiag.values import Kind, Quantity, Series

__all__ = ["Fact", "FactRule", "Facts", "header_versions"]

KEEP = ("last", "first", "lowest", "highest")
MAX_SERIES = 512
"""Values kept of one series (`values.Series`)."""
MAX_FACT_TEXT = 64 * 1024
SERIES = (
    "log.running",
    "log.waiting",
    "log.kv_usage",
    "log.generation_throughput",
    "log.prompt_throughput",
    "log.preemptions",
)


class FactRule(Struct, frozen=True):
    """One entry of `rules/facts.yaml`."""

    pattern: Pattern
    constants: Mapping[str, Quantity] = field(default_factory=dict)
    keep: str = "last"
    level: Level | None = None
    """The least level of a record that tells it; one without level may (a traceback that Python printed)."""


class Fact(Struct, frozen=True):
    """A value and the line that printed it."""

    quantity: Quantity
    line: int | None
    text: str


class Facts(Struct):
    """What one run has said so far. `args` are the arguments known for it; `complete` says that all of them are."""

    values: dict[str, Fact] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    args_line: tuple[int, str] | None = None
    complete: bool = False
    """The log printed every argument that the user gave: an absent one has its default."""
    resolved: dict[str, Any] = field(default_factory=dict)
    """Values from the engine's config line and from Namespace, defaults included."""
    env: dict[str, str] = field(default_factory=dict)
    shapes: int = -1
    """Mask of releases that the header shapes allow (-1: all)."""
    version_text: str | None = None
    series: dict[str, Series] = field(default_factory=dict)

    @property
    def versions(self) -> Versions:
        """The releases that this run can be."""
        if self.version_text is not None and not UNTAGGED.match(self.version_text):
            return Versions.exact(self.version_text)
        everything = Versions.all()
        return everything if self.shapes == -1 else Versions(everything.mask & self.shapes)

    def fork(self) -> Facts:
        """A twin that goes its own way."""
        twin = copy.copy(self)
        twin.values, twin.args, twin.resolved = dict(self.values), dict(self.args), dict(self.resolved)
        twin.series = {name: values.fork() for name, values in self.series.items()}
        return twin

    def narrow(self, versions: Versions) -> None:
        """Allow only these releases; a contradiction (a fork, a mixed log) is ignored."""
        mask = versions.mask if self.shapes == -1 else self.shapes & versions.mask
        if mask:
            self.shapes = mask

    def argument(self, name: str) -> Any | None:
        """An argument by its underscore name: what the user gave, else what the engine resolved; None = unknown."""
        value = self.args.get(name)
        return value if value is not None else self.resolved.get(name)


UNTAGGED = re.compile(r"v?0\.1\.dev|dev(?:$|[^\w])")
"""What setuptools-scm says of a checkout without tags: no version at all."""

SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"EngineCore$"), ">=0.18.0"),
    (re.compile(r"EngineCore_DP\d+$"), ">=0.10.2"),
    (re.compile(r"EngineCore_\d+$"), ">=0.9.0,<0.10.2"),
    (re.compile(r"APIServer$"), ">=0.10.1"),
    (re.compile(r"ApiServer_\d+$"), ">=0.10.1"),
    (re.compile(r"VllmWorkerProcess$"), ">=0.4.2,<0.11.0"),
    (re.compile(r"VllmWorker_(?:TP|PP)\d"), ">=0.10.1,<0.10.2"),
    (re.compile(r"VllmWorker$"), ">=0.6.5,<0.10.2"),
    (re.compile(r"Worker(?:_(?:DP|PP|TP)\d.*)?$"), ">=0.10.2"),
    (re.compile(r"RayWorkerVllm$"), "<0.5.0"),
)
"""Process name to the releases that print it (vllm-messages, section 0)."""


def header_versions(process: str | None, bracket: bool) -> Versions:
    """Releases whose headers have this process name and `[file:line]` (bracket) or `file:line]`."""
    spec = ">=0.8.0" if bracket else "<0.8.0"
    allowed = Versions.parse_spec(spec)
    if process:
        for pattern, versions in SHAPES:
            if pattern.match(process):
                both = allowed & Versions.parse_spec(versions)
                return both if both else allowed
    return allowed


class FactCollector:
    """Feeds records into the Facts of their runs."""

    def __init__(self, rules: Iterable[FactRule]) -> None:
        self.rules = tuple(rules)
        self._by_gate: dict[str, list[int]] = {}
        for place, rule in enumerate(self.rules):
            self._by_gate.setdefault(rule.pattern.gate, []).append(place)
        self._gates = frozenset(self.gates)
        self.runs: dict[int, Facts] = {}
        self.revision = 0
        """Counts what was learned, so that somebody who asked before knows whether to ask again."""
        self._forgotten: set[str] = set()  # versions of runs that were let go; two say as much as many
        self._shapes: set[tuple[int, str | None, bool]] = set()

    @property
    def gates(self) -> tuple[str, ...]:
        """Literals without which no fact can match."""
        return (*(rule.pattern.gate for rule in self.rules), *ARGUMENT_MARKS)

    def of(self, run: int) -> Facts:
        """The facts of a run, empty at first."""
        facts = self.runs.get(run)
        if facts is None:
            facts = self.runs[run] = Facts()
        return facts

    def known_versions(self) -> set[str]:
        """Every version that some run of this log has printed."""
        return self._forgotten | {f.version_text for f in self.runs.values() if f.version_text}

    def fork(self, run: int) -> FactCollector:
        """A twin that goes its own way in run `run`; the facts of other runs are shared."""
        twin = copy.copy(self)
        twin.runs = dict(self.runs)
        if run in twin.runs:
            twin.runs[run] = twin.runs[run].fork()
        twin._shapes = set(self._shapes)
        return twin

    def forget(self, run: int) -> None:
        """Let go of runs up to `run`, but for the versions that they printed."""
        for old in [number for number in self.runs if number <= run]:
            version = self.runs.pop(old).version_text
            if version is not None and len(self._forgotten) < 2:
                self._forgotten.add(version)
        self._shapes = {key for key in self._shapes if key[0] > run}

    def shape(self, run: int, process: str | None, bracket: bool) -> None:
        """Narrow the run's version by one header; each shape is looked at once."""
        key = (run, process, bracket)
        if key not in self._shapes and len(self._shapes) < 10_000:
            self._shapes.add(key)
            self.revision += 1
            self.of(run).narrow(header_versions(process, bracket))

    def take(self, record: Record, text: str, gates: frozenset[str]) -> None:
        """Read one record (`text` is its joined text, `gates` the literals in it)."""
        facts = self.of(record.run)
        if record.kind == "shell":
            found = arguments.from_shell(text)
            if found is not None:
                self.revision += 1
                args, facts.env = found
                self._args(facts, args, record, complete=True)
            return
        if gates.isdisjoint(self._gates) or text.startswith(QUOTING):
            return
        head = text if len(text) <= MAX_FACT_TEXT else text[:MAX_FACT_TEXT]
        if record.level is None or record.level <= Level.WARNING:
            self.revision += not gates.isdisjoint(ARGUMENT_MARKS)
            self._arguments(facts, head, record)
        for place in sorted(place for gate in gates for place in self._by_gate.get(gate, ())):
            rule = self.rules[place]
            if rule.level is not None and record.level is not None and record.level < rule.level:
                continue
            match = rule.pattern.search(head)  # a template: no time limit to run into
            if match is not None:
                self.revision += 1
                self._set(facts, rule, match.captures, record, line_at(record, match.start))

    def _arguments(self, facts: Facts, text: str, record: Record) -> None:
        if "non-default args: {" in text:
            self._args(facts, arguments.from_dict(text), record, complete=True)
        elif "args: Namespace(" in text:
            found = arguments.from_namespace(text)
            facts.resolved.update(found)
            if facts.args_line is None:
                facts.args_line = (record.first.number, record.first.text)
            facts.complete = True
        elif "with config:" in text:
            for name, value in arguments.from_config(text).items():
                facts.resolved.setdefault(name, value)

    @staticmethod
    def _args(facts: Facts, args: dict[str, Any], record: Record, *, complete: bool) -> None:
        if not args:
            return
        facts.args.update(args)
        facts.complete = complete
        facts.args_line = (record.first.number, record.first.text)

    def _set(
        self, facts: Facts, rule: FactRule, captures: Mapping[str, Quantity | None], record: Record, line: Line
    ) -> None:
        for name, quantity in (*rule.constants.items(), *captures.items()):
            if quantity is None:
                continue
            full = name.replace("__", ".", 1) if "__" in name else f"log.{name}"
            if full == "log.version" and facts.version_text is None:
                facts.version_text = str(quantity.value)
            if full in SERIES:
                facts.series.setdefault(full, Series()).add(quantity, MAX_SERIES)
            old = facts.values.get(full)
            if old is not None and not _replaces(rule.keep, old.quantity, quantity):
                continue
            facts.values[full] = Fact(quantity, line.number, line.text)


def _replaces(keep: str, old: Quantity, new: Quantity) -> bool:
    if keep == "last":
        return True
    if keep == "first" or isinstance(old.value, str) or isinstance(new.value, str):
        return False
    return new.value < old.value if keep == "lowest" else new.value > old.value


ARGUMENT_MARKS = ("non-default args: {", "args: Namespace(", "with config:")

NUMBERS: Mapping[type, Kind] = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.TEXT}


def quantity_of(value: Any) -> Quantity | None:
    """A plain Python value with its kind; mappings and lists are text (their repr), None is unknown."""
    if value is None:
        return None
    kind = NUMBERS.get(type(value))
    if kind is not None:
        return Quantity(value, kind)
    return Quantity(repr(value)[:500], Kind.TEXT)

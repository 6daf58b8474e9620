"""Answers the names in a rule's conditions and texts for one detection: captures, the run's facts, catalogue defaults.

Every answer is remembered (which fact's line, which assumed default), since a finding cites what its numbers rest on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from vlogdiag import catalog
from vlogdiag.catalog import Versions
from vlogdiag.diagnosis.facts import Fact, Facts, quantity_of
from vlogdiag.diagnosis.runs import Run
from vlogdiag.model import Phase, Record
from vlogdiag.values import Kind, Quantity

__all__ = ["RunScope"]

FALLBACKS: Mapping[str, tuple[str, ...]] = {
    "log.model": ("args.model", "args.model_tag"),
    "log.max_model_len": ("args.max_model_len",),
    "log.max_num_seqs": ("args.max_num_seqs",),
    "log.max_num_batched_tokens": ("args.max_num_batched_tokens",),
    "log.gpu_memory_utilization": ("args.gpu_memory_utilization",),
    "log.tensor_parallel_size": ("args.tensor_parallel_size",),
    "log.world_size": ("args.tensor_parallel_size",),
    "log.quantization": ("args.quantization",),
    "log.dtype": ("args.dtype",),
    "log.attention_backend": ("args.attention_backend",),
    "log.total_memory": ("card.total",),
    "log.free_memory": ("card.free",),
}
"""A fact that no line printed, and the arguments that say the same."""


NO_DEFAULT = frozenset(("model", "model_tag", "tokenizer", "served_model_name"))
"""Arguments whose default in the parser is a placeholder, not what anybody runs."""


class RunScope(Struct):
    """Implements `signatures.expr.Scope`; `used` and `assumed` fill while conditions and texts are evaluated."""

    captures: Mapping[str, Quantity | None]
    facts: Facts
    run: Run | None = None
    record: Record | None = None
    phase: Phase | None = None
    given: Mapping[str, Quantity] = field(default_factory=dict)
    """Facts that an example states; they win over everything but captures."""
    live: Mapping[str, Quantity] = field(default_factory=dict)
    """gpu.*, metrics.*, host.*: only `corroborate` may name them; card.* falls back on gpu.*."""
    live_used: bool = False
    """A number came from a reading because the log did not print it."""
    event: Mapping[str, Quantity] = field(default_factory=dict)
    used: dict[str, Fact] = field(default_factory=dict)
    assumed: dict[str, Quantity] = field(default_factory=dict)
    series_values: Mapping[str, Sequence[Quantity]] = field(default_factory=dict)
    _text: str | None = None

    @property
    def versions(self) -> Versions:
        """Releases that this run can be."""
        return self.facts.versions

    def lookup(self, name: str) -> Quantity | None:
        """Value of a name; None = unknown."""
        if name in self.captures:
            return self.captures[name]
        if name in self.given:
            return self.given[name]
        root = name.partition(".")[0]
        if root == "args":
            return self._argument(name)
        if root == "log":
            return self._log(name)
        if root == "card":
            return self._card(name)
        if root == "event":
            return self.event.get(name)
        return self.live.get(name)

    def facts_value(self, name: str) -> Quantity | None:
        """What a line of the log said, and nothing else."""
        fact = self.facts.values.get(name)
        return fact.quantity if fact is not None else None

    def vllm_in(self, spec: str) -> bool | None:
        """Whether every, none or only some possible releases lie inside `spec`."""
        return self.versions.within(Versions.parse_spec(spec))

    def in_frames(self, fragment: str) -> bool:
        """Whether the record's traceback holds this text."""
        return fragment in self._record_text()

    def in_text(self, fragment: str) -> bool:
        """Whether the record holds this text."""
        return fragment in self._record_text()

    def series(self, name: str) -> Sequence[Quantity]:
        """All values of a capture over the event's repeats, or of a statistic over the run."""
        if name in self.series_values:
            return self.series_values[name]
        found = self.facts.series.get(name)
        if found is not None:
            return found
        value = self.lookup(name)
        return () if value is None else (value,)

    def _record_text(self) -> str:
        if self._text is None:
            self._text = self.record.text if self.record is not None else ""
        return self._text

    def _argument(self, name: str) -> Quantity | None:
        short = name.partition(".")[2]
        value = self.facts.argument(short)
        if value is not None:
            if self.facts.args_line is not None and short in self.facts.args:
                line, text = self.facts.args_line
                quantity = quantity_of(value)
                if quantity is not None:
                    self.used[name] = Fact(quantity, line, text)
            return quantity_of(value)
        fact = self.facts.values.get(f"log.{short}")
        if fact is not None and short in ("gpu_memory_utilization", "max_model_len", "max_num_batched_tokens"):
            self.used[name] = fact
            return fact.quantity
        if short in NO_DEFAULT:
            return None
        default = catalog.default("--" + short.replace("_", "-"), self.versions)
        quantity = quantity_of(default)
        if quantity is not None:
            self.assumed[name] = quantity
        return quantity

    def _log(self, name: str) -> Quantity | None:
        fact = self.facts.values.get(name)
        if fact is not None:
            self.used[name] = fact
            return fact.quantity
        special = self._special(name)
        if special is not None:
            return special
        for other in FALLBACKS.get(name, ()):
            value = self.lookup(other)
            if value is not None:
                return value
        return None

    def _special(self, name: str) -> Quantity | None:
        if name == "log.version":
            single = self.versions.single
            text = self.facts.version_text or single
            return Quantity(text, Kind.TEXT) if text else None
        if name == "log.engine":
            v1 = self.versions.within(Versions.parse_spec(">=0.11.0"))
            return Quantity("V1", Kind.TEXT) if v1 else None
        if name == "log.phase":
            phase = self.phase or (self.run.phase if self.run else None)
            return Quantity(phase.value, Kind.TEXT) if phase else None
        if self.run is None:
            return None
        if name == "log.served":
            return Quantity(self.run.served, Kind.BOOL)
        if name == "log.run":
            return Quantity(self.run.number, Kind.INT)
        if name == "log.start_seconds":
            time = self.record.time if self.record else self.run.last_time
            if time is None or self.run.first_time is None:
                return None
            return Quantity(time - self.run.first_time, Kind.DURATION)
        return None

    def _card(self, name: str) -> Quantity | None:
        fact = self.facts.values.get(name)
        if fact is not None:
            self.used[name] = fact
            return fact.quantity
        if name == "card.used":
            total, free = self.lookup("card.total"), self.lookup("card.free")
            if total is not None and free is not None and total.number is not None and free.number is not None:
                return Quantity(total.number - free.number, Kind.SIZE)
        if name == "card.name":
            fact = self.facts.values.get("log.device_name")
            return fact.quantity if fact else None
        live = self.live.get("gpu." + name.partition(".")[2])
        self.live_used = self.live_used or live is not None
        return live

"""One followed log under a clock that a test moves: lines go in, events with their moments come out."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache

from ages import API, BY_VERSION, CORE, Printer, traceback
from small_rules import rules_from

from vlogdiag.loading import Rules
from vlogdiag.model import Event, Finding, Reading
from vlogdiag.pipeline import Pipeline
from vlogdiag.session import KEPT_RUNS, Session

POLL = 0.025

RULES = rules_from(
    """
id: memory
match: {line: "RuntimeError: no memory on card {number:int}"}
---
id: network
family: hang
match: {line: "RuntimeError: peer {peer:int} is silent"}
yields_to: {any_of: [memory], within: 60s}
---
id: slow
severity: warning
family: hang
match: {line: "This step was slow by {by:duration}"}
---
id: dead
role: symptom
family: noise
match: {line: "EngineDeadError: EngineCore encountered an issue."}
---
id: quiet-engine
severity: warning
family: hang
silence:
  line: "Avg generation throughput: 0.0 tokens/s, Running: {running:int} reqs"
  level: [info, debug]
  when: running > 0
  until: ["Avg prompt throughput: ", "Traceback (most recent call last)"]
  for: 120s
---
id: slow-start
severity: warning
family: hang
silence:
  line: "Starting to load model"
  level: [info, debug]
  until: ["Model loading took", "Loading weights took", "checkpoint shards", "Traceback (most recent call last)"]
  for: 1800s
"""
)
MEMORY = "RuntimeError: no memory on card 0"
NETWORK = "RuntimeError: peer 3 is silent"
DEAD = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)"
FRAMES = ("vllm/v1/engine/core.py:712:run_busy_loop:self._process_engine_step()",) * 3


@cache
def crash(error: str = MEMORY) -> str:
    return traceback(*FRAMES, error=error)


def server(version: str = "0.24.0") -> Printer:
    return Printer(BY_VERSION[version])


class Live:
    """A session and its clock; `events` are (seconds since the beginning, event)."""

    def __init__(self, rules: Rules = RULES, *, keep_runs: int = KEPT_RUNS, wall: datetime | None = None) -> None:
        self.now = 1000.0
        self.wall = (wall or datetime(2026, 4, 3, 9, 12, 30, tzinfo=timezone.utc)).timestamp()
        self.begin = self.now
        self.events: list[tuple[float, Event]] = []
        self.pipeline = Pipeline(rules, source="vllm.log", keep_runs=keep_runs)
        self.readings: list[Reading] = []
        self.session = Session(self.pipeline, observed=self.readings.append)
        self.session.numbering.add(1, 0, line=1, offset=0, file=0, current=True)
        self.fed = 0

    def feed(self, text: str | bytes) -> Live:
        data = text.encode() if isinstance(text, str) else text
        self.session.feed(data, now=self.now, wall=self.wall)
        return self

    def printed(self, printer: Printer) -> Live:
        """What the printer has printed since the last time."""
        lines, self.fed = printer.out[self.fed :], len(printer.out)
        return self.feed("".join(line + "\n" for line in lines))

    def wait(self, seconds: float, step: float = POLL) -> Live:
        end = self.now + seconds
        while self.now < end - 1e-9:
            moved = min(step, end - self.now)
            self.now += moved
            self.wall += moved
            self.events += [(round(self.now - self.begin, 3), event) for event in self.session.poll(self.now)]
        return self

    def close(self, *, ended: bool = False) -> Live:
        self.events += [(round(self.now - self.begin, 3), e) for e in self.session.close(self.now, ended=ended)]
        return self

    def told(self) -> list[tuple[str, str]]:
        """(type without `finding.`, id or text) of everything so far."""
        return [
            (event.type.removeprefix("finding."), event.finding.id if event.finding else event.notice or "")
            for _, event in self.events
        ]

    def of(self, kind: str, ident: str) -> list[tuple[float, Finding]]:
        return [
            (moment, event.finding)
            for moment, event in self.events
            if event.type == f"finding.{kind}" and event.finding is not None and event.finding.id == ident
        ]


__all__ = ["API", "CORE", "DEAD", "FRAMES", "MEMORY", "NETWORK", "POLL", "RULES", "Live", "crash", "server"]

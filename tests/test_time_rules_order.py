"""Sequences and silences go by the order of the lines, though records arrive when they are complete."""

from __future__ import annotations

import textwrap

import pytest

from vlogdiag.diagnosis.engine import Rulebook
from vlogdiag.diagnosis.facts import FactRule
from vlogdiag.loading import Rules
from vlogdiag.model import RuleCount
from vlogdiag.pipeline import Pipeline
from vlogdiag.signatures.schema import load_rules

STATS = (
    "INFO 03-12 03:00:{:02d} [loggers.py:87] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    "Avg generation throughput: 0.0 tokens/s, Running: {} reqs, Waiting: 0 reqs"
)
EVERY_GATE = (
    "Shutting down FastAPI HTTP server. Waiting for connections to close. JIT compilation during inference: k "
    "generation throughput: 0.0 tokens/s, Running: 1 reqs vLLM is using nccl"
)


def rules(body: str, more: str = "") -> Rules:
    """Rules with one timed signature (`body`: its sequence or silence) and, if given, a refinement of it."""
    head = "id: timed\ntitle: timed\nseverity: warning\ncause: it happened\nfixes: [{title: do, run: do}]\n"
    examples = f"examples:\n  fires: [{{log: '{EVERY_GATE}'}}]\n  quiet: [{{log: nothing}}]\nquiet_reason: a test\n"
    texts = [("rules/hang/timed.yaml", head + textwrap.dedent(body) + examples)]
    if more:
        texts.append(("rules/hang/finer.yaml", textwrap.dedent(more) + examples))
    facts: tuple[FactRule, ...] = ()
    return Rules(Rulebook(load_rules(texts)), facts, RuleCount(len(texts), 0, ""))


def findings(rules: Rules, *lines: str, tick: float | None = None) -> list[tuple[str, list[int]]]:
    """Ids of the findings with the lines that prove them."""
    pipeline = Pipeline(rules, source="test")
    pipeline.feed(("\n".join(lines) + "\n").encode())
    if tick is not None:
        pipeline.flush()
        pipeline.tick(tick)
    found = pipeline.close().findings
    return [(f.id, [e.line for e in f.evidence if e.line is not None]) for f in found]


STOP = """
sequence:
  steps:
    - {line: Shutting down FastAPI HTTP server., level: info}
    - {line: Waiting for connections to close., level: info}
"""


def test_a_line_that_overtakes_the_open_message_before_it_comes_second() -> None:
    # uvicorn's line is complete at once, vLLM's may have more lines and is completed by the end of the log
    assert findings(
        rules(STOP),
        "INFO 03-12 03:04:25 [launcher.py:62] Shutting down FastAPI HTTP server.",
        "INFO:     Waiting for connections to close. (CTRL+C to force quit)",
    ) == [("timed", [1, 2])]


def test_steps_in_the_wrong_order_are_no_sequence() -> None:
    assert not findings(
        rules(STOP),
        "INFO:     Waiting for connections to close. (CTRL+C to force quit)",
        "INFO 03-12 03:04:25 [launcher.py:62] Shutting down FastAPI HTTP server.",
        "INFO 03-12 03:04:26 [launcher.py:63] bye",
    )


def test_of_a_step_that_may_come_once_the_nearest_record_is_shown() -> None:
    body = """
    sequence:
      steps:
        - {line: "JIT compilation during inference: {kernel:word}"}
        - {line: "RPC call to {method:word} timed out."}
    """
    lines = [
        f"WARNING 03-12 03:0{i}:25 [jit_monitor.py:9] JIT compilation during inference: kernel{i}" for i in range(6)
    ]
    assert findings(rules(body), *lines, "ERROR 03-12 03:07:25 [core.py:1] RPC call to execute_model timed out.") == [
        ("timed", [6, 7])
    ]


@pytest.mark.parametrize(("running", "expected"), [(3, [("timed", [1, 2, 3])]), (0, [])])
def test_a_repeated_step_counts_only_what_meets_its_condition(running: int, expected: list[object]) -> None:
    body = """
    sequence:
      steps:
        - {line: "generation throughput: 0.0 tokens/s, Running: {n:int} reqs", level: info, when: n > 0, at_least: 3}
      within: 60s
    """
    assert findings(rules(body), *(STATS.format(10 * i, running) for i in range(3))) == expected


def test_repeats_beyond_the_time_limit_do_not_add_up() -> None:
    body = """
    sequence:
      steps:
        - {line: "generation throughput: 0.0 tokens/s, Running: {n:int} reqs", level: info, when: n > 0, at_least: 3}
      within: 15s
    """
    assert not findings(rules(body), *(STATS.format(10 * i, 3) for i in range(5)))


def test_a_refinement_of_a_sequence_is_asked_when_the_run_is_judged() -> None:
    body = """
    sequence:
      steps:
        - {line: "generation throughput: 0.0 tokens/s, Running: {n:int} reqs", level: info, when: n > 0, at_least: 2}
    """
    finer = """
    id: finer
    title: finer
    severity: error
    refines: timed
    when: event.count >= 3
    cause: again and again
    fixes: [{title: do, run: do}]
    """
    both = rules(body, finer)
    assert [ident for ident, _ in findings(both, *(STATS.format(5 * i, 3) for i in range(4)))] == ["timed"]
    assert [ident for ident, _ in findings(both, *(STATS.format(5 * i, 3) for i in range(6)))] == ["finer"]


SILENT = """
silence:
  line: vLLM is using nccl
  level: info
  until: Application startup complete
  for: 60s
  at_end: true
"""
BEGUN = "INFO 03-12 03:04:25 [pynccl.py:69] vLLM is using nccl==2.21.5"


def test_what_follows_an_open_message_ends_the_silence_after_it() -> None:
    assert not findings(rules(SILENT), BEGUN, "INFO:     Application startup complete.")


def test_what_was_printed_before_ends_no_silence() -> None:
    assert findings(rules(SILENT), "INFO:     Application startup complete.", BEGUN) == [("timed", [2])]


def test_a_log_that_ends_in_silence_is_told_so_and_a_clock_decides_earlier() -> None:
    assert findings(rules(SILENT), BEGUN) == [("timed", [1])]
    assert findings(rules(SILENT.replace("at_end: true", "at_end: false")), BEGUN) == []
    assert findings(rules(SILENT.replace("at_end: true", "at_end: false")), BEGUN, tick=61) == [("timed", [1])]

"""Healthy logs by the megabyte, in every age and wrapper: no signature fires on them, and nothing stays unexplained."""

from __future__ import annotations

import pytest
from healthy import healthy_logs

from vlogdiag.loading import Rules
from vlogdiag.model import Severity
from vlogdiag.pipeline import Pipeline, Result, prefilter_of
from vlogdiag.signatures.types import Signature

MEGABYTE = 1 << 20


def positive_examples(rules: Rules) -> tuple[str, ...]:
    """Every log on which some signature fires: what a prompt may quote."""
    return tuple(example.log for s in rules.book.signatures for example in s.examples if example.kind == "fires")


def diagnose(rules: Rules, log: bytes, prefilter: object) -> Result:
    pipeline = Pipeline(rules, source="vllm.log", prefilter=prefilter)  # type: ignore[arg-type]
    for start in range(0, len(log), MEGABYTE):
        pipeline.feed(log[start : start + MEGABYTE])
    return pipeline.close()


def check(rules: Rules, total: int, seed: int) -> int:
    """Scan about `total` bytes; returns how many they were."""
    prefilter = prefilter_of(rules)
    seen = 0
    for name, log in healthy_logs(total, seed, positive_examples(rules)):
        result = diagnose(rules, log, prefilter)
        loud = [
            (f.id, f.first.line, f.evidence[0].text[:120]) for f in result.findings if f.severity >= Severity.WARNING
        ]
        assert (name, loud) == (name, [])
        assert (name, [u.text for u in result.unexplained]) == (name, [])
        assert [run.outcome for run in result.summary.runs] in (["serving"], ["stopped"]), name
        assert result.summary.omitted.regex_timeouts == 0
        seen += len(log)
    return seen


def test_five_megabytes_of_healthy_log_are_silent(shipped):
    assert check(shipped, 5 * MEGABYTE, seed=1) >= 5 * MEGABYTE


@pytest.mark.long
def test_a_hundred_megabytes_of_healthy_log_are_silent(shipped):
    assert check(shipped, 100 * MEGABYTE, seed=1000) >= 100 * MEGABYTE


def test_the_healthy_logs_are_read_whole_where_there_is_no_prefilter(shipped):
    """Without the fast path every line meets every signature."""
    for name, log in healthy_logs(600_000, seed=7, quotes=positive_examples(shipped)):
        result = diagnose(shipped, log, None)
        assert (name, [f.id for f in result.findings if f.severity >= Severity.WARNING]) == (name, [])


def gates_in(signature: Signature, logs: bytes) -> bool:
    return any(gate.encode() in logs for gate in signature.gates)


def test_most_signatures_meet_their_own_words_in_the_healthy_logs(shipped):
    """Silence would be no merit if the words never came: prompts quote them, but for what JSON and repr escape."""
    logs = b"".join(log for _, log in healthy_logs(8 * MEGABYTE, 1, positive_examples(shipped)))
    bases = [s for s in shipped.book.signatures if s.gates]
    met = [s.id for s in bases if gates_in(s, logs)]
    assert len(met) > 0.75 * len(bases), sorted({s.id for s in bases} - set(met))

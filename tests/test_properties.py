"""Laws that hold for every log: cuts, orders of arrival and the fast path change nothing (DESIGN section 10, 1, 3 and 4)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loggen import Failure, compose, failures_of, interleaved

from vlogdiag.loading import Rules, load
from vlogdiag.log import windows
from vlogdiag.log.prefilter import Gates, Prefilter
from vlogdiag.model import Finding, Severity
from vlogdiag.pipeline import Pipeline, Result, prefilter_of

EVERYDAY = settings(max_examples=110, deadline=None, derandomize=True)
LONG = settings(max_examples=1500, deadline=None)
SEEDS = st.integers(0, 2**32)


@cache
def rules() -> Rules:
    return load(examples=True)


@cache
def failures() -> tuple[Failure, ...]:
    return failures_of(rules())


@cache
def prefilter() -> Prefilter:
    made = prefilter_of(rules())
    assert made is not None, "the fast path needs Hyperscan, which the tests' platforms have"
    return made


@cache
def gates() -> Gates:
    """Shared: compiling them for each of a thousand small logs would be most of the time."""
    return Pipeline(rules(), source="vllm.log").gates


def diagnose(pieces: Iterable[bytes], fast: bool = False) -> Result:
    pipeline = Pipeline(rules(), source="vllm.log", prefilter=prefilter() if fast else None, gates=gates())
    for piece in pieces:
        pipeline.feed(piece)
    return pipeline.close()


def brief(finding: Finding) -> dict[str, Any]:
    """Everything that a reader would miss."""
    return {
        "id": finding.id,
        "run": finding.run,
        "count": finding.count,
        "first": finding.first,
        "last": finding.last,
        "severity": finding.severity,
        "outcome": finding.outcome,
        "confidence": finding.confidence,
        "cause": finding.cause,
        "speakers": sorted(finding.speakers),
        "ranks": (finding.ranks, finding.ranks_missing),
        "evidence": finding.evidence,
        "consequences": finding.consequences,
        "captures": finding.captures,
        "fixes": finding.fixes,
    }


def whole(result: Result) -> dict[str, Any]:
    return {
        "findings": [brief(f) for f in result.findings],
        "unexplained": result.unexplained,
        "runs": result.summary.runs,
        "size": (result.summary.bytes, result.summary.lines),
        "notices": result.notices,
    }


def cut(log: bytes, seed: int) -> list[bytes]:
    """The log in pieces: many of one byte, or few, or at awkward places."""
    rng = random.Random(seed)
    count = rng.choice((1, 2, 5, 40, 400))
    places = {rng.randrange(len(log) + 1) for _ in range(count)}
    awkward = [
        m for m in (log.find(b"\r\n"), log.find(b"Traceback"), log.find("█".encode()), log.rfind(b"\n")) if m >= 0
    ]
    places.update(place + rng.choice((0, 1, 2)) for place in awkward)
    edges = [0, *sorted(p for p in places if 0 < p < len(log)), len(log)]
    return [log[a:b] for a, b in itertools.pairwise(edges)]


@pytest.fixture(autouse=True)
def _scan_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks below 32 KiB are read whole as a rule; here nearly every chunk goes through the fast path."""
    monkeypatch.setattr(windows, "SMALL", 200)


def test_four_of_five_generated_logs_have_a_finding_and_together_they_use_many_rules():
    """A law over logs in which nothing happens would prove nothing."""
    found = [diagnose([compose(seed, failures())], fast=True).findings for seed in range(100)]
    assert sum(any(f.severity >= Severity.WARNING for f in findings) for findings in found) >= 80
    assert len({f.id for findings in found for f in findings}) >= 80


# --- 1: cutting the bytes anywhere -------------------------------------------------------------------------------------


def same_wherever_cut(seed: int, cuts: int) -> None:
    log = compose(seed, failures())
    assert whole(diagnose(cut(log, cuts))) == whole(diagnose([log]))


@given(SEEDS, SEEDS)
@EVERYDAY
def test_cutting_the_bytes_anywhere_changes_nothing(seed, cuts):
    same_wherever_cut(seed, cuts)


@pytest.mark.long
@given(SEEDS, SEEDS)
@LONG
def test_cutting_the_bytes_anywhere_changes_nothing_in_thousands_of_logs(seed, cuts):
    same_wherever_cut(seed, cuts)


# --- 4: with the fast path and without ---------------------------------------------------------------------------------


def same_with_prefilter(seed: int, cuts: int) -> None:
    log = compose(seed, failures())
    assert whole(diagnose(cut(log, cuts), fast=True)) == whole(diagnose([log]))


@given(SEEDS, SEEDS)
@EVERYDAY
def test_the_fast_path_finds_the_same(seed, cuts):
    same_with_prefilter(seed, cuts)


@pytest.mark.long
@given(SEEDS, SEEDS)
@LONG
def test_the_fast_path_finds_the_same_in_thousands_of_logs(seed, cuts):
    same_with_prefilter(seed, cuts)


SAMPLES = sorted((Path(__file__).parent.parent / "sample_logs").glob("*.log"))
PIECES = (b"\n", b"\r", b"\x1b[31m", b"] ", b"{", b"\xff", b'"', b"Traceback (most recent call last):\n")
PIECES += (b"\n(EngineCore pid=3) ERROR 01-01 00:00:00 [a.py:1] ",)


def mangled(rng: random.Random) -> bytes:
    """A sample log with pieces cut out, doubled, taken from another, or put where nobody expects them."""
    log = bytearray(rng.choice(SAMPLES).read_bytes())
    for _ in range(rng.randint(1, 12)):
        at, kind = rng.randrange(len(log) + 1), rng.random()
        if kind < 0.3:
            del log[at : at + rng.randint(0, 300)]
        elif kind < 0.7:
            other = bytes(log) if kind < 0.5 else rng.choice(SAMPLES).read_bytes()
            begin = rng.randrange(len(other) + 1)
            log[at:at] = other[begin : begin + rng.randint(0, 5_000)]
        else:
            log[at:at] = rng.choice(PIECES)
    return bytes(log)


def same_though_mangled(seed: int) -> None:
    rng = random.Random(seed)
    log = mangled(rng)
    edges = [0, *sorted(rng.randrange(len(log) + 1) for _ in range(rng.randint(0, 6))), len(log)]
    slow = diagnose([log])
    fast = diagnose([log[a:b] for a, b in itertools.pairwise(edges)], fast=True)
    assert [(f.id, f.first.line, f.count) for f in fast.findings] == [
        (f.id, f.first.line, f.count) for f in slow.findings
    ]
    assert fast.summary.lines == slow.summary.lines


@given(SEEDS)
@EVERYDAY
def test_the_fast_path_finds_the_same_in_mangled_logs(seed):
    same_though_mangled(seed)


@pytest.mark.long
@given(SEEDS)
@LONG
def test_the_fast_path_finds_the_same_in_thousands_of_mangled_logs(seed):
    same_though_mangled(seed)


FRAME = '  File "/app/x.py", line {n}, in f\n    step_{n}()'
LONG_TRACEBACK = (
    "Traceback (most recent call last):\n"
    + "\n".join(FRAME.format(n=n) for n in range(60))
    + "\nRuntimeError: CUDA error: an illegal memory access was encountered"
)
ACCESS = 'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
SHAPES = {
    "uvicorn's error with a traceback of sixty frames": "ERROR:    Exception in ASGI application\n" + LONG_TRACEBACK,
    "a bare traceback of sixty frames": LONG_TRACEBACK,
    "a prefixed one": "\n".join(f"(EngineCore_DP0 pid=7) {line}" for line in LONG_TRACEBACK.split("\n")),
    "a prefixed one among access lines": "\n".join(
        f"(EngineCore_DP0 pid=7) {line}\n{ACCESS * 20}".rstrip() for line in LONG_TRACEBACK.split("\n")
    ),
    "torch's excepthook on four ranks": "\n".join(
        f"[rank{rank}]: {line}" for line in LONG_TRACEBACK.split("\n") for rank in range(4)
    ),
    "a headed one": "\n".join(f"ERROR 04-03 15:05:56 [core.py:1] {line}" for line in LONG_TRACEBACK.split("\n")),
    "a headed one among access lines": "\n".join(
        f"ERROR 04-03 15:05:56 [core.py:1] {line}\n{ACCESS * 20}".rstrip() for line in LONG_TRACEBACK.split("\n")
    ),
    "a prompt of many lines": "INFO 04-03 15:05:56 [logger.py:43] Received request 1: prompt: 'hi\n"
    + LONG_TRACEBACK
    + "', params: SamplingParams(n=1), lora_request: None.",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_fast_path_reads_long_records_whole(shape):
    log = (
        "INFO 04-03 15:00:00 [api_server.py:1] vLLM API server version 0.9.2\n"
        + ACCESS * 300
        + SHAPES[shape]
        + "\n"
        + ACCESS * 300
    ).encode()
    assert whole(diagnose([log], fast=True)) == whole(diagnose([log]))


# --- 3: interleaving prefixed speakers ---------------------------------------------------------------------------------


def story(result: Result) -> dict[str, Any]:
    """What does not depend on which rank's lines the file shows first: ids, counts, ranks, outcome, remedies."""
    return {
        "findings": [
            (
                f.id,
                f.count,
                f.severity,
                f.outcome,
                sorted(f.ranks),
                [x.title for x in f.fixes],
                [(c.id, c.count) for c in f.consequences],
            )
            for f in result.findings
        ],
        "unexplained": sorted((u.text[:20], u.count) for u in result.unexplained),
        "runs": [(r.outcome, r.phase, r.vllm_version) for r in result.summary.runs],
    }


def same_in_any_order(seed: int, order: int, fast: bool) -> None:
    plain, mixed = diagnose([interleaved(seed, 0)]), diagnose([interleaved(seed, order)], fast)
    assert story(mixed) == story(plain)


@given(SEEDS, SEEDS, st.booleans())
@EVERYDAY
def test_another_order_of_arrival_gives_the_same_story(seed, order, fast):
    same_in_any_order(seed, order, fast)


@pytest.mark.long
@given(SEEDS, SEEDS, st.booleans())
@LONG
def test_another_order_of_arrival_gives_the_same_story_in_thousands_of_logs(seed, order, fast):
    same_in_any_order(seed, order, fast)

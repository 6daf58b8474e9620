"""Floods take short cuts: whatever is read in bulk says the same as line by line, down to the last count."""

from __future__ import annotations

import pytest
from small_rules import rules_from

from vlogdiag.diagnosis.unexplained import mask
from vlogdiag.log.records import EXPIRE_EVERY, MAX_HEADED_GAP, Assembler, Context
from vlogdiag.log.windows import SMALL
from vlogdiag.model import Phase, Record
from vlogdiag.pipeline import Pipeline, prefilter_of

HEAD = "(Worker_TP{rank} pid={pid}) ERROR 04-03 10:{minute:02d}:00 [multiproc_executor.py:597] "
DEDUPLICATED = " [repeated 3x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication)"


def traceback(rank: int, minute: int, what: str, first: str = "WorkerProc hit an exception.") -> list[str]:
    head = HEAD.format(rank=rank, pid=1000 + rank, minute=minute)
    return [
        head + first,
        head + "Traceback (most recent call last):",
        head + '  File "/usr/lib/python3.12/site-packages/vllm/v1/executor/multiproc_executor.py", line 591, in worker',
        head + "    output = func(*args, **kwargs)",
        head + f"RuntimeError: {what}",
    ]


def records(lines: list[str], *, bulk: bool) -> list[Record]:
    assembler = Assembler(lambda parsed, number, time: Context(1, Phase.SERVING))
    done: list[Record] = []
    if bulk:
        assembler.lines(1, 0, lines, done.append)
    else:
        for number, line in enumerate(lines, 1):
            done.extend(assembler.line(number, sum(len(before) + 1 for before in lines[: number - 1]), line))
    return [*done, *assembler.close()]


@pytest.mark.parametrize("bulk", [False, True])
def test_the_same_message_under_the_same_header_is_another_record(bulk: bool) -> None:
    lines = traceback(0, 1, "odd") * 3
    found = records(lines, bulk=bulk)
    assert [r.first.number for r in found] == [1, 6, 11]
    assert all([line.text for line in r.lines][-1] == "RuntimeError: odd" for r in found)
    assert [r.first.offset for r in found] == [0, *(sum(len(each) + 1 for each in lines[:n]) for n in (5, 10))]


@pytest.mark.parametrize("bulk", [False, True])
def test_a_second_traceback_that_was_announced_stays_in_its_record(bulk: bool) -> None:
    head = HEAD.format(rank=0, pid=1000, minute=1)
    chained = [
        *traceback(0, 1, "first"),
        head,
        head + "During handling of the above exception, another exception occurred:",
        head,
        *traceback(0, 1, "second"),
    ]
    found = records(chained, bulk=bulk)
    assert len(found) == 1
    assert len(found[0].lines) == len(chained)


@pytest.mark.parametrize("bulk", [False, True])
def test_eight_ranks_line_by_line(bulk: bool) -> None:
    every = [traceback(rank, 1, f"odd on {rank}") for rank in range(8)]
    lines = [line for row in zip(*every, strict=True) for line in row] * 5
    found = records(lines, bulk=bulk)
    assert len(found) == 40
    assert {(r.origin.rank, r.lines[-1].text) for r in found} == {
        (rank, f"RuntimeError: odd on {rank}") for rank in range(8)
    }


@pytest.mark.parametrize("bulk", [False, True])
def test_a_message_is_complete_when_others_have_spoken_long_enough(bulk: bool) -> None:
    open_one = HEAD.format(rank=0, pid=1000, minute=1)
    others = [
        HEAD.format(rank=1, pid=1001, minute=n % 60) + f"odd {n}" for n in range(MAX_HEADED_GAP + EXPIRE_EVERY + 1)
    ]
    found = records([open_one + "begins", *others, open_one + "  and goes on"], bulk=bulk)
    mine = [r for r in found if r.origin.rank == 0]
    assert [[line.text for line in r.lines] for r in mine] == [["begins"], ["  and goes on"]]


def test_a_flood_that_ray_counts_is_counted_in_bulk_too() -> None:
    """The suffix stands at a line's end, with Ray's own explanation behind it the first time."""
    rules = rules_from(
        """
id: odd
match: {line: "RuntimeError: odd {number:int}"}
"""
    )
    head = "(RayWorkerWrapper pid=7, ip=10.0.0.2) ERROR 04-03 10:01:00 [worker_base.py:600] "
    lines = [head + f"RuntimeError: odd {n % 7}" + (DEDUPLICATED if n % 2 else "") for n in range(2_000)]
    data = ("\n".join(lines) + "\n").encode()
    assert len(data) > 2 * SMALL
    counts = []
    for prefilter in (None, prefilter_of(rules)):
        pipeline = Pipeline(rules, source="vllm.log", prefilter=prefilter)
        pipeline.feed(data)
        result = pipeline.close()
        assert [finding.id for finding in result.findings] == ["odd"]
        counts.append(result.findings[0].count)
        assert "repeated" not in result.findings[0].evidence[0].text
    pipeline = Pipeline(rules, source="vllm.log")
    for line in lines:
        pipeline.feed(line.encode() + b"\n")
    counts.append(pipeline.close().findings[0].count)
    assert counts == [1_000 + 3 * 1_000] * 3


def test_the_last_step_of_a_sequence_may_be_complete_before_the_first() -> None:
    """A worker's open message began before the error that the engine printed in between, and explains it."""
    rules = rules_from(
        """
id: told
severity: error
sequence:
  within: 600s
  steps:
    - line: "is about to stall"
    - line: "RuntimeError: stalled"
"""
    )
    worker = "(Worker_TP0 pid=1) WARNING 04-03 10:00:00 [custom.py:1] "
    engine = "(EngineCore_DP0 pid=2) ERROR 04-03 10:00:0{} [core.py:700] "
    lines = [
        worker + "the ring is about to stall",
        *(engine.format(n) + "RuntimeError: stalled" for n in range(1, 9)),
        worker + "  since its peer is silent",
        "(Worker_TP0 pid=1) INFO 04-03 10:00:09 [custom.py:1] and on",
    ]
    pipeline = Pipeline(rules, source="vllm.log")
    pipeline.feed(("\n".join(lines) + "\n").encode())
    found = pipeline.close().findings
    assert [finding.id for finding in found] == ["told"]
    assert found[0].first.line == 1
    early = Pipeline(rules, source="vllm.log")
    early.feed(("\n".join([*lines[1:9], *lines[:1], lines[-1]]) + "\n").encode())
    assert not early.close().findings, "what came before the first step is no step"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RuntimeError: step 9", "RuntimeError: step 12345"),
        ("FileNotFoundError: /root/.cache/a1/x", "FileNotFoundError: /home/me/.cache/b2/y"),
        ("ValueError: block 0xdeadBEEF at abcdef0123456789", "ValueError: block 0x0 at 0123456789abcdef00"),
    ],
)
def test_errors_that_differ_in_numbers_and_paths_are_one(one: str, other: str) -> None:
    assert mask(one) == mask(other)
    assert mask(one) != mask(one.replace("Error", "Exit"))

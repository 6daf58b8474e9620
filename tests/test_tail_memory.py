"""A week in a minute: thousands of rotations, starts and findings leave no trace in memory."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from live_log import CORE, crash, server
from test_tail import Bench, Scripted

from vlogdiag.log.follow import Data

MIB = 2**20
STANDING = 200


def turn(number: int) -> bytes:
    """One start that fails, then lines of no interest, in a file of its own."""
    printer = server().arguments(max_model_len=1000 + number % 7).error(CORE, "core.py:700", crash())
    for _ in range(20):
        printer.access()
    return printer.text.encode()


@pytest.mark.long
def test_rotations_starts_and_findings_without_end_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlogdiag.session.MAX_STANDING", STANDING)
    source = Scripted()
    bench = Bench(source)
    sizes: list[int] = []
    tracemalloc.start()
    try:
        for number in range(1_000):
            source.give(Data("vllm.log", 0, turn(number), file=number))
            bench.step(20).step(0.2, times=2)
            bench.events.clear()
            if number >= STANDING + 100 and number % 100 == 0:
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert bench.tail.counts.lines > 20_000
    assert len(bench.tail.all_findings) == STANDING
    assert max(sizes) - sizes[0] < MIB
    assert sizes[-1] < 60 * MIB


@pytest.mark.long
def test_a_month_of_health_checks_and_statistics_costs_nothing() -> None:
    source = Scripted()
    bench = Bench(source)
    printer = server().start()
    offset = 0
    sizes: list[int] = []
    tracemalloc.start()
    try:
        for hour in range(24 * 30):
            for _ in range(30):
                printer.access("/health", method="GET").access().statistics().wait(120)
            text = printer.text.encode()
            printer.out.clear()
            source.give(Data("vllm.log", offset, text))
            offset += len(text)
            bench.step(3600)
            if hour >= 100 and hour % 100 == 0:
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert bench.events == []
    assert max(sizes) < 20 * MIB  # 20,000 headers are remembered, a dozen of it

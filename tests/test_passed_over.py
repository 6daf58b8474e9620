"""What a scan does to the bulk of a log: line ends are counted, and statistics lines passed over until they matter."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlogdiag.log import line_ends as module
from vlogdiag.log.line_ends import WORTH, line_ends
from vlogdiag.log.prefilter import Prefilter


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 200))
def test_short_stretches(data: bytes, start: int, end: int) -> None:
    assert line_ends(data, start, end) == data[start:end].count(b"\n")
    assert line_ends(data) == data.count(b"\n")


@pytest.mark.parametrize("seed", range(20))
def test_long_stretches(seed: int) -> None:
    chance = random.Random(seed)
    data = b"".join(chance.choice((b"\n", b"\n\n", b"\r\n", b"x" * 97, b"\x8a\x00")) for _ in range(20_000))
    start, end = chance.randrange(0, 300), len(data) - chance.randrange(0, 300)
    assert end - start > WORTH
    assert line_ends(data, start, end) == data.count(b"\n", start, end)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_library", lambda: None)
    data = b"a line\n" * WORTH
    assert line_ends(data) == WORTH
    assert line_ends(data, 3, 17) == 2


@pytest.mark.parametrize(
    ("usage", "places"), [("9.6%", 0), ("0.9%", 0), ("96.1%", 1), ("90.0%", 1), ("100.0%", 1), ("89.9%", 0)]
)
def test_kv_usage_is_read_from_ninety_percent_on(usage: str, places: int) -> None:
    """Though a rule asks for `usage: 9`, which stands in 9.6 % too."""
    found = Prefilter(["KV cache usage: 9"]).scan(
        b"INFO 07-28 06:42:29 [loggers.py:118] Engine 000: Avg prompt throughput: 3.0 tokens/s, Avg generation "
        b"throughput: 24.0 tokens/s, Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: " + usage.encode() + b"\n"
    )
    assert found is not None
    assert len(found) == places

"""What a scan does to the bulk of a log: line ends are counted, and statistics lines passed over until they matter."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlogdiag.loading import load
from vlogdiag.log import bulk
from vlogdiag.log.bulk import WORTH, holds, line_ends
from vlogdiag.log.prefilter import Prefilter
from vlogdiag.pipeline import prefilter_of


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
    monkeypatch.setattr(bulk, "_library", lambda: None)
    data = b"a line\n" * WORTH
    assert line_ends(data) == WORTH
    assert line_ends(data, 3, 17) == 2
    assert holds(data, b"e\na")
    assert not holds(data, b"another")


@pytest.mark.parametrize("size", [10, WORTH, 3 * WORTH])
@pytest.mark.parametrize("mark", [b"\r", b"across cluster]"])
def test_a_mark_anywhere(mark: bytes, size: int) -> None:
    assert not holds(b"x" * size, mark)
    assert not holds(b"x" * size + mark[:-1] + b"!", mark)
    for place in (0, size // 2, size):
        assert holds(b"x" * place + mark + b"x" * (size - place), mark)


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


BULK = (
    '(APIServer pid=7) INFO:     10.0.0.9:4711 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    'INFO:     10.0.0.9:4711 - "GET /health HTTP/1.1" 200 OK',
    'INFO:     10.0.0.9:4711 - "GET /metrics HTTP/1.1" 200 OK',
    "INFO 05-12 10:11:12 async_llm_engine.py:529] Received request cmpl-1: prompt: 'say', sampling_params: SamplingParams("
    "n=1, temperature=0.7, max_tokens=16), prompt_token_ids: [1, 2], lora_request: None.",
    "INFO 05-12 10:11:12 async_llm_engine.py:120] Finished request cmpl-1.",
    "INFO 05-12 10:11:12 engine.py:291] Added request chatcmpl-1.",
    "(APIServer pid=7) INFO 10-01 12:00:00 [logger.py:43] Received request chatcmpl-1: prompt: None, params: SamplingParams("
    "n=1, presence_penalty=0.0, temperature=0.6, top_p=0.95, max_tokens=1024), prompt_token_ids: None, "
    "prompt_embeds shape: None, lora_request: None.",
    "(APIServer pid=7) INFO 10-01 12:00:00 [async_llm.py:267] Added request chatcmpl-1.",
    "(APIServer pid=7) INFO 10-01 12:00:00 [loggers.py:118] Engine 000: Avg prompt throughput: 311.4 tokens/s, Avg generation "
    "throughput: 44.1 tokens/s, Running: 7 reqs, Waiting: 0 reqs, GPU KV cache usage: 9.9%, Prefix cache hit rate: 12.0%",
    "INFO 05-12 10:11:12 metrics.py:396] Avg prompt throughput: 31.4 tokens/s, Avg generation throughput: 4.1 tokens/s, "
    "Running: 7 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 9.9%, CPU KV cache usage: 0.0%.",
)


def test_no_rule_stops_the_scan_at_what_a_busy_server_prints_all_day() -> None:
    """One rule that asks for every request line makes the scan of a large log fifty times slower."""
    prefilter = prefilter_of(load())
    assert prefilter is not None
    for line in BULK:
        places = prefilter.scan(line.encode() + b"\n")
        assert places is not None
        assert not places, f"…{line[max(0, places[0] - 40) : places[0] + 1]} is asked for"

"""The few rows of `tail`'s display: what is known, in the width there is, and nothing made up."""

from __future__ import annotations

import math
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from report_samples import ATTACK, KV_FINDING, PORT_FINDING, UNHURRIED, hostile
from rich.cells import cell_len

from vlogdiag.model import Gpu, Phase, Process, Unavailable
from vlogdiag.report.live import StatusModel, finding_block, sparkline, status_line

GIB = 1024**3

SERVING = StatusModel(
    path="/var/log/vllm/vllm.log",
    phase=Phase.SERVING,
    lines=41_580,
    running=12.0,
    waiting=3.0,
    kv_usage=0.72,
    tokens_per_second=431.4,
    throughput=(0.0, 100.0, 200.0, None, 400.0, 431.4),
    gpus=(
        Gpu(
            0,
            total=24 * GIB,
            used=18 * GIB,
            utilization=0.97,
            power=287.4,
            power_limit=300.0,
            temperature=71,
            processes=(
                Process(7, None),
                Process(229, 17 * GIB, "/opt/venv/bin/python -m vllm.entrypoints.openai.api_server --api-key secret"),
                Process(300, 1 * GIB, "Xorg"),
            ),
        ),
    ),
)


def test_a_serving_server_at_80_columns() -> None:
    assert status_line(SERVING, 80, color=False) == [
        "…g/vllm/vllm.log  serving  KV ████░░ 72%  3 waiting  12 running  431 tok/s  ▄ ██",
        "GPU 0  ████░░ 18.0/24.0 GiB  97% busy  71 °C  287/300 W  python[229] 17.0 GiB",
    ]


def test_a_wide_terminal_shows_all() -> None:
    assert status_line(SERVING, 140, color=False) == [
        "/var/log/vllm/vllm.log  serving  KV ████░░ 72%  3 waiting  12 running  431 tok/s  ▁▂▄ ██  41,580 lines",
        "GPU 0  ████░░ 18.0/24.0 GiB  97% busy  71 °C  287/300 W  python[229] 17.0 GiB, Xorg[300] 1.0 GiB, pid [7]",
    ]


def test_what_does_not_fit_is_left_out_and_the_rest_stays_whole() -> None:
    assert status_line(SERVING, 56, color=False) == [
        "…m/vllm.log  serving  KV ████░░ 72%  3 waiting",
        "GPU 0  ████░░ 18.0/24.0 GiB  97% busy  71 °C  287/300 W",
    ]


def test_a_start_shows_its_phase_and_what_is_unknown_shows_nothing() -> None:
    model = StatusModel("vllm.log", phase=Phase.CAPTURING, lines=90, quiet=42.0, lag=3.2)
    assert status_line(model, 80, color=False) == [
        "vllm.log  capturing CUDA graphs  3.2 s behind  quiet for 42 s  90 lines"
    ]
    assert status_line(StatusModel("vllm.log"), 80, color=False) == ["vllm.log"]


def test_findings_are_counted() -> None:
    (row,) = status_line(StatusModel("vllm.log", errors=1, warnings=2), 80, color=False)
    assert row == "vllm.log  1 error, 2 warnings"


def test_a_gpu_that_is_lost_and_one_that_says_little() -> None:
    gpus = (
        Gpu(0, lost=True),
        Gpu(
            1,
            throttle=("sw_power_cap", "hw_thermal_slowdown", "sw_thermal_slowdown"),
            unavailable=(Unavailable("nvml", "no power sensor"),),
        ),
    )
    assert status_line(StatusModel("a", gpus=gpus), 80, color=False)[1:] == [
        "GPU 0  fell off the bus",
        "GPU 1  slowed: heat  no power sensor",
    ]


def test_no_gpu_is_said_once_with_its_reason() -> None:
    model = StatusModel("a", unavailable=(Unavailable("nvml", "no driver"), Unavailable("metrics", "refused")))
    assert status_line(model, 80, color=False)[1:] == ["nvml: no driver; metrics: refused"]


def test_a_full_cache_and_a_hot_card_stand_out() -> None:
    model = replace(SERVING, kv_usage=0.99, gpus=(Gpu(0, temperature=91),))
    server, gpu = status_line(model, 120, color=True)
    assert "\x1b[1;33mKV ██████ 99%" in server
    assert "\x1b[1;33m91 °C" in gpu


def test_ascii_only() -> None:
    assert status_line(SERVING, 100, color=False, unicode=False)[0].isascii()
    assert sparkline([0, 1, 2], 9, unicode=False) == "_=#"


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ((), 5, ""),
        ((0, 0), 5, "▁▁"),
        ((0, 1, 2, 3, 4, 5, 6, 7, 8), 9, "▁▂▃▄▅▆▇██"),
        ((1, None, 1), 5, "█ █"),
        ((8, math.nan, math.inf, -3), 5, "█  ▁"),
        ((0, 0, 4, 4, None, None), 3, "▁█ "),
        ((1, 2, 3), 0, ""),
    ],
    ids=["nothing", "all zero", "a rise", "a gap", "no numbers", "averaged", "no room"],
)
def test_sparkline(values: tuple[float | None, ...], width: int, line: str) -> None:
    assert sparkline(values, width) == line


@UNHURRIED
@given(st.lists(st.none() | st.floats()), st.integers(-2, 60))
def test_a_sparkline_always_fits(values: list[float | None], width: int) -> None:
    line = sparkline(values, width)
    assert len(line) == max(0, min(len(values), width))
    assert set(line) <= set(" ▁▂▃▄▅▆▇█")


def test_a_finding_is_printed_as_in_the_report() -> None:
    block = finding_block(PORT_FINDING, 80, color=False)
    assert block == (
        "! The port is taken  port-in-use · recovered · in start 2 · 11-30 12:01:05\n"
        "  Port 8000 was held by another process when the server tried to listen on it.\n"
        "  120 │ OSError: [Errno 98] Address already in use\n"
        "\n"
        "  1. See who holds it\n"
        "     ss -ltnp 'sport = :8000'\n"
        "  2. Listen on another port\n"
        "     --port 8001\n"
        "  3. Wait until the old server is gone (kills the process that holds it)\n"
        "     fuser -k 8000/tcp\n"
        "\n"
    )
    assert "in start" not in finding_block(KV_FINDING, 80, color=False)


@UNHURRIED
@given(st.text(alphabet=st.characters(), max_size=40), st.integers(0, 210))
@example(ATTACK, 40)
def test_no_text_breaks_the_display(text: str, width: int) -> None:
    gpu = replace(
        SERVING.gpus[0], throttle=(text,), processes=(Process(1, 2, text),), unavailable=(Unavailable(text, text),)
    )
    lines = status_line(replace(SERVING, path=text, gpus=(gpu,)), width, color=False)
    lines += status_line(StatusModel(text, unavailable=(Unavailable(text, text),)), width, color=False)
    block = finding_block(hostile(text).findings[0], width, color=False)
    assert not {c for c in "".join(lines) + block if unicodedata.category(c) in {"Cc", "Cf", "Cs"}} - {"\n"}
    limit = max(40, min(width, 200))
    assert [line for line in (*lines, *block.splitlines()) if cell_len(line) > limit] == []
    assert len(lines) == 4
    assert not re.search(r"(?m)##\w*\[|^\s*::\w", "\n".join(lines) + block)

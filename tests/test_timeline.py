"""The log's own time series: phases of starts against tables made by hand, statistics of every age, the page in a parser."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest

from vlogdiag.diagnosis.statistics import parse_statistics
from vlogdiag.loading import load
from vlogdiag.model import Report, RuleCount
from vlogdiag.report.html import render as page
from vlogdiag.report.timeline import render
from vlogdiag.timeline import read_timeline, remarks, write_csv

RULES = load()


def timeline(text: str, path: str = "vllm.log"):
    return read_timeline(path, [text.encode()], RULES)


V1 = "(APIServer pid=1) INFO 11-30 {t} [loggers.py:127] Engine 000: Avg prompt throughput: {p} tokens/s, Avg generation throughput: {g} tokens/s, Running: {r} reqs, Waiting: {w} reqs, {x}GPU KV cache usage: {k}%, Prefix cache hit rate: {h}%\n"


def stats(
    t: str, r: int = 1, w: int = 0, k: float = 10.0, g: float = 50.0, p: float = 10.0, x: str = "", h: float = 0.0
) -> str:
    return V1.format(t=t, r=r, w=w, k=k, g=g, p=p, x=x, h=h)


GPU_V1 = """\
(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1839] vLLM API server version 0.11.0
(EngineCore_DP0 pid=9) INFO 11-30 10:00:12 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m'
(EngineCore_DP0 pid=9) INFO 11-30 10:00:20 [gpu_model_runner.py:2602] Starting to load model m...
(EngineCore_DP0 pid=9) INFO 11-30 10:01:50 [gpu_model_runner.py:2653] Model loading took 15.27 GiB and 88.1 seconds
(EngineCore_DP0 pid=9) INFO 11-30 10:02:35 [gpu_worker.py:298] Available KV cache memory: 4.10 GiB
(EngineCore_DP0 pid=9) Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/67 [00:00<?, ?it/s]
(EngineCore_DP0 pid=9) INFO 11-30 10:02:58 [gpu_model_runner.py:3480] Graph capturing finished in 21 secs, took 0.61 GiB
(APIServer pid=1) INFO 11-30 10:03:05 [api_server.py:1912] Starting vLLM API server 0 on http://0.0.0.0:8000
(APIServer pid=1) INFO:     Application startup complete.
"""
GPU_V0 = """\
INFO 03-12 02:58:20 api_server.py:528] vLLM API server version 0.7.3
INFO 03-12 02:58:27 model_runner.py:1110] Starting to load model m...
INFO 03-12 02:58:35 model_runner.py:1115] Loading model weights took 14.9000 GB
INFO 03-12 02:58:42 model_runner.py:1434] Capturing cudagraphs for decoding. This may lead to unexpected consequences if the model is not static.
INFO 03-12 02:59:06 launcher.py:19] Available routes are:
INFO:     Started server process [1]
"""
CPU = """\
(APIServer pid=1) INFO 11-30 23:52:25 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0
(Worker pid=3) INFO 11-30 23:53:16 [cpu_model_runner.py:68] Starting to load model m...
(Worker pid=3) INFO 11-30 23:53:18 [cpu_model_runner.py:87] Warming up model for the compilation...
(Worker pid=3) INFO 11-30 23:53:41 [cpu_model_runner.py:91] Warming up done.
(APIServer pid=1) INFO 11-30 23:53:43 [launcher.py:47] Route: /health, Methods: GET
INFO:     Application startup complete.
"""
EAGER = """\
(APIServer pid=1) INFO 12-01 00:47:56 [api_server.py:1839] vLLM API server version 0.18.0
(EngineCore pid=2) INFO 12-01 00:48:42 [gpu_model_runner.py:4021] Starting to load model m...
(EngineCore pid=2) INFO 12-01 00:48:52 [gpu_model_runner.py:4100] Model loading took 14.6 GiB memory and 9.5 seconds
(EngineCore pid=2) INFO 12-01 00:49:00 [core.py:402] init engine (profile, create kv cache, warmup model) took 7.91 seconds
INFO:     Application startup complete.
"""
STUCK = """\
(APIServer pid=1) INFO 12-01 00:47:56 [api_server.py:1839] vLLM API server version 0.11.0
(EngineCore_DP0 pid=2) INFO 12-01 00:48:06 [gpu_model_runner.py:2602] Starting to load model m...
(EngineCore_DP0 pid=2) Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:03<00:09,  3.04s/it]
"""
C, L, P, G = "configure", "load", "compile and profile", "capture graphs"
TABLE = [
    (GPU_V1, [(C, 20), (L, 90), (P, 45), (G, 30)], 185),
    (GPU_V0, [(C, 7), (L, 8), (P, 7), (G, 24)], 46),
    (CPU, [(C, 51), (L, 2), (P, 25)], 78),
    (EAGER, [(C, 46), (L, 10), (P, 8)], 64),
    (STUCK, [(C, 10), (L, None)], None),
]


@pytest.mark.parametrize(("log", "steps", "ready"), TABLE, ids=["gpu-v1", "gpu-v0", "cpu", "eager", "stuck"])
def test_phases_of_a_start_are_those_of_the_hand_made_table(log: str, steps: list, ready: float | None) -> None:
    start = timeline(log).starts[0]
    assert [(s.name, None if s.seconds is None else round(s.seconds)) for s in start.stages] == steps
    assert (None if start.ready is None else round(start.ready)) == ready


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Avg prompt throughput: 1204.6 tokens/s, Avg generation throughput: 311.0 tokens/s, Running: 41 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 31.2%, CPU KV cache usage: 0.0%",
            (None, 1204.6, 311.0, 41, 3, 0.312, None, None),
        ),
        (
            "Engine 001: Avg prompt throughput: 0.4 tokens/s, Avg generation throughput: 1.4 tokens/s, Running: 2 reqs, Waiting: 7 reqs, Deferred: 1 reqs, Preemptions: 12, GPU KV cache usage: 99.5%, Prefix cache hit rate: 45.0%, External prefix cache hit rate: 9.0%, MM cache hit rate: 20.0%",
            (1, 0.4, 1.4, 2, 7, 0.995, 12, 0.45),
        ),
        (
            "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs GPU KV cache usage: 4.0%.",
            (None, 1.0, 2.0, 1, 0, 0.04, None, None),
        ),
        (
            "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, CPU KV cache usage: 4.0%",
            (0, 1.0, 2.0, 1, 0, 0.04, None, None),
        ),
    ],
)
def test_statistics_of_every_age_are_read(line: str, expected: tuple) -> None:
    s = parse_statistics(line)
    assert (
        s.engine,
        s.prompt,
        s.generation,
        s.running,
        s.waiting,
        s.kv_usage and pytest.approx(s.kv_usage),
        s.preemptions,
        s.prefix_hits,
    ) == expected


PRESSURE = GPU_V1 + "".join(
    [stats("10:10:00", k=50.0)]
    + [stats(f"10:{minute}:00", r=90, k=96.5) for minute in range(12, 30)]
    + [
        stats("10:30:00", r=90, w=14, k=99.9, x="Preemptions: 7, "),
        stats("10:31:00", r=80, w=3, k=99.0, x="Preemptions: 5, "),
    ]
)


def test_how_long_the_cache_was_full_before_the_first_preemption_is_said() -> None:
    said = remarks(timeline(PRESSURE))
    assert "start 1: KV cache above 95% for 18 min before the first preemption (at 11-30 10:30:00)" in said
    assert "start 1: 12 preemptions in the statistics lines" in said
    assert "start 1: up to 14 requests waited (at 11-30 10:30:00)" in said


def test_starts_are_compared_when_one_is_much_slower() -> None:
    slow = (
        GPU_V1.replace("10:00:", "11:00:")
        .replace("10:01:", "11:21:")
        .replace("10:02:", "11:22:")
        .replace("10:03:", "11:23:")
    )
    said = remarks(timeline(GPU_V1 + slow))
    assert "start 2 took 23 min, start 1 3 min" in said


def test_every_statistics_line_is_a_row_of_the_csv() -> None:
    out = io.StringIO()
    write_csv([timeline(PRESSURE)], out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert len(rows) == 21
    assert rows[-1]["preemptions"] == "5" and rows[-1]["waiting"] == "3" and rows[0]["time"] == "11-30 10:10:00"


def test_text_fits_its_width_and_needs_no_unicode() -> None:
    text = render(timeline(PRESSURE), width=60, unicode=False)
    assert text.isascii() and all(len(line) <= 60 for line in text.splitlines())
    assert "start 1: configure 20 s, load 90 s" in text


def test_a_log_without_statistics_says_so() -> None:
    assert "no statistics lines and no start in this log" in render(timeline("hello\n"), width=80)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


HOSTILE = PRESSURE + (
    "(EngineCore_DP0 pid=9) ERROR 11-30 10:31:30 [core.py:710] EngineCore encountered a fatal error.\n"
    "(EngineCore_DP0 pid=9) ERROR 11-30 10:31:30 [core.py:710] Traceback (most recent call last):\n"
    "(EngineCore_DP0 pid=9) ERROR 11-30 10:31:30 [core.py:710] SomeError: <script>alert(1)</script> </pre><img src=x onerror=y>\n"
)


def test_the_page_stands_alone_and_log_text_is_text() -> None:
    line = timeline(HOSTILE, "<b>.log")
    assert line.result is not None
    text = page(Report("0.1.0", RuleCount(1, 0, "x"), (line.result.summary,), line.result.findings), [line])
    seen = Page()
    seen.feed(text)
    assert not {"script", "img", "link", "iframe", "b"} & set(seen.tags)
    assert not [v for k, v in seen.attributes if k in ("src", "href") or k.startswith("on")]
    assert "&lt;script&gt;alert(1)" in text and "https:" not in text.split("</style>")[0]
    assert seen.tags.count("svg") >= 4 and "stroke-dasharray" in text  # plots, with the finding marked

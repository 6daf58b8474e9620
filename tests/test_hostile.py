"""Input that is odd, huge or meant to hurt: each hazard is a test; nothing is lost silently, memory does not follow."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from vlogdiag.loading import load
from vlogdiag.pipeline import Pipeline, prefilter_of
from vlogdiag.scan import scan_paths

RULES = load()
START = "(APIServer pid=7) INFO 11-30 11:59:00 [api_server.py:1839] vLLM API server version 0.11.0\n"
CORE = "(EngineCore_DP0 pid=229) ERROR 11-30 12:00:00 [core.py:700] "
FAILURE = (
    f"{CORE}EngineCore failed to start.\n{CORE}Traceback (most recent call last):\n"
    f"{CORE}ValueError: To serve at least one request with the models's max seq len (131072), (18.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.83 GiB). Based on the available memory, the estimated maximum model "
    "length is 71568. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
)
LOG = START + FAILURE
HEALTHY = '(APIServer pid=7) INFO:     10.0.0.1:4711 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def ids(data: bytes, *, fast: bool = True) -> list[tuple[str, int | None]]:
    pipeline = Pipeline(RULES, source="x", prefilter=prefilter_of(RULES) if fast else None)
    pipeline.feed(data)
    return [(f.id, f.first.line) for f in pipeline.close().findings]


def scan(path: Path) -> tuple[list[str], tuple[str, ...], object]:
    done = scan_paths([str(path)], RULES)
    return [f.id for f in done.report.findings], done.report.notices, done


def test_one_endless_line_is_cut_counted_and_said(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    picture = "A" * 20_000_000
    path.write_text(
        START
        + f"(APIServer pid=7) INFO 11-30 11:59:30 [logger.py:43] Received request cmpl-1: prompt: 'data:image/png;base64,{picture}', params: SamplingParams(n=1)\n"
        + FAILURE
    )
    found, notices, done = scan(path)
    assert found == ["kv-cache-too-small"]
    assert any("1 lines longer than 1 MiB were cut" in text for text in notices)
    source = done.report.sources[0]  # type: ignore[attr-defined]
    assert source.omitted.lines == 1 and source.omitted.bytes > 18_000_000
    assert source.bytes == path.stat().st_size and source.lines == 5


def test_an_endless_line_fed_in_small_pieces_gives_the_same() -> None:
    data = (START + "x" * 3_000_000 + "\n" + FAILURE).encode()
    whole, pieces = Pipeline(RULES, source="x"), Pipeline(RULES, source="x")
    whole.feed(data)
    for start in range(0, len(data), 65_536):
        pieces.feed(data[start : start + 65_536])
    one, other = whole.close(), pieces.close()
    assert one.findings == other.findings and one.summary == other.summary


def test_many_distinct_errors_are_bounded_and_counted() -> None:
    words = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")

    def name(number: int) -> str:
        return "".join(words[int(digit)].title() for digit in str(number))

    pipeline = Pipeline(RULES, source="x", prefilter=prefilter_of(RULES))
    for block in range(20):
        lines = [
            f"(APIServer pid=7) ERROR 11-30 12:{block:02d}:{n % 60:02d} [x.py:{n}] {name(block * 1000 + n)}Error: broken\n"
            for n in range(1000)
        ]
        pipeline.feed("".join(lines).encode())
    result = pipeline.close()
    assert len(result.unexplained) == 50
    assert any("distinct unexplained errors, 50 are listed" in text for text in result.notices)
    counted = next(text for text in result.notices if "distinct unexplained" in text)
    assert "18000 more were only counted" in counted


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=7) INFO 11-30 11:59:01 [utils.py:233] non-default args: {'model': " + "[" * 100_000 + "\n",
        "(APIServer pid=7) INFO 11-30 11:59:01 [utils.py:233] args: Namespace(model=" + "(" * 100_000 + "\n",
        "(EngineCore pid=7) INFO 11-30 11:59:01 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='"
        + "m" * 100_000
        + "\n",
        '{"log": "' + "[" * 100_000 + '", "stream": "stdout", "time": "2025-11-18T13:41:02Z"}\n',
        '{"a":' * 20_000 + "1" + "}" * 20_000 + "\n",
        "{" * 100_000 + "\n",
        "$ vllm serve m --x '" + "'\"" * 50_000 + "\n",
        "vllm: error: unrecognized arguments: " + "--a " * 30_000 + "\n",
        "(((((" * 20_000 + "\n",
        "[rank0]: " * 20_000 + "\n",
        "\x1b[" * 50_000 + "m\n",
        "\r" * 100_000 + "\n",
    ],
    ids=[
        "dict",
        "namespace",
        "config",
        "docker",
        "json",
        "braces",
        "shell",
        "unrecognized",
        "parens",
        "ranks",
        "escapes",
        "returns",
    ],
)
def test_nesting_and_repetition_take_no_time_and_hide_nothing(line: str) -> None:
    began = time.process_time()
    pipeline = Pipeline(RULES, source="x", prefilter=prefilter_of(RULES))
    pipeline.feed((START + line + FAILURE).encode())
    findings = pipeline.close().findings
    # `unrecognized arguments` is a cause of its own, and what comes after it in one start then follows from it.
    heard = {name for f in findings for name in (f.id, *(c.id for c in f.consequences))}
    assert "kv-cache-too-small" in heard
    assert time.process_time() - began < 20  # a hang would be hours; the machine may be slow


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory. Tried to allocate " + "1" * 60_000 + " GiB",
        "max seq len (" + "1," * 20_000 + "), (",
        "GPU 0 has a total capacity of " + "9.9 " * 15_000,
        "Process " + "1 has " * 10_000 + "GiB memory in use",
        "Watchdog caught collective operation timeout: WorkNCCL(" + "SeqNum=1, " * 6_000,
        "Traceback (most recent call last):" + " " * 60_000 + "x",
        " ".join(["error while attempting to bind on address"] * 1_500),
        "ModuleNotFoundError: No module named '" + "a" * 60_000,
    ],
)
def test_text_built_to_make_patterns_explode_is_searched_in_time(text: str) -> None:
    began = time.process_time()
    ids((START + CORE + text + "\n").encode())
    assert time.process_time() - began < 20


def test_broken_utf8_nul_bytes_and_carriage_returns_are_read() -> None:
    data = START.encode() + b"\xff\xfe\x00\x80garbage\x00\n" + FAILURE.replace("\n", "\r\n").encode()
    assert ids(data) == [("kv-cache-too-small", 5)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_powershell_redirect_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "vllm.log"
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    path.write_bytes(mark + LOG.replace("\n", "\r\n").encode(encoding))
    assert scan(path)[0] == ["kv-cache-too-small"]


def test_compressed_logs_are_read_and_broken_ones_as_far_as_they_go(tmp_path: Path) -> None:
    for name, data in (("a.log.gz", gzip.compress(LOG.encode())), ("b.log.zst", zstandard.compress(LOG.encode()))):
        (tmp_path / name).write_bytes(data)
        assert scan(tmp_path / name)[0] == ["kv-cache-too-small"]
    broken = gzip.compress((LOG + HEALTHY * 5_000).encode())
    (tmp_path / "c.log.gz").write_bytes(broken[: len(broken) - 20])
    found, _, done = scan(tmp_path / "c.log.gz")
    assert found == ["kv-cache-too-small"] and done.problems  # type: ignore[attr-defined]


def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("w") as out:
            out.write(LOG)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert scan(path)[0] == ["kv-cache-too-small"]
    writer.join(5)


def test_a_newest_first_export_is_turned_round_and_keeps_the_files_line_numbers(tmp_path: Path) -> None:
    lines = [f"(APIServer pid=7) INFO 11-30 11:{n // 60:02d}:{n % 60:02d} [x.py:1] step {n}\n" for n in range(300)]
    path = tmp_path / "export.log"
    path.write_text("".join(reversed([*lines, *LOG.splitlines(keepends=True)])))
    done = scan_paths([str(path)], RULES)
    (finding,) = done.report.findings
    text = path.read_text().splitlines()
    assert finding.first.line is not None and "max seq len (131072)" in text[finding.first.line - 1]


PIECES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(
        [
            START.encode(),
            FAILURE.encode(),
            HEALTHY.encode(),
            CORE.encode(),
            b"\r",
            b"\n",
            b"\x1b[1;36m",
            b"{",
            b'{"log": "',
        ]
    ),
    st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(sorted({p.gate for s in RULES.book.signatures for p in s.patterns})).map(
        lambda gate: CORE.encode() + gate.encode() + b"\n"
    ),
)


@settings(max_examples=120, deadline=None)
@given(st.lists(PIECES, max_size=40).map(b"".join), st.integers(1, 300))
def test_whatever_the_bytes_nothing_raises_and_cuts_do_not_matter(data: bytes, step: int) -> None:
    whole, pieces = Pipeline(RULES, source="x"), Pipeline(RULES, source="x")
    whole.feed(data)
    for start in range(0, len(data), step):
        pieces.feed(data[start : start + step])
    assert whole.close() == pieces.close()


def peak(words: list[str]) -> int:
    """Most bytes in memory; through a small process, for a child inherits the peak of the one that starts it."""
    between = "import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=-3, stderr=-3); "
    between += "print(os.wait4(p.pid, 0)[2].ru_maxrss)"
    done = subprocess.run([sys.executable, "-I", "-c", between, *words], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


@pytest.mark.long
def test_memory_stays_under_100_mb_for_one_line_of_200_mb_and_a_million_errors(tmp_path: Path) -> None:
    line = tmp_path / "line.log"
    with line.open("w") as out:
        out.write(START)
        for _ in range(200):
            out.write("A" * 1_000_000)
        out.write("\n" + FAILURE)
    errors = tmp_path / "errors.log"
    with errors.open("w") as out:
        out.write(START)
        for n in range(1_000_000):
            word = "".join(chr(97 + int(d)) for d in str(n))
            out.write(
                f"(APIServer pid=7) ERROR 11-30 12:00:{n % 60:02d} [x.py:{n % 5000}] {word.title()}Error: broken {word}\n"
            )
    for path in (line, errors):
        assert peak([sys.executable, "-m", "vlogdiag", "scan", "--json", str(path)]) < 100_000_000


@pytest.mark.long
def test_a_coverage_guided_fuzzer_finds_nothing(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="pip install atheris")
    target = Path(__file__).parent / "fuzz_pipeline.py"
    done = subprocess.run(
        [sys.executable, str(target), "-max_total_time=300", f"-artifact_prefix={tmp_path}/"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]

"""`compare`: causes gone and new, figures side by side, the verdict and its status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vlogdiag.cli import application

HEAD = """\
(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=1) INFO 11-30 10:00:01 [utils.py:233] non-default args: {{'model': 'm', 'max_model_len': {length}}}
(EngineCore_DP0 pid=9) INFO 11-30 10:00:20 [gpu_model_runner.py:2602] Starting to load model m...
(EngineCore_DP0 pid=9) INFO 11-30 10:01:{load:02d} [gpu_model_runner.py:2653] Model loading took 15.27 GiB and 40.1 seconds
"""
SERVES = """\
(EngineCore_DP0 pid=9) INFO 11-30 10:02:00 [kv_cache_utils.py:1087] GPU KV cache size: {tokens} tokens
(APIServer pid=1) INFO 11-30 10:02:05 [api_server.py:1912] Starting vLLM API server 0 on http://0.0.0.0:8000
(APIServer pid=1) INFO:     Application startup complete.
(APIServer pid=1) INFO 11-30 10:03:00 [loggers.py:127] Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 90.0 tokens/s, Running: 4 reqs, Waiting: 0 reqs, {x}GPU KV cache usage: 40.0%, Prefix cache hit rate: 0.0%
(APIServer pid=1) INFO:     10.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK
"""
FAILS = """\
(EngineCore_DP0 pid=9) ERROR 11-30 10:02:00 [core.py:708] EngineCore failed to start.
(EngineCore_DP0 pid=9) ERROR 11-30 10:02:00 [core.py:708] Traceback (most recent call last):
(EngineCore_DP0 pid=9) ERROR 11-30 10:02:00 [core.py:708] ValueError: To serve at least one request with the models's max seq len (131072), (18.00 GiB KV cache is needed, which is larger than the available KV cache memory (4.00 GiB). Based on the available memory, the estimated maximum model length is 29120. Try increasing `gpu_memory_utilization`
"""


def log(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(application(), ["compare", *words])
    return result.exit_code, result.stdout


def failing(tmp_path: Path) -> str:
    return log(tmp_path, "before.log", HEAD.format(length=131072, load=5) + FAILS)


def test_a_mended_start_is_better(tmp_path: Path) -> None:
    after = log(tmp_path, "after.log", HEAD.format(length=29120, load=6) + SERVES.format(tokens="29,136", x=""))
    status, text = run(failing(tmp_path), after)
    assert status == 0 and text.startswith("better (gone: kv-cache-too-small)")
    assert "context length" in text and "29120" in text


def test_the_same_failure_again_is_not(tmp_path: Path) -> None:
    before = failing(tmp_path)
    status, text = run(before, before)
    assert status == 1 and "still there: kv-cache-too-small" in text


def test_another_failure_is_new(tmp_path: Path) -> None:
    fine = log(tmp_path, "fine.log", HEAD.format(length=8192, load=5) + SERVES.format(tokens="40,000", x=""))
    status, text = run(fine, failing(tmp_path))
    assert status == 1 and "new: kv-cache-too-small" in text


def test_two_runs_of_one_set_up_are_as_good(tmp_path: Path) -> None:
    one = log(tmp_path, "1.log", HEAD.format(length=8192, load=5) + SERVES.format(tokens="40,000", x=""))
    two = log(tmp_path, "2.log", HEAD.format(length=8192, load=9) + SERVES.format(tokens="40,512", x=""))
    status, text = run(one, two)
    assert (status, text.splitlines()[0]) == (0, "as good as before")


def test_fewer_kv_tokens_with_the_same_context_are_worse(tmp_path: Path) -> None:
    one = log(tmp_path, "1.log", HEAD.format(length=8192, load=5) + SERVES.format(tokens="40,000", x=""))
    two = log(tmp_path, "2.log", HEAD.format(length=8192, load=5) + SERVES.format(tokens="20,000", x=""))
    status, text = run(one, two, "--json")
    data = json.loads(text)
    assert status == 1 and data["ok"] is False and "KV cache tokens" in data["verdict"]


@pytest.mark.parametrize("text", [None, "", "hello\nworld\n"])
def test_what_is_no_log_of_vllm_is_said(tmp_path: Path, text: str | None) -> None:
    other = str(tmp_path / "missing.log") if text is None else log(tmp_path, "other.log", text)
    assert run(failing(tmp_path), other)[0] == 3


def test_each_side_is_one_log(tmp_path: Path) -> None:
    before = failing(tmp_path)
    log(tmp_path, "other.log", HEAD.format(length=8192, load=5))
    assert run(str(tmp_path), before)[0] == 2
    assert run("", before)[0] == 3
    assert run("-", "-")[0] == 2

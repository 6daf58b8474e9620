"""A snapshot of a real vLLM server (CPU build, a model of random weights)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import catalog_truth

from vlogdiag.cli_snapshot import _diagnose, _render_text
from vlogdiag.snapshot.assemble import Snapshot, about, entries
from vlogdiag.snapshot.page import render_page
from vlogdiag.snapshot.take import Wanted, take_snapshot

pytestmark = [pytest.mark.network, pytest.mark.long]

RELEASE = "0.32.0"
KEY = "s3cretRealServerKey77"
PROMPT = "w5 w6 privatequestion"
READY_SECONDS = 600


def write_model(folder: Path) -> Path:
    """A Llama of two layers; its weights are never read (`--load-format dummy`)."""
    folder.mkdir()
    vocabulary = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(253))]
    special = [
        {
            "id": at,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for at, word in enumerate(vocabulary[:3])
    ]
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 256,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
        "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None, "post_processor": None,
        "decoder": None, "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {word: at for at, word in enumerate(vocabulary)}},
    }  # fmt: skip
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
    }  # fmt: skip
    for name, data in {"config.json": config, "tokenizer.json": tokenizer, "tokenizer_config.json": settings}.items():
        (folder / name).write_text(json.dumps(data))
    return folder


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Snapshot, int, int]]:
    """The snapshot, the server's process and its port."""
    folder = tmp_path_factory.mktemp("real")
    given = os.environ.get("VLOGDIAG_REAL_VLLM")  # an environment that `catalog_truth.install` made before
    python = catalog_truth.install(RELEASE, Path(given) if given else folder / "venv")
    model = write_model(folder / "tiny-llama")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "DEBUG",
    }  # fmt: skip
    words = [
        "--model",
        str(model),
        "--load-format",
        "dummy",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--max-model-len",
        "256",
    ]
    words += ["--enforce-eager", "--dtype", "float32", "--enable-log-requests", "--api-key", KEY]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [python, "-m", "vllm.entrypoints.openai.api_server", *words],
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
        )
    try:
        wait_until_ready(process, port)
        ask(port)
        snapshot = take_snapshot(
            Wanted(pid=process.pid),
            diagnose=_diagnose,
            render_text=_render_text,
            environment=dict(os.environ),
            created="t",
        )
        yield snapshot, process.pid, port
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    pytest.fail("the server did not get ready")


def ask(port: int) -> None:
    body = json.dumps({"model": "x", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 5})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30):
        pass
    for model in served_models(port):
        data = json.dumps({**json.loads(body), "model": model}).encode()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", data, headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert answer.status == 200


def served_models(port: int) -> list[str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [model["id"] for model in json.load(answer)["data"]]


def test_the_servers_own_words_are_collected(taken: tuple[Snapshot, int, int]) -> None:
    snapshot, pid, port = taken
    launch = snapshot.data("launch")
    assert f"--port {port} --max-model-len 256 --enforce-eager" in launch["command"]
    assert launch["command"].endswith("--api-key <token-1>")
    assert launch["environment"]["VLLM_CPU_KVCACHE_SPACE"] == "1"
    titles = [process["title"] for process in launch["processes"]]
    assert any(title.startswith("VLLM::EngineCore") for title in titles)
    assert snapshot.data("server")["version"].startswith(RELEASE)
    assert snapshot.data("server")["health_status"] == 200
    assert {"pid": pid, "address": "127.0.0.1", "port": port} in snapshot.data("network")["listening"]
    assert snapshot.data("gpu")["reading"]["metrics"]["requests_finished"] == 1


def test_versions_come_from_the_servers_python(taken: tuple[Snapshot, int, int]) -> None:
    packages = taken[0].data("versions")["packages"]
    assert f"vllm=={RELEASE}+cpu" in packages
    assert any(package.startswith("torch==") for package in packages)
    assert taken[0].data("model_folder")["config"]["architectures"] == ["LlamaForCausalLM"]


def test_the_log_is_healthy_and_the_secrets_are_gone(taken: tuple[Snapshot, int, int]) -> None:
    snapshot, _, _ = taken
    assert snapshot.alive
    assert snapshot.report is not None
    assert snapshot.report.findings == ()
    files = {entry.name: entry.data.decode() for entry in entries(snapshot, render_page(snapshot))}
    whole = "\n".join(files.values()) + json.dumps(about(snapshot))
    assert KEY not in whole
    assert "privatequestion" not in whole
    assert snapshot.redacted.get("prompt", 0) >= 1
    assert "--max-model-len 256" in files["page.md"]

"""A stand-in for a running vLLM: its argv, environment, child process, log, port, `/health`, `/version`, `/metrics`."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KEY = "s3cretServerKey42"
HF_TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.5
"""

# The file is called `vllm`, so that the process's argv reads as a server's does: python …/vllm serve MODEL …
SCRIPT = """
import http.server, os, subprocess, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
METRICS = {metrics!r}
pid = os.getpid()
print(f"(APIServer pid={{pid}}) INFO 12-01 10:00:00 [api_server.py:1839] vLLM API server version 0.11.0")
print(f"(APIServer pid={{pid}}) INFO 12-01 10:00:00 [utils.py:233] non-default args: {{{{'model': 'org/tiny', 'port': {{port}}, 'api_key': ['{key}']}}}}")
print(f"(APIServer pid={{pid}}) INFO 12-01 10:00:02 [logger.py:39] Received request c-1: prompt: 'my private question', params: SamplingParams(n=1), lora_request: None.")
print(f"(EngineCore_DP0 pid=9) ERROR 12-01 10:00:03 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.02 GiB is free.", flush=True)
child = subprocess.Popen(["VLLM::EngineCore", "-c", "import sys; sys.stdin.read()"], executable=sys.executable, stdin=subprocess.PIPE)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = {{"/health": b"", "/version": b'{{"version": "0.11.0"}}', "/metrics": METRICS.encode()}}.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
print("ready", file=sys.stderr, flush=True)
server.serve_forever()
"""


@dataclass(frozen=True)
class StandIn:
    """A stand-in that runs."""

    pid: int
    port: int
    log: Path
    folder: Path


@contextlib.contextmanager
def running(folder: Path, **environment: str) -> Iterator[StandIn]:
    """Start one, wait until it answers, end it afterwards."""
    script = folder / "vllm"
    script.write_text(SCRIPT.format(metrics=METRICS, key=KEY))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "server.log"
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "VLLM_API_KEY": KEY,
        "HF_TOKEN": HF_TOKEN,
        "NCCL_DEBUG": "INFO",
        "CUDA_VISIBLE_DEVICES": "0",
        "MY_DATABASE": "postgres://somebody:pa55w0rdX@db.internal/x",
        **environment,
    }
    argv = [
        sys.executable,
        str(script),
        "serve",
        "org/tiny",
        "--port",
        str(port),
        "--api-key",
        KEY,
        "--max-num-batched-tokens",
        "8192",
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.PIPE, env=variables, cwd=folder)
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == b"ready\n", process.stderr.read()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            assert answer.status == 200
        yield StandIn(process.pid, port, log, folder)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()

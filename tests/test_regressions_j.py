"""Logs whose cause lies beside vLLM: the other half of a pair of servers, the proxy in front, the orchestrator, Ray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from regression_logs import TYPED, report

SERVING = "(APIServer pid=1) INFO:     Started server process [1]\n(APIServer pid=1) INFO:     Application startup complete.\n"
ANSWERED = '(APIServer pid=1) INFO:     127.0.0.1:46068 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def engine(version: str, tensor: int = 1, pipeline: int = 1) -> str:
    """The engine's own line."""
    return (
        f"(EngineCore_DP0 pid=90) INFO 11-02 10:00:00 [core.py:93] Initializing a V1 LLM engine (v{version}) with config: "
        f"model='m', tensor_parallel_size={tensor}, pipeline_parallel_size={pipeline}, data_parallel_size=1\n"
    )


def lead(log: str, folder: Path) -> dict[str, Any]:
    """The finding that leads; an empty one where nothing is said."""
    findings = report(log, folder)["findings"]
    return findings[0] if findings else {"id": None, "fixes": [], "severity": None}


def told(finding: dict[str, Any]) -> str:
    return json.dumps([[fix["title"], *(fix[key] for key in TYPED)] for fix in finding["fixes"]])


def failure(kind: str, error: str, *, version: str = "0.22.0", more: str = "") -> str:
    """What NixlConnector logs of a failed transfer or handshake, and of the request."""
    head = "(Worker_TP0 pid=304) ERROR 11-02 10:22:21 [worker.py:767] "
    context = (
        f"{{'failure_type': '{kind}', 'request_id': 'cmpl-5', 'engine_id': 'a31d', 'remote_engine_id': '7b9e'{more}}}"
    )
    return (
        engine(version, tensor=4)
        + SERVING
        + f"{head}NIXL transfer failure: {kind} | Context: {context}\n"
        + f"{head}Traceback (most recent call last):\n{head}{error}\n"
        + "(EngineCore_DP0 pid=90) ERROR 11-02 10:22:21 [scheduler.py:2301] Failing 1 request(s) due to KV load failure "
        + "(failure_policy=fail, 2048 tokens affected). Request IDs: {'cmpl-5'}\n"
    )


@pytest.mark.parametrize(
    "error",
    [
        "AssertionError: Local tensor parallel size 4 is not divisible by remote tensor parallel size 3.",
        "AssertionError: KV cache sizes must match between P and D when replicated",
        "RuntimeError: Heterogeneous TP expects same kv_cache_layout. Or enable experimental feature to use HND to NHD support",
        "AssertionError: All remote layers must have the same block size",
        "RuntimeError: NIXL KV-head re-sharding is not supported for NVFP4 KV cache (local TP 4, remote TP 2). "
        "Use matching TP sizes on prefill and decode.",
        "RuntimeError: Failed to decode NixlHandshakePayload. This likely indicates an incompatibility between connector version.",
    ],
)
def test_a_handshake_between_unlike_servers_is_not_put_down_to_a_missing_package(error: str, tmp_path: Path) -> None:
    found = lead(failure("handshake_failed", error), tmp_path)
    assert found["id"] == "kv-sides-differ"
    assert "pip install -U nixl" not in told(found)


def test_tensor_parallel_sizes_that_differ_are_named(tmp_path: Path) -> None:
    more = ", 'remote_host': '10.2.3.41', 'remote_port': 5600, 'remote_tp_size': 2"
    found = lead(failure("handshake_failed", "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND", more=more), tmp_path)
    assert found["id"] == "kv-sides-differ"
    assert "--tensor-parallel-size 2" in told(found)


def test_a_side_channel_on_localhost_is_still_told(tmp_path: Path) -> None:
    more = ", 'remote_request_id': 'c', 'remote_host': '127.0.0.1', 'remote_port': 5600"
    found = lead(failure("handshake_failed", "RuntimeError: timed out", more=more), tmp_path)
    assert found["id"] == "nixl-handshake-failed"
    assert "VLLM_NIXL_SIDE_CHANNEL_HOST" in told(found)


@pytest.mark.parametrize(
    "error", ["nixlRemoteDisconnectError: NIXL_ERR_REMOTE_DISCONNECT", "nixlNotFoundError: NIXL_ERR_NOT_FOUND"]
)
def test_a_transfer_that_fails_while_serving_is_a_transfer(error: str, tmp_path: Path) -> None:
    found = lead(failure("transfer_exception", f"nixl._bindings.{error}"), tmp_path)
    assert found["id"] == "kv-transfer-failed"


REMOTE_ACCESS = (
    "[1776877783.114902] [decode-0:221:0]    ib_mlx5_log.c:179  UCX  ERROR Remote access error on mlx5_0:1/IB (synd 0x13 vend 0x88 hw_synd 0/0)\n",
    "E1102 10:05:00.153188  4100 worker_pool.cpp:291] Worker: Process failed for slice (opcode: 0, source_addr: 0x7f20, length: 65536, "
    "dest_addr: 0x7f30, local_nic: mlx5_0, peer_nic: 10.0.0.4:15872@mlx5_0, dest_rkey: 2101, retry_cnt: 8): remote access error\n",
)


@pytest.mark.parametrize("error", REMOTE_ACCESS, ids=["NIXL", "Mooncake"])
@pytest.mark.parametrize(
    "set_by",
    [
        "+ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
        "PYTORCH_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True\n",
        '  - name: PYTORCH_CUDA_ALLOC_CONF\n    value: "expandable_segments:True"\n',
    ],
)
def test_refused_remote_reads_with_expandable_segments(error: str, set_by: str, tmp_path: Path) -> None:
    found = lead(set_by + engine("0.20.2", tensor=4) + SERVING + error, tmp_path)
    assert found["id"] == "kv-transfer-expandable-segments"
    assert found["fixes"][0]["env"] == {"PYTORCH_CUDA_ALLOC_CONF": "", "PYTORCH_ALLOC_CONF": ""}


@pytest.mark.parametrize("error", REMOTE_ACCESS, ids=["NIXL", "Mooncake"])
def test_refused_remote_reads_without_a_word_of_the_environment_ask(error: str, tmp_path: Path) -> None:
    found = lead(engine("0.20.2", tensor=4) + SERVING + error, tmp_path)
    assert found["id"] == "kv-remote-access-refused"
    assert "restarted" in told(found)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("E0605 05:17:0{} 440 tcp_transport.cpp:188] TcpTransport::getConnection failed to connect to 10.0.12.4:15300. "
         "Error: connect: Cannot assign requested address [system:99]", "mooncake_protocol"),
        ('[epp] E0605 05:17:0{}.208624       1 proxy.go:88] "failed" err="dial tcp 10.0.0.4:8000: connect: cannot assign requested address"',
         "ip_local_port_range"),
        ("2025/06/05 05:17:0{} [crit] 31#31: *7 connect() to 10.0.0.4:8000 failed (99: Address not available) while connecting to upstream, "
         'client: 10.0.0.11, server: _, request: "POST /v1/completions HTTP/1.1", host: "llm"', "keepalive"),
    ],
    ids=["Mooncake", "Go", "nginx"],
)  # fmt: skip
def test_connections_that_find_no_local_port(line: str, remedy: str, tmp_path: Path) -> None:
    log = (
        engine("0.21.0")
        + SERVING
        + ANSWERED
        + "".join(line.format(f"{second}.208624" if "E0605" in line else second) + "\n" for second in range(2, 6))
    )
    found = lead(log.replace(".208624.208624", ".208624"), tmp_path)
    assert found["id"] == "ephemeral-ports-exhausted"
    assert remedy in told(found)


@pytest.mark.parametrize(
    "line",
    [
        '[sidecar] E0409 08:04:27.407311       1 proxy_helpers.go:88] "http: proxy error" err="read tcp 127.0.0.1:48210->127.0.0.1:8200: read: connection reset by peer"',
        '[sidecar] E0409 08:04:27.407311       1 proxy_helpers.go:88] "http: proxy error" err="http: server closed idle connection"',
        '2025-10-09T12:01:12Z ERR  error="Unable to reach the origin service: read tcp 127.0.0.1:64057->127.0.0.1:8000: read: connection reset by peer"',
        'lb haproxy[2211]: 10.0.0.9:51022 [09/Oct/2025:12:01:12.101] llm vllm/pod1 0/0/0/-1/1 502 209 - - SH-- 12/12/4/2/0 0/0 "POST /v1/completions HTTP/1.1"',
        'http 2025-10-09T12:01:12.101Z app/llm/50dc 10.0.0.9:51022 10.0.1.7:8000 0.001 0.002 -1 502 - 812 272 "POST http://llm:80/v1/completions HTTP/1.1"',
        "reactor.netty.http.client.PrematureCloseException: Connection prematurely closed BEFORE response",
        "Error: socket hang up",
        "aiohttp.client_exceptions.ClientOSError: [Errno 104] Connection reset by peer",
    ],
)
def test_a_reused_connection_that_vllm_had_closed(line: str, tmp_path: Path) -> None:
    found = lead(engine("0.19.0") + SERVING + ANSWERED + line + "\n" + ANSWERED, tmp_path)
    assert found["id"] == "proxy-upstream-closed"
    assert found["fixes"][0]["env"] == {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "120"}


@pytest.mark.parametrize(
    "line",
    [
        '[sidecar] E0409 08:04:27.407311       1 server.go:88] "failed" err="read tcp 10.0.0.5:8080->10.0.0.9:53122: read: connection reset by peer"',
        'lb haproxy[2211]: 10.0.0.9:51022 [09/Oct/2025:12:01:12.101] llm vllm/pod1 0/0/0/12/15 200 209 - - ---- 12/12/4/2/0 0/0 "POST /v1/completions HTTP/1.1"',
        'http 2025-10-09T12:01:12.101Z app/llm/50dc 10.0.0.9:51022 10.0.1.7:8000 0.001 0.002 0.000 200 200 812 272 "POST http://llm:80/ HTTP/1.1"',
    ],
)
def test_connections_that_others_close_are_no_fault_of_the_keep_alive(line: str, tmp_path: Path) -> None:
    assert lead(engine("0.19.0") + SERVING + ANSWERED + line + "\n" + ANSWERED, tmp_path)["id"] is None


def store(rank: int, second: int, what: str, here: str, head: str) -> str:
    return (
        f"[rank{rank}]:[W112 00:47:{second:02}.100220084 TCPStore.cpp:106] [c10d] {what} failed on SocketImpl(fd=112, "
        f"addr=[{here}]:{58000 + rank}, remote=[{head}]:40297): Broken pipe\n"
    )


@pytest.mark.parametrize(
    ("here", "head"), [("vllm-dp-1.vllm", "vllm-dp-0.vllm"), ("::ffff:10.0.0.8", "::ffff:10.0.0.7"), ("gpu-2", "gpu-1")]
)
def test_a_headless_node_says_where_its_head_was(here: str, head: str, tmp_path: Path) -> None:
    lines = "".join(store(rank, second, "sendBytes", here, head) for second in range(1, 6) for rank in (8, 9))
    found = lead(engine("0.25.1") + lines, tmp_path)
    assert found["id"] == "head-node-gone"
    assert head in told(found)


def test_the_store_is_also_gone_where_a_server_is_stopped(tmp_path: Path) -> None:
    stop = "(APIServer pid=1) INFO 01-12 00:47:01 [launcher.py:254] [shutdown] API server: shutdown triggered\n(APIServer pid=1) INFO:     Shutting down\n"
    local = "".join(
        store(rank, second, "sendBytes", "localhost", "localhost") for second in range(2, 6) for rank in (0, 1)
    )
    assert lead(engine("0.21.0") + SERVING + ANSWERED + stop + local, tmp_path)["id"] is None


@pytest.mark.parametrize(
    "event",
    [
        "Warning  Evicted  2m  kubelet  Pod ephemeral local storage usage exceeds the total limit of containers 200Gi.",
        'Warning  Evicted  2m  kubelet  Container vllm exceeded its local ephemeral storage limit "200Gi".',
        'Warning  Evicted  2m  kubelet  Usage of EmptyDir volume "cache" exceeds the limit "200Gi".',
    ],
)
def test_an_eviction_for_disk_names_volumes_and_not_the_gpu(event: str, tmp_path: Path) -> None:
    found = lead(engine("0.11.2") + SERVING + ANSWERED + event + "\n", tmp_path)
    assert found["id"] == "pod-evicted-disk"
    assert "persistent volume" in told(found)


def test_what_lmcache_takes_is_counted_for_each_worker(tmp_path: Path) -> None:
    config = (
        "(Worker_TP0 pid=118) [2026-03-29 09:00:52,911] LMCache INFO: LMCache Configuration: {'chunk_size': 256, 'local_cpu': True, "
        "'max_local_cpu_size': '64.0 GB', 'local_disk': 'file:///cache', 'max_local_disk_size': '400.0 GB'} (config.py:812:lmcache.v1.config)\n"
    )
    log = engine("0.17.1", tensor=4) + config + SERVING
    disk = lead(
        log
        + "Warning  Evicted  kubelet  Pod ephemeral local storage usage exceeds the total limit of containers 500Gi.\n",
        tmp_path,
    )
    assert disk["id"] == "lmcache-disk-per-worker"
    assert disk["fixes"][0]["env"] == {"LMCACHE_MAX_LOCAL_DISK_SIZE": "100"}
    memory = lead(log + "    Last State:  Terminated\n      Reason:    OOMKilled\n      Exit Code: 137\n", tmp_path)
    assert memory["id"] == "lmcache-memory-per-worker"
    assert memory["fixes"][0]["env"] == {"LMCACHE_MAX_LOCAL_CPU_SIZE": "16"}


@pytest.mark.parametrize(
    ("version", "limit", "upgrade"), [("0.20.0", "", ">=0.23.0"), ("0.28.0", " within timeout=120 seconds", None)]
)
def test_a_late_coordinator_is_no_matter_of_addresses(
    version: str, limit: str, upgrade: str | None, tmp_path: Path
) -> None:
    log = (
        engine(version)
        + f"(APIServer pid=1) RuntimeError: DP Coordinator process failed to report ZMQ addresses{limit} during startup.\n"
    )
    found = lead(log, tmp_path)
    assert found["id"] == "dp-coordinator-late"
    assert found["fixes"][0]["upgrade"] == upgrade
    assert "VLLM_HOST_IP" not in told(found)


@pytest.mark.parametrize(
    ("tensor", "pipeline", "counted", "said"), [(1, 2, 1, True), (16, 1, 8, True), (8, 1, 8, False)]
)
def test_a_cluster_that_counts_too_few_gpus(
    tensor: int, pipeline: int, counted: int, said: bool, tmp_path: Path
) -> None:
    wait = (
        "(EngineCore_DP0 pid=90) INFO 11-02 10:03:00 [ray_utils.py:464] Waiting for creating a placement group of specs for 150 seconds. "
        "specs=[{'GPU': 1.0}]. Check `ray status` and `ray list nodes` to see if you have enough resources.\n"
    )
    status = f"Resources\n---------------\nTotal Usage:\n 0.0/64.0 CPU\n {float(0)}/{float(counted)} GPU\n 0B/80.44GiB memory\n"
    found = lead(engine("0.18.0", tensor, pipeline) + wait + status, tmp_path)
    assert (found["id"] == "ray-cluster-short-of-gpus") is said
    assert not said or "--num-gpus" in told(found)


def test_a_long_silent_load_that_ended_was_no_hang(tmp_path: Path) -> None:
    log = (
        engine("0.9.1", tensor=16)
        + "(RayWorkerWrapper pid=1187) INFO 11-02 10:01:20 [pynccl.py:70] vLLM is using nccl==2.26.2\n"
        + "(RayWorkerWrapper pid=1187) INFO 11-02 10:07:02 [gpu_model_runner.py:1624] Model loading took 43.0013 GiB and 331.402015 seconds\n"
        + SERVING
        + "eval.py: openai.APITimeoutError: Request timed out.\n"
    )
    assert lead(log, tmp_path)["id"] == "client-read-timeout"


def test_a_roll_out_that_lets_its_streams_end_is_quiet(tmp_path: Path) -> None:
    log = (
        engine("0.21.0", tensor=2)
        + SERVING
        + ANSWERED
        + "(APIServer pid=1) INFO 11-02 11:21:21 [launcher.py:254] [shutdown] API server: shutdown triggered\n"
        + "(APIServer pid=1) INFO:     Shutting down\n(APIServer pid=1) INFO:     Waiting for connections to close. (CTRL+C to force quit)\n"
        + "(APIServer pid=1) INFO:     Application shutdown complete.\n(APIServer pid=1) INFO:     Finished server process [1]\n"
    )
    assert not [f for f in report(log, tmp_path)["findings"] if f["severity"] in ("error", "warning")]

"""`/metrics` and `/health` over real HTTP: the names of every age, and servers that are slow, wrong or hostile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from vlogdiag.catalog import Versions, metric
from vlogdiag.live.fetch import FetchError, fetch
from vlogdiag.live.metrics import (
    MEANS,
    RATIOS,
    SUMS,
    MetricsUrlError,
    check_url,
    metrics_url,
    own_addresses,
    parse_metrics,
    sample_server,
)
from vlogdiag.model import ServerMetrics, Unavailable

DATA = Path(__file__).with_name("data") / "metrics"
SHORT = 0.2
"""Seconds that a test lets a hanging server hang."""

Respond = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def server(pages: dict[str, Respond]) -> Iterator[str]:
    """A real HTTP server on this machine; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                self.send_error(404)
            else:
                page(self)

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *arguments: object) -> None:
            pass  # the client hangs up on purpose

    running = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        running.server_close()


def says(body: str | bytes, status: int = 200, kind: str = "text/plain; version=0.0.4; charset=utf-8") -> Respond:
    data = body.encode() if isinstance(body, str) else body

    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return respond


def sends(location: str, status: int = 307) -> Respond:
    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Location", location)
        handler.end_headers()

    return respond


def hangs(handler: BaseHTTPRequestHandler) -> None:
    threading.Event().wait(5)


def drips_a_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(500):
        handler.wfile.write(b"v")
        threading.Event().wait(0.01)


def drips_a_header(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(500):
        handler.wfile.write(b"x")
        threading.Event().wait(0.01)


def sends_without_end(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(10_000):
        handler.wfile.write(b"vllm:num_requests_running 1.0\n" * 4096)


def healthy(text: str) -> dict[str, Respond]:
    return {"/metrics": says(text), "/health": says("")}


def recorded(name: str) -> str:
    return (DATA / f"vllm-{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "0.11.0",
            ServerMetrics(
                running=0,
                waiting=0,
                kv_usage=0,
                preemptions=0,
                generation_tokens=29012,
                prompt_tokens=24927,
                requests_finished=253,
                e2e_latency_mean=499.65944266319275 / 253,
                ttft_mean=14.552589654922485 / 253,
                queue_time_mean=0.005463882009280496 / 253,
                inter_token_latency_mean=485.3418221460033 / 28759,
                healthy=True,
            ),
        ),
        (
            "0.32.0",
            ServerMetrics(
                running=0,
                waiting=0,
                kv_usage=0,
                preemptions=0,
                generation_tokens=31892,
                prompt_tokens=27399,
                requests_finished=277,
                e2e_latency_mean=138.6656243801117 / 277,
                ttft_mean=14.791712760925293 / 277,
                queue_time_mean=0.006414388984012476 / 277,
                inter_token_latency_mean=124.35851490399 / 31615,
                healthy=True,
            ),
        ),
        (
            "0.32.0-kvpressure",
            ServerMetrics(
                running=0,
                waiting=0,
                kv_usage=0,
                preemptions=409,
                generation_tokens=144000,
                prompt_tokens=32480,
                requests_finished=160,
                e2e_latency_mean=4799.527147054672 / 160,
                ttft_mean=4255.785726547241 / 160,
                queue_time_mean=4248.893917963011 / 160,
                inter_token_latency_mean=543.7556167409994 / 143840,
                healthy=True,
            ),
        ),
    ],
)
def test_real_answers_are_read(name: str, expected: ServerMetrics) -> None:
    with server(healthy(recorded(name))) as address:
        assert sample_server(f"{address}/metrics") == expected


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("vllm:num_requests_running 3", "running", 3),
        (
            'vllm:num_requests_running{engine="0",model_name="m"} 3\nvllm:num_requests_running{engine="1"} 4',
            "running",
            7,
        ),
        ("vllm:gpu_cache_usage_perc 0.25", "kv_usage", 0.25),
        ("vllm:kv_cache_usage_perc 0.5\nvllm:gpu_cache_usage_perc 0.25", "kv_usage", 0.5),
        ('vllm:kv_cache_usage_perc{engine="0"} 1\nvllm:kv_cache_usage_perc{engine="1"} 0.5', "kv_usage", 0.75),
        ("vllm:num_preemptions_total 9", "preemptions", 9),
        ("vllm:num_preemptions 9", "preemptions", 9),
        ('vllm:num_requests_waiting_by_reason{reason="capacity"} 2', "waiting", 2),
        ('vllm:num_requests_waiting 5\nvllm:num_requests_waiting_by_reason{reason="a"} 2', "waiting", 5),
        (
            "vllm:time_per_output_token_seconds_sum 6\nvllm:time_per_output_token_seconds_count 3",
            "inter_token_latency_mean",
            2,
        ),
        ("vllm:e2e_request_latency_seconds_sum 0\nvllm:e2e_request_latency_seconds_count 0", "e2e_latency_mean", None),
        ("vllm:num_requests_running NaN", "running", None),
        ("vllm:num_requests_swapped 1", "running", None),
    ],
)
def test_names_of_every_age(text: str, field: str, expected: float | None) -> None:
    assert getattr(parse_metrics(text), field) == expected


@pytest.mark.parametrize("field", ["running", "waiting", "kv_usage", "preemptions", "e2e_latency_mean", "ttft_mean"])
def test_some_name_of_each_field_exists_in_every_release(field: str) -> None:
    names = {**SUMS, **MEANS, **RATIOS}[field]
    covered = Versions.none()
    for name in names:
        covered |= metric(name, Versions.all()).present
    since = Versions.of("0.4.3..") if field == "preemptions" else Versions.all()
    assert (since - covered).is_empty


def test_an_old_server_sends_on_to_the_same_place_with_a_slash() -> None:
    pages = {"/metrics": sends("/metrics/"), "/metrics/": says("vllm:num_requests_running 3"), "/health": says("")}
    with server(pages) as address:
        assert sample_server(f"{address}/metrics").running == 3


def test_a_dead_engine_answers_503_on_health() -> None:
    with server({"/metrics": says(recorded("0.32.0")), "/health": says("", 503)}) as address:
        assert sample_server(f"{address}/metrics").healthy is False


def test_health_is_known_though_metrics_are_not() -> None:
    with server({"/health": says("")}) as address:
        metrics = sample_server(f"{address}/metrics")
    assert metrics.healthy is True
    assert [item.source for item in metrics.unavailable] == ["metrics"]


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (says("", 401), "HTTP 401, it asks for a login"),
        (says("", 403), "HTTP 403, it refuses access"),
        (says("", 500), "HTTP 500"),
        (None, "HTTP 404, no such page: is that vLLM's own port?"),
        (says("<!doctype html><h1>Open WebUI</h1>", kind="text/html"), "a web page, not metrics"),
        (says("  <html>login</html>"), "a web page, not metrics"),
        (says("up 1\nnode_load1 0.5\n"), "no vllm: metric in the answer"),
        (says(""), "no vllm: metric in the answer"),
        (says('{"detail": "ok"}', kind="application/json"), "no vllm: metric in the answer"),
        (says("vllm:num_requests_running{engine= not a number\n"), "not Prometheus text"),
        (says(b"\xff\xfe\x00\x01" * 64), "no vllm: metric in the answer"),
        (says(b"vllm:num_requests_running 1\n" * 100_000), "the answer is larger than 1048576 bytes"),
        (sends_without_end, "the answer is larger than 1048576 bytes"),
        (sends("http://localhost.example/metrics"), "it redirects elsewhere"),
        (sends("//127.0.0.1:1/metrics"), "it redirects elsewhere"),
        (sends("file:///etc/passwd"), "it redirects elsewhere"),
        (sends("/metrics"), "it redirects in a circle"),
        (hangs, "no answer within 0.2 s"),
        (drips_a_body, "no answer within 0.2 s"),
        (drips_a_header, "no answer within 0.2 s"),
    ],
)
def test_a_bad_answer_costs_one_unavailable(page: Respond | None, reason: str) -> None:
    pages = {"/health": says("")} if page is None else {"/metrics": page, "/health": says("")}
    limit = SHORT if "0.2 s" in reason else 5
    with server(pages) as address:
        began = time.monotonic()
        metrics = sample_server(f"{address}/metrics", limit=limit, max_bytes=2**20)
        assert time.monotonic() - began < 2
    assert metrics.running is None
    assert metrics.healthy is True
    (missing,) = metrics.unavailable
    assert missing.source == "metrics"
    assert missing.reason.startswith(f"{address}/metrics: {reason}")


def test_nothing_listens() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    url = f"http://127.0.0.1:{port}/metrics"
    reason = "connection refused: nothing listens there"
    assert sample_server(url) == ServerMetrics(
        unavailable=(
            Unavailable("metrics", f"{url}: {reason}"),
            Unavailable("health", f"http://127.0.0.1:{port}/health: {reason}"),
        )
    )


def test_a_server_that_takes_the_call_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/metrics"
        with pytest.raises(FetchError, match=r"no answer within 0\.2 s"):
            fetch(url, limit=SHORT)


def test_something_that_does_not_speak_http() -> None:
    def greet(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        connection.recv(4096)
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=greet, args=(other,), daemon=True).start()
        with pytest.raises(FetchError, match="does not speak HTTP"):
            fetch(f"http://127.0.0.1:{other.getsockname()[1]}/metrics", limit=5)


def test_plain_http_where_tls_is_expected() -> None:
    with server(healthy("")) as address, pytest.raises(FetchError, match="TLS failed"):
        fetch(address.replace("http:", "https:"), limit=5)


def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with server(healthy("vllm:num_requests_running 3")) as address:
        assert sample_server(f"{address}/metrics").running == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://gpu7:8000", "http://gpu7:8000/metrics"),
        ("http://gpu7:8000/", "http://gpu7:8000/metrics"),
        ("https://gpu7/llm/metrics/", "https://gpu7/llm/metrics"),
        ("http://[::1]:8000/metrics", "http://[::1]:8000/metrics"),
    ],
)
def test_a_url_is_completed(text: str, expected: str) -> None:
    assert check_url(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "gpu7:8000",
        "file:///etc/passwd",
        "ftp://gpu7/metrics",
        "http://",
        "http:///metrics",
        "http://u:secret@gpu7/",
        "http://h:99999/",
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(MetricsUrlError) as caught:
        check_url(text)
    assert "secret" not in str(caught.value)


def test_health_stands_beside_metrics_under_a_root_path() -> None:
    with server({"/llm/metrics": says("vllm:num_requests_running 3"), "/llm/health": says("")}) as address:
        assert sample_server(f"{address}/llm/metrics") == ServerMetrics(running=3, healthy=True)


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("0.0.0.0", 8000, "http://127.0.0.1:8000/metrics"),
        (None, 8000, "http://127.0.0.1:8000/metrics"),
        ("::", 8000, "http://[::1]:8000/metrics"),
        ("localhost", 3001, "http://localhost:3001/metrics"),
        ("127.0.0.1", 3001, "http://127.0.0.1:3001/metrics"),
        ("[::1]", 3001, "http://[::1]:3001/metrics"),
        ("10.0.0.7", 3001, "http://10.0.0.7:3001/metrics"),
        ("GPU7", 3001, "http://gpu7:3001/metrics"),
        ("10.0.0.8", 3001, None),
        ("example.com", 80, None),
        ("127.0.0.1@example.com", 80, None),
        ("localhost", None, None),
        ("localhost", 0, None),
        ("localhost", 70000, None),
    ],
)
def test_only_this_machine_is_called_on_the_logs_word(host: str | None, port: int | None, expected: str | None) -> None:
    assert metrics_url(host, port, own=lambda: ("10.0.0.7", "gpu7")) == expected


def test_this_machine_knows_its_loopback_address() -> None:
    assert "127.0.0.1" in own_addresses()

"""Turns a server's `/metrics` and `/health` into `ServerMetrics`, whatever the age of the vLLM that answers."""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import psutil
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from vlogdiag.live.fetch import SIZE_LIMIT, TIME_LIMIT, Answer, FetchError, fetch
from vlogdiag.model import ServerMetrics, Unavailable

SUMS = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting", "vllm:num_requests_waiting_by_reason"),
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "generation_tokens": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
    "prompt_tokens": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "requests_finished": ("vllm:request_success_total", "vllm:request_success"),
}
"""Field to the names of all ages, newest first; added up over engines, models and reasons. The first name that the
server prints counts: 0.11 can print a new name and its hidden predecessor together."""

MEANS = {"kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")}
"""Averaged over engines, as vLLM's own statistics line does."""

RATIOS = {
    "e2e_latency_mean": ("vllm:e2e_request_latency_seconds",),
    "ttft_mean": ("vllm:time_to_first_token_seconds",),
    "queue_time_mean": ("vllm:request_queue_time_seconds",),
    "inter_token_latency_mean": ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
}
"""Histograms: sum through count since the server started; unknown before the first request has finished."""

_WANTED = frozenset(name for names in (*SUMS.values(), *MEANS.values()) for name in names) | frozenset(
    f"{name}{suffix}" for names in RATIOS.values() for name in names for suffix in ("_sum", "_count")
)

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""Where a server that listens everywhere is reached from its own machine."""


class MetricsUrlError(ValueError):
    """A URL that `/metrics` cannot be fetched from, with the reason."""


def check_url(text: str) -> str:
    """`http://host:8000` or `http://host:8000/metrics` to the URL of `/metrics`; raises `MetricsUrlError`."""
    try:
        parts = urlsplit(text)
    except ValueError as error:  # brackets that are not closed
        raise MetricsUrlError(f"expected http://HOST:PORT/metrics: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise MetricsUrlError(f"expected http://HOST:PORT/metrics, got {text!r}")
    try:
        hostname, _ = parts.hostname, parts.port
    except ValueError as error:
        raise MetricsUrlError(f"expected http://HOST:PORT/metrics: {error}") from None
    if not hostname:
        raise MetricsUrlError(f"no host in {text!r}")
    if parts.username or parts.password:
        raise MetricsUrlError(
            "a user name or password in the URL is not supported: it would be written into recordings"
        )
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or "/metrics", parts.query, ""))


def metrics_url(host: str | None, port: int | None, *, own: Callable[[], Iterable[str]] | None = None) -> str | None:
    """URL of the server that a log names, if that server is on this machine; else None: other hosts are not called.

    `host` None means that vLLM listens on all addresses (its default).
    """
    if port is None or not 0 < port < 65536:
        return None
    name = (host or "").strip("[]").lower()
    if name in ANY_ADDRESS:
        name = ANY_ADDRESS[name]
    elif name not in LOCAL_NAMES and name not in {address.lower() for address in (own or own_addresses)()}:
        return None
    return f"http://[{name}]:{port}/metrics" if ":" in name else f"http://{name}:{port}/metrics"


def own_addresses() -> tuple[str, ...]:
    """Addresses of this machine's interfaces, and its name."""
    found = [socket.gethostname()]
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            try:
                found.append(str(ipaddress.ip_address(address.address.partition("%")[0])))
            except ValueError:
                continue  # hardware addresses stand in the same list
    return tuple(found)


def sample_server(url: str, *, limit: float = TIME_LIMIT, max_bytes: int = SIZE_LIMIT) -> ServerMetrics:
    """Asks `/metrics`, then `/health` beside it; each may be missing, neither raises; at most twice `limit` seconds."""
    try:
        metrics = parse_answer(fetch(url, limit=limit, max_bytes=max_bytes))
    except FetchError as error:
        metrics = ServerMetrics(unavailable=(Unavailable("metrics", f"{url}: {error}"),))
    address = urljoin(url, "health")
    try:
        status = fetch(address, limit=limit, max_bytes=max_bytes).status
    except FetchError as error:
        missing = Unavailable("health", f"{address}: {error}")
        return replace(metrics, unavailable=(*metrics.unavailable, missing))
    if status in (200, 503):  # vLLM's two answers; 503 is a dead engine
        return replace(metrics, healthy=status == 200)
    missing = Unavailable("health", f"{address}: {_status_reason(status)}")
    return replace(metrics, unavailable=(*metrics.unavailable, missing))


def parse_answer(answer: Answer) -> ServerMetrics:
    """`ServerMetrics` of an answer; raises `FetchError` where it is none of vLLM's."""
    if answer.status != 200:
        raise FetchError(_status_reason(answer.status))
    text = answer.body.decode("utf-8", "replace")
    if "html" in answer.content_type.lower() or text.lstrip()[:1] == "<":
        raise FetchError("a web page, not metrics: another server answers there")
    return parse_metrics(text)


def parse_metrics(text: str) -> ServerMetrics:
    """`ServerMetrics` of Prometheus text; raises `FetchError`.

    Only the lines that are needed are parsed: reading all six hundred, most of them histogram buckets, takes 13 ms.
    """
    lines = [line for line in text.splitlines() if line.startswith("vllm:")]
    if not lines:
        raise FetchError("no vllm: metric in the answer (another program, or vLLM runs with --disable-log-stats)")
    wanted = [line for line in lines if line.partition("{")[0].partition(" ")[0] in _WANTED]
    values: dict[str, list[float]] = {}
    try:
        for family in text_string_to_metric_families("\n".join(wanted) + "\n"):
            for sample in family.samples:
                if math.isfinite(sample.value):
                    values.setdefault(sample.name, []).append(float(sample.value))
    except ValueError as error:
        raise FetchError(f"not Prometheus text: {str(error)[:100]}") from error
    fields: dict[str, Any] = {field: _first(values, names, sum) for field, names in SUMS.items()}
    fields |= {field: _first(values, names, _mean) for field, names in MEANS.items()}
    fields |= {field: _ratio(values, names) for field, names in RATIOS.items()}
    return ServerMetrics(**fields)


def _first(
    values: Mapping[str, list[float]], names: Iterable[str], combine: Callable[[list[float]], float]
) -> float | None:
    return next((combine(values[name]) for name in names if name in values), None)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _ratio(values: Mapping[str, list[float]], names: Iterable[str]) -> float | None:
    for name in names:
        total, count = values.get(f"{name}_sum"), values.get(f"{name}_count")
        if total is not None and count is not None:
            return sum(total) / sum(count) if sum(count) else None
    return None


def _status_reason(status: int) -> str:
    known = {401: "it asks for a login", 403: "it refuses access", 404: "no such page: is that vLLM's own port?"}
    return f"HTTP {status}" + (f", {known[status]}" if status in known else "")

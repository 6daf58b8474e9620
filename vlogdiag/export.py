"""Exports what `tail` counts as Prometheus metrics on a local port."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vlogdiag.tail import Tail

__all__ = ["ExportError", "serve"]


class ExportError(ValueError):
    """An address that cannot be listened on, in one sentence."""


class _Collector:
    """Reads the tail's own counts when it is asked; that happens in another thread, so it copies before it loops."""

    def __init__(self, following: Tail, clock: Callable[[], float]) -> None:
        self._following = following
        self._clock = clock

    def collect(self) -> Iterable[Any]:
        """Metric families for `prometheus_client`."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        following = self._following
        counts = following.counts
        opened = CounterMetricFamily("vlogdiag_findings", "Findings opened", labels=["id", "family", "severity"])
        for labels, number in sorted(counts.opened.copy().items()):
            opened.add_metric(list(labels), number)
        yield opened
        standing = GaugeMetricFamily(
            "vlogdiag_findings_open", "Findings that no later start has closed", labels=["path", "severity"]
        )
        quiet = GaugeMetricFamily("vlogdiag_quiet_seconds", "Seconds since the log's last line", labels=["path"])
        for path, session in following.sessions.copy().items():
            errors, warnings = session.counts()
            standing.add_metric([path, "error"], errors)
            standing.add_metric([path, "warning"], warnings)
            if session.fed_at is not None:
                quiet.add_metric([path], max(0.0, self._clock() - session.fed_at))
        yield standing
        yield quiet
        yield CounterMetricFamily("vlogdiag_lines", "Lines read", value=counts.lines)
        yield CounterMetricFamily("vlogdiag_bytes", "Bytes read", value=counts.bytes)
        lag = GaugeMetricFamily("vlogdiag_lag_bytes", "Bytes there and not read yet", labels=["path"])
        for source in following.sources:
            lag.add_metric([source.path], getattr(source, "lag", 0))
        yield lag


def serve(where: str, following: Tail, clock: Callable[[], float] = time.monotonic) -> Callable[[], None]:
    """Listen on `HOST:PORT` (or `:PORT` for this machine only) until the returned function is called.

    Raises ExportError, OSError.
    """
    from prometheus_client import CollectorRegistry, start_http_server

    host, colon, port = where.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535:
        raise ExportError(f"--listen {where[:80]}: write HOST:PORT, for example 127.0.0.1:9108")
    registry = CollectorRegistry()
    registry.register(_Collector(following, clock))
    server, thread = start_http_server(int(port), addr=host or "127.0.0.1", registry=registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(1.0)

    return stop

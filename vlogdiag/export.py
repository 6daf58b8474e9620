"""Exports what `tail` counts as Prometheus metrics on a local port."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vlogdiag.tail import Tail

__all__ = ["ExportError", "serve"]


class ExportError(ValueError):
    """An address that cannot be listened on, in one sentence."""


class _Collector:
    """Reads the tail's own counts when it is asked."""

    def __init__(self, following: Tail) -> None:
        self._following = following

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        counts = self._following.counts
        found = CounterMetricFamily("vlogdiag_findings", "Findings opened", labels=["id", "family", "severity"])
        for labels, number in sorted(dict(counts.opened).items()):
            found.add_metric(list(labels), number)
        yield found
        yield CounterMetricFamily("vlogdiag_lines", "Lines read", value=counts.lines)
        yield CounterMetricFamily("vlogdiag_bytes", "Bytes read", value=counts.bytes)
        quiet = GaugeMetricFamily("vlogdiag_quiet_seconds", "Seconds since the log's last line", labels=["path"])
        for path, session in list(self._following.sessions.items()):
            if session.fed_at is not None:
                quiet.add_metric([path], max(0.0, time.monotonic() - session.fed_at))
        yield quiet
        lag = GaugeMetricFamily("vlogdiag_lag_bytes", "Bytes there and not read yet", labels=["path"])
        for source in self._following.sources:
            lag.add_metric([source.path], getattr(source, "lag", 0))
        yield lag


def serve(where: str, following: Tail) -> Any:
    """Listen on `HOST:PORT` (or `:PORT` for this machine only); raises ExportError, OSError."""
    from prometheus_client import CollectorRegistry, start_http_server

    host, colon, port = where.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise ExportError(f"--listen {where}: write HOST:PORT, for example 127.0.0.1:9108")
    registry = CollectorRegistry()
    registry.register(_Collector(following))
    return start_http_server(int(port), addr=host or "127.0.0.1", registry=registry)

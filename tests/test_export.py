"""Counts for Prometheus: asked over real HTTP, on this machine only unless told otherwise."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from socket import socket

import pytest
from live_log import CORE, RULES, crash, server
from prometheus_client.parser import text_string_to_metric_families

from vlogdiag.export import ExportError, serve
from vlogdiag.log.follow import Data
from vlogdiag.tail import Surroundings, Tail


class Scripted:
    path, backlog, lag = "/var/log/vllm.log", False, 512

    def __init__(self) -> None:
        text = server().start().access().error(CORE, "core.py:700", crash()).text.encode()
        self.coming = [Data(self.path, 0, text)]

    def poll(self) -> list[Data]:
        coming, self.coming = self.coming, []
        return coming

    def close(self) -> None:
        pass


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def asked() -> Iterator[dict[tuple[str, tuple[str, ...]], float]]:
    """Every sample by name and label values, after one finding, seven seconds ago."""
    now = 100.0
    tail = Tail((Scripted(),), RULES, Surroundings(lambda: now))
    for _ in range(3):
        tail.step()
        now += 1.0
    now += 5.0
    port = free_port()
    stop = serve(f"127.0.0.1:{port}", tail, lambda: now)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    finally:
        stop()
    yield {
        (sample.name, tuple(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_a_scrape_says(asked: dict[tuple[str, tuple[str, ...]], float]) -> None:
    path = Scripted.path
    assert asked[("vlogdiag_findings_total", ("oom", "memory", "error"))] == 1
    assert asked[("vlogdiag_findings_open", (path, "error"))] == 1
    assert asked[("vlogdiag_findings_open", (path, "warning"))] == 0
    assert asked[("vlogdiag_quiet_seconds", (path,))] == 8
    assert asked[("vlogdiag_lag_bytes", (path,))] == 512
    assert asked[("vlogdiag_lines_total", ())] > 50
    assert asked[("vlogdiag_bytes_total", ())] > 1000


@pytest.mark.parametrize("where", ["9108", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:70000", "127.0.0.1:²"])
def test_an_address_that_is_none_is_refused(where: str) -> None:
    with pytest.raises(ExportError, match="write HOST:PORT"):
        serve(where, Tail((), RULES, Surroundings(lambda: 0.0)))


def test_a_port_that_is_taken_is_said() -> None:
    with socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with pytest.raises(OSError, match="in use"):
            serve(f"127.0.0.1:{holder.getsockname()[1]}", Tail((), RULES, Surroundings(lambda: 0.0)))


def test_a_port_alone_listens_on_this_machine_only() -> None:
    port = free_port()
    stop = serve(f":{port}", Tail((), RULES, Surroundings(lambda: 0.0)))
    try:
        with socket() as other:
            other.bind(("127.0.0.2", port))  # free: not every address is taken
    finally:
        stop()

"""What a followed log names on this machine is asked, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from live_log import API, RULES, server

from vlogdiag.live.cuda_mapping import CudaEnvironment
from vlogdiag.live.followed import CudaOfServer, FollowedServer
from vlogdiag.model import HostState, Reading, Unavailable
from vlogdiag.pipeline import Pipeline

METRICS = (Path(__file__).parent / "data" / "metrics" / "vllm-0.32.0.txt").read_bytes()


@pytest.fixture
def vllm() -> Iterator[tuple[int, list[str]]]:
    """A server's port, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(METRICS if self.path == "/metrics" else b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    yield httpd.server_address[1], asked
    httpd.shutdown()
    httpd.server_close()


def test_the_server_that_the_log_names_is_asked_once_the_log_has_named_it(vllm: tuple[int, list[str]]) -> None:
    port, asked = vllm
    named: list[tuple[str | None, int]] = []
    probe = FollowedServer(lambda: named[-1] if named else None)
    assert probe.sample() == Reading(None)
    assert asked == []
    named.append((None, port))
    reading = probe.sample()
    assert reading.metrics is not None
    assert reading.metrics.healthy is True
    assert reading.metrics.running is not None
    assert asked == ["/metrics", "/health"]


def test_another_machine_is_never_asked_on_a_logs_word() -> None:
    assert FollowedServer(lambda: ("192.0.2.7", 8000)).sample() == Reading(None)


@pytest.mark.parametrize(
    ("args", "serves", "address"),
    [
        ({}, True, (None, 8000)),
        ({"port": 3001}, True, (None, 3001)),
        ({"host": "127.0.0.1", "port": 3001}, True, ("127.0.0.1", 3001)),
        ({"port": 3001, "ssl_certfile": "/etc/cert.pem"}, True, None),
        ({"port": 3001}, False, None),
    ],
)
def test_where_a_log_says_its_server_listens(
    args: dict[str, object], serves: bool, address: tuple[str | None, int] | None
) -> None:
    printer = server().arguments(**args).configured().loading()
    if serves:
        printer.serving()
    pipeline = Pipeline(RULES, source="vllm.log")
    pipeline.feed(printer.info(API, "a.py:1", "x").info(API, "a.py:1", "y").text.encode())
    assert pipeline.address == address


def test_a_log_that_begins_in_the_middle_names_no_server() -> None:
    pipeline = Pipeline(RULES, source="vllm.log")
    pipeline.feed(server().statistics().access().statistics().text.encode())
    assert pipeline.address is None


# --- CUDA's variables


def host(*pids: int) -> Reading:
    return Reading(None, host=HostState(processes=tuple((pid, "vllm serve m", "running", None) for pid in pids)))


ENVIRONMENTS: dict[int, CudaEnvironment | Unavailable] = {
    1: CudaEnvironment("0", None, None),
    2: CudaEnvironment("1", "PCI_BUS_ID", None),
    3: CudaEnvironment("1", "PCI_BUS_ID", None),
    4: Unavailable("environment of process 4", "no permission"),
}


@pytest.mark.parametrize(
    ("named", "running", "found"),
    [
        ({2, 3}, (1, 2, 3), ("1", "PCI_BUS_ID", None)),  # another server runs beside it
        ({77}, (2, 3), ("1", "PCI_BUS_ID", None)),  # the log counts in a container's own numbers
        ({77}, (1, 2), None),  # and then the servers disagree
        ({1, 2}, (1, 2), None),  # Ray: every worker has its own
        ({4}, (4,), None),
        (set(), (), None),
    ],
)
def test_the_variables_of_the_logs_own_processes(
    named: set[int], running: tuple[int, ...], found: tuple[str | None, str | None, str | None] | None
) -> None:
    assert CudaOfServer(ENVIRONMENTS.__getitem__)(frozenset(named), host(*running)) == found


def test_an_environment_is_read_once_while_its_process_lives() -> None:
    read: list[int] = []

    def environment(pid: int) -> CudaEnvironment:
        read.append(pid)
        return CudaEnvironment(str(len(read)), None, None)

    cuda = CudaOfServer(environment)
    assert [cuda(frozenset({5}), host(5)) for _ in range(3)] == [("1", None, None)] * 3
    assert cuda(frozenset({5}), host()) is None
    assert cuda(frozenset({5}), host(5)) == ("2", None, None)  # the number was given to another process


def test_without_the_host_nothing_is_known() -> None:
    assert CudaOfServer(ENVIRONMENTS.__getitem__)(frozenset({1}), Reading(None)) is None

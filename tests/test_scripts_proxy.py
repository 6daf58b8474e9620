"""The time-out script in two real proxies (FastAPI, Flask) before a stand-in server that hangs, breaks off and streams."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from scripts_loader import load

timeouts = load("proxy_timeouts")
LIMITS = timeouts.Limits(connect=1.0, read=0.4)


@dataclass
class StandIn:
    """A server that plays vLLM's faults, by path; `seen` are the request lines and headers that arrived."""

    port: int = 0
    seen: list[bytes] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    """Set by the test when it has received the first piece of a stream."""
    left: threading.Event = field(default_factory=threading.Event)
    """Set when the proxy has closed the connection of a stream."""
    done: threading.Event = field(default_factory=threading.Event)

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            request = b""
            while b"\r\n\r\n" not in request:
                data = connection.recv(65536)
                if not data:
                    return
                request += data
            head, _, body = request.partition(b"\r\n\r\n")
            length = next(
                (
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ),
                0,
            )
            while len(body) < length:
                body += connection.recv(65536)
            self.seen.append(head + b"\r\n\r\n" + body)
            getattr(self, head.split(b" ")[1].decode().split("?")[0].removeprefix("/v1/").replace("/", "_"))(
                connection, body
            )

    def ok(self, connection: socket.socket, body: bytes) -> None:
        answer = json.dumps({"echo": body.decode()}).encode()
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: 7\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            % len(answer)
            + answer
        )

    def bad(self, connection: socket.socket, body: bytes) -> None:
        connection.sendall(
            b'HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}'
        )

    def hang(self, connection: socket.socket, body: bytes) -> None:
        self.done.wait(20)

    def hang_halfway(self, connection: socket.socket, body: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        self.done.wait(20)

    def drop(self, connection: socket.socket, body: bytes) -> None:
        """Closes without a word."""

    def cut(self, connection: socket.socket, body: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")

    def stream(self, connection: socket.socket, body: bytes) -> None:
        self.start_stream(connection)
        assert self.go_on.wait(20)
        for piece in (b"data: two\n\n", b"data: [DONE]\n\n"):
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")

    def stream_cut(self, connection: socket.socket, body: bytes) -> None:
        self.start_stream(connection)
        assert self.go_on.wait(20)

    def stream_watched(self, connection: socket.socket, body: bytes) -> None:
        self.start_stream(connection)
        if connection.recv(1) == b"":
            self.left.set()

    def start_stream(self, connection: socket.socket) -> None:
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        connection.sendall(head + b"b\r\ndata: one\n\n\r\n")


@pytest.fixture
def server() -> Iterator[StandIn]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        standin = StandIn(listener.getsockname()[1])
        threading.Thread(target=standin.serve, args=(listener,), daemon=True).start()
        yield standin
        standin.done.set()
        standin.go_on.set()


def start_fastapi(upstream: str) -> tuple[int, object, threading.Thread]:
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()
    app.get("/own")(lambda: "own")
    timeouts.fastapi_proxy(app, upstream, LIMITS)
    listener = socket.create_server(("127.0.0.1", 0))
    uvicorn_server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=uvicorn_server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()

    def stop() -> None:
        uvicorn_server.should_exit = uvicorn_server.force_exit = True

    return listener.getsockname()[1], stop, thread


def start_flask(upstream: str) -> tuple[int, object, threading.Thread]:
    import logging

    from flask import Flask
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    app = Flask("proxy")
    app.add_url_rule("/own", "own", lambda: "own")
    timeouts.flask_proxy(app, upstream, LIMITS)
    wsgi = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=wsgi.serve_forever, daemon=True)
    thread.start()
    return wsgi.server_port, wsgi.shutdown, thread


STARTERS = {"fastapi": start_fastapi, "flask": start_flask}


@pytest.fixture(params=STARTERS)
def proxy(request: pytest.FixtureRequest, server: StandIn) -> Iterator[int]:
    port, stop, thread = STARTERS[request.param](f"http://127.0.0.1:{server.port}")
    yield port
    server.done.set()
    stop()  # type: ignore[operator]
    thread.join(10)


@dataclass
class Said:
    status: int
    headers: dict[str, str]
    body: bytes


def ask(port: int, path: str, body: bytes = b'{"model": "m"}') -> Said:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", path, body, {"Content-Type": "application/json", "Authorization": "Bearer k"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return Said(answer.status, {name.lower(): value for name, value in answer.getheaders()}, content)


def test_an_answer_is_passed_on_with_status_and_headers(proxy: int, server: StandIn) -> None:
    said = ask(proxy, "/v1/ok?a=1&b=%20")
    assert (said.status, json.loads(said.body)) == (200, {"echo": '{"model": "m"}'})
    assert (said.headers["content-type"], said.headers["x-request-id"]) == ("application/json", "7")
    head = server.seen[0].decode().lower()
    assert head.startswith("post /v1/ok?a=1&b=%20 http/1.1")
    assert "authorization: bearer k" in head and f"host: 127.0.0.1:{server.port}" in head


def test_a_clients_mistake_is_passed_on(proxy: int) -> None:
    said = ask(proxy, "/v1/bad")
    assert (said.status, said.body) == (400, b'{"a":1}')


@pytest.mark.parametrize("path", ["/v1/hang", "/v1/hang/halfway"])
def test_silence_is_a_504_that_says_so_and_is_not_sent_again(proxy: int, server: StandIn, path: str) -> None:
    said = ask(proxy, path)
    error = json.loads(said.body)["error"]
    assert (said.status, said.headers["content-type"], error["type"], error["code"]) == (
        504,
        "application/json",
        "upstream_timeout",
        504,
    )
    assert "sent nothing for 0.4 s" in error["message"]
    assert len(server.seen) == 1


@pytest.mark.parametrize("path", ["/v1/drop", "/v1/cut"])
def test_an_answer_that_breaks_off_is_a_502_and_is_not_sent_again(proxy: int, server: StandIn, path: str) -> None:
    said = ask(proxy, path)
    assert (said.status, json.loads(said.body)["error"]["type"]) == (502, "upstream_error")
    assert "broke off" in json.loads(said.body)["error"]["message"]
    assert len(server.seen) == 1


def open_stream(port: int, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", path, b"{}")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
    assert answer.read1(11) == b"data: one\n\n"
    return answer


def test_a_stream_arrives_piece_by_piece_and_unchanged(proxy: int, server: StandIn) -> None:
    answer = open_stream(proxy, "/v1/stream")  # the second piece is not even sent before the first has arrived
    server.go_on.set()
    assert answer.read() == b"data: two\n\ndata: [DONE]\n\n"


def test_a_stream_that_breaks_off_breaks_off_for_the_client_too(proxy: int, server: StandIn) -> None:
    answer = open_stream(proxy, "/v1/stream/cut")
    server.go_on.set()
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()


def test_a_client_that_leaves_a_stream_ends_it_at_the_server(proxy: int, server: StandIn) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=10)
    connection.request("POST", "/v1/stream/watched", b"{}")
    assert connection.getresponse().read1(11) == b"data: one\n\n"
    connection.close()
    assert server.left.wait(10)


def test_a_stream_that_falls_silent_ends_for_the_client_too(proxy: int) -> None:
    answer = open_stream(proxy, "/v1/stream")
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()


def test_the_proxys_own_routes_stay(proxy: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=10)
    connection.request("GET", "/own")
    assert b"own" in connection.getresponse().read()


@pytest.mark.parametrize("name", STARTERS)
def test_a_server_that_is_not_there_is_a_502_after_two_tries(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    port, stop, thread = STARTERS[name](f"http://127.0.0.1:{free}")
    said = ask(port, "/v1/ok")
    stop()  # type: ignore[operator]
    thread.join(10)
    assert said.status == 502
    assert "cannot be reached" in said.body.decode() and "Tried 2 times" in said.body.decode()


def test_flask_reaches_a_server_at_the_second_try(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    port, stop, thread = start_flask(f"http://127.0.0.1:{server.port}")
    real, tries = http.client.HTTPConnection.connect, []

    def fails_once(self: http.client.HTTPConnection) -> None:
        if self.port == server.port:
            tries.append(1)
            if len(tries) == 1:
                raise ConnectionRefusedError
        real(self)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", fails_once)
    assert ask(port, "/v1/ok").status == 200
    assert len(tries) == 2
    stop()  # type: ignore[operator]
    thread.join(10)


def test_fastapi_reaches_a_server_at_the_second_try(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    real, tries = httpx.AsyncHTTPTransport.handle_async_request, []

    async def fails_once(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        tries.append(1)
        if len(tries) == 1:
            raise httpx.ConnectError("refused")
        return await real(self, request)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", fails_once)
    port, stop, thread = start_fastapi(f"http://127.0.0.1:{server.port}")
    assert ask(port, "/v1/ok").status == 200
    assert len(tries) == 2
    stop()  # type: ignore[operator]
    thread.join(10)

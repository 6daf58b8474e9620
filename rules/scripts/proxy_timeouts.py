"""Forwards requests to vLLM with time limits: one retry where nothing was sent yet, a clear 504 where no answer comes.

Where it goes: into the proxy in front of vLLM, in place of its own forwarding.

FastAPI (needs httpx):

    from proxy_timeouts import Limits, fastapi_proxy
    fastapi_proxy(app, "http://127.0.0.1:3001", Limits(connect=3, read=60))

Flask (needs nothing else):

    from proxy_timeouts import Limits, flask_proxy
    flask_proxy(app, "http://127.0.0.1:3001", Limits(connect=3, read=60))

Both add a route for everything under `/v1/`. `connect` bounds reaching the server, `read` each wait for its next bytes:
a long answer that is streamed may take as long as it likes, a silent server may not. A request is tried again only when
the connection was never made, since a request that was sent may be at work. Answers that are streamed
(`text/event-stream`) are passed on as they come; when the server breaks off in the midst of one, so does the proxy, as
the client must see that it is not complete. vLLM has no time limit for requests itself (`--request-timeout` never
existed), so this is the place for one.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Headers that speak about one connection and are not passed on (RFC 9110, section 7.6.1)."""
METHODS = ["GET", "POST"]
TRIES = 2


@dataclass(frozen=True)
class Limits:
    """Seconds."""

    connect: float = 3.0
    read: float = 60.0
    """Of silence: from the last byte sent or received to the next. An unstreamed answer comes in one piece, so
    this must be longer than the longest generation."""


def _error(status: int, message: str) -> tuple[int, bytes]:
    kind = "upstream_timeout" if status == 504 else "upstream_error"
    return status, json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode()


def no_connection(limits: Limits, reason: object) -> tuple[int, bytes]:
    """The answer when vLLM could not be reached, twice."""
    return _error(
        502,
        f"vLLM cannot be reached ({reason}): it is still starting, or not running. "
        f"Tried {TRIES} times, {limits.connect:g} s each.",
    )


def no_answer(limits: Limits) -> tuple[int, bytes]:
    """The answer when vLLM took the request and stayed silent."""
    return _error(
        504,
        f"vLLM took the request but sent nothing for {limits.read:g} s. It was not sent again, as it may be at work.",
    )


def broken_off(reason: object) -> tuple[int, bytes]:
    """The answer when vLLM closed the connection before its answer was complete."""
    return _error(502, f"vLLM broke off its answer ({reason}): look into its log.")


def _passed(headers: Any, drop: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP | drop]


def fastapi_proxy(app: Any, upstream: str, limits: Limits | None = None, prefix: str = "/v1/") -> None:
    """Adds a route to a FastAPI (or Starlette) application that forwards `prefix` to `upstream`."""
    import httpx
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    limits = limits or Limits()
    timeout = httpx.Timeout(limits.read, connect=limits.connect)
    client = httpx.AsyncClient(base_url=upstream, timeout=timeout, trust_env=False)

    def said(status: int, body: bytes) -> Response:
        return Response(body, status, media_type="application/json")

    async def reach(request: httpx.Request) -> httpx.Response:
        for attempt in range(1, TRIES + 1):
            try:
                return await client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if attempt == TRIES:
                    raise
        raise AssertionError("unreachable")

    async def rest(answer: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for chunk in answer.aiter_raw():
                yield chunk
        finally:
            await answer.aclose()

    async def forward(request: Request) -> Response:
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = _passed(request.headers.items(), frozenset(("host", "content-length")))
        outgoing = client.build_request(request.method, path, headers=headers, content=await request.body())
        try:
            answer = await reach(outgoing)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return said(*no_connection(limits, str(error) or type(error).__name__))
        except httpx.TimeoutException:
            return said(*no_answer(limits))
        except httpx.TransportError as error:
            return said(*broken_off(str(error) or type(error).__name__))
        kept = _passed(answer.headers.multi_items())
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            streamed = StreamingResponse(rest(answer), answer.status_code)
            streamed.raw_headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in kept]
            return streamed
        try:
            content = b"".join([chunk async for chunk in rest(answer)])
        except httpx.TimeoutException:
            return said(*no_answer(limits))
        except httpx.TransportError as error:
            return said(*broken_off(str(error) or type(error).__name__))
        whole = Response(content, answer.status_code)
        whole.raw_headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in kept]
        return whole

    app.router.routes.append(Route(prefix + "{path:path}", forward, methods=METHODS))


def flask_proxy(app: Any, upstream: str, limits: Limits | None = None, prefix: str = "/v1/") -> None:
    """Adds a route to a Flask application that forwards `prefix` to `upstream`; run it with threads."""
    from flask import Response, request

    limits = limits or Limits()
    address = urlsplit(upstream)
    make = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection

    def said(status: int, body: bytes) -> Response:
        return Response(body, status, content_type="application/json")

    def connect() -> http.client.HTTPConnection:
        for attempt in range(1, TRIES + 1):
            connection = make(address.hostname or "", address.port, timeout=limits.connect)
            try:
                connection.connect()
            except OSError:
                connection.close()
                if attempt == TRIES:
                    raise
            else:
                connection.sock.settimeout(limits.read)
                return connection
        raise AssertionError("unreachable")

    def rest(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            while chunk := answer.read1(65536):
                yield chunk
        finally:
            connection.close()

    def forward(path: str) -> Any:
        headers = dict(_passed(request.headers.items(), frozenset(("host", "content-length"))))
        target = address.path.rstrip("/") + request.full_path.rstrip("?")
        try:
            connection = connect()
        except OSError as error:
            return said(*no_connection(limits, error))
        try:
            connection.request(request.method, target, body=request.get_data() or None, headers=headers)
            answer = connection.getresponse()
            kept = _passed(answer.getheaders())
            if (answer.getheader("content-type") or "").startswith("text/event-stream"):
                return Response(rest(connection, answer), answer.status, kept)
            content = answer.read()
        except TimeoutError:
            connection.close()
            return said(*no_answer(limits))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return said(*broken_off(f"{type(error).__name__}: {error}"))
        connection.close()
        return Response(content, answer.status, kept)

    app.add_url_rule(prefix + "<path:path>", "forward_to_vllm", forward, methods=METHODS)

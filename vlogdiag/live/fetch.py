"""Turns a URL into the body of its answer, within a time limit and a size limit, or into the reason why not.

The server may be the broken one: it may accept and say nothing, send one byte a second, or be somebody else's. A
socket's timeout bounds one read only, so a timer shuts the connection down when the whole exchange takes too long.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

from vlogdiag import __version__

TIME_LIMIT = 1.0
SIZE_LIMIT = 8 * 2**20
"""A server with dozens of LoRA models and engines answers with a few MiB."""

MAX_REDIRECTS = 3
"""Older vLLM sends `/metrics` on to `/metrics/`."""


class FetchError(Exception):
    """Why there is no answer, in words for people."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said; redirects are followed already."""

    status: int
    content_type: str
    body: bytes


def fetch(url: str, *, limit: float = TIME_LIMIT, max_bytes: int = SIZE_LIMIT) -> Answer:
    """GETs `url`; follows redirects on the same host only, uses no proxy; raises `FetchError`."""
    deadline = time.monotonic() + limit
    for _ in range(MAX_REDIRECTS + 1):
        try:
            answer, location = _get(urlsplit(url), deadline, max_bytes)
        except FetchError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() >= deadline or isinstance(error, TimeoutError):
                raise FetchError(f"no answer within {limit:g} s") from error
            raise FetchError(_reason(error)) from error
        if location is None:
            return answer
        target = urljoin(url, location)
        if _place(target) != _place(url):
            raise FetchError("it redirects elsewhere")
        url = target
    raise FetchError("it redirects in a circle")


def _get(parts: SplitResult, deadline: float, max_bytes: int) -> tuple[Answer, str | None]:
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=max(deadline - time.monotonic(), 0.001))
    with contextlib.closing(connection):
        connection.connect()
        alarm = threading.Timer(max(deadline - time.monotonic(), 0), _hang_up, (connection.sock,))
        alarm.daemon = True
        alarm.start()
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", path, headers={"User-Agent": f"vlogdiag/{__version__}", "Connection": "close"})
            response = connection.getresponse()
            if response.status in (301, 302, 303, 307, 308):
                return Answer(response.status, "", b""), response.headers.get("Location", "")
            if (response.length or 0) > max_bytes:
                raise FetchError(f"the answer is larger than {max_bytes} bytes")
            body = response.read(max_bytes + 1)
            if time.monotonic() >= deadline:  # hung up in the middle: what came is not the whole
                raise TimeoutError
            if len(body) > max_bytes:
                raise FetchError(f"the answer is larger than {max_bytes} bytes")
            return Answer(response.status, response.headers.get("Content-Type", ""), body), None
        finally:
            alarm.cancel()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _place(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, (http.client.RemoteDisconnected, ConnectionResetError)):
        return "the server closed the connection without an answer"
    if isinstance(error, http.client.HTTPException):
        return "what answers there does not speak HTTP"
    return str(error) or type(error).__name__

"""What the running server answers: `/health`, `/version`, `/metrics`."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urljoin

from vlogdiag.live.fetch import FetchError, fetch
from vlogdiag.live.metrics import MetricsUrlError, check_url, metrics_url
from vlogdiag.model import Unavailable
from vlogdiag.snapshot.collect.base import Collected, Context

NAME = "server"
LIMIT = 1.5
"""Seconds for each page: a frozen engine leaves `/health` alone, a frozen API server answers nothing at all."""
MAX_BYTES = 4 << 20


def collect(context: Context) -> Collected:
    """The three pages; each may be missing."""
    address = server_url(context)
    if address is None:
        return Collected(NAME, unavailable=(Unavailable(NAME, _why_none(context)),))
    data: dict[str, Any] = {"url": address}
    files: dict[str, str] = {}
    missing: list[Unavailable] = []
    for page in ("health", "version", "metrics"):
        try:
            answer = fetch(urljoin(address, page), limit=LIMIT, max_bytes=MAX_BYTES)
        except FetchError as error:
            missing.append(Unavailable(f"/{page}", str(error)))
            continue
        data[f"{page}_status"] = answer.status
        if answer.status != 200:
            missing.append(Unavailable(f"/{page}", f"HTTP {answer.status}"))
        elif page == "metrics":
            files["metrics.txt"] = answer.body.decode("utf-8", "replace")
        elif page == "version":
            data["version"] = _version(answer.body)
    return Collected(NAME, data, files, tuple(missing))


def server_url(context: Context) -> str | None:
    """URL of the server's `/metrics`: given by hand, else by its arguments, if it is on this machine."""
    if context.url is not None:
        try:
            return check_url(context.url)
        except MetricsUrlError:
            return None
    if context.leader is None and context.run is None:
        return None
    host, port = context.arguments.get("host"), context.arguments.get("port", 8000)
    return metrics_url(host if isinstance(host, str) else None, port if isinstance(port, int) else None)


def _why_none(context: Context) -> str:
    if context.url is not None:
        return "not a URL of a server: expected http://HOST:PORT"
    if context.leader is None and context.run is None:
        return "no running server, and no log that names one"
    return "the server is not on this machine"


def _version(body: bytes) -> str | None:
    try:
        data = json.loads(body)
    except ValueError:
        return None
    version = data.get("version") if isinstance(data, dict) else None
    return str(version)[:100] if version is not None else None

"""Interfaces, whether the host's own name can be resolved, and on which ports the server listens."""

from __future__ import annotations

import socket
import threading
from typing import Any

import psutil

from vlogdiag.model import Unavailable
from vlogdiag.snapshot.collect.base import Collected, Context

NAME = "network"
RESOLVE_LIMIT = 3.0


def collect(context: Context) -> Collected:
    """The network as far as it is this machine's own; nothing outside is called but its name server."""
    missing: list[Unavailable] = []
    name = socket.gethostname()
    data: dict[str, Any] = {"hostname": name, "resolves_to": _resolved(name, missing)}
    try:
        states = psutil.net_if_stats()
        data["interfaces"] = {
            interface: {
                "addresses": [address.address for address in addresses],
                "up": states[interface].isup if interface in states else None,
                "mtu": states[interface].mtu if interface in states else None,
                "megabits": states[interface].speed if interface in states else None,
            }
            for interface, addresses in sorted(psutil.net_if_addrs().items())
        }
    except (psutil.Error, OSError) as error:
        missing.append(Unavailable("network interfaces", str(error)))
    data["listening"] = _listening(context, missing)
    return Collected(NAME, data, unavailable=tuple(missing))


def _resolved(name: str, missing: list[Unavailable]) -> list[str] | None:
    """What the host's name resolves to, as Gloo and NCCL ask; a dead name server is not waited for."""
    found: list[str] = []
    errors: list[str] = []

    def ask() -> None:
        try:
            found.extend(sorted({str(info[4][0]) for info in socket.getaddrinfo(name, None)}))
        except OSError as error:
            errors.append(error.strerror or str(error))

    thread = threading.Thread(target=ask, daemon=True, name="resolve")
    thread.start()
    thread.join(RESOLVE_LIMIT)
    if found:
        return found
    missing.append(Unavailable("host name", errors[0] if errors else f"not resolved within {RESOLVE_LIMIT:g} s"))
    return None


def _listening(context: Context, missing: list[Unavailable]) -> list[dict[str, Any]]:
    rows = []
    for process in context.processes:
        try:
            connections = psutil.Process(process.pid).net_connections(kind="inet")
        except psutil.AccessDenied:
            missing.append(Unavailable(f"ports of process {process.pid}", "not permitted"))
            continue
        except (psutil.Error, OSError):
            continue  # it has ended meanwhile
        for connection in connections:
            if connection.status == psutil.CONN_LISTEN and connection.laddr:
                rows.append({"pid": process.pid, "address": connection.laddr.ip, "port": connection.laddr.port})
    return rows

"""What a collector is given, what it gives back, and the clock that it runs against."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from vlogdiag.model import RunSummary, Unavailable

LIMIT = 6.0
"""Seconds for a collector; all run at once, so together they take as long as the slowest."""


class ServerProcess(Struct, frozen=True):
    """One process of vLLM's as the kernel shows it."""

    pid: int
    argv: tuple[str, ...] = ()
    title: str = ""
    """What the process calls itself (`VLLM::EngineCore`), else its short command."""
    parent: int | None = None
    status: str | None = None
    created: float | None = None
    """Seconds since the epoch."""
    user: str | None = None
    resident: int | None = None
    threads: int | None = None
    folder: str | None = None
    environment: Mapping[str, str] | None = None
    """None: not permitted."""
    standard_output: str | None = None


class Context(Struct, frozen=True):
    """What is known before anything is collected."""

    processes: tuple[ServerProcess, ...] = ()
    """The API server first, then the others of its tree."""
    run: RunSummary | None = None
    """The last start of the log."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The server's arguments by their names with underscores: from the command line, else from the log."""
    model_path: Path | None = None
    """Given by hand."""
    url: str | None = None
    """Given by hand."""
    site_packages: tuple[str, ...] = ()
    """Where the log's tracebacks say that vLLM lies."""
    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=dict)
    """This program's own environment, where the server's cannot be seen."""
    stamp: str = ""
    """The wall clock's text."""

    @property
    def leader(self) -> ServerProcess | None:
        """The API server's process."""
        return self.processes[0] if self.processes else None

    @property
    def seen(self) -> ServerProcess | None:
        """The first process of the server's whose environment may be read: its children have inherited it."""
        return next((process for process in self.processes if process.environment), None)

    @property
    def seen_environment(self) -> Mapping[str, str]:
        """The server's environment where it may be read, else this program's."""
        return self.seen.environment or {} if self.seen is not None else self.environment


class Collected(Struct, frozen=True):
    """What one collector found; `files` are texts as programs printed them."""

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    unavailable: tuple[Unavailable, ...] = ()


Collector = Callable[[Context], Collected]


def collect_all(
    context: Context, collectors: Sequence[tuple[str, Collector]], *, limit: float = LIMIT
) -> list[Collected]:
    """Run every collector in a thread of its own; one that fails or is late is an `Unavailable` with its reason.

    A thread that sits in the kernel (a hung driver, a dead network file system) is left behind: nobody waits for it.
    """
    results: dict[str, Collected] = {}
    threads: list[tuple[str, threading.Thread]] = []
    for name, collector in collectors:
        thread = threading.Thread(
            target=_run, args=(name, collector, context, results), daemon=True, name=f"collect-{name}"
        )
        thread.start()
        threads.append((name, thread))
    deadline = time.monotonic() + limit
    found: list[Collected] = []
    for name, thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        late = Collected(name, unavailable=(Unavailable(name, f"no answer within {limit:g} s"),))
        found.append(results.get(name, late))
    return found


def _run(name: str, collector: Collector, context: Context, results: dict[str, Collected]) -> None:
    try:
        results[name] = collector(context)
    except Exception as error:  # a collector's own fault is written down like everything that could not be had
        results[name] = Collected(name, unavailable=(Unavailable(name, f"{type(error).__name__}: {error}"),))

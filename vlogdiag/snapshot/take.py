"""Takes a snapshot of this machine and one log: what runs, what broke, what a bug report needs, without secrets."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from msgspec.structs import replace

from vlogdiag import __version__
from vlogdiag.log.discover import LogPath, SourceError, discover
from vlogdiag.log.sources import SourceBroken, read_chunks
from vlogdiag.model import Report, SourceSummary, Unavailable
from vlogdiag.snapshot.assemble import Snapshot, clean
from vlogdiag.snapshot.collect import gpu, host, kernel_log, launch, model_folder, network, server, toolchain, versions
from vlogdiag.snapshot.collect.arguments import arguments_of
from vlogdiag.snapshot.collect.base import LIMIT, Collected, Collector, Context, ServerProcess, collect_all
from vlogdiag.snapshot.collect.processes import find_processes
from vlogdiag.snapshot.collect.site_packages import folders_in
from vlogdiag.snapshot.excerpt import Excerpt, take, windows
from vlogdiag.snapshot.redact import Redactor

TAIL = 256 << 10
"""Bytes at the log's end in which a living server has printed something."""

COLLECTORS: tuple[tuple[str, Collector], ...] = (
    (launch.NAME, launch.collect),
    (versions.NAME, versions.collect),
    (gpu.NAME, gpu.collect),
    (toolchain.NAME, toolchain.collect),
    (host.NAME, host.collect),
    (kernel_log.NAME, kernel_log.collect),
    (model_folder.NAME, model_folder.collect),
    (network.NAME, network.collect),
    (server.NAME, server.collect),
)

Diagnose = Callable[[str], tuple[Report, tuple[str, ...]]]
"""A log's path to its report and the sentences about what could not be looked at."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for."""

    log: str | None = None
    pid: int | None = None
    model_path: Path | None = None
    url: str | None = None
    redaction: bool = True
    keep_prompts: bool = False


def take_snapshot(
    wanted: Wanted,
    *,
    diagnose: Diagnose,
    render_text: Callable[[Report], str],
    environment: Mapping[str, str],
    created: str,
    collectors: Sequence[tuple[str, Collector]] = COLLECTORS,
    processes: Callable[[int | None], tuple[ServerProcess, ...]] = find_processes,
    limit: float = LIMIT,
    vocabulary: Container[str] = frozenset(),
) -> Snapshot:
    """Everything that could be had; what could not is in `unavailable`, with the reason.

    Raises `collect.processes.NoSuchProcess` for a process id that is not there. Where a server runs, it is looked at
    while the log is diagnosed; where none does, the log has to say first which model and port were meant.
    """
    found = processes(wanted.pid)
    missing: list[Unavailable] = []
    context = Context(
        processes=found,
        arguments=_arguments(found),
        model_path=wanted.model_path,
        url=wanted.url,
        environment=environment,
        stamp=created,
    )
    log = _log_of(wanted, found, missing)
    early = _Collecting(context, collectors, limit) if context.arguments else None
    report, excerpt = None, None
    if log is not None:
        report, excerpt = _diagnosed(log, diagnose, missing)
    if early is None:
        context = _with_log(context, report, excerpt)
        early = _Collecting(context, collectors, limit)
    collected = early.finish()
    if found and report is not None and report.sources and report.sources[0].runs:
        context = replace(context, run=report.sources[0].runs[-1])
        collected = [launch.collect(context) if each.name == launch.NAME else each for each in collected]
    alive = bool(found) and (log is None or _printed_by(log, excerpt, found))
    if found and not alive:
        reason = f"process {found[0].pid} runs but is not in the log: another start, or a container's process ids"
        missing.append(Unavailable("the log's server", reason))
    redactor = Redactor(
        enabled=wanted.redaction,
        keep_prompts=wanted.keep_prompts,
        known=_known(found, environment),
        vocabulary=vocabulary,
    )
    snapshot = clean(
        collected,
        report,
        excerpt,
        redactor,
        version=__version__,
        created=created,
        missing=missing,
        alive=alive,
    )
    if snapshot.report is None:
        return snapshot
    return replace(snapshot, findings_text=render_text(snapshot.report))


class _Collecting:
    """Collectors at work beside the diagnosis."""

    def __init__(self, context: Context, collectors: Sequence[tuple[str, Collector]], limit: float) -> None:
        self._results: list[Collected] = []
        self._thread = threading.Thread(target=self._run, args=(context, collectors, limit), daemon=True)
        self._thread.start()

    def _run(self, context: Context, collectors: Sequence[tuple[str, Collector]], limit: float) -> None:
        self._results = collect_all(context, collectors, limit=limit)

    def finish(self) -> list[Collected]:
        self._thread.join()  # it ends by itself: every collector has a limit
        return self._results


def _arguments(processes: Sequence[ServerProcess]) -> Mapping[str, object]:
    """The server's arguments by name, as its command line has them."""
    return arguments_of(processes[0].argv) or {} if processes else {}


def _log_of(wanted: Wanted, processes: Sequence[ServerProcess], missing: list[Unavailable]) -> LogPath | None:
    """The log that was named, else the file into which the server prints."""
    path = wanted.log
    if path is None:
        target = processes[0].standard_output if processes else None
        if target is None or not _is_file(target):
            reason = "none was named, and " + (
                f"the server prints into {target}" if target else "no running server's output file could be found"
            )
            missing.append(Unavailable("log", reason))
            return None
        path = target
    logs, errors = discover([path])
    missing += [Unavailable("log", str(error)) for error in errors]
    if len(logs) > 1:
        missing.append(Unavailable("log", f"{path} holds {len(logs)} logs; the first is taken: {logs[0].name}"))
    return logs[0] if logs else None


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - the target of a link in /proc
    except OSError:
        return False


def _diagnosed(log: LogPath, diagnose: Diagnose, missing: list[Unavailable]) -> tuple[Report | None, Excerpt | None]:
    report: Report | None = None
    summary = SourceSummary(log.name)
    try:
        report, problems = diagnose(log.name)
        missing += [Unavailable("log", problem) for problem in problems]
        summary = report.sources[0] if report.sources else summary
    except Exception as error:  # broken rules, or a fault of ours: the log goes into the bundle all the same
        missing.append(Unavailable("findings", f"{type(error).__name__}: {error}"))
    if not summary.bytes:
        summary = replace(summary, bytes=_size(log))
    findings = report.findings if report is not None else ()
    try:
        return report, take(Path(log.name).name, _readable(log), windows(summary, findings), summary)
    except SourceError as error:
        missing.append(Unavailable("log", str(error)))
        return report, None


def _readable(log: LogPath) -> Iterator[bytes]:
    """The log as far as it can be read; the diagnosis has said where it breaks off."""
    try:
        yield from read_chunks(log)
    except SourceBroken:
        return


def _printed_by(log: LogPath, excerpt: Excerpt | None, processes: Sequence[ServerProcess]) -> bool:
    """Whether one of these processes prints into the log: by its open file, or by its number in the last lines."""
    paths = {str(part.resolve()) for part in log.parts}
    if any(process.standard_output in paths for process in processes):
        return True
    if excerpt is None or not excerpt.segments:
        return False
    end = excerpt.segments[-1].data[-TAIL:].decode("utf-8", "replace")
    return any(f"pid={process.pid})" in end or f"[{process.pid}]" in end for process in processes)


def _size(log: LogPath) -> int:
    """Bytes on the disk, where no diagnosis has counted the decompressed ones."""
    total = 0
    for part in log.parts:
        try:
            total += part.stat().st_size
        except OSError:
            continue  # reading it will say why
    return total


def _with_log(context: Context, report: Report | None, excerpt: Excerpt | None) -> Context:
    """What a log says of a server that does not run any more."""
    runs = report.sources[0].runs if report is not None and report.sources else ()
    texts = (segment.data.decode("utf-8", "replace") for segment in excerpt.segments) if excerpt is not None else ()
    run = runs[-1] if runs else None
    arguments = context.arguments or (dict(run.args) if run is not None else {})
    return replace(context, run=run, arguments=arguments, site_packages=folders_in(texts))


def _known(processes: Iterable[ServerProcess], environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Names and addresses of this machine and account, to be replaced wherever they stand."""
    name = socket.gethostname()
    users = {environment.get("USER", ""), environment.get("LOGNAME", ""), Path(environment.get("HOME", "/")).name}
    users |= {process.user or "" for process in processes}
    addresses: list[str] = []
    hardware: list[str] = []
    try:
        for interface in psutil.net_if_addrs().values():
            for address in interface:
                value = address.address.partition("%")[0]
                if address.family == psutil.AF_LINK:
                    hardware.append(value)
                elif not value.startswith(("127.", "::1", "0.")):
                    addresses.append(value)
    except (psutil.Error, OSError):
        pass  # the network collector says why
    return {
        "host": sorted({name, name.partition(".")[0]} - {""}),
        "user": sorted(users - {"", "root"}),
        "ip": addresses,
        "mac": [value for value in hardware if value.strip("0:")],
    }

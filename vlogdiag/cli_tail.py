"""`vlogdiag tail`: follows live logs, shows findings as they come, keeps a status line, calls hooks, exports counts."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vlogdiag.cli_common import (
    BLIND,
    FOUND,
    USAGE,
    FailOn,
    NoUserRules,
    RulesOption,
    colored,
    complain,
    fail,
    known_version,
    load_or_exit,
    width,
)

if TYPE_CHECKING:
    from vlogdiag.hooks import Hooks
    from vlogdiag.model import Event, Reading
    from vlogdiag.tail import Source, Tail

REFRESH_S = 0.5
STATE_S = 5.0
"""Seconds between two savings of `--state`."""


def tail(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Logs or globs to follow, '-' for standard input.")
    ],
    json: Annotated[bool, typer.Option("--json", help="One JSON event a line (vlogdiag.event/1).")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Read this many last lines first.")] = 200,
    from_start: Annotated[bool, typer.Option("--from-start", help="Read the whole log first.")] = False,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Go on exactly where the last tail stopped.")
    ] = None,
    metrics: Annotated[str | None, typer.Option(metavar="URL", help="The server's /metrics.")] = None,
    no_live: Annotated[bool, typer.Option("--no-live", help="Ask neither the GPUs nor the server.")] = False,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the live readings (for scan --readings).")
    ] = None,
    exec_: Annotated[
        str | None,
        typer.Option("--exec", metavar="CMD", help="Run this for each opened finding; JSON on its standard input."),
    ] = None,
    notify: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Send a message for each opened finding (apprise URL).")
    ] = None,
    min_severity: Annotated[
        FailOn, typer.Option(help="Severity from which on --exec and --notify are called.")
    ] = FailOn.ERROR,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Export counts as Prometheus metrics.")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Say at the end what tail itself cost.")] = False,
    fail_on: Annotated[FailOn, typer.Option(help="Severity from which on the exit status is 1.")] = FailOn.ERROR,
    rules: RulesOption = None,
    user_rules: NoUserRules = None,
    vllm_version: Annotated[
        str | None, typer.Option(metavar="X", help="vLLM's version, where the log does not say it.")
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.")] = False,
) -> None:
    """Follow live logs and say what breaks the moment it does."""
    from vlogdiag.log.wakers import PollingWaker
    from vlogdiag.tail import Tail

    known_version(vllm_version)
    if from_start and state is not None and state.exists():
        fail("--from-start and an existing --state contradict each other", USAGE)
    hooks = _hooks(exec_, notify, min_severity)
    loaded = load_or_exit(rules, user_rules)
    sources = _sources(paths, lines=lines, from_start=from_start, state=state)
    sampler = None if no_live else _sampler(metrics)
    following = Tail(
        sources,
        loaded,
        clock=time.monotonic,
        version=vllm_version,
        sampler=None if sampler is None else sampler.poll,
    )
    if listen is not None:
        _listen(listen, following)
    waker = PollingWaker()

    def stop(_signal: int, _frame: object) -> None:
        following.stop()
        waker.wake()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    screen = _screen(following, json=json, color=colored(no_color))
    recorder = _recorder(record)
    saver = _Saver(state, sources)

    def show(events: list[Event]) -> None:
        for event in events:
            if event.type == "finding.opened" and event.finding is not None:
                hooks.opened(event.finding)
            if event.type == "reading" and event.reading is not None:
                recorder(_on_log_clock(event.reading, following))
            screen.event(event)

    began = time.monotonic()
    with screen:
        following.run(_Ticking(waker, screen.refresh, saver.save), show)
        show(following.close())
    saver.save(force=True)
    hooks.close()
    if sampler is not None:
        sampler.close()
    if stats:
        _print_stats(following, time.monotonic() - began)
    raise typer.Exit(_status(following, fail_on))


class _Ticking:
    """A waker that also redraws the status and saves the state, at their own pace."""

    def __init__(self, inner: Any, *jobs: Callable[[], None]) -> None:
        self._inner = inner
        self._jobs = jobs

    def active(self) -> None:
        self._inner.active()

    def wait(self, timeout: float | None = None) -> None:
        for job in self._jobs:
            job()
        self._inner.wait(timeout)


def _sources(paths: list[str], *, lines: int, from_start: bool, state: Path | None) -> list[Source]:
    from vlogdiag.log.follow import Follower, StreamFollower
    from vlogdiag.log.follow_state import StateError, load_states

    try:
        states = load_states(state) if state is not None and state.exists() else {}
    except StateError as error:
        fail(str(error), BLIND)
    found: list[Source] = []
    for path in dict.fromkeys(paths):
        if path == "-":
            if sys.stdin is None:
                fail("standard input is closed", BLIND)
            found.append(StreamFollower(sys.stdin.buffer))
        else:
            known = states.get(path)
            found.append(Follower(path, from_start=from_start, context_lines=0 if known else lines, state=known))
    return found


class _Saver:
    """Writes `--state` now and then."""

    def __init__(self, file: Path | None, sources: list[Source]) -> None:
        self._file = file
        self._sources = sources
        self._last = 0.0

    def save(self, force: bool = False) -> None:
        """Save if there is something to save to, and it is time."""
        now = time.monotonic()
        if self._file is None or (not force and now - self._last < STATE_S):
            return
        from vlogdiag.log.follow_state import save_states

        self._last = now
        states = [s for source in self._sources if (s := getattr(source, "state", lambda: None)()) is not None]
        try:
            save_states(self._file, states)
        except OSError as error:
            complain(f"{self._file}: {error.strerror or error}")
            self._file = None


def _sampler(url: str | None) -> Any:
    from vlogdiag.live.metrics import MetricsUrlError, check_url
    from vlogdiag.live.probes import probes_for
    from vlogdiag.live.sampler import Sampler

    if url is not None:
        try:
            url = check_url(url) or url
        except MetricsUrlError as error:
            fail(str(error), USAGE)
    return Sampler(probes_for(url))


def _hooks(command: str | None, urls: list[str] | None, least: FailOn) -> Hooks:
    from vlogdiag.hooks import CommandHook, Hook, HookError, Hooks, MessageHook
    from vlogdiag.model import Severity

    levels = {FailOn.INFO: Severity.INFO, FailOn.WARNING: Severity.WARNING}
    chosen: list[Hook] = []
    try:
        if command is not None:
            chosen.append(CommandHook.parse(command))
        if urls:
            chosen.append(MessageHook(tuple(urls)))
    except HookError as error:
        fail(str(error), USAGE)
    if least is FailOn.NEVER:
        chosen = []
    return Hooks(tuple(chosen), levels.get(least, Severity.ERROR), complain, time.monotonic)


def _listen(where: str, following: Tail) -> None:
    from vlogdiag.export import ExportError, serve

    try:
        serve(where, following)
    except ExportError as error:
        fail(str(error), USAGE)
    except OSError as error:
        fail(f"--listen {where}: {error.strerror or error}", BLIND)


def _recorder(path: Path | None) -> Callable[[Reading], None]:
    from vlogdiag.live.readings import to_line

    if path is None:
        return lambda reading: None
    try:
        file = path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", BLIND)
    return lambda reading: void(file.write(to_line(reading)))


def void(_: object) -> None:
    """A call for its effect."""


def _on_log_clock(reading: Reading, following: Tail) -> Reading:
    from dataclasses import replace

    for session in following.sessions.values():
        return replace(reading, time=session.pipeline.log_time(time.monotonic()))
    return reading


def _status(following: Tail, fail_on: FailOn) -> int:
    from vlogdiag.model import Severity

    levels = {FailOn.ERROR: Severity.ERROR, FailOn.WARNING: Severity.WARNING, FailOn.INFO: Severity.INFO}
    level = levels.get(fail_on)
    return FOUND if level is not None and any(f.severity >= level for f in following.all_findings) else 0


def _screen(following: Tail, *, json: bool, color: bool) -> Any:
    from vlogdiag.tail_screen import JsonScreen, PlainScreen, TerminalScreen

    if json:
        return JsonScreen()
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalScreen(following, color=color)
    return PlainScreen(following, width=width())


def _print_stats(following: Tail, seconds: float) -> None:
    import psutil

    process = psutil.Process()
    used = process.cpu_times()
    share = (used.user + used.system) / seconds if seconds else 0.0
    counts = following.counts
    complain(
        f"{counts.lines} lines, {counts.bytes} bytes in {seconds:.1f} s; {share:.2%} of a core, "
        f"{process.memory_info().rss / 2**20:.0f} MiB, {counts.polls} looks"
    )

"""`vlogdiag tail`: follows live logs, shows findings as they come, keeps a status line, calls hooks, exports counts."""

from __future__ import annotations

import glob
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
    keep_apart,
    known_version,
    load_or_exit,
    severity_of,
    unicode_output,
    width,
)

if TYPE_CHECKING:
    from vlogdiag.hooks import Hooks
    from vlogdiag.live.sampler import Sampler
    from vlogdiag.model import Event, Finding, Reading
    from vlogdiag.pipeline import Pipeline
    from vlogdiag.tail import Source, Tail

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
        Path | None, typer.Option(metavar="FILE", help="Go on exactly where the last tail with this file stopped.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="URL", help="The server's /metrics (else as the log says, on this machine).")
    ] = None,
    no_live: Annotated[bool, typer.Option("--no-live", help="Ask neither the GPUs nor the server.")] = False,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the live readings (for scan --readings).")
    ] = None,
    exec_: Annotated[
        str | None,
        typer.Option("--exec", metavar="CMD", help="Run this once an incident; JSON on its standard input."),
    ] = None,
    notify: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Send one message an incident (apprise URL, repeatable).")
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
        str | None, typer.Option(metavar="X", help="Judge by this vLLM version, whatever the log says.")
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.")] = False,
) -> None:
    """Follow live logs and say what breaks the moment it does."""
    from vlogdiag.cli_output import reader_gone
    from vlogdiag.log.wakers import PollingWaker
    from vlogdiag.tail import Surroundings, Tail

    known_version(vllm_version)
    keep_apart(_followed(paths), {"--record": record, "--state": state})
    hooks = _hooks(exec_, notify, min_severity)
    sources = _sources(paths, lines=lines, from_start=from_start, state=state)
    with ExitStack() as stack:
        recorder = _Recorder(record, stack)
        loaded = load_or_exit(rules, user_rules)
        followed: list[Tail] = []
        sampler = None if no_live else _sampler(metrics, lambda: _address(followed))
        if sampler is not None:
            stack.callback(sampler.close)
        following = Tail(
            sources,
            loaded,
            Surroundings(
                clock=time.monotonic,
                wall=time.time,
                local=float(time.localtime().tm_gmtoff),
                sample=None if sampler is None else lambda: sampler.poll(None),
                cuda=_cuda(),
                adorn=_with_command,
                observed=recorder.take,
            ),
            version=vllm_version,
        )
        followed.append(following)
        if listen is not None:
            stack.callback(_listen(listen, following))
        screen = _screen(following, json=json, color=colored(no_color))
        saver = _Saver(state, sources, following)
        stack.callback(hooks.close)
        _on_signals(following)

        def show(events: list[Event]) -> None:
            for event in events:
                hooks.event(event)
                screen.event(event)

        def heed_reader() -> None:
            if reader_gone():
                following.stop()

        meter = _Meter()
        with screen:
            following.run(PollingWaker(), show, (screen.refresh, saver.save, heed_reader))
            show(following.close())
        saver.save(force=True)
    recorder.conclude()
    if stats:
        complain(meter.sentence(following))
    raise typer.Exit(0 if reader_gone() else _status(following, fail_on))


def _followed(paths: list[str]) -> Iterator[Path | int]:
    """What is read, as far as it is there: what a later match of a glob is called, nobody knows."""
    for path in paths:
        yield 0 if path == "-" else Path(path)
        yield from map(Path, glob.glob(path))  # noqa: PTH207 - pathlib refuses absolute patterns


def _on_signals(following: Tail) -> None:
    """The first signal ends the tail cleanly, the second at once.

    The handler only sets a flag: waking the waiting thread from it could wait for a lock that this thread holds.
    """

    def stop(number: int, _frame: object) -> None:
        following.stop()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # under nohup a lost terminal is no reason
            signal.signal(number, stop)


def _sources(paths: list[str], *, lines: int, from_start: bool, state: Path | None) -> list[Source]:
    from vlogdiag.log.follow import Follower, StreamFollower
    from vlogdiag.log.follow_state import StateError, load_states

    try:
        states = load_states(state) if state is not None else {}
    except StateError as error:
        fail(str(error), BLIND)
    found: list[Source] = []
    for path in dict.fromkeys(paths):
        if path == "-":
            if sys.stdin is None:
                fail("standard input is closed", BLIND)
            found.append(StreamFollower(sys.stdin.buffer))
            continue
        if not path:
            fail("the path is empty", BLIND)
        if Path(path).is_dir():
            fail(f"{path}: is a folder; name its logs, or a glob of them", BLIND)
        if Path(path).is_char_device() or Path(path).is_block_device():
            fail(f"{path}: is a device, not a log", BLIND)
        known = states.get(path)
        if known is None and not any(mark in path for mark in "*?[") and not Path(path).exists():
            complain(f"{path}: not there yet; waiting for it")
        found.append(Follower(path, from_start=from_start, context_lines=0 if known else lines, state=known))
    return found


class _Saver:
    """Writes `--state` now and then, if something was read since."""

    def __init__(self, file: Path | None, sources: list[Source], following: Tail) -> None:
        self._file = file
        self._sources = sources
        self._following = following
        self._last = 0.0
        self._read = -1

    def save(self, force: bool = False) -> None:
        """Save if there is something to save to, and it is time."""
        now, read = time.monotonic(), self._following.counts.bytes
        if self._file is None or (not force and (now - self._last < STATE_S or read == self._read)):
            return
        from vlogdiag.log.follow_state import StateError, save_states

        self._last, self._read = now, read
        states = [s for source in self._sources if (s := getattr(source, "state", lambda: None)()) is not None]
        try:
            save_states(self._file, states)
        except StateError as error:
            complain(str(error))
            self._file = None


def _sampler(url: str | None, address: Callable[[], tuple[str | None, int] | None]) -> Sampler:
    from vlogdiag.live.followed import FollowedServer
    from vlogdiag.live.metrics import MetricsUrlError, check_url
    from vlogdiag.live.probes import probes_for
    from vlogdiag.live.sampler import Sampler

    if url is None:
        return Sampler((*probes_for(None), FollowedServer(address)))
    try:
        return Sampler(probes_for(check_url(url)))
    except MetricsUrlError as error:
        fail(f"--metrics: {error}", USAGE)


def _address(followed: list[Tail]) -> tuple[str | None, int] | None:
    """Of the first followed log that names a server."""
    for following in followed:
        for session in following.sessions.copy().values():
            if (address := session.pipeline.address) is not None:
                return address
    return None


def _cuda() -> Any:
    from vlogdiag.live.followed import CudaOfServer

    return CudaOfServer()


def _with_command(finding: Finding, pipeline: Pipeline) -> Finding:
    """Fixes as the user's own command, as `scan` shows them."""
    from vlogdiag.cli_common import with_commands
    from vlogdiag.model import Report, RuleCount, SourceSummary

    run = pipeline.summary_of(finding.run)
    if run is None:
        return finding
    source = SourceSummary(finding.source, runs=(run,))
    return with_commands(Report("", RuleCount(0, 0, ""), (source,), (finding,))).findings[0]


def _hooks(command: str | None, urls: list[str] | None, least: FailOn) -> Hooks:
    from vlogdiag.hooks import CommandHook, Hook, HookError, Hooks, MessageHook
    from vlogdiag.model import Severity

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
    return Hooks(tuple(chosen), severity_of(least) or Severity.ERROR, complain, time.monotonic)


def _listen(where: str, following: Tail) -> Callable[[], None]:
    from vlogdiag.export import ExportError, serve

    try:
        return serve(where, following)
    except ExportError as error:
        fail(str(error), USAGE)
    except OSError as error:
        fail(f"--listen {where}: {error.strerror or error}", BLIND)


class _Recorder:
    """Writes `--record`: every reading that could be placed on the log's clock, as soon as it was."""

    def __init__(self, path: Path | None, stack: ExitStack) -> None:
        self._path = path
        self._count = 0
        self._file = None
        if path is None:
            return
        try:
            self._file = stack.enter_context(path.open("a", encoding="utf-8", buffering=1))
        except OSError as error:
            fail(f"{path}: {error.strerror or error}", BLIND)

    def take(self, reading: Reading) -> None:
        """Write one reading; a full disk ends the recording, not the tail."""
        from vlogdiag.live.readings import to_line

        if self._file is None:
            return
        self._count += 1
        try:
            self._file.write(to_line(reading))
        except OSError as error:
            complain(f"--record {self._path}: {error.strerror or error}; recording ends")
            self._file = None

    def conclude(self) -> None:
        """Say why there is nothing in it, if so."""
        if self._file is not None and not self._count:
            complain(f"--record {self._path}: nothing recorded, since no line was written to the log meanwhile")


class _Meter:
    """What the process has used since the meter was made."""

    def __init__(self) -> None:
        import psutil

        self._process = psutil.Process()
        self._began = time.monotonic()
        self._cpu = self._used()

    def _used(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def sentence(self, following: Tail) -> str:
        """Lines, time, share of a core, memory."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        counts = following.counts
        share = (self._used() - self._cpu) / seconds
        return (
            f"{counts.lines} lines, {counts.bytes} bytes in {seconds:.1f} s; {share:.2%} of a core, "
            f"{self._process.memory_info().rss / 2**20:.0f} MiB, {counts.polls} looks"
        )


def _status(following: Tail, fail_on: FailOn) -> int:
    level = severity_of(fail_on)
    return FOUND if level is not None and any(f.severity >= level for f in following.all_findings) else 0


def _screen(following: Tail, *, json: bool, color: bool) -> Any:
    from vlogdiag.tail_screen import JsonScreen, PlainScreen, TerminalScreen

    if json:
        return JsonScreen()
    unicode = unicode_output()
    if sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb"):
        return TerminalScreen(following, color=color, unicode=unicode)
    return PlainScreen(width=width(), unicode=unicode)

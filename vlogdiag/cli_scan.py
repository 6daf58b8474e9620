"""`vlogdiag scan`: finished logs to root causes, proof and fixes; as text, JSON, Markdown, time line or page."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    progress_bar,
    severity_of,
    unicode_output,
    whole_number,
    width,
    with_commands,
)

if TYPE_CHECKING:
    from vlogdiag.loading import Rules
    from vlogdiag.log.when import Moment
    from vlogdiag.model import Reading, Report


def scan(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Log files, folders (*.log*), globs, '-' for standard input; snapshots; .gz, .zst."
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON (vlogdiag.report/1).")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the report as Markdown.")] = False,
    fail_on: Annotated[FailOn, typer.Option(help="Severity from which on the exit status is 1.")] = FailOn.ERROR,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 though there are findings.")] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Leave a signature's findings out (repeatable).")
    ] = None,
    run: Annotated[str, typer.Option(metavar="N|last|all", help="Which start of the server.")] = "all",
    since: Annotated[
        str | None, typer.Option(metavar="T", help="Only what happened from then on: 30m, 23:18, '11-30 23:18'.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="T", help="Only what happened until then.")] = None,
    rules: RulesOption = None,
    user_rules: NoUserRules = None,
    vllm_version: Annotated[
        str | None, typer.Option(metavar="X", help="Judge by this vLLM version, whatever the log says.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Say also who holds the GPUs' memory now.")] = False,
    readings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Live readings that `tail --record` wrote.")
    ] = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="Show the log's own time series and starts.")] = False,
    timeline_csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every statistics line as CSV.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a self-contained page with plots.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="More evidence, all references, whole commands.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.")] = False,
) -> None:
    """Diagnose finished logs: root causes, the lines that prove them, the fixes."""
    from vlogdiag.live.readings import ReadingError
    from vlogdiag.scan import Look, scan_paths

    _check_combinations(paths, json=json, markdown=markdown, timeline=timeline, live=live, files=(timeline_csv, html))
    if run not in ("all", "last") and not whole_number(run):
        fail(f"--run takes a number, 'last' or 'all', not {run!r}", USAGE)
    known_version(vllm_version)
    look = Look(
        version=vllm_version,
        run=run,
        ignore=frozenset(ignore or ()),
        since=_moment("--since", since),
        until=_moment("--until", until),
        readings=partial(_readings, readings),
    )
    if _reversed(look.since, look.until):
        fail(f"--since {since} is later than --until {until}", USAGE)
    loaded = load_or_exit(rules, user_rules)
    for ident in ignore or ():
        if ident not in loaded.book.by_id and ident != "unexplained-failure":
            fail(f"--ignore {ident}: no such signature (see `vlogdiag rules list`)", USAGE)
    try:
        with progress_bar() as progress:
            done = scan_paths(paths, loaded, look, progress=progress)
    except ReadingError as error:
        fail(f"{readings}: {error}", BLIND)
    report = with_commands(done.report)
    for problem in done.problems:
        complain(problem)
    _print_report(report, json=json, markdown=markdown, verbose=verbose, no_color=no_color)
    written = True
    if timeline or timeline_csv is not None or html is not None:
        written = _print_timelines(paths, report, loaded, look.version, show=timeline, csv=timeline_csv, html=html)
    if live:
        _print_live()
    sys.stdout.flush()
    raise typer.Exit(_status(report, done.looked and written, fail_on, exit_zero))


def _check_combinations(
    paths: list[str],
    *,
    json: bool,
    markdown: bool,
    timeline: bool,
    live: bool,
    files: tuple[Path | None, Path | None],
) -> None:
    """Exit 2 for what contradicts itself, before anything is read."""
    if json and markdown:
        fail("--json and --markdown both want standard output: choose one", USAGE)
    for option, given in (("--timeline", timeline), ("--live", live)):
        if given and (json or markdown):
            fail(f"{option} is text: it goes with neither --json nor --markdown", USAGE)
    if (timeline or any(files)) and "-" in paths:
        fail("--timeline, --timeline-csv and --html read a log twice; standard input can be read once", USAGE)
    if any(files):
        from vlogdiag.log.discover import discover

        read = [part for log in discover(paths)[0] for part in log.parts]
        keep_apart(read, {"--timeline-csv": files[0], "--html": files[1]})


def _print_report(report: Report, *, json: bool, markdown: bool, verbose: bool, no_color: bool) -> None:
    if json:
        from vlogdiag.report.json import dumps

        sys.stdout.write(dumps(report) + "\n")
    elif markdown:
        from vlogdiag.report.markdown import render as render_markdown

        sys.stdout.write(render_markdown(report))
    elif any(source.lines for source in report.sources):
        from vlogdiag.report.terminal import render

        sys.stdout.write(
            render(report, width=width(), color=colored(no_color), verbose=verbose, unicode=unicode_output())
        )


def _print_timelines(
    paths: list[str],
    report: Report,
    rules: Rules,
    version: str | None,
    *,
    show: bool,
    csv: Path | None,
    html: Path | None,
) -> bool:
    """Read the logs once more, every statistics line of them; False when a file could not be written."""
    from vlogdiag.log.discover import SourceError, discover
    from vlogdiag.report.timeline import render
    from vlogdiag.scan import whole_log
    from vlogdiag.timeline import read_timeline, write_csv

    logs, _ = discover(paths)
    timelines = []
    for log in logs:
        try:
            timelines.append(read_timeline(log.name, whole_log(log), rules, version=version))
        except SourceError:
            continue  # complained about before
    if show:
        for one in timelines:
            sys.stdout.write("\n" + render(one, width=width(), unicode=unicode_output()))
    try:
        if csv is not None:
            with csv.open("w", encoding="utf-8", newline="") as file:
                write_csv(timelines, file)
        if html is not None:
            from vlogdiag.report.html import render as page

            html.write_text(page(report, timelines), encoding="utf-8")
    except OSError as error:
        complain(f"{error.filename or html or csv}: {error.strerror or error}")
        return False
    return True


def _moment(option: str, text: str | None) -> Moment | None:
    from vlogdiag.log.when import WhenError, parse_moment

    if text is None:
        return None
    try:
        return parse_moment(text)
    except WhenError as error:
        fail(f"{option}: {error}", USAGE)


def _reversed(since: Moment | None, until: Moment | None) -> bool:
    """Whether nothing can lie between; times of day are not judged, since midnight may lie between them."""
    if since is None or until is None:
        return False
    if since.before_end is not None and until.before_end is not None:
        return since.before_end < until.before_end
    if since.day is None or until.day is None or (since.year is None) != (until.year is None):
        return False
    first, last = ((m.year or 0, m.month or 0, m.day or 0, m.second or 0.0) for m in (since, until))
    # Without years December may come before January.
    return first > last and (since.year is not None or (since.month or 0) - (until.month or 0) < 6)


def _readings(path: Path | None) -> Iterator[Reading]:
    """A recording, line by line. Raises ReadingError."""
    from vlogdiag.live.readings import read_lines

    if path is None:
        return
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from read_lines(file)
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", BLIND)


def _print_live() -> None:
    """What the machine says now: after a crash the memory is free again, so this clears nobody."""
    from vlogdiag.live.describe import describe, describe_missing
    from vlogdiag.live.probes import probes_for
    from vlogdiag.live.sampler import take
    from vlogdiag.report.safe import plain

    reading = take(probes_for(None), limit=5.0, stamp=time.strftime("%Y-%m-%d %H:%M:%S"))
    print("\nnow (not at the time of the log):")
    for line in describe(reading) or ("nothing could be read",):
        print(f"  {plain(line)}")
    for line in describe_missing(reading)[:5]:
        print(f"  not available: {plain(line)}")


def _status(report: Report, looked: bool, fail_on: FailOn, exit_zero: bool) -> int:
    level = severity_of(fail_on)
    if level is not None and not exit_zero and any(f.severity >= level for f in report.findings):
        return FOUND
    return 0 if looked else BLIND

"""What every command shares: exit statuses, complaints, rule loading, the terminal."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vlogdiag.loading import Rules
    from vlogdiag.log.discover import LogPath
    from vlogdiag.model import Report, Severity

FOUND, USAGE, BLIND, INTERRUPTED = 1, 2, 3, 130
"""Exit statuses of DESIGN section 7."""


class FailOn(str, Enum):
    """From which severity on a finding makes the exit status 1."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


def complain(text: str) -> None:
    """One line on standard error, safe to print."""
    from vlogdiag.report.safe import plain

    print(f"vlogdiag: {plain(text)}", file=sys.stderr)


def fail(text: str, status: int) -> NoReturn:
    """Complain and exit."""
    complain(text)
    raise typer.Exit(status)


def keep_apart(inputs: Iterable[Path | int], outputs: Mapping[str, Path | None]) -> None:
    """Exit 2 where an output (by its option) is one of the files that are read (paths or descriptors), or another's."""
    taken: dict[object, str] = {}
    for place in inputs:
        if (identity := _identity(place)) is not None:
            taken.setdefault(identity, "is read")
    for option, path in outputs.items():
        if path is None or (identity := _identity(path)) is None:
            continue
        if identity in taken:
            fail(f"{option} {path}: that file {taken[identity]} by this very command", USAGE)
        taken[identity] = f"is written with {option}"


def _identity(place: Path | int) -> object | None:
    """What two names of one file have in common; None for a device or a pipe, which holds nothing to be lost."""
    try:
        status = os.fstat(place) if isinstance(place, int) else place.stat()
    except (OSError, ValueError):
        return None if isinstance(place, int) else os.path.realpath(place)
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def whole_number(text: str) -> int | None:
    """`text` as a number that counts something; None for anything else, foreign digits and long rows of nines."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def unicode_output() -> bool:
    """Whether standard output can print what ASCII lacks."""
    return (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")


def severity_of(level: FailOn) -> Severity | None:
    """The severity that an option names; None for `never`."""
    from vlogdiag.model import Severity

    return None if level is FailOn.NEVER else Severity[level.name]


def one_log(path: str) -> LogPath:
    """The one log behind `path`; exits 2 where there are several, 3 where there is none."""
    from vlogdiag.log.discover import discover

    logs, errors = discover([path])
    for error in errors:
        complain(str(error) if error.path else error.reason)
    if len(logs) > 1:
        fail(f"{path} holds {len(logs)} logs: give one of them", USAGE)
    if not logs:
        raise typer.Exit(BLIND)
    return logs[0]


RulesOption = Annotated[
    list[Path] | None, typer.Option("--rules", metavar="DIR", help="Load your own signatures too (repeatable).")
]
NoUserRules = Annotated[
    bool | None,
    typer.Option(
        "--user-rules/--no-user-rules",
        help="Rules of your configuration folder; off by default when CI is set.",
        show_default=False,
    ),
]


def load_or_exit(extra: list[Path] | None, user: bool | None, *, examples: bool = False) -> Rules:
    """Rules or exit 3 with every fault."""
    from vlogdiag.loading import load, rule_files, user_folders
    from vlogdiag.signatures.faults import RuleError

    for place in extra or ():
        if not place.exists():
            fail(f"{place}: no such rules folder", BLIND)
        if place.is_dir() and not rule_files(place):
            complain(f"{place}: no rules in that folder (*.yaml)")
    env = {k: v for k, v in os.environ.items() if k != "CI"} if user else os.environ
    folders = [*(extra or ()), *(() if user is False else user_folders(env))]
    try:
        return load(folders, examples=examples)
    except RuleError as error:
        for fault in error.faults:
            complain(f"{fault.path}:{fault.line}:{fault.column}: {fault.message}")
        raise typer.Exit(BLIND) from None


def colored(no_color: bool) -> bool:
    """Whether standard output is a terminal that wants colours."""
    return sys.stdout.isatty() and not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal, 100 when there is none."""
    import shutil

    return max(40, min(200, shutil.get_terminal_size((100, 24)).columns))


def known_version(text: str | None) -> None:
    """Exit 2 with the nearest known release if nobody knows this one."""
    from vlogdiag.catalog import VersionError, Versions

    if text is not None:
        try:
            Versions.known(text)
        except VersionError as error:
            fail(str(error), USAGE)


BIG = 100_000_000
"""Bytes from which on a progress bar is worth its place."""


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int | None], None] | None]:
    """A bar on standard error while a long log is read; only on a terminal, and only from `BIG` bytes on."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    bar = Progress(
        BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    task = None

    def step(done: int, total: int | None) -> None:
        nonlocal task
        if task is None:
            if (total or done) < BIG:
                return
            bar.start()
            task = bar.add_task("reading", total=total)
        bar.update(task, completed=done, total=total)

    try:
        yield step
    finally:
        if task is not None:
            bar.stop()


def with_commands(report: Report) -> Report:
    """Every fix with the user's own command, rewritten; secrets left out."""
    if not report.findings:
        return report
    from vlogdiag.launch.remedy import with_commands as fill

    return fill(report)

"""The commands: reads the command line, wires the rooms together; the only place that exits or prints errors."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from vlogdiag import __version__
from vlogdiag.cli_common import (
    BLIND,
    FOUND,
    INTERRUPTED,
    USAGE,
    FailOn,
    NoUserRules,
    RulesOption,
    colored,
    complain,
    fail,
    load_or_exit,
    width,
)
from vlogdiag.cli_rules import rules_app

app = typer.Typer(
    name="vlogdiag",
    help="What broke first in a vLLM server, the lines that prove it, and the one change to make.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)

app.add_typer(rules_app, name="rules")


def _version(value: bool) -> None:
    if value:
        print(f"vlogdiag {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What broke first in a vLLM server, the lines that prove it, and the one change to make."""


@app.command()
def scan(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Log files, folders (*.log*), globs, '-' for standard input; .gz and .zst too."
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
    rules: RulesOption = None,
    user_rules: NoUserRules = None,
    vllm_version: Annotated[
        str | None, typer.Option(metavar="X", help="vLLM's version, where the log does not say it.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="More evidence, all references, whole commands.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.")] = False,
) -> None:
    """Diagnose finished logs: root causes, the lines that prove them, the fixes."""
    from vlogdiag.catalog import VersionError, Versions
    from vlogdiag.scan import scan_paths

    if run not in ("all", "last") and not (run.isdigit() and int(run) > 0):
        fail(f"--run takes a number, 'last' or 'all', not {run!r}", USAGE)
    if vllm_version is not None:
        try:
            Versions.known(vllm_version)
        except VersionError as error:
            fail(str(error), USAGE)
    loaded = load_or_exit(rules, user_rules)
    for ident in ignore or ():
        if ident not in loaded.book.by_id and ident != "unexplained-failure":
            fail(f"--ignore {ident}: no such signature (see `vlogdiag rules list`)", USAGE)
    done = scan_paths(paths, loaded, version=vllm_version, run=run, ignore=frozenset(ignore or ()))
    report = done.report
    for problem in done.problems:
        complain(problem)
    if json:
        from vlogdiag.report.json import dumps

        sys.stdout.write(dumps(report) + "\n")
    elif markdown:
        from vlogdiag.report.markdown import render as render_markdown

        sys.stdout.write(render_markdown(report))
    elif any(source.lines for source in report.sources):
        from vlogdiag.report.terminal import render

        sys.stdout.write(render(report, width=width(), color=colored(no_color), verbose=verbose, unicode=_unicode()))
    sys.stdout.flush()
    raise typer.Exit(_status(report, done.looked, fail_on, exit_zero))


def _unicode() -> bool:
    return (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")


def _status(report: object, looked: bool, fail_on: FailOn, exit_zero: bool) -> int:
    from vlogdiag.model import Severity

    levels = {FailOn.ERROR: Severity.ERROR, FailOn.WARNING: Severity.WARNING, FailOn.INFO: Severity.INFO}
    level = levels.get(fail_on)
    if level is not None and not exit_zero and any(f.severity >= level for f in report.findings):  # type: ignore[attr-defined]
        return FOUND
    return 0 if looked else BLIND


def main() -> None:
    """Console entry: quiet on a closed pipe, 130 on Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        app(standalone_mode=True)
    except BrokenPipeError:
        # The reader has gone: nothing to say, and Python must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()

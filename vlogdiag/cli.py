"""The commands put together; the only place that starts and ends the program.

A command's module is imported only when it is asked for: a scan of fifty lines must not wait for what `tail` needs.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from vlogdiag import __version__
from vlogdiag.cli_common import BLIND, INTERRUPTED
from vlogdiag.cli_output import outlive_readers

__all__ = ["application", "main"]

UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.EBADF)
"""What a write to standard output fails with: a full disk, or a descriptor that was opened for reading."""

GARBAGE = 50_000
"""Objects made before the collector looks: records hold no cycles, so that it went over all rules for nothing."""
COMMANDS = (
    ("scan", "vlogdiag.cli_scan", "scan"),
    ("tail", "vlogdiag.cli_tail", "tail"),
    ("snapshot", "vlogdiag.cli_snapshot", "snapshot"),
    ("redact", "vlogdiag.cli_snapshot", "redact"),
    ("fix", "vlogdiag.cli_fix", "fix"),
    ("compare", "vlogdiag.cli_compare", "compare"),
    ("whatif", "vlogdiag.cli_whatif", "whatif"),
    ("flags", "vlogdiag.cli_flags", "flags_app"),
    ("rules", "vlogdiag.cli_rules", "rules_app"),
)
"""(name, module, function or group), in the order of `--help`."""


def _version(value: bool) -> None:
    if value:
        print(f"vlogdiag {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What broke first in a vLLM server, the lines that prove it, and the one change to make."""


def application(words: Sequence[str] = ()) -> typer.Typer:
    """The program with all its commands, or with only the one that `words` (the command line) begins with."""
    app = typer.Typer(
        name="vlogdiag",
        help=root.__doc__,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
    )
    app.callback()(root)
    asked = words[0] if words else None
    for name, module, attribute in COMMANDS:
        if asked in {known for known, _, _ in COMMANDS} and name != asked:
            continue
        found: Any = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def __getattr__(name: str) -> Any:
    """`app`, whole, for tests and for tools that write the documents."""
    if name == "app":
        return application()
    raise AttributeError(name)


def main() -> None:
    """Console entry: the command's own status though nobody reads what it prints, 3 on a full disk, 130 on Ctrl-C."""
    outlive_readers()
    gc.set_threshold(GARBAGE)
    try:
        try:
            application(sys.argv[1:])(standalone_mode=True)
        finally:
            sys.stdout.flush()  # here, where it can still be said that it failed
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"vlogdiag: standard output: {error.strerror}\n")
        raise SystemExit(BLIND) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()

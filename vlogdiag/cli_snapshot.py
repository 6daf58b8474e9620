"""The commands `vlogdiag snapshot` and `vlogdiag redact`."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vlogdiag.cli_common import BLIND, USAGE, complain, fail, one_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from vlogdiag.model import Report
    from vlogdiag.snapshot.assemble import Snapshot

STDOUT = "-"
READ = 1 << 20
_WORD = re.compile(r"[a-z][a-z0-9_-]{3,}")


def snapshot(
    log: Annotated[
        str | None,
        typer.Argument(metavar="[LOG]", help="The server's log; else the file into which a running server prints."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where the archive goes; '-' is standard output."),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page for a bug report too.")] = False,
    pid: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, metavar="N", help="The server's process, if there are several.")
    ] = None,
    model_path: Annotated[Path | None, typer.Option(metavar="DIR", help="The model's folder.")] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="The server, as in http://localhost:8000.")] = None,
    keep_prompts: Annotated[bool, typer.Option("--keep-prompts", help="Leave prompts and outputs in the log.")] = False,
    no_redact: Annotated[bool, typer.Option("--no-redact", help="Leave everything as it is, keys included.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask about --keep-prompts and --no-redact.")] = False,
) -> None:
    """Collect what a bug report needs, secrets left out: one archive and one Markdown page."""
    from vlogdiag.snapshot.collect.processes import NoSuchProcess
    from vlogdiag.snapshot.page import render_page
    from vlogdiag.snapshot.take import Wanted, take_snapshot

    if log == STDOUT:
        fail("a snapshot reads the log twice: give it a file", USAGE)
    if output == STDOUT and markdown:
        fail("--markdown and -o - both want standard output", USAGE)
    if model_path is not None and not model_path.is_dir():
        fail(f"--model-path {model_path}: no such folder", USAGE)
    if url is not None:
        _check_url(url)
    _consent(keep_prompts=keep_prompts, no_redact=no_redact, yes=yes)
    now = int(time.time())
    wanted = Wanted(log, pid, model_path, url, redaction=not no_redact, keep_prompts=keep_prompts)
    try:
        taken = take_snapshot(
            wanted,
            diagnose=_diagnose,
            render_text=_render_text,
            environment=dict(os.environ),
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
            vocabulary=_vocabulary(),
        )
    except NoSuchProcess as error:
        fail(str(error), USAGE)
    folder = "vlogdiag-snapshot-" + time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    target = Path(output) if output not in (None, STDOUT) else Path(f"{folder}.tar.gz")
    page = render_page(taken, bundle=None if output == STDOUT else target.name)
    _deliver(taken, page, folder=folder, mtime=now, target=None if output == STDOUT else target)
    if markdown:
        sys.stdout.write(page)
    _tell(taken, None if output == STDOUT else target)
    if log is not None and taken.log is None:
        raise typer.Exit(BLIND)


def redact(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A log, compressed or not; '-' for standard input.")],
    keep_prompts: Annotated[
        bool, typer.Option("--keep-prompts", help="Leave prompts and outputs as they are.")
    ] = False,
) -> None:
    """Print a log without keys, names, addresses and prompts; equal values get equal placeholders."""
    from vlogdiag.cli_output import reader_gone
    from vlogdiag.log.discover import SourceError
    from vlogdiag.log.sources import read_chunks
    from vlogdiag.report.safe import plain
    from vlogdiag.snapshot.redact import Redactor, redact_stream

    log = one_log(file)
    redactor = Redactor(keep_prompts=keep_prompts, vocabulary=_vocabulary())
    try:
        lines = _lines(read_chunks(log, stdin=getattr(sys.stdin, "buffer", None)))
        terminal = sys.stdout.isatty()
        for line in redact_stream(lines, redactor):
            if terminal:  # a file gets what the log holds, a terminal nothing that it would obey
                # Every escape may become several characters: none of the line is left out.
                sys.stdout.write(plain(line.rstrip("\r\n"), cap=16 * len(line) + 16, wrapped=False) + "\n")
            else:
                sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape"))
            if reader_gone():
                return
        sys.stdout.flush()
    except SourceError as error:
        complain(str(error))
        raise typer.Exit(BLIND) from None
    _tell_counts(dict(redactor.counts()))


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Lines with their ends; one without an end for megabytes is handed on in parts, so that memory stays small."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "surrogateescape") + "\n"
        if len(rest) > 16 * READ:
            yield rest.decode("utf-8", "surrogateescape")
            rest = b""
    if rest:
        yield rest.decode("utf-8", "surrogateescape")


def _check_url(url: str) -> None:
    from vlogdiag.live.metrics import MetricsUrlError, check_url

    try:
        check_url(url)
    except MetricsUrlError as error:
        fail(f"--url: {error}", USAGE)


def _consent(*, keep_prompts: bool, no_redact: bool, yes: bool) -> None:
    """What leaves secrets in is done only on somebody's word: a question on a terminal, `--yes` elsewhere."""
    if yes or not (keep_prompts or no_redact):
        return
    flag = "--no-redact" if no_redact else "--keep-prompts"
    what = "keys, names, addresses and prompts" if no_redact else "the users' prompts and the model's outputs"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        fail(f"{flag} leaves {what} in the archive: say --yes as well where nobody can be asked", USAGE)
    if not typer.confirm(f"{flag} leaves {what} in the archive. Go on?", err=True):
        fail("nothing was written", USAGE)


def _diagnose(path: str) -> tuple[Report, tuple[str, ...]]:
    from vlogdiag.cli_common import with_commands
    from vlogdiag.loading import load
    from vlogdiag.scan import scan_paths

    done = scan_paths([path], load())
    return with_commands(done.report), done.problems


def _vocabulary() -> frozenset[str]:
    """The words of the rules: a machine or a user of such a name must not cost a diagnosis its evidence."""
    from vlogdiag.loading import rules_folder

    texts = (path.read_text(encoding="utf-8", errors="replace") for path in rules_folder().rglob("*.yaml"))
    return frozenset(word for text in texts for word in _WORD.findall(text.lower()))


def _render_text(report: Report) -> str:
    from vlogdiag.report.terminal import render

    return render(report, width=100, color=False, verbose=True)


def _deliver(taken: Snapshot, page: str, *, folder: str, mtime: int, target: Path | None) -> None:
    from vlogdiag.snapshot.assemble import about, entries
    from vlogdiag.snapshot.bundle import build
    from vlogdiag.snapshot.output import OutputError, OutputExists, save

    data = build(list(entries(taken, page)), about(taken), folder=folder, mtime=mtime)
    try:
        if target is None:
            _write(sys.stdout.buffer, data)
        else:
            save(data, target)
    except OutputExists as error:
        fail(str(error), USAGE)
    except OutputError as error:
        fail(str(error), BLIND)


def _write(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
    stream.flush()


def _tell(taken: Snapshot, target: Path | None) -> None:
    """What was done, on standard error: the archive or the page may stand on standard output."""
    from vlogdiag.report.safe import plain

    if target is not None:
        print(f"wrote {plain(str(target))}", file=sys.stderr)
    if taken.redaction:
        _tell_counts(dict(taken.redacted))
    else:
        print("nothing was redacted", file=sys.stderr)
    for item in taken.unavailable[:20]:
        print(f"  not available: {plain(item.source)}: {plain(item.reason)}", file=sys.stderr)
    if len(taken.unavailable) > 20:
        print(f"  and {len(taken.unavailable) - 20} more, see manifest.json", file=sys.stderr)


def _tell_counts(counts: dict[str, int]) -> None:
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "nothing"
    print(f"replaced: {said}", file=sys.stderr)

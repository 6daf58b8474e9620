"""Reads the logs that somebody named and diagnoses each: paths in, one Report out."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from vlogdiag import __version__
from vlogdiag.loading import Rules, load
from vlogdiag.log.discover import LogPath, SourceError, discover
from vlogdiag.log.prefilter import Gates, Prefilter
from vlogdiag.log.sources import SourceBroken, read_chunks
from vlogdiag.log.sources_order import oldest_first
from vlogdiag.log.when import Moment
from vlogdiag.model import LEFT_OUT, Finding, Position, Reading, Report, SourceSummary
from vlogdiag.pipeline import Pipeline, Result, only_run, prefilter_of, report_of

if TYPE_CHECKING:
    from vlogdiag.snapshot.read_bundle import BundleLog

__all__ = ["Look", "Scan", "Searches", "diagnose_paths", "scan_log", "scan_paths", "whole_log"]

Progress = Callable[[int, int | None], None]
CHUNK = 1 << 20
"""Bytes read at a time: several are held while they are scanned, and memory must not follow the input."""
GZIP = b"\x1f\x8b"
SCANNERS = 3
"""Threads that scan chunks ahead: one more than cores, so that none idles while a hit is handed over."""
DENSE_STREAK = 31
"""Most chunks that are read whole without a scan, after chunks whose scan said that all of them is worth reading."""


class Look(Struct, frozen=True):
    """How logs are to be looked at."""

    version: str | None = None
    run: str = "all"
    ignore: frozenset[str] = frozenset()
    since: Moment | None = None
    until: Moment | None = None
    readings: Callable[[], Iterable[Reading]] = tuple
    """A recording, begun anew for every log and read as far as that has come: one of a week is large."""


EVERYTHING = Look()


class Scan(Struct, frozen=True):
    """A report, and the sentences about what could not be looked at."""

    report: Report
    problems: tuple[str, ...] = ()

    @property
    def looked(self) -> bool:
        """Everything named could be read, and was recognised as vLLM's."""
        return not self.problems


class Searches:
    """Literals of one set of rules, compiled when they are first used and then for every log."""

    def __init__(self, rules: Rules) -> None:
        self.prefilter = prefilter_of(rules)
        self.gates: Gates | None = None


def scan_log(
    log: LogPath,
    rules: Rules,
    look: Look = EVERYTHING,
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    searches: Searches | None = None,
) -> tuple[Result, tuple[str, ...]]:
    """Diagnose one log; returns what it gave and what was wrong with it (nothing, as a rule)."""
    searches = searches or Searches(rules)
    prefilter = searches.prefilter
    pipeline = Pipeline(
        rules,
        source=log.name,
        version=look.version,
        prefilter=prefilter,
        gates=searches.gates,
        since=look.since,
        until=look.until,
    )
    searches.gates = pipeline.gates
    pipeline.replay(look.readings())
    notices: list[str] = []
    problem: str | None = None
    renumber: Callable[[int], int] | None = None
    try:
        bundle = snapshot_of(log)
        if bundle is not None:
            feed(pipeline, bundle.chunks(CHUNK), prefilter)
            for reading in bundle.readings if bundle.alive else ():
                pipeline.observe(reading)
            notices.append(f"{log.name}: a snapshot; lines are numbered as in {bundle.name}, from which it was taken")
            result = pipeline.close()
            result = renumbered(replace(result, notices=(*result.notices, *notices)), bundle.original_line)
            return result, _problems(log, result)
        ordered = oldest_first(log, read_chunks(log, size=CHUNK, stdin=stdin, progress=progress, notice=notices.append))
        if ordered.newest_first and ordered.lines is not None:
            notices.append(f"{log.name}: newest line first; read from its end")
            renumber = (ordered.lines + 1).__sub__
        feed(pipeline, ordered.chunks, prefilter)
    except SourceBroken as error:
        problem = str(error)
    except SourceError as error:
        return Result(SourceSummary(log.name, error=error.reason)), (str(error),)
    result = pipeline.close(problem)
    result = replace(result, notices=(*result.notices, *notices))
    if renumber is not None:
        result = renumbered(result, renumber)
    if (look.since or look.until) and not result.findings and not result.unexplained:
        # The starts ended outside: "died" without its cause would mislead.
        outside = f"{log.name}: nothing went wrong between --since and --until; what lies outside was not judged"
        result = replace(result, notices=(*result.notices, outside), summary=replace(result.summary, runs=()))
    return result, (problem,) if problem else _problems(log, result)


def whole_log(log: LogPath) -> Iterable[bytes]:
    """A log's chunks in the order of time, out of the snapshot that it is in. Raises SourceError, when read too."""
    bundle = snapshot_of(log)
    return bundle.chunks(CHUNK) if bundle is not None else oldest_first(log, read_chunks(log, size=CHUNK)).chunks


def snapshot_of(log: LogPath) -> BundleLog | None:
    """The log inside a snapshot's archive, when that is what was named. Raises SourceError for a damaged one."""
    if len(log.parts) != 1 or not log.parts[0].is_file():  # a pipe can be read only once
        return None
    with suppress(OSError), log.parts[0].open("rb") as file:
        if file.read(2) != GZIP:
            return None
        from vlogdiag.snapshot.read_bundle import BundleError, open_bundle

        try:
            return open_bundle(log.parts[0])
        except BundleError as error:
            raise SourceError(log.name, str(error)) from error
    return None


def _problems(log: LogPath, result: Result) -> tuple[str, ...]:
    if not result.summary.lines:
        return (f"{log.name}: empty, nothing to diagnose",)
    if not result.summary.recognised:
        return (f"{log.name}: nothing in it was recognised as vLLM's log",)
    return ()


def feed(pipeline: Pipeline, chunks: Iterable[bytes], prefilter: Prefilter | None) -> None:
    """Feed all chunks; from the second one on they are scanned in other threads while earlier ones are read.

    The scan releases the interpreter lock, so two cores work; the order of feeding is that of the log.
    """
    if prefilter is None:
        for chunk in chunks:
            pipeline.feed(chunk)
        return
    chunks = iter(chunks)
    first = next(chunks, None)
    if first is None:
        return
    pipeline.feed(first)
    second = next(chunks, None)
    if second is None:
        return
    from concurrent.futures import Future, ThreadPoolExecutor  # short logs need neither

    waiting: deque[tuple[bytes, Future[Sequence[int] | None] | None]] = deque()
    streak = unscanned = 0  # dense chunks in a row, and how many of the next ones are read whole without a scan

    def take(until: int) -> None:
        nonlocal streak, unscanned
        while len(waiting) > until:
            ready, scan = waiting.popleft()
            hits = scan.result() if scan is not None else None
            if scan is not None:
                streak = min(2 * streak + 1, DENSE_STREAK) if hits is None else 0
                unscanned = streak
            pipeline.feed_scanned(ready, hits)

    with ThreadPoolExecutor(SCANNERS, thread_name_prefix="scan") as pool:
        try:
            for chunk in chain((second,), chunks):
                if pipeline.cutting:  # the end of that line is numbered at once: what stands before it comes first
                    take(0)
                whole = pipeline.whole_lines(chunk)
                if whole and unscanned:
                    unscanned -= 1
                    waiting.append((whole, None))
                elif whole:
                    waiting.append((whole, pool.submit(prefilter.scan, whole)))
                take(SCANNERS)
        finally:  # a source that breaks off has said all this before
            take(0)


def renumbered(result: Result, number_of: Callable[[int], int]) -> Result:
    """Line numbers as the file itself counts them, of what was read in another order or in parts."""

    def turn(number: int | None) -> int | None:
        return None if number is None else number_of(number)

    def position(p: Position) -> Position:
        return replace(p, line=turn(p.line), offset=None)  # bytes were counted in the order of reading

    def finding(f: Finding) -> Finding:
        return replace(
            f,
            ask=f.ask and f.ask.replace(f"LOG:{f.first.line}`", f"LOG:{turn(f.first.line)}`"),
            first=position(f.first),
            last=position(f.last),
            evidence=tuple(replace(e, line=turn(e.line)) for e in f.evidence),
            consequences=tuple(replace(c, line=turn(c.line), last_line=turn(c.last_line)) for c in f.consequences),
        )

    return replace(
        result,
        findings=tuple(finding(f) for f in result.findings),
        unexplained=tuple(replace(u, line=turn(u.line) or 1) for u in result.unexplained),
        notices=tuple(
            re.sub(rf"(?<={re.escape(result.summary.path)}:)\d+(?=: )", lambda m: str(turn(int(m[0]))), notice)
            for notice in result.notices
        ),
        summary=replace(
            result.summary,
            runs=tuple(
                replace(
                    r,
                    first_line=turn(r.first_line),
                    last_line=turn(r.last_line),
                    ended=r.ended and position(r.ended),
                )
                for r in result.summary.runs
            ),
        ),
    )


def scan_paths(
    paths: Sequence[str], rules: Rules, look: Look = EVERYTHING, *, progress: Progress | None = None
) -> Scan:
    """Diagnose every log that `paths` name; one that cannot be read does not stop the others."""
    logs, errors = discover(paths)
    problems = [str(error) if error.path else error.reason for error in errors]
    results: list[Result] = [Result(SourceSummary(error.path, error=error.reason)) for error in errors]
    searches = Searches(rules)
    for log in logs:
        stdin = getattr(sys.stdin, "buffer", None)
        result, wrong = scan_log(log, rules, look, stdin=stdin, progress=progress, searches=searches)
        starts = len(result.summary.runs)
        if look.run.isdigit() and int(look.run) > starts > 0:
            wrong = (*wrong, f"{log.name}: it has {starts} start{'s' if starts > 1 else ''}, no start {look.run}")
        results.append(_of_run(result, look.run))
        problems.extend(wrong)
    results = [elsewhere(result, results) for result in results]
    if look.ignore:
        results = [_without(r, look.ignore) for r in results]
    return Scan(report_of(results, rules, __version__), tuple(problems))


def _of_run(result: Result, wanted: str) -> Result:
    """One start's findings; where it has none, or is not there, no other start's end speaks for it."""
    chosen = only_run(result, wanted)
    runs = result.summary.runs
    if wanted == "all" or chosen.findings or not runs:
        return chosen
    number = runs[-1].run if wanted == "last" else int(wanted)
    own = tuple(run for run in runs if run.run == number)
    error = result.summary.error or (None if own else f"it has no start {number}")
    return replace(chosen, summary=replace(chosen.summary, runs=own, error=error))


def _without(result: Result, ignored: frozenset[str]) -> Result:
    kept = tuple(f for f in result.findings if f.id not in ignored)
    gone = tuple(dict.fromkeys(f.id for f in result.findings if f.id in ignored))
    notice = (f"{result.summary.path}: {LEFT_OUT}{', '.join(gone)}",) if gone else ()
    return replace(result, findings=kept, notices=(*result.notices, *notice))


def elsewhere(result: Result, results: Sequence[Result]) -> Result:
    """Name the other logs of this call where the cause of a lone consequence may stand."""
    if result.findings or not any(u.symptom for u in result.unexplained):
        return result
    others = [r.summary.path for r in results if r is not result and r.findings]
    if not others:
        return result
    return replace(
        result, notices=(*result.notices, f"{result.summary.path}: look for the cause in {', '.join(others[:5])}")
    )


def diagnose_paths(paths: Sequence[str], *, version: str | None = None) -> Report:
    """Shipped rules over `paths`: what `scan` prints, as data."""
    return scan_paths(paths, load(), Look(version=version)).report

"""Puts a snapshot together from what was collected: cleaned first, then split into the files of the bundle."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from vlogdiag.model import Report, Unavailable
from vlogdiag.snapshot.bundle import LOG, Entry
from vlogdiag.snapshot.collect.base import Collected
from vlogdiag.snapshot.excerpt import Excerpt
from vlogdiag.snapshot.redact import Redactor


class CleanPart(Struct, frozen=True):
    """Consecutive lines of the log without secrets; as many as the log has there."""

    line: int
    """Number of the first one in the log."""
    lines: tuple[str, ...]


class CleanLog(Struct, frozen=True):
    """The log, or what was taken of it."""

    name: str
    bytes: int
    lines: int
    whole: bool
    parts: tuple[CleanPart, ...] = ()


class Snapshot(Struct, frozen=True):
    """Everything that leaves the machine; nothing in it needs redaction any more."""

    version: str
    """vlogdiag's own."""
    created: str
    """UTC, ISO 8601."""
    collected: Mapping[str, Collected] = field(default_factory=dict)
    report: Report | None = None
    findings_text: str = ""
    log: CleanLog | None = None
    unavailable: tuple[Unavailable, ...] = ()
    redacted: Mapping[str, int] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    redaction: bool = True
    prompts_kept: bool = False
    alive: bool = False
    """The server was running."""

    def data(self, name: str) -> Mapping[str, Any]:
        """What a collector found; empty where it found nothing."""
        collected = self.collected.get(name)
        return collected.data if collected is not None else {}


def clean(
    collected: Sequence[Collected],
    report: Report | None,
    excerpt: Excerpt | None,
    redactor: Redactor,
    *,
    version: str,
    created: str,
    missing: Sequence[Unavailable] = (),
    alive: bool = False,
) -> Snapshot:
    """The snapshot without secrets. Everything is read twice: the first time only to learn what is to be hidden where
    nothing around it tells what it is."""
    if redactor.enabled:
        redactor.data((tuple(collected), report, tuple(missing)))
        if excerpt is not None:
            for _ in _clean_parts(excerpt, redactor):
                pass
        redactor.start_counting()
    log = None
    if excerpt is not None:
        parts = tuple(_clean_parts(excerpt, redactor))
        log = CleanLog(redactor.text(excerpt.name), excerpt.bytes, excerpt.lines, excerpt.whole, parts)
    cleaned = tuple(_clean_collected(each, redactor) for each in collected)
    unavailable = redactor.data((*missing, *(item for each in collected for item in each.unavailable)))
    return Snapshot(
        version=version,
        created=created,
        collected={each.name: each for each in cleaned},
        report=redactor.data(report),
        log=log,
        unavailable=unavailable,
        redacted=redactor.counts(),
        distinct=redactor.distinct(),
        redaction=redactor.enabled,
        prompts_kept=redactor.keep_prompts or not redactor.enabled,
        alive=alive,
    )


def entries(snapshot: Snapshot, page: str) -> Iterator[Entry]:
    """The bundle's files, most important first: what exceeds the bundle's size is cut from the end."""
    yield Entry("page.md", page.encode("utf-8", "replace"))
    if snapshot.findings_text:
        yield Entry("findings.txt", snapshot.findings_text.encode("utf-8", "replace"))
    if snapshot.report is not None:
        from vlogdiag.report.json import encode

        yield Entry("findings.json", _json(encode(snapshot.report)))
    if snapshot.log is not None:
        yield Entry(LOG, b"".join(_log_lines(snapshot.log)))
    for name, collected in snapshot.collected.items():
        if collected.data:
            yield Entry(f"{name}.json", _json(collected.data))
        for file, text in collected.files.items():
            yield Entry(f"{name}/{file}", text.encode("utf-8", "replace"))


def about(snapshot: Snapshot) -> dict[str, Any]:
    """What the manifest says beside the list of files."""
    log = snapshot.log
    return {
        "vlogdiag": snapshot.version,
        "created": snapshot.created,
        "alive": snapshot.alive,
        "redaction": {
            "on": snapshot.redaction,
            "prompts_kept": snapshot.prompts_kept,
            "replaced": dict(snapshot.redacted),
            "different_values": dict(snapshot.distinct),
        },
        "log": None
        if log is None
        else {
            "name": log.name,
            "bytes": log.bytes,
            "lines": log.lines,
            "whole": log.whole,
            "segments": list(_segments(log)),
        },
        "unavailable": [{"source": item.source, "reason": item.reason} for item in snapshot.unavailable],
    }


def _clean_parts(excerpt: Excerpt, redactor: Redactor) -> Iterator[CleanPart]:
    """Line by line, at newlines only: a carriage return or a line separator of Unicode ends no line of a log."""
    for segment in excerpt.segments:
        stream = redactor.stream() if redactor.enabled else None
        texts = segment.data.decode("utf-8", "surrogateescape").split("\n")
        if texts[-1] == "":
            texts.pop()
        yield CleanPart(segment.line, tuple(stream.line(text) for text in texts) if stream else tuple(texts))


def _clean_collected(collected: Collected, redactor: Redactor) -> Collected:
    files = {name: redactor.text(text) for name, text in collected.files.items()}
    return Collected(collected.name, redactor.data(collected.data), files, redactor.data(collected.unavailable))


def _gaps(log: CleanLog) -> Iterator[tuple[CleanPart, int]]:
    """Each part with the number of lines that were left out before it."""
    expected = 1
    for part in log.parts:
        yield part, max(0, part.line - expected)
        expected = part.line + len(part.lines)


def _log_lines(log: CleanLog) -> Iterator[bytes]:
    for part, gap in _gaps(log):
        if gap:
            yield f"[vlogdiag: {gap} lines were left out here]\n".encode()
        for line in part.lines:
            yield line.encode("utf-8", "surrogateescape") + b"\n"
    after = log.lines - (log.parts[-1].line + len(log.parts[-1].lines) - 1) if log.parts else 0
    if after > 0:
        yield f"[vlogdiag: {after} lines were left out here]\n".encode()


def _segments(log: CleanLog) -> Iterator[dict[str, int]]:
    """Where in the bundle's log each part begins (`at`), and with which line of the log."""
    at = 1
    for part, gap in _gaps(log):
        at += bool(gap)
        yield {"at": at, "line": part.line, "lines": len(part.lines)}
        at += len(part.lines)


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=True, default=str) + "\n").encode()

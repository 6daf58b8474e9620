"""Where `tail` shows its events: JSON lines, plain blocks, or a terminal with a status that is updated in place."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import Any

from vlogdiag.model import Event, Finding, Severity
from vlogdiag.report.live import StatusModel, finding_block, status_line
from vlogdiag.report.safe import plain
from vlogdiag.tail import Tail

__all__ = ["JsonScreen", "PlainScreen", "TerminalScreen"]

REFRESH_S = 0.5


class JsonScreen:
    """One event a line, flushed at once."""

    def __enter__(self) -> JsonScreen:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def event(self, event: Event) -> None:
        """Print one event."""
        from vlogdiag.report.json import event as line

        sys.stdout.write(line(event).rstrip("\n") + "\n")
        sys.stdout.flush()

    def refresh(self) -> None:
        """Nothing is updated in place."""


class PlainScreen:
    """One plain block per finding; an update says only what it adds."""

    def __init__(self, following: Tail, *, width: int) -> None:
        self._following = following
        self._width = width

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def event(self, event: Event) -> None:
        """Print what is opened, and what grew."""
        text = block(event, self._width, color=False)
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    def refresh(self) -> None:
        """Nothing is updated in place."""


def block(event: Event, width: int, *, color: bool) -> str:
    """An event as text for people; updates are one line, closings and readings nothing."""
    if event.type == "finding.opened" and event.finding is not None:
        return finding_block(event.finding, width, color)
    if event.type == "finding.updated" and event.finding is not None:
        return updated(event.finding)
    if event.type == "notice" and event.notice:
        return f"  {plain(event.notice)}\n"
    return ""


def updated(finding: Finding) -> str:
    """What came to a finding that was told before."""
    parts = [f"×{finding.count}"] if finding.count > 1 else []
    parts += [f"{plain(c.title)}{f' ×{c.count}' if c.count > 1 else ''}" for c in finding.consequences]
    if not parts:
        return ""
    return f"  {finding.id}, then: {', '.join(parts)}\n"


class TerminalScreen:
    """Findings as they come, above one status that is updated in place; survives resizing."""

    def __init__(self, following: Tail, *, color: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._following = following
        self._color = color
        self._console = Console(no_color=not color, highlight=False, markup=False)
        self._live: Any = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._drawn = 0.0
        self._updates: dict[tuple[str, int], str] = {}

    def __enter__(self) -> TerminalScreen:
        self._live.start()
        self.refresh(force=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def event(self, event: Event) -> None:
        """Print above the status."""
        from rich.text import Text

        width = self._width()
        text = block(event, width, color=self._color)
        if event.type == "finding.updated" and event.finding is not None:
            key = (event.finding.id, event.finding.run)
            if self._updates.get(key) == text:
                return
            self._updates[key] = text
        if text:
            self._live.console.print(Text.from_ansi(text.rstrip("\n")), soft_wrap=False)
        self.refresh(force=True)

    def refresh(self, force: bool = False) -> None:
        """Redraw the status, twice a second at most."""
        now = time.monotonic()
        if not force and now - self._drawn < REFRESH_S:
            return
        self._drawn = now
        from rich.text import Text

        rows: list[str] = []
        for model in models(self._following, now):
            rows.extend(status_line(model, self._width(), self._color))
        self._live.update(Text.from_ansi("\n".join(rows[: self._height()])), refresh=True)

    def _width(self) -> int:
        return max(20, shutil.get_terminal_size((80, 24)).columns)

    def _height(self) -> int:
        return max(1, shutil.get_terminal_size((80, 24)).lines // 2)


def models(following: Tail, now: float) -> list[StatusModel]:
    """One status per followed log; the GPUs stand with the first."""
    found: list[StatusModel] = []
    reading = following.reading
    for number, session in enumerate(following.sessions.values()):
        statistics = session.statistics
        findings = session.findings()
        metrics = reading.metrics if reading is not None and number == 0 else None
        found.append(
            StatusModel(
                path=session.source,
                phase=session.pipeline.phase,
                lines=session.pipeline.lines_read,
                running=(statistics.running if statistics else None) if metrics is None else metrics.running,
                waiting=(statistics.waiting if statistics else None) if metrics is None else metrics.waiting,
                kv_usage=(statistics.kv_usage if statistics else None) if metrics is None else metrics.kv_usage,
                tokens_per_second=statistics.generation if statistics else None,
                throughput=tuple(session.throughput),
                quiet=None if session.fed_at is None else max(0.0, now - session.fed_at),
                errors=sum(f.severity is Severity.ERROR for f in findings),
                warnings=sum(f.severity is Severity.WARNING for f in findings),
                gpus=reading.gpus if reading is not None and number == 0 else (),
                unavailable=reading.unavailable if reading is not None and number == 0 else (),
            )
        )
    if not found:
        found.append(StatusModel(path=", ".join(s.path for s in following.sources), lines=0))
    return found

"""Where `tail` shows its events: JSON lines, plain blocks, or a terminal with a status that is updated in place."""

from __future__ import annotations

import shutil
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from rich.cells import cell_len

from vlogdiag.model import Event, Finding, Outcome
from vlogdiag.report.fold import fold
from vlogdiag.report.layout import cut
from vlogdiag.report.live import SHORTEST, StatusModel, finding_block, status_line
from vlogdiag.report.safe import plain
from vlogdiag.tail import Tail

__all__ = ["JsonScreen", "PlainScreen", "Telling", "TerminalScreen", "models"]

REFRESH_S = 0.5
REMEMBERED = 500
NARROWEST = 20
NARROWEST_STATUS = 40
"""A status is made for so many columns at least; a narrower terminal gets the beginning of its rows, uncoloured."""


class JsonScreen:
    """One event a line, flushed at once."""

    def __enter__(self) -> JsonScreen:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def event(self, event: Event) -> None:
        """Print one event."""
        from vlogdiag.report.json import event as line

        sys.stdout.write(line(event) + "\n")
        sys.stdout.flush()

    def refresh(self) -> None:
        """Nothing is updated in place."""


class Telling:
    """Events to text for people: a block for what is new, a line for what is known, nothing for what says nothing."""

    def __init__(self, *, color: bool = False, unicode: bool = True) -> None:
        self._color = color
        self._unicode = unicode
        self._told: OrderedDict[tuple[str, str], Finding] = OrderedDict()
        self._updates: OrderedDict[tuple[str, object], str] = OrderedDict()

    def text(self, event: Event, width: int) -> str:
        """The event as lines, each ended; empty where there is nothing to say."""
        finding = event.finding
        if finding is None:
            return self._line(f"  {plain(event.notice, ascii_only=not self._unicode)}", width) if event.notice else ""
        if event.type == "finding.opened":
            return self._opened(finding, width)
        if event.type == "finding.updated":
            text = self._updated(finding)
        else:
            text = self._closed(finding, event)
        incident = (finding.source, event.details.get("incident"))
        if not text or self._updates.get(incident) == text:
            return ""
        self._updates[incident] = text
        if len(self._updates) > REMEMBERED:
            self._updates.popitem(last=False)
        return self._line(f"  {self._mark('↳', '>')} {text}", width)

    def _opened(self, finding: Finding, width: int) -> str:
        """In full; the same in the next start, in one line."""
        key = (finding.source, finding.id)
        before = self._told.pop(key, None)
        self._told[key] = finding
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        if before is not None and before.run != finding.run and len(fold((before, finding))) == 1:
            when = f", {finding.first.time}" if finding.first.time else ""
            return self._line(
                f"  {self._mark('↳', '>')} {finding.id} again, in start {finding.run}{plain(when)}", width
            )
        return finding_block(finding, width, self._color, unicode=self._unicode)

    def _updated(self, finding: Finding) -> str:
        times = self._mark("×", "x")
        parts = [f"{times}{finding.count}"] if finding.count > 1 else []
        parts += [f"{c.title}{f' {times}{c.count}' if c.count > 1 else ''}" for c in finding.consequences]
        if finding.outcome is Outcome.RECOVERED:
            parts.append("a later start serves")
        if not parts:
            return f"{finding.id}: {finding.severity.word}, {finding.outcome.value}"
        return f"{finding.id}: {'; '.join(parts)}"

    def _closed(self, finding: Finding, event: Event) -> str:
        by = event.details.get("by")
        if by is not None:
            return f"{finding.id} follows from {by}"
        return f"{finding.id}: a later start serves" if finding.outcome is Outcome.RECOVERED else ""

    def _mark(self, fine: str, ascii_: str) -> str:
        return fine if self._unicode else ascii_

    def _line(self, text: str, width: int) -> str:
        safe = plain(text, ascii_only=not self._unicode, cap=4 * width)
        return f"{cut(safe, width, self._mark('…', '...'))}\n"


class PlainScreen:
    """One plain block per finding; an update says only what it adds."""

    def __init__(self, *, width: int, color: bool = False, unicode: bool = True) -> None:
        self._width = width
        self._telling = Telling(color=color, unicode=unicode)

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def event(self, event: Event) -> None:
        """Print what is opened, and what grew."""
        text = self._telling.text(event, self._width)
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    def refresh(self) -> None:
        """Nothing is updated in place."""


class TerminalScreen:
    """Findings as they come, above one status that is updated in place; survives resizing."""

    def __init__(
        self,
        following: Tail,
        *,
        color: bool,
        unicode: bool = True,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], object] | None = None,
        size: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._following = following
        self._color = color
        self._unicode = unicode
        self._clock = clock
        self._write = write or _flushed
        self._size = size or _terminal_size
        self._telling = Telling(color=color, unicode=unicode)
        self._drawn: list[str] = []
        self._drawn_at = float("-inf")
        self._drawn_size = (0, 0)
        self._drawn_mark: Hashable = None

    def __enter__(self) -> TerminalScreen:
        self.refresh(force=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(self._erase())
        self._drawn = []

    def event(self, event: Event) -> None:
        """Print above the status."""
        width, _ = self._size()
        text = self._telling.text(event, max(NARROWEST, width))
        if text:
            self._draw(text)

    def refresh(self, force: bool = False) -> None:
        """Redraw the status where it has changed, twice a second at most."""
        now = self._clock()
        if not force and now - self._drawn_at < REFRESH_S:
            return
        self._drawn_at = now
        mark = self._mark(now)
        if mark == self._drawn_mark:
            return
        self._drawn_mark = mark
        rows = self._rows(now)
        if rows != self._drawn or self._size() != self._drawn_size:
            self._draw("", rows)

    def _mark(self, now: float) -> Hashable:
        """Another value whenever a row may have changed: making rows costs a hundred times as much."""
        sessions = self._following.sessions.values()
        quiet = tuple(None if s.fed_at is None else coarse(now - s.fed_at) for s in sessions)
        counts = tuple(s.counts() for s in sessions)
        lines = tuple(s.serving.line for s in sessions)  # statistics are seen a moment after they have come
        return self._size(), self._following.counts.bytes, id(self._following.reading), quiet, counts, lines

    def _rows(self, now: float) -> list[str]:
        width, height = self._size()
        rows: list[str] = []
        for model in models(self._following, now):
            # The last column stays free: a row that fills it leaves the cursor in a place that terminals disagree on.
            rows.extend(status_line(model, width - 1, self._color, unicode=self._unicode))
        if width <= NARROWEST_STATUS:
            rows = [cut(_bare(row), max(1, width - 1), "") for row in rows]
        shown = max(1, height // 3)
        return rows[:shown] if len(rows) <= shown else [*rows[: shown - 1], f"+{len(rows) - shown + 1} more rows"]

    def _draw(self, text: str, rows: list[str] | None = None) -> None:
        """In one write: take the status away, print what stays, put the status below it."""
        erase = self._erase()
        self._drawn = self._rows(self._clock()) if rows is None else rows
        self._drawn_size = self._size()
        self._write(erase + text + "\n".join(self._drawn))

    def _erase(self) -> str:
        """Back to the first row of the status, which a narrower terminal has wrapped, and clear from there."""
        if not self._drawn:
            return ""
        width = max(1, self._size()[0])
        heights = [max(1, -(-cell_len(_bare(row)) // width)) for row in self._drawn]
        up = sum(heights) - 1
        return "\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J"


def _bare(row: str) -> str:
    from rich.text import Text

    return Text.from_ansi(row).plain


def _flushed(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _terminal_size() -> tuple[int, int]:
    size = shutil.get_terminal_size((80, 24))
    return size.columns, size.lines


def models(following: Tail, now: float) -> list[StatusModel]:
    """One status per followed log; the GPUs stand with the first."""
    found: list[StatusModel] = []
    reading = following.reading
    lags = {source.path: getattr(source, "lag", 0) for source in following.sources}
    for path, session in following.sessions.items():
        serving = session.serving
        errors, warnings = session.counts()
        first = reading if not found else None
        metrics = first.metrics if first is not None else None
        behind = lags.get(path, 0)
        found.append(
            StatusModel(
                path=path,
                phase=session.pipeline.phase,
                lines=session.pipeline.place[0],
                running=_known(metrics.running if metrics else None, serving.running),
                waiting=_known(metrics.waiting if metrics else None, serving.waiting),
                kv_usage=_known(metrics.kv_usage if metrics else None, serving.kv_usage),
                tokens_per_second=serving.generation,
                throughput=tuple(serving.throughput) if len(serving.throughput) >= SHORTEST else (),
                behind=behind if behind >= FAR_BEHIND else None,
                quiet=None if session.fed_at is None else coarse(now - session.fed_at),
                errors=errors,
                warnings=warnings,
                gpus=first.gpus if first is not None else (),
            )
        )
    if not found:
        found.append(StatusModel(path=", ".join(source.path for source in following.sources), lines=0))
    return found


FAR_BEHIND = 1 << 20
"""Bytes from which on it is worth while to say that reading is behind."""


def _known(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def coarse(seconds: float) -> float:
    """Whole tens of seconds, minutes, then hours: a status that changes every second is drawn every second."""
    step = 10.0 if seconds < 60 else 60.0 if seconds < 3600 else 3600.0
    return max(0.0, seconds - seconds % step)

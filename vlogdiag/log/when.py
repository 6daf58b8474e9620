"""Reads the moments of `--since` and `--until` (`30m`, `23:18`, ISO 8601) and places them on a log's clock."""

from __future__ import annotations

import re

from msgspec import Struct

from vlogdiag.log.headers import Stamp
from vlogdiag.log.records import LogClock

__all__ = ["Moment", "WhenError", "parse_moment", "window"]

RELATIVE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(s|m|min|h|d)\Z")
UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?\Z")
DATE = re.compile(
    r"(?:(\d{4})-)?(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?)?(?:Z|[+-]\d\d:?\d\d)?\Z"
)


class WhenError(ValueError):
    """A moment that cannot be read; the message says which forms can."""


class Moment(Struct, frozen=True):
    """Seconds before the log's end, or a time of day on its last day, or a date."""

    before_end: float | None = None
    second: float | None = None
    month: int | None = None
    day: int | None = None
    year: int | None = None

    @property
    def bare(self) -> bool:
        """A time of day without a date."""
        return self.second is not None and self.day is None


def parse_moment(text: str) -> Moment:
    """Read one moment; raises WhenError."""
    text = text.strip()
    relative = RELATIVE.match(text)
    if relative:
        return Moment(before_end=float(relative[1]) * UNITS[relative[2]])
    clock = CLOCK.match(text)
    if clock and int(clock[1]) < 24 and int(clock[2]) < 60:
        return Moment(second=int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0))
    date = DATE.match(text)
    if date and 1 <= int(date[2]) <= 12 and 1 <= int(date[3]) <= 31 and int(date[4] or 0) < 24:
        second = int(date[4] or 0) * 3600 + int(date[5] or 0) * 60 + float(date[6] or 0)
        return Moment(second=second, month=int(date[2]), day=int(date[3]), year=int(date[1]) if date[1] else None)
    raise WhenError(f"{text!r} is no moment; write 30m, 2h, 23:18, '11-30 23:18:15' or 2026-11-30T23:18:15")


def window(since: Moment | None, until: Moment | None, clock: LogClock) -> tuple[float, float] | None:
    """From when to when, in seconds on the log's clock; None when the log has no times.

    A time of day that the log's last day has not reached belongs to the day before, if the log goes back so far:
    `--since 23:18` where it ends at 00:05. The end of a window goes back with its beginning only, for one that lies
    ahead leaves nothing out.
    """
    if clock.now is None:
        return None
    low = place(since, clock, clock.now) if since is not None else float("-inf")
    high = place(until, clock, clock.now) if until is not None else float("inf")
    days = clock.now // LogClock.DAY - (clock.began or 0.0) // LogClock.DAY
    if since is not None and since.bare and low > clock.now and days:
        low -= LogClock.DAY
    if until is not None and until.bare and high > clock.now and high - LogClock.DAY >= low > float("-inf"):
        high -= LogClock.DAY
    return low, high


def place(moment: Moment, clock: LogClock, now: float) -> float:
    """The moment in seconds on the log's clock, which shows `now`; a time of day is one of its last day."""
    if moment.before_end is not None:
        return now - moment.before_end
    if moment.month is None or moment.day is None:
        return now - now % LogClock.DAY + (moment.second or 0.0)
    return clock.near(Stamp(moment.month, moment.day, moment.second or 0.0, moment.year, ""))

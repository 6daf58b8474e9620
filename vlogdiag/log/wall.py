"""Places moments of the wall clock on a log's clock: lines that arrive as they are written show its time zone.

Log times have neither zone nor year, and a container's clock often speaks UTC beside a host that does not. What arrives
within a minute of its own time stamp, in whole quarters of an hour, was just written; what is older (the context a
tail begins with, a burst of history from `kubectl logs`) shows nothing.
"""

from __future__ import annotations

import math
import time

from vlogdiag.log.headers import Stamp
from vlogdiag.log.records import LogClock

__all__ = ["WallZone"]

QUARTER = 900.0
"""Zones differ by quarters of an hour."""
LATE_S = 60.0
"""A shipper may hold a line back for so long."""
EARLY_S = 3.0
"""Stamps are whole seconds, and machines' clocks differ a little."""
STEADY_S = 30.0
"""A zone that is neither UTC nor this machine's own must hold for so long: history may hit a quarter by chance."""
DAY = 86_400.0
HALF_YEAR = 183 * DAY


class WallZone:
    """What a log's clock shows minus UTC, once lines have shown it; `local` is this machine's own offset in seconds."""

    def __init__(self, local: float = 0.0) -> None:
        self.offset: float | None = None
        self._likely = {0.0, local % DAY}
        self._candidate: tuple[float, float] | None = None

    def learn(self, clock: LogClock, wall: float) -> bool:
        """A line has just arrived at `wall` (seconds since 1970), and moved the clock; True if the zone is news."""
        if clock.now is None:
            return False
        ahead = clock.now - _utc(clock, wall)
        zone = math.ceil((ahead - LATE_S) / QUARTER) * QUARTER
        if not -LATE_S <= ahead - zone <= EARLY_S:
            return False
        if zone == self.offset:
            return False
        if zone % DAY not in self._likely:
            if self._candidate is None or self._candidate[0] != zone:
                self._candidate = zone, wall
            if wall - self._candidate[1] < STEADY_S:
                return False
        self.offset = zone
        return True

    def place(self, clock: LogClock, wall: float) -> float | None:
        """`wall` as seconds on the log's clock; None while the zone is unknown."""
        return None if self.offset is None else _utc(clock, wall) + self.offset


def _utc(clock: LogClock, wall: float) -> float:
    parts = time.gmtime(wall)
    second = parts.tm_hour * 3600 + parts.tm_min * 60 + parts.tm_sec + wall % 1.0
    moment = clock.near(Stamp(parts.tm_mon, parts.tm_mday, second, None, ""))
    while clock.now is not None and clock.now - moment > HALF_YEAR:
        moment += clock.year_days * DAY  # the wall clock has passed New Year, the log has not
    return moment

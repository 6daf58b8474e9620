"""Turns a pipe that somebody writes to into the same events as a followed file."""

from __future__ import annotations

import io
import os
import select
from typing import BinaryIO

from vlogdiag.log.discover import STDIN
from vlogdiag.log.follow_events import Data, Ended, FollowEvent, Notice

_MOST = 4 << 20
"""Bytes that one poll may hand out."""
_PORTION = 64 << 10


class StreamFollower:
    """Standard input or another pipe as a source with the same `poll`; it ends, and cannot be resumed."""

    def __init__(self, stream: BinaryIO, name: str = STDIN, *, per_poll: int = _MOST) -> None:
        self.path = name
        self.backlog = False
        self.lag = 0
        self.ended = False
        """True when the writer closed its end."""
        self._stream = stream
        self._per_poll = per_poll
        self._offset = 0
        try:
            self._descriptor: int | None = stream.fileno()
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLIN | select.POLLHUP)
        except (OSError, io.UnsupportedOperation):  # an object in memory
            self._descriptor = None

    @property
    def following(self) -> tuple[str, ...]:
        """The stream's name while it goes on."""
        return () if self.ended else (self.path,)

    def poll(self) -> list[FollowEvent]:
        """Hand out what can be read without waiting; the last event of a stream is Ended."""
        events: list[FollowEvent] = []
        portions: list[bytes] = []
        room = self._per_poll
        while not self.ended and room > 0 and self._ready():
            try:
                portion = self._read(min(room, _PORTION))
            except BlockingIOError:
                break
            except OSError as error:
                events.append(Notice(self.path, f"standard input broke off: {(error.strerror or str(error)).lower()}"))
                portion = b""
            self.ended = not portion
            portions.append(portion)
            room -= len(portion)
        self.backlog = room <= 0
        if data := b"".join(portions):
            events.insert(0, Data(self.path, self._offset, data))
            self._offset += len(data)
        if self.ended and portions:
            events.append(Ended(self.path, 0))
        return events

    def state(self) -> None:
        """There is nothing to come back to."""

    def close(self) -> None:
        """Leave the stream to its owner."""

    def _ready(self) -> bool:
        return self._descriptor is None or bool(self._poll.poll(0))

    def _read(self, size: int) -> bytes:
        if self._descriptor is None:
            return self._stream.read(size)
        return os.read(self._descriptor, size)

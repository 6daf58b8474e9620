"""Joins lines to Records: one per event and speaker, though eight ranks interleave line by line.

A record is a run of lines with one header (vLLM prints it before every line of a message), or a block of bare lines of
one speaker (tracebacks that Python itself prints). Frames of a traceback come only from lines of one speaker; where
bare lines have no speaker (vLLM 0.31 and later), adjacency decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from vlogdiag.log.headers import Parsed, Stamp, parse_line
from vlogdiag.model import Level, Line, Origin, Phase, Record

__all__ = ["Assembler", "Context", "LogClock"]

MAX_RECORD = 64 * 1024
"""A record longer than this is cut: what follows begins a new one. No message that matters is longer."""
FULL = MAX_RECORD
"""Size of an open record that takes no more lines."""
MAX_BARE_GAP = 16
"""Other speakers' lines that may stand between two bare lines of one traceback."""
MAX_PREFIXED_GAP = 128
"""The same where every bare line says whose it is (`(Worker_TP1 pid=7) `, `[rank1]: `): eight ranks may interleave."""
MAX_HEADED_GAP = 200
"""Other speakers' lines after which a message with header is complete, at the next look (`EXPIRE_EVERY`)."""
MAX_OPEN = 512
"""Records held open at once; with more speakers than this the oldest is closed."""
MAX_AFTER_EXCEPTION = 60
"""Lines of text that may follow an exception's last line (CUDA's advice, pydantic's list) and still belong to it."""

EXPIRE_EVERY = 32
"""Lines between looks for records that other speakers' lines have left behind."""
MAX_HEADER = 200
NOTHING: list[Record] = []
"""No record was completed (shared: never appended to)."""

TRACEBACK = "Traceback (most recent call last)"
FRAME = '  File "'
CHAIN = ("The above exception was the direct cause", "During handling of the above exception")
EXCEPTION = re.compile(
    r"(?:[\w.]{1,200}\.)?[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Group|Fault|Cancelled|Timeout)(?::|$|\()"
)
BURST_S = 60
"""Seconds within which the kernel's lines tell one failure."""
ZONE_S = 900
"""Seconds that another program's time may lie beside the last one: less than any two time zones are apart."""
REQUEST = re.compile(r"Received request [\w.-]{1,200}: prompt: |Request [\w.-]{1,200} details: prompt: ")
REQUEST_END = ("params: ", "sampling_params", "lora_request")
ORDINARY = re.compile(
    r"(?:\([\w .:=-]{1,80}\) )?"
    r"(?:(?:INFO|WARNING|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./<>-]{1,120}:\d{1,6}\] \S|(?P<access>INFO:     \d))"
)
"""How vLLM's own lines and uvicorn's access lines begin."""
BANNER = "█"
"""Stands in the banner (0.15.0 and later), whose third line says that a server starts."""
STANDALONE = ("usage: ", "Process ", "INFO:", "NVRM:")
MASK = re.compile(r"\d+")


class Context(Struct, frozen=True, gc=False):
    """What the tracker of runs says about the place where a record begins."""

    run: int
    phase: Phase
    life: int | None = None
    """Line of the run's last sign of life before it."""


class LogClock:
    """Log time in seconds: no year in the log, so New Year and 29 February are worked out.

    Backwards by less than a day never moves the clock back (processes' lines arrive out of order); by more than 180
    days is New Year.
    """

    DAY = 86_400.0
    BEFORE = (0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
    """Days of a common year before each month (1-based)."""

    def __init__(self) -> None:
        self.now: float | None = None
        self.began: float | None = None
        """The first time that the log told."""
        self.year: int | None = None
        self._base = 0
        """Days from the first year's New Year to this year's."""
        self._leap_days = 0
        self._last_day: int | None = None
        self._last: tuple[Stamp, float] | None = None

    def time(self, stamp: Stamp) -> float:
        """Seconds on this log's clock; also moves `now` forward where the stamp is later."""
        if self._last is not None and self._last[0] == stamp:  # one second prints many lines
            return self._last[1]
        moment = self._place(stamp)
        self._last = stamp, moment
        return moment

    def _place(self, stamp: Stamp) -> float:
        day = self.BEFORE[stamp.month] + stamp.day - 1
        if (stamp.month, stamp.day) == (2, 29):
            day, leap = 59, 1  # shares 1 March's place until it is seen
        else:
            leap = 1 if self._leap_days and stamp.month > 2 else 0
        self._leap_days = max(self._leap_days, leap if stamp.month == 2 else 0)
        place = day + (leap if stamp.month > 2 else 0) + self._base
        if self._last_day is not None:
            if self._last_day - place > 180:
                self._base += self.year_days
                self._leap_days = 0
                place = day + self._base
                if self.year is not None and stamp.year is None:
                    self.year += 1
            elif place - self._last_day > 180 and self._base:
                place -= 365  # a late line of last year
        self._last_day = max(place, self._last_day) if self._last_day is not None else place
        if stamp.year is not None:
            self.year = stamp.year
        moment = place * self.DAY + stamp.second
        if self.began is None:
            self.began = moment
        if self.now is None or moment > self.now:
            self.now = moment
        return moment

    @property
    def year_days(self) -> int:
        """Days of the year that the clock is in, as far as the log shows."""
        return 365 + self._leap_days

    def near(self, stamp: Stamp) -> float:
        """Where a stamp lies on this clock, at most half a year from now; moves nothing."""
        day = self.BEFORE[stamp.month] + stamp.day - 1 + self._base
        if self._leap_days and stamp.month > 2:
            day += 1
        moment = day * self.DAY + stamp.second
        if self.now is not None:
            while moment - self.now > 183 * self.DAY:
                moment -= 365 * self.DAY
        return moment


class _Open(Struct):
    parsed: Parsed
    """Its first line."""
    context: Context
    time: float | None
    year: int | None
    """The log's year when it began."""
    lines: list[Line] = field(default_factory=list)
    size: int = 0
    last: int = 0
    request: bool = False
    """A request-log record whose prompt has not ended yet."""
    partial: bool = False
    frames: bool = False
    """Inside the frames of a traceback."""
    done: int = 0
    """Lines since an exception's last line; 0 = none seen yet."""
    chained: bool = False
    cut: bool = False
    begins: str = ""
    """How its first line begins: a line that begins alike may be another message."""


Speaker = tuple[str | None, int | None, int | None]


class Assembler:
    """Holds records open until they are complete; `line` returns those that a line completed.

    Bytes held are bounded: `MAX_OPEN` records of `MAX_RECORD` bytes.
    """

    def __init__(self, track: Callable[[Parsed, int, float | None], Context]) -> None:
        self.clock = LogClock()
        self._track = track
        self._headed: dict[Speaker, _Open] = {}
        self._bare: dict[Speaker, _Open] = {}
        self._pending: dict[str | None, tuple[Parsed, int, int]] = {}
        """Line that a container runtime cut, by host: joined so far, with the number and offset of its last part."""

        self._looked = 0
        """Before this line nothing can have been left behind."""

        self.bare_last = 0
        """Number of the last line that joined a block of bare lines."""

        self._by_head: dict[str, _Open] = {}
        """Header as the line spells it, up to its `] `, to the record that it heads (no wrapper that changes)."""

    def line(self, number: int, offset: int, text: str) -> list[Record]:
        """Take one physical line (number 1-based, byte offset); returns the records it completed, oldest first."""
        end = text.find("] ", 0, MAX_HEADER)
        if end > 0:  # one more line of an open message: the case that must be fast, thirty times a traceback
            current = self._by_head.get(text[:end])
            if current is not None:
                done: list[Record] | None = NOTHING
                if not self._goes_on(current, number, offset, text, end + 2):
                    done = self._begins_again(current, number, offset, text[:end], text[end + 2 :])
                if done is not None:
                    if not number % EXPIRE_EVERY:
                        done = [*done]
                        self._expire(number, done)
                    return done
        done = []
        for piece in self._pieces(text):
            parsed = parse_line(piece)
            if "\n" in parsed.text:  # a JSON wrapper held a whole message
                for part, inner in enumerate(parsed.text.split("\n")):
                    self._take(self._inner(parsed, inner, part, number), number, offset, done)
            else:
                self._take(parsed, number, offset, done)
                if end > 0 and parsed.kind == "vllm" and parsed.key and piece is text:
                    self._remember(text[:end], parsed)
        self._expire(number, done)
        return done

    def _remember(self, head: str, parsed: Parsed) -> None:
        if not parsed.source or not head.endswith(parsed.source):
            return  # the first `] ` of the line is not the header's end
        if head[0] == "{" or parsed.partial:
            return  # what follows is still in JSON's spelling, or goes on in the next line
        current = self._headed.get(_speaker(parsed))
        if current is not None and current.parsed.key == parsed.key:
            if len(self._by_head) > 4 * MAX_OPEN:
                self._by_head.clear()
            self._by_head[head] = current

    def _begins_again(self, current: _Open, number: int, offset: int, head: str, text: str) -> list[Record] | None:
        """The very message of an open record once more: what that completes; None if it has to be looked at."""
        parsed = current.parsed
        if (
            text != parsed.text
            or not current.lines
            or not text.strip()
            or text.startswith(TRACEBACK)
            or parsed.repeats != 1
            or self._pending
            or _chains(current)
        ):
            return None
        done: list[Record] = []
        self._by_head[head] = self._begin_headed(parsed, _speaker(parsed), Line(number, offset, text), done)
        return done

    def apart(self, text: str) -> list[Record] | None:
        """What a line completes that is a record of its own and holds nothing to be found; None if it has to be read.

        Asked for the many requests that are logged between and after the lines of a traceback.
        """
        if self._bare or self._pending or text.split("] ", 1)[0] in self._by_head:
            return None
        ordinary = ORDINARY.match(text)
        if ordinary is None or "Received request" in text or "details: prompt" in text:
            return None
        if ordinary["access"]:
            return NOTHING
        parsed = parse_line(text)
        speaker = _speaker(parsed)
        current = self._headed.get(speaker)
        if current is None:
            return NOTHING
        return None if current.parsed.key == parsed.key else [self._record(self._headed.pop(speaker))]

    def lines(self, number: int, offset: int, texts: Sequence[str], emit: Callable[[Record], None]) -> None:
        """Take many plain lines (no `\\r`, escapes, counts of Ray): as `line` for each, the common case in full."""
        get = self._by_head.get
        start = 0
        while start < len(texts):
            stop = start + -number % EXPIRE_EVERY + 1  # the line after which open records are looked at
            for text in texts[start:stop]:
                head, _, rest = text.partition("] ")
                current = get(head)
                if current is not None and current.size < MAX_RECORD and not rest.startswith(current.begins):
                    current.lines.append(Line(number, offset, rest))
                    current.size += len(rest) + 1
                    current.last = number
                else:
                    for record in self.line(number, offset, text):
                        emit(record)
                number += 1
                offset += len(text) + 1
            start = stop
            for record in self.skip(number - 1):
                emit(record)

    def close(self) -> list[Record]:
        """End of input, or of a run: everything open is complete."""
        done: list[Record] = []
        for host in list(self._pending):
            self._take_pending(host, done)
        done += [self._record(o) for o in (*self._headed.values(), *self._bare.values())]
        self._headed.clear()
        self._bare.clear()
        return sorted(done, key=lambda r: r.first.number)

    @staticmethod
    def _goes_on(current: _Open, number: int, offset: int, text: str, start: int) -> bool:
        """Append the line to the record whose header it has, unless it begins another or needs a closer look."""
        if (  # `lines` asks the same
            current.size >= MAX_RECORD
            or text.startswith(current.begins, start)
            or "across cluster]" in text
            or "\r" in text
            or "\x1b" in text
            or BANNER in text
        ):
            return False
        current.lines.append(Line(number, offset, text[start:]))
        current.size += len(text) - start + 1
        current.last = number
        return True

    @staticmethod
    def _pieces(text: str) -> Iterator[str]:
        """A progress bar overwrites itself with `\\r`: each state is a line of its own."""
        if "\r" not in text:
            yield text
            return
        for piece in text.split("\r"):
            if piece:
                yield piece

    @staticmethod
    def _inner(outer: Parsed, text: str, part: int, number: int) -> Parsed:
        inner = parse_line(text) if outer.kind != "json" and (part or outer.level is None) else None
        if outer.level is not None and (inner is None or inner.kind != "vllm"):  # all of it is one message
            repeats, key = (outer.repeats if not part else 1), (outer.key or f"line {number}")
            return replace(outer, text=text, repeats=repeats, partial=False, key=key)
        if inner is None or (inner.level is None and inner.pid is None):
            return replace(outer, text=text, partial=False)
        return inner

    def _take(self, parsed: Parsed, number: int, offset: int, done: list[Record]) -> None:
        before = self._pending.pop(parsed.host, None) if self._pending else None
        if before is not None:
            if parsed.level is None:
                parsed = replace(before[0], text=before[0].text + parsed.text, partial=parsed.partial)
            else:  # not the rest of that line, but another
                self._take_whole(_again(before[0]), before[1], before[2], done)
        if parsed.partial and len(parsed.text) < MAX_RECORD:
            self._pending[parsed.host] = parsed, number, offset
            if len(self._pending) > MAX_OPEN:
                self._take_pending(next(iter(self._pending)), done)
            return
        self._take_whole(parsed if before is None else _again(parsed), number, offset, done)

    def _take_pending(self, host: str | None, done: list[Record]) -> None:
        """The rest of this line will not come: what there is of it is the line."""
        parsed, number, offset = self._pending.pop(host)
        self._take_whole(_again(parsed), number, offset, done)

    def _take_whole(self, parsed: Parsed, number: int, offset: int, done: list[Record]) -> None:
        speaker = _speaker(parsed)
        if parsed.level is not None or parsed.kind in ("shell", "kernel"):
            self._take_headed(parsed, speaker, Line(number, offset, parsed.text), done)
        else:
            self._take_bare(parsed, speaker, Line(number, offset, parsed.text), done)

    def time(self, parsed: Parsed) -> float | None:
        """The program's own time drives the clock; a wrapper's only where the program printed none so far."""
        if parsed.stamp is not None and parsed.kind == "nginx":
            return self._beside(parsed.stamp)
        if parsed.stamp is not None:
            time = self.clock.time(parsed.stamp)
            if parsed.outer is not None and parsed.outer.year is not None:
                self.clock.year = parsed.outer.year
            return time
        if parsed.outer is not None:
            self.clock.year = parsed.outer.year or self.clock.year
            if self.clock.now is None:
                return None
            if parsed.kind == "kernel":
                return max(self.clock.now, self._beside(parsed.outer) or 0.0)
        return self.clock.now

    def _beside(self, stamp: Stamp) -> float | None:
        """The time of a program beside vLLM on the log's clock, which it does not drive: its zone may be another."""
        if self.clock.now is None:
            return None
        moment = self.clock.near(stamp)
        return moment if abs(moment - self.clock.now) < ZONE_S else self.clock.now

    def _take_headed(self, parsed: Parsed, speaker: Speaker, line: Line, done: list[Record]) -> None:
        if parsed.kind == "progress" or (parsed.kind == "uvicorn" and (parsed.level or 0) < Level.ERROR):
            time = self.time(parsed)
            done.append(self._record(self._begin(parsed, line, time, self._track(parsed, line.number, time))))
            return  # one line, never more
        current = self._headed.get(speaker)
        if (
            current is not None
            and parsed.key
            and current.parsed.key == parsed.key
            and parsed.kind not in ("uvicorn", "shell")
            and current.size < MAX_RECORD
            and (
                _same_burst(parsed, line, current)
                if parsed.kind == "kernel"
                else not _alike(parsed.text, current) or not parsed.text.strip() or _chains(current)
            )
        ):
            if BANNER in parsed.text and " version " in parsed.text:
                self._banner(parsed, speaker, current, line)
            else:
                self._append(current, line)
            return
        self._begin_headed(parsed, speaker, line, done)

    def _begin_headed(self, parsed: Parsed, speaker: Speaker, line: Line, done: list[Record]) -> _Open:
        time = self.time(parsed)
        context = self._track(parsed, line.number, time)  # may close everything, if a new start begins here
        if speaker in self._headed:
            done.append(self._record(self._headed.pop(speaker)))
        bare = self._bare.get(speaker)
        if bare is not None and (speaker[1] is not None or not bare.frames):
            done.append(self._record(self._bare.pop(speaker)))
        record = self._begin(parsed, line, time, context)
        record.request = (
            parsed.level is not None
            and parsed.level <= Level.INFO
            and bool(REQUEST.match(parsed.text))
            and not _ends_request(parsed.text)
        )
        self._headed[speaker] = record
        return record

    def _banner(self, parsed: Parsed, speaker: Speaker, current: _Open, line: Line) -> None:
        """The line that names the version: the record belongs to the start that it announces, all of it."""
        del self._headed[speaker]
        time = self.time(parsed)
        record = self._begin(parsed, line, time, self._track(parsed, current.lines[0].number, time))
        record.lines[:0] = current.lines
        record.size += current.size
        current.size = FULL
        record.begins = current.begins
        self._headed[speaker] = record

    def _take_bare(self, parsed: Parsed, speaker: Speaker, line: Line, done: list[Record]) -> None:
        headed = self._headed.get(speaker)
        if headed is not None and headed.size < MAX_RECORD:
            if headed.request:
                self.bare_last = line.number
                self._append(headed, line)
                headed.request = not _ends_request(line.text)
                return
            adjacent = line.number - headed.last <= (MAX_PREFIXED_GAP if _prefixed(speaker) else 1)
            kind, level = headed.parsed.kind, headed.parsed.level
            continues = kind in ("glog", "python", "gunicorn", "ray", "raylet", "nccl", "json") or (
                kind == "uvicorn" and level == Level.ERROR
            )
            if (
                continues
                and adjacent
                and not (kind == "glog" and _begins(line.text) and level != Level.ERROR)
                and not (line.text.startswith(TRACEBACK) and level is not None and level <= Level.INFO)
            ):
                self._append(headed, line)
                self._grow(line.number)
                return
        bare = self._bare.get(speaker)
        if bare is not None:
            if self._continues(bare, line, _prefixed(speaker)):
                self._append(bare, line)
                self._note(bare, line.text)
                self._grow(line.number)
                return
            done.append(self._record(self._bare.pop(speaker)))
        if not line.text.strip():
            return  # a blank line belongs to nobody
        time = self.time(parsed)
        record = self._begin(parsed, line, time, self._track(parsed, line.number, time))
        self._note(record, line.text)
        self._bare[speaker] = record
        self._looked = 0
        self._grow(line.number)

    def _grow(self, number: int) -> None:
        """A traceback has got line `number`; one that says whose it is may wait longer for its next one."""
        waits = any(o.frames for speaker, o in self._bare.items() if _prefixed(speaker))
        self.bare_last = number + (MAX_PREFIXED_GAP - MAX_BARE_GAP if waits else 0)

    @staticmethod
    def _continues(bare: _Open, line: Line, prefixed: bool) -> bool:
        text = line.text
        gap = line.number - bare.last
        if prefixed and gap <= MAX_PREFIXED_GAP:
            gap = 1  # other speakers' lines do not count
        if bare.size >= MAX_RECORD or gap > MAX_BARE_GAP:
            return False
        if text.startswith(TRACEBACK):
            # A chained traceback, or the first of a block that opened with `Process EngineCore:`; else another event.
            return bare.chained or (not bare.frames and not bare.done and gap <= 1)
        if text.startswith(CHAIN):
            return True
        if bare.frames:
            return text[:1].isspace() or bool(EXCEPTION.match(text)) or not text.strip() or bare.done == 0
        if bare.done:
            return bare.done <= MAX_AFTER_EXCEPTION and gap <= 1 and not text.startswith(STANDALONE)
        if bare.lines[0].text.startswith("usage: "):
            return gap <= 1
        return gap <= 1 and text[:1].isspace() and bool(text.strip())

    @staticmethod
    def _note(bare: _Open, text: str) -> None:
        """Where in a traceback this line leaves the record."""
        if TRACEBACK in text:
            bare.frames, bare.done, bare.chained = True, 0, False
        elif text.startswith(FRAME) and not bare.frames and not bare.done and bare.lines[0].text[:1].isspace():
            bare.frames = bare.cut = True  # the traceback's beginning is missing
        elif text.startswith(CHAIN):
            bare.chained = True
        elif bare.frames and text and not text[:1].isspace():
            bare.frames, bare.done = False, 1
        elif bare.done:
            bare.done += 1

    def _begin(self, parsed: Parsed, line: Line, time: float | None, context: Context) -> _Open:
        return _Open(
            parsed=parsed,
            context=context,
            time=time,
            year=self.clock.year,
            lines=[line],
            size=len(line.text),
            last=line.number,
            begins=line.text[:8],
        )

    @staticmethod
    def _append(current: _Open, line: Line) -> None:
        current.lines.append(line)
        current.size += len(line.text) + 1
        current.last = line.number

    def held(self, until: int) -> list[Record]:
        """Open records that have had no line after line `until`, as `close` would complete them; they stay open."""
        quiet = [o for o in (*self._headed.values(), *self._bare.values()) if o.last <= until]
        return sorted((self._complete(o) for o in quiet), key=lambda r: r.first.number)

    @classmethod
    def _record(cls, o: _Open) -> Record:
        record = cls._complete(o)
        o.lines, o.size = [], FULL  # its header may be remembered for long
        return record

    @staticmethod
    def _complete(o: _Open) -> Record:
        end = len(o.lines)
        while end > 1 and not o.lines[end - 1].text.strip():
            end -= 1
        first, context = o.parsed, o.context
        stamp = first.stamp or first.outer
        return Record(
            origin=Origin(first.process, first.pid, first.rank, first.engine, first.host),
            level=first.level,
            kind=first.kind,
            lines=tuple(o.lines[:end]),
            time=o.time,
            stamp=stamp.text if stamp is not None else None,
            iso=_iso(stamp, o.year) if stamp is not None else None,
            source=first.source,
            repeats=first.repeats,
            cut=o.cut or o.size >= MAX_RECORD,
            run=context.run,
            phase=context.phase,
            life=context.life,
            bracket=first.source is not None and f"[{first.source}]" in first.key,
        )

    def skip(self, number: int) -> list[Record]:
        """Lines up to `number` were not worth reading: close what they have left behind."""
        done: list[Record] = []
        self._expire(number - number % EXPIRE_EVERY, done)
        return done

    def _expire(self, number: int, done: list[Record]) -> None:
        """Close what other speakers' lines have left behind."""
        if (number % EXPIRE_EVERY or number < self._looked) and len(self._headed) + len(self._bare) < MAX_OPEN:
            return
        for speaker in [s for s, o in self._headed.items() if number - o.last > MAX_HEADED_GAP]:
            done.append(self._record(self._headed.pop(speaker)))
        for speaker, o in list(self._bare.items()):
            if number - o.last > (MAX_PREFIXED_GAP if _prefixed(speaker) else MAX_BARE_GAP):
                done.append(self._record(self._bare.pop(speaker)))
        while len(self._headed) + len(self._bare) > MAX_OPEN:
            table = self._headed or self._bare
            oldest = min(table, key=lambda s: table[s].last)
            done.append(self._record(table.pop(oldest)))
        first = min((o.last for o in self._headed.values()), default=number)
        self._looked = 0 if self._bare else min(first, number) + MAX_HEADED_GAP


def _again(parsed: Parsed) -> Parsed:
    """What was joined; read anew if its first part told nothing: JSON that was cut is none until it is whole."""
    if parsed.level is not None or parsed.pid is not None:
        return replace(parsed, partial=False)
    found = parse_line(parsed.text)
    return replace(found, host=found.host or parsed.host, outer=found.outer or parsed.outer)


def _speaker(parsed: Parsed) -> Speaker:
    return (parsed.host, parsed.pid, parsed.rank if parsed.pid is None else None)


def _iso(stamp: Stamp, year: int | None) -> str | None:
    year = stamp.year or year
    if year is None:
        return None
    whole = int(stamp.second)
    clock = f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"{year:04d}-{stamp.month:02d}-{stamp.day:02d}T{clock}"


def _prefixed(speaker: Speaker) -> bool:
    """Every line of this speaker says whose it is: a process with its pid, or a rank."""
    return speaker[1] is not None or speaker[2] is not None


def _alike(text: str, current: _Open) -> bool:
    """Another message of the same kind in the same second (two engines' statistics), not a further line of one."""
    first = current.lines[0].text
    if text.startswith(TRACEBACK) and any(line.text.startswith(CHAIN) for line in current.lines[-4:]):
        return False
    if text[:8] != first[:8]:
        return False
    text, first = text[:200], first[:200]
    return text == first or MASK.sub("#", text) == MASK.sub("#", first)


def _chains(current: _Open) -> bool:
    """The message has announced another traceback: a second `Traceback` is no second message."""
    for line in reversed(current.lines):
        if line.text.strip():
            return line.text.startswith(CHAIN)
    return False


def _same_burst(parsed: Parsed, line: Line, current: _Open) -> bool:
    """The driver tells one failure in several lines: at once, with nothing between them."""
    if line.number - current.last > 1:
        return False
    now, then = parsed.stamp or parsed.outer, current.parsed.stamp or current.parsed.outer
    if now is None or then is None:
        return True
    return (now.month, now.day) == (then.month, then.day) and abs(now.second - then.second) <= BURST_S


def _begins(text: str) -> bool:
    return bool(text) and not text[:1].isspace()


def _ends_request(text: str) -> bool:
    return any(mark in text for mark in REQUEST_END)

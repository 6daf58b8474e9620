"""Following is scanning: every sample log in one stream, in pieces and with pauses, ends with exactly scan's findings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from vlogdiag.loading import Rules
from vlogdiag.log.follow import Data, FollowEvent
from vlogdiag.log.headers import parse_line
from vlogdiag.log.records import LogClock
from vlogdiag.model import Finding
from vlogdiag.pipeline import Pipeline, prefilter_of
from vlogdiag.tail import Surroundings, Tail

SAMPLES = Path(__file__).parent.parent / "sample_logs"


def stream(roll: random.Random) -> bytes:
    """All sample logs, one after the other, in some order, each ended by a line end."""
    logs = [path.read_bytes() for path in sorted(SAMPLES.rglob("*.log"))]
    roll.shuffle(logs)
    return b"".join(log if log.endswith(b"\n") else log + b"\n" for log in logs)


def steps(data: bytes) -> list[tuple[bytes, float]]:
    """Each line with how much log time passes until the next one is printed."""
    clock = LogClock()
    times: list[float] = []
    lines = data.splitlines(keepends=True) if b"\r" not in data else BytesIO(data).readlines()
    for line in lines:
        parsed = parse_line(line.decode("utf-8", "replace").rstrip("\r\n"))
        if parsed.stamp is not None and parsed.kind != "nginx":
            clock.time(parsed.stamp)
        times.append(clock.now or 0.0)
    return [
        (line, max(0.0, after - now)) for line, now, after in zip(lines, times, [*times[1:], times[-1]], strict=True)
    ]


class Played:
    """A pipe that a writer fills."""

    path, backlog, lag = "all.log", False, 0

    def __init__(self) -> None:
        self.coming: list[FollowEvent] = []
        self.offset = 0
        self.ended = False

    def write(self, data: bytes) -> None:
        self.coming.append(Data(self.path, self.offset, data))
        self.offset += len(data)

    def poll(self) -> list[FollowEvent]:
        coming, self.coming = self.coming, []
        return coming

    def close(self) -> None:
        pass


def followed(rules: Rules, data: bytes, roll: random.Random, *, size: int) -> tuple[tuple[Finding, ...], list[str]]:
    """What a tail ends with, and the types of its events; pauses are never longer than the log's own steps."""
    now = 5000.0
    source = Played()
    tail = Tail((source,), rules, Surroundings(lambda: now))
    types: list[str] = []
    for line, step in steps(data):
        left = step
        for piece in pieces(line, roll, size):
            source.write(piece)
            if roll.random() < 0.3 * min(1.0, len(piece) / 40):
                pause = left * roll.random() if roll.random() < 0.5 else min(left, roll.choice((0.01, 0.12, 2.5)))
                now += pause
                left -= pause
                types += [event.type for event in tail.step()]
    source.ended = True
    types += [event.type for event in (*tail.step(), *tail.close())]
    return tail.all_findings, types


def pieces(line: bytes, roll: random.Random, size: int) -> Iterator[bytes]:
    at = 0
    while at < len(line):
        step = 1 if size == 1 else roll.randint(1, size)
        yield line[at : at + step]
        at += step


def scanned(rules: Rules, data: bytes) -> tuple[Finding, ...]:
    pipeline = Pipeline(rules, source="all.log", prefilter=prefilter_of(rules))
    pipeline.feed(data)
    return pipeline.close().findings


def in_order(findings: tuple[Finding, ...]) -> list[Finding]:
    return sorted(findings, key=lambda f: (f.run, f.first.offset or 0, f.id))


def check(rules: Rules, seed: int, size: int) -> None:
    roll = random.Random(seed)
    data = stream(roll)
    expected = in_order(scanned(rules, data))
    found, types = followed(rules, data, roll, size=size)
    assert len(expected) >= 20
    assert [(f.run, f.id) for f in in_order(found)] == [(f.run, f.id) for f in expected]
    assert in_order(found) == expected
    assert types.count("finding.opened") - types.count("finding.closed") == 0


def test_every_sample_log_in_one_stream_byte_by_byte(shipped: Rules) -> None:
    check(shipped, seed=1, size=1)


@pytest.mark.long
@pytest.mark.parametrize("size", [400, 30, 1])
@pytest.mark.parametrize("seed", range(20))
def test_every_sample_log_in_any_order(shipped: Rules, seed: int, size: int) -> None:
    check(shipped, seed=1000 + seed, size=size)

"""Several followed logs in one loop: bytes as followers hand them out, half lines, numbers, rotations, ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from io import BytesIO

import pytest
from follow_fakes import MemoryFs
from live_log import CORE, MEMORY, RULES, crash, server
from small_rules import diagnose

from vlogdiag.log.follow import (
    Appeared,
    Data,
    Ended,
    Follower,
    FollowEvent,
    Notice,
    StreamFollower,
    Truncated,
    Vanished,
)
from vlogdiag.log.wakers import ManualWaker
from vlogdiag.log.windows import MAX_LINE
from vlogdiag.model import Event, Finding, Reading, ServerMetrics, Unavailable
from vlogdiag.tail import Source, Surroundings, Tail

HEADS = "INFO 04-03 09:12:{:02d} [a.py:1] "


class Scripted:
    """A source that hands out what a test gives it."""

    def __init__(self, path: str = "vllm.log") -> None:
        self.path = path
        self.backlog = False
        self.ended = False
        self.closed = False
        self.coming: list[FollowEvent] = []

    def give(self, *events: FollowEvent) -> None:
        self.coming.extend(events)

    def poll(self) -> list[FollowEvent]:
        coming, self.coming = self.coming, []
        return coming

    def close(self) -> None:
        self.closed = True


class Clock:
    """Moved by hand; wall time goes along."""

    def __init__(self) -> None:
        self.now = 500.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A tail over sources with a clock; everything it says is collected."""

    def __init__(self, *sources: Source, **around: Callable[..., object]) -> None:
        self.clock = Clock()
        self.tail = Tail(sources, RULES, Surroundings(self.clock, wall=self.clock, **around))  # type: ignore[arg-type]
        self.events: list[Event] = []

    def step(self, seconds: float = 0.2, times: int = 1) -> Bench:
        for _ in range(times):
            self.clock.now += seconds
            self.events += self.tail.step()
        return self

    def close(self) -> Bench:
        self.events += self.tail.close()
        return self

    def notices(self) -> list[str]:
        return [event.notice for event in self.events if event.notice]

    def opened(self) -> list[Finding]:
        return [e.finding for e in self.events if e.type == "finding.opened" and e.finding is not None]


def lines(*texts: str) -> bytes:
    return "".join(text + "\n" for text in texts).encode()


def head(second: int = 0, level: str = "INFO") -> str:
    return f"{level} 04-03 09:12:{second:02d} [core.py:700] "


def broken() -> bytes:
    return server().start().access().error(CORE, "core.py:700", crash()).text.encode()


# --- lines out of bytes


@pytest.mark.parametrize("size", [1, 7, 1000, 10**9])
def test_the_sizes_of_what_is_read_change_nothing(size: int) -> None:
    data = broken()
    source = Scripted()
    bench = Bench(source)
    for at in range(0, len(data), size):
        source.give(Data("vllm.log", at, data[at : at + size]))
        if size > 500:
            bench.step(0.01)
    source.ended = True
    bench.step().close()
    assert bench.tail.all_findings == diagnose(RULES, data).findings
    assert bench.tail.counts.lines == data.count(b"\n")


def test_a_half_line_waits_for_its_end_for_any_time() -> None:
    source = Scripted()
    bench = Bench(source)
    text = lines(head(1, "ERROR") + MEMORY)
    source.give(Data("vllm.log", 0, text[:40]))
    bench.step(1, times=60)
    assert bench.opened() == []
    source.give(Data("vllm.log", 40, text[40:]))
    assert [f.id for f in bench.step(0.2, times=3).opened()] == ["memory"]


def test_half_lines_of_two_files_of_one_path_are_not_mixed() -> None:
    # the old file gets its line's second half after the new one has begun
    source = Scripted()
    bench = Bench(source)
    old, new = lines(head(1, "ERROR") + MEMORY), lines(head(2) + "a new file", head(3) + "goes on")
    source.give(Data("vllm.log", 0, old[:50], file=0), Data("vllm.log", 0, new, file=1))
    source.give(Data("vllm.log", 50, old[50:], file=0))
    assert [f.cause for f in bench.step(times=3).opened()] == ["memory"]


def test_a_half_line_that_is_given_up_is_a_line() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Data("vllm.log", 0, lines(head(1, "ERROR") + MEMORY)[:-1]), Ended("vllm.log", 0))
    assert [f.id for f in bench.step(times=3).opened()] == ["memory"]


def test_tail_ends_inside_a_line_and_the_half_counts_as_scan_counts_it() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Data("vllm.log", 0, lines(head(1, "ERROR") + MEMORY)[:-1]))
    assert [f.id for f in bench.step(times=3).close().opened()] == ["memory"]


@pytest.mark.parametrize("size", [1 << 16, 10**9])
def test_a_line_without_end_costs_no_memory_and_later_places_are_right(size: int) -> None:
    giant = b"x" * (3 * MAX_LINE + 17)
    data = lines(head(1) + "begin") + giant + b"\n" + lines(head(2, "ERROR") + MEMORY)
    source = Scripted()
    bench = Bench(source)
    for at in range(0, len(data), size):
        source.give(Data("vllm.log", at, data[at : at + size]))
        bench.step(0.01)
    source.ended = True
    bench.step(times=3).close()
    expected = diagnose(RULES, data)
    assert bench.tail.all_findings == expected.findings
    assert bench.tail.all_findings[0].first.offset == len(data) - len(lines(head(2, "ERROR") + MEMORY))
    assert expected.notices[0] in bench.notices()


# --- where a line stands


def places(bench: Bench) -> list[tuple[int | None, int | None]]:
    return [(f.first.line, f.first.offset) for f in bench.opened()]


def test_a_log_followed_from_its_middle_has_offsets_but_no_line_numbers() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Data("vllm.log", 5000, lines(head(1) + "context", head(2, "ERROR") + MEMORY)))
    bench.step(times=3)
    assert places(bench) == [(None, 5000 + len(lines(head(1) + "context")))]
    assert [e.line for e in bench.opened()[0].evidence] == [None]


def test_after_rotation_lines_are_counted_in_the_new_file() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Data("vllm.log", 7000, lines(*[head(1) + "old"] * 90), file=0))
    source.give(Data("vllm.log", 0, lines(head(2) + "new", head(3, "ERROR") + MEMORY), file=1))
    bench.step(times=3)
    assert places(bench) == [(2, len(lines(head(2) + "new")))]


def test_a_late_line_of_the_old_file_has_no_number_and_spoils_none() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Data("vllm.log", 0, lines(head(1) + "old"), file=0))
    source.give(Data("vllm.log", 0, lines(head(2) + "new"), file=1))
    source.give(Data("vllm.log", len(lines(head(1) + "old")), lines(head(3, "ERROR") + MEMORY), file=0))
    source.give(
        Data(
            "vllm.log", len(lines(head(2) + "new")), lines(head(4, "ERROR") + "RuntimeError: peer 3 is silent"), file=1
        )
    )
    bench.step(times=3)
    (finding,) = bench.tail.all_findings
    assert finding.first.line is None
    assert finding.consequences[0].line == 2


def test_after_a_truncation_lines_are_counted_anew() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Data("vllm.log", 0, lines(*[head(1) + "old"] * 90)))
    source.give(Truncated("vllm.log"), Data("vllm.log", 0, lines(head(2) + "new", head(3, "ERROR") + MEMORY)))
    bench.step(times=3)
    assert places(bench) == [(2, len(lines(head(2) + "new")))]
    assert bench.notices() == ["vllm.log: truncated, read again from its beginning"]


def test_a_line_that_a_truncation_cut_begins_in_no_file_that_is_there() -> None:
    source = Scripted()
    bench = Bench(source)
    text = head(3, "ERROR") + MEMORY
    source.give(Data("vllm.log", 0, text[:30].encode()))
    source.give(Truncated("vllm.log", recovered=True), Data("vllm.log", 0, text[30:].encode() + b"\n"))
    bench.step(times=3)
    assert places(bench) == [(1, None)]


def test_a_real_follower_through_a_rotation() -> None:
    fs = MemoryFs()
    bench = Bench()
    bench.tail.sources = (Follower("/v.log", fs=fs, clock=bench.clock, from_start=True),)
    fs.append("/v.log", lines(*[head(1) + "old"] * 3))
    bench.step(0.05, times=3)
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", lines(head(2) + "new", head(3, "ERROR") + MEMORY))
    bench.step(0.05, times=40)
    assert places(bench) == [(2, len(lines(head(2) + "new")))]
    fs.append_to(fs.nodes["/v.log.1"], lines(head(4) + "late"))
    fs.append("/v.log", lines(head(5) + "on"))
    bench.step(0.05, times=40)
    assert bench.tail.counts.lines == 3 + 2 + 2


# --- several logs


def test_two_logs_are_two_diagnoses() -> None:
    one, two = Scripted("a.log"), Scripted("b.log")
    bench = Bench(one, two)
    one.give(Data("a.log", 0, lines(head(1, "ERROR") + MEMORY)))
    two.give(Data("b.log", 0, lines(head(1, "ERROR") + "RuntimeError: peer 3 is silent")))
    bench.step(times=3)
    assert sorted((f.source, f.id) for f in bench.opened()) == [("a.log", "memory"), ("b.log", "network")]


def test_a_log_of_a_glob_that_is_gone_for_ten_minutes_is_over_and_takes_no_memory() -> None:
    source = Scripted("*.log")
    bench = Bench(source)
    for number in range(50):
        path = f"{number}.log"
        source.give(Data(path, 0, lines(head(1, "ERROR") + MEMORY)))
        bench.step(times=3)
        source.give(Vanished(path))
        bench.step(120)
    bench.step(120, times=10)
    assert bench.tail.sessions == {}
    assert len(bench.tail.all_findings) == 50  # they happened: the exit status says so
    assert [e.type for e in bench.events].count("finding.closed") == 50


def test_a_rotation_is_not_told_and_an_absence_is() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Data("vllm.log", 0, lines(head(1) + "a")))
    bench.step()
    source.give(Vanished("vllm.log"))
    bench.step(1, times=5)
    source.give(Appeared("vllm.log"), Data("vllm.log", 0, lines(head(2) + "b"), file=1))
    bench.step(1, times=30)
    assert bench.notices() == []
    source.give(Vanished("vllm.log"))
    bench.step(1, times=20)
    source.give(Appeared("vllm.log"))
    bench.step()
    assert bench.notices() == ["vllm.log: gone; waiting for it", "vllm.log: there again after 19 s"]


def test_what_a_follower_says_names_the_path_once() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Notice("vllm.log", "vllm.log cannot be read at the moment: permission denied"))
    source.give(Notice("vllm.log", "standard input broke off"))
    bench.step()
    assert bench.notices() == [
        "vllm.log cannot be read at the moment: permission denied",
        "vllm.log: standard input broke off",
    ]


# --- the loop


def test_the_loop_waits_shortly_while_something_is_not_quiet_and_ends_when_it_is_told() -> None:
    source = Scripted()
    bench = Bench(source)
    done: list[str] = []
    waker = ManualWaker(
        [
            lambda: source.give(Data("vllm.log", 0, lines(head(1) + "a"))),
            lambda: setattr(bench.clock, "now", bench.clock.now + 5),
            lambda: None,
            bench.tail.stop,
        ]
    )
    bench.tail.run(waker, bench.events.extend, jobs=[lambda: done.append("refreshed")])
    assert waker.waits == [None, 0.1, None, None]
    assert len(done) == 4


def test_a_backlog_is_read_without_waiting_and_the_status_is_kept_up() -> None:
    source = Scripted()
    bench = Bench(source)
    done: list[int] = []
    source.backlog = True

    def job() -> None:
        done.append(bench.tail.counts.polls)
        source.backlog = len(done) < 5

    waker = ManualWaker([bench.tail.stop])
    bench.tail.run(waker, bench.events.extend, jobs=[job])
    assert done == [1, 2, 3, 4, 5]
    assert len(waker.waits) == 1


def test_a_pipe_that_ends_ends_the_tail_with_what_scan_says() -> None:
    data = broken()
    bench = Bench(StreamFollower(BytesIO(data), name="-"))
    bench.tail.run(ManualWaker([]), bench.events.extend)
    bench.close()
    expected = diagnose(RULES, data).findings
    assert [(f.id, f.first, f.evidence[0].line) for f in bench.tail.all_findings] == [
        (f.id, f.first, f.evidence[0].line) for f in expected
    ]


def test_following_that_ends_says_so_of_every_finding_and_lets_go_of_its_sources() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Data("vllm.log", 0, lines(head(1, "ERROR") + MEMORY)))
    bench.step(times=3).close()
    last = bench.events[-1]
    assert last.type == "finding.closed"
    assert last.details["because"] == "the end of following"
    assert source.closed
    assert [f.id for f in bench.tail.all_findings] == ["memory"]


def test_findings_are_counted_by_kind() -> None:
    source = Scripted()
    bench = Bench(source)
    source.give(Data("vllm.log", 0, lines(head(1, "ERROR") + MEMORY)))
    bench.step(times=3)
    assert bench.tail.counts.opened == {("memory", "oom", "error"): 1}


# --- readings


def test_a_reading_goes_to_every_log_on_that_logs_own_clock() -> None:
    one, two = Scripted("a.log"), Scripted("b.log")
    taken: list[Reading] = []
    due: list[Reading] = [Reading(None, stamp="x")]
    bench = Bench(one, two, sample=lambda: due.pop() if due else None, observed=taken.append)
    bench.clock.now = 90.0  # 1 January 1970, 00:01:30 UTC
    one.give(Data("a.log", 0, lines("INFO 01-01 00:01:30 [a.py:1] utc")))
    two.give(Data("b.log", 0, lines("INFO 01-01 08:01:30 [a.py:1] Shanghai", "INFO 01-01 08:01:30 [a.py:1] b")))
    bench.step(0.5)
    assert [(r.log, r.time) for r in taken] == [("a.log", 90.5)]
    for second in range(40):
        two.give(
            Data("b.log", 0, lines(f"INFO 01-01 08:{1 + (31 + second) // 60:02d}:{(31 + second) % 60:02d} [a.py:1] b"))
        )
        bench.step(1)
    assert [(r.log, r.time) for r in taken] == [("a.log", 90.5), ("b.log", 8 * 3600 + 90.5)]
    (event,) = [e for e in bench.events if e.type == "reading"]
    assert event.reading is not None
    assert event.reading.time == 90.5


def test_what_cannot_be_read_is_said_once() -> None:
    source = Scripted()
    missing = (Unavailable("nvml", "no driver on this machine"),)
    refused = ServerMetrics(unavailable=(Unavailable("metrics", "http://127.0.0.1:8000/metrics: refused"),))
    bench = Bench(source, sample=lambda: Reading(None, metrics=refused, unavailable=missing))
    bench.step(times=100)
    assert bench.notices() == [
        "no readings from nvml: no driver on this machine",
        "no readings from metrics: http://127.0.0.1:8000/metrics: refused",
    ]


def test_the_cuda_variables_of_the_logs_own_processes_go_with_its_readings() -> None:
    source = Scripted()
    asked: list[frozenset[int]] = []
    taken: list[Reading] = []

    def cuda(pids: frozenset[int], reading: Reading) -> tuple[str, None, None]:
        asked.append(pids)
        return "1", None, None

    due = [Reading(None)]
    bench = Bench(source, sample=lambda: due.pop() if due else None, observed=taken.append, cuda=cuda)
    bench.clock.now = 90.0
    source.give(
        Data(
            "vllm.log",
            0,
            lines(*["(EngineCore pid=229) INFO 01-01 00:01:30 [a.py:1] x"] * 2),
        )
    )
    bench.step(0.5)
    assert asked == [frozenset({229})]
    assert [r.cuda for r in taken] == [("1", None, None)]


# --- torture


@pytest.mark.parametrize("seed", range(4))
def test_rotations_truncations_and_pauses_lose_and_double_nothing(seed: int) -> None:
    roll = random.Random(seed)
    fs = MemoryFs()
    bench = Bench()
    bench.tail.sources = (Follower("/v.log", fs=fs, clock=bench.clock, from_start=True),)
    written = 0
    for number in range(300):
        what = roll.random()
        text = head(number % 60, "ERROR") + MEMORY if what < 0.05 else head(number % 60) + f"line {number}"
        whole = lines(text)
        cut = roll.randrange(len(whole))
        fs.append("/v.log", whole[:cut])
        if roll.random() < 0.3:
            bench.step(0.03, times=roll.randint(1, 3))
        fs.append("/v.log", whole[cut:])
        written += 1
        if roll.random() < 0.02:
            bench.step(0.03, times=4)
            fs.rename("/v.log", f"/v.log.{number}")
            fs.append("/v.log", b"")
        bench.step(0.03, times=roll.randint(0, 2))
    bench.step(0.05, times=60).close()
    assert bench.tail.counts.lines == written


@pytest.mark.parametrize("seed", range(3))
def test_bytes_that_are_no_text_harm_nobody(seed: int) -> None:
    roll = random.Random(seed)
    data = bytearray(broken() * 3)
    for _ in range(400):
        at = roll.randrange(len(data))
        data[at : at + roll.randrange(4)] = bytes(
            roll.choice((0, 10, 13, 27, 92, 123, 128, 255)) for _ in range(roll.randrange(4))
        )
    source = Scripted()
    bench = Bench(source)
    at = 0
    while at < len(data):
        size = roll.randint(1, 900)
        source.give(Data("vllm.log", at, bytes(data[at : at + size])))
        at += size
        bench.step(0.06)
    source.ended = True
    bench.step(times=3).close()
    expected = diagnose(RULES, bytes(data)).findings
    assert sorted(bench.tail.all_findings, key=str) == sorted(expected, key=str)

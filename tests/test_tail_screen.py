"""What tail prints: JSON lines at once, plain blocks, a status that is redrawn in place whatever the terminal does."""

from __future__ import annotations

import json
import re

import pytest
from live_log import CORE, RULES, crash, server
from msgspec.structs import replace
from report_samples import KV_FINDING

from vlogdiag.log.follow import Data
from vlogdiag.model import Consequence, Event, Finding, Gpu, Outcome, Reading, ServerMetrics, Severity
from vlogdiag.tail import Surroundings, Tail
from vlogdiag.tail_screen import JsonScreen, PlainScreen, Telling, TerminalScreen, coarse, models

AGAIN = replace(KV_FINDING, run=KV_FINDING.run + 1)


def opened(finding: Finding = KV_FINDING, number: int = 1) -> Event:
    return Event("finding.opened", finding=finding, details={"incident": number})


def updated(finding: Finding, number: int = 1) -> Event:
    return Event("finding.updated", finding=finding, details={"incident": number})


def growing(count: int) -> Finding:
    return replace(
        KV_FINDING, count=1, consequences=(Consequence("dead", "the engine died", "vllm.log", 90, 120, count),)
    )


# --- lines for people


def test_a_finding_is_told_in_full_and_what_follows_in_a_line() -> None:
    telling = Telling()
    assert KV_FINDING.title in telling.text(opened(), 100)
    assert telling.text(updated(growing(3)), 100) == "  ↳ kv-cache-too-small: the engine died ×3\n"


def test_the_same_update_is_not_told_twice() -> None:
    telling = Telling()
    telling.text(updated(growing(3)), 100)
    assert telling.text(updated(growing(3)), 100) == ""
    assert telling.text(updated(growing(4)), 100) == "  ↳ kv-cache-too-small: the engine died ×4\n"


def test_the_same_in_the_next_start_is_a_line() -> None:
    telling = Telling()
    telling.text(opened(), 100)
    assert telling.text(opened(AGAIN, 2), 100).startswith(f"  ↳ kv-cache-too-small again, in start {AGAIN.run}")


def test_the_same_rule_with_other_numbers_is_told_in_full() -> None:
    telling = Telling()
    telling.text(opened(), 100)
    other = replace(AGAIN, cause=re.sub(r"\d\d+", "7777777", AGAIN.cause), fixes=AGAIN.fixes[1:])
    assert other.title in telling.text(opened(other, 2), 100)


@pytest.mark.parametrize(
    ("finding", "details", "text"),
    [
        (KV_FINDING, {"by": "gpu-lost"}, "  ↳ kv-cache-too-small follows from gpu-lost\n"),
        (
            replace(KV_FINDING, outcome=Outcome.RECOVERED),
            {"by": None},
            "  ↳ kv-cache-too-small: a later start serves\n",
        ),
        (KV_FINDING, {}, ""),
    ],
)
def test_a_closing_says_why_if_that_is_news(finding: Finding, details: dict[str, object], text: str) -> None:
    event = Event("finding.closed", finding=finding, details={"incident": 1, **details})
    assert Telling().text(event, 100) == text


def test_ascii_terminals_get_ascii_and_narrow_ones_whole_rows() -> None:
    telling = Telling(unicode=False)
    text = telling.text(opened(), 60) + telling.text(updated(growing(3)), 60)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 60
    assert telling.text(Event("notice", notice="x" * 500), 40) == "  " + "x" * 35 + "...\n"


def test_a_log_line_in_a_notice_cannot_steer_the_terminal() -> None:
    text = Telling().text(Event("notice", notice="bad \x1b[2J\x07 line\r\nsecond"), 80)
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "\x07" not in text


def test_readings_are_no_lines() -> None:
    assert Telling().text(Event("reading", reading=Reading(1.0)), 80) == ""


def test_json_is_one_object_a_line_flushed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with JsonScreen() as screen:
        screen.event(opened())
        screen.event(Event("reading", reading=Reading(12.5, stamp="x")))
        screen.refresh()
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["format"] == "vlogdiag.event/1"
    assert (first["type"], first["data"]["id"], first["details"]) == ("finding.opened", KV_FINDING.id, {"incident": 1})
    assert (second["type"], second["data"]["time"]) == ("reading", 12.5)


def test_plain_output_holds_no_escape(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainScreen(width=100) as screen:
        screen.event(opened())
        screen.refresh()
    assert "\x1b" not in capsys.readouterr().out


# --- the status


class Terminal:
    """Enough of a terminal: rows that wrap, cursor up, erase below, carriage return. Narrowing wraps what is there."""

    def __init__(self, width: int = 80, height: int = 24) -> None:
        self.width, self.height = width, height
        self.rows = [""]
        self.at = 0

    def size(self) -> tuple[int, int]:
        return self.width, self.height

    def write(self, text: str) -> None:
        for part in re.findall(r"\x1b\[\d*[A-Za-z]|\x1b\[[\d;]*m|\n|\r|[^\x1b\n\r]+", text):
            if part == "\n":
                self.at += 1
                self.rows[self.at :] = (
                    [*self.rows[self.at :], ""] if self.at >= len(self.rows) else self.rows[self.at :]
                )
            elif part == "\r":
                continue
            elif part.endswith("A") and part.startswith("\x1b"):
                self.at -= int(part[2:-1])
                assert self.at >= 0
            elif part == "\x1b[J":
                self.rows = [*self.rows[: self.at], ""]
            elif part.startswith("\x1b"):
                continue
            else:
                for chunk in [part[n : n + self.width] for n in range(0, len(part), self.width)]:
                    if self.rows[self.at]:
                        self.at += 1
                        self.rows.append("")
                    self.rows[self.at] = chunk

    def narrow(self, width: int) -> None:
        """As terminals that reflow do."""
        rows = [row[n : n + width] for row in self.rows for n in range(0, max(1, len(row)), width)]
        self.width, self.rows, self.at = width, rows, len(rows) - 1


class Followed:
    """A tail over one in-memory log, and its screen on that terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self.now = 100.0
        self.terminal = terminal
        self.path, self.backlog, self.lag = "vllm.log", False, 0
        self.coming: list[Data] = []
        self.offset = 0
        self.tail = Tail((self,), RULES, Surroundings(lambda: self.now))
        self.screen = TerminalScreen(
            self.tail, color=False, clock=lambda: self.now, write=terminal.write, size=terminal.size
        )

    def poll(self) -> list[Data]:
        coming, self.coming = self.coming, []
        return coming

    def close(self) -> None:
        pass

    def feed(self, text: str) -> Followed:
        self.coming.append(Data("vllm.log", self.offset, text.encode()))
        self.offset += len(text.encode())
        return self

    def step(self, seconds: float = 0.6, times: int = 1) -> Followed:
        for _ in range(times):
            self.now += seconds
            for event in self.tail.step():
                self.screen.event(event)
            self.screen.refresh()
        return self


def test_the_status_stays_the_last_row_below_what_is_printed() -> None:
    terminal = Terminal()
    followed = Followed(terminal)
    with followed.screen:
        printer = server().start().access().statistics()
        followed.feed(printer.text).step(times=2)
        assert [row for row in terminal.rows if row] == [
            "vllm.log  serving  KV ░░░░░░ 8%  3 running  181 tok/s  47 lines"
        ]
        done = len(printer.text)
        followed.feed(printer.error(CORE, "core.py:700", crash()).text[done:]).step(times=3)
        assert sum("serving" in row for row in terminal.rows) == 1
        assert terminal.rows[-1].startswith("vllm.log  serving  1 error")
    assert not any("serving  1 error" in row for row in terminal.rows)
    assert any("memory" in row for row in terminal.rows)


@pytest.mark.parametrize("width", [12, 30, 40, 41])
def test_no_row_is_wider_than_a_narrow_terminal(width: int) -> None:
    terminal = Terminal(width, 24)
    followed = Followed(terminal)
    with followed.screen:
        followed.feed(server().start().access().statistics().text).step(times=2)
        followed.tail.reading = Reading(None, gpus=(Gpu(0, used=20 * 2**30, total=24 * 2**30, utilization=0.97),))
        followed.step(times=2)
        assert [len(row) < width for row in terminal.rows if row] == [True, True]


@pytest.mark.parametrize("width", [60, 41, 25])
def test_a_terminal_that_becomes_narrower_keeps_no_piece_of_the_old_status(width: int) -> None:
    terminal = Terminal(140, 40)
    followed = Followed(terminal)
    with followed.screen:
        followed.feed(server().start().access().statistics().text).step(times=2)
        terminal.narrow(width)
        followed.step(times=2)
        assert sum("vllm.log" in row for row in terminal.rows) == 1
    assert not any(terminal.rows)


def test_a_status_that_has_not_changed_is_not_drawn_again() -> None:
    terminal = Terminal()
    followed = Followed(terminal)
    written: list[str] = []
    followed.screen._write = written.append
    with followed.screen:
        followed.feed(server().start().statistics().text).step(times=2)
        before = len(written)
        followed.step(0.5, times=2000)  # a quarter of an hour: whole tens of seconds, then minutes
        assert len(written) - before <= 6 + 16


def test_the_status_takes_no_more_than_a_third_of_the_screen() -> None:
    terminal = Terminal(80, 12)
    followed = Followed(terminal)
    with followed.screen:
        followed.feed(server().start().statistics().text).step(times=2)
        followed.tail.reading = Reading(None, gpus=tuple(Gpu(n, utilization=0.5) for n in range(8)))
        followed.step(times=2)
        assert len([row for row in terminal.rows if row]) == 4
        assert terminal.rows[-1] == "+6 more rows"


def test_the_server_says_more_than_its_log() -> None:
    followed = Followed(Terminal())
    followed.feed(server().start().statistics(running=3).text).step(times=2)
    followed.tail.reading = Reading(
        None,
        metrics=ServerMetrics(running=7.0, waiting=2.0, kv_usage=0.5),
    )
    (model,) = models(followed.tail, followed.now)
    assert (model.running, model.waiting, model.kv_usage, model.tokens_per_second) == (7.0, 2.0, 0.5, 181.2)


def test_before_the_first_line_the_path_is_shown() -> None:
    assert [m.path for m in models(Followed(Terminal()).tail, 0)] == ["vllm.log"]


@pytest.mark.parametrize(("seconds", "shown"), [(3, 0), (42.9, 40), (61, 60), (3599, 3540), (7300, 7200)])
def test_quiet_is_counted_in_steps_that_grow(seconds: float, shown: float) -> None:
    assert coarse(seconds) == shown


# --- statistics of several engines


def test_engines_are_added_up_and_a_new_start_forgets_them() -> None:
    followed = Followed(Terminal())
    printer = server().start()
    for engine in (0, 1, 0, 1):
        printer.statistics(running=3 + engine, generation=100.0, usage=10.0 + engine)
        printer.out[-1] = printer.out[-1].replace("Engine 000", f"Engine {engine:03d}")
    followed.feed(printer.text).step(times=2)
    serving = followed.tail.sessions["vllm.log"].serving
    assert (serving.running, serving.generation, serving.kv_usage) == (7.0, 200.0, 0.11)
    assert list(serving.throughput) == [100.0, 200.0]
    done = len(printer.text)
    followed.feed(printer.start().statistics(running=1).text[done:]).step(times=2)
    assert serving.running == 1.0


def test_severities_are_counted_without_those_that_a_later_start_has_closed() -> None:
    followed = Followed(Terminal())
    printer = server().start().access().error(CORE, "core.py:700", crash())
    followed.feed(printer.text).step(times=3)
    assert followed.tail.sessions["vllm.log"].counts() == (1, 0)
    done = len(printer.text)
    followed.feed(printer.wait(9).start().access().text[done:]).step(times=3)
    assert followed.tail.sessions["vllm.log"].counts() == (0, 0)
    assert [f.severity for f in followed.tail.all_findings] == [Severity.ERROR]

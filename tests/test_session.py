"""When one live log's findings are told: certain ones soon, lone consequences late, silence by the clock, nothing twice."""

from __future__ import annotations

import random
from datetime import datetime, timezone

import pytest
from ages import Printer
from live_log import API, CORE, DEAD, MEMORY, NETWORK, RULES, Live, crash, server
from small_rules import diagnose

from vlogdiag.model import Outcome, Reading, Severity
from vlogdiag.session import LONE_S, QUIET_S

HALF_A_SECOND = 0.5


def started() -> tuple[Live, Printer]:
    """A server that serves, followed from its first line; the clock has passed the start."""
    printer = server().start().access()
    live = Live().printed(printer).wait(1)
    assert live.told() == []
    live.begin = live.now
    return live, printer


# --- certainty


def test_a_cause_is_told_once_its_record_has_been_quiet_for_100_ms() -> None:
    live, printer = started()
    live.printed(printer.error(CORE, "core.py:700", crash())).wait(QUIET_S - 0.03)
    assert live.told() == []
    live.wait(0.06)
    assert live.told() == [("opened", "memory")]


def test_a_complete_record_is_told_at_the_next_look() -> None:
    live, printer = started()
    printer.error(CORE, "core.py:700", crash()).info(CORE, "core.py:710", "the same process goes on to speak")
    live.printed(printer).wait(0.03)
    assert live.told() == [("opened", "memory")]


def test_others_who_never_fall_silent_hold_nothing_up() -> None:
    live, printer = started()
    live.printed(printer.error(CORE, "core.py:700", crash()))
    for _ in range(20):
        live.printed(printer.access()).wait(0.01, step=0.01)
    ((moment, _),) = live.of("opened", "memory")
    assert moment <= 0.15


def test_a_traceback_that_is_still_being_written_is_not_told_by_halves() -> None:
    live, printer = started()
    printer.error(CORE, "core.py:700", crash())
    lines, live.fed = printer.out[live.fed :], len(printer.out)
    for line in lines:
        live.feed(line + "\n").wait(0.08, step=0.02)
        if line != lines[-1]:
            assert live.told() == []
    live.wait(0.1)
    assert live.told() == [("opened", "memory")]


def test_a_writer_that_stops_inside_a_traceback_is_told_of_what_is_there() -> None:
    live, printer = started()
    live.printed(printer.error(CORE, "core.py:700", crash("RuntimeError: no signature knows this")))
    live.wait(5)
    assert [kind for kind, _ in live.told()] == ["notice"]
    assert "no signature knows this" in live.told()[0][1]


def test_a_lone_consequence_waits_for_its_cause() -> None:
    live, printer = started()
    live.printed(printer.error(API, "async_llm.py:480", crash(DEAD))).wait(LONE_S - 0.2)
    assert live.told() == []
    live.printed(printer.error(CORE, "core.py:700", crash())).wait(3)
    assert live.told() == [("opened", "memory")]
    assert [c.id for c in live.of("opened", "memory")[0][1].consequences] == ["dead"]


def test_a_lone_consequence_is_told_after_two_seconds() -> None:
    live, printer = started()
    live.printed(printer.error(API, "async_llm.py:480", crash(DEAD))).wait(3)
    ((kind, text),) = live.told()
    assert kind == "notice"
    assert "only a consequence, its cause is not here" in text
    assert LONE_S <= live.events[0][0] <= LONE_S + 0.3


def test_an_unexplained_death_is_told_after_two_seconds_and_no_sooner() -> None:
    live, printer = started()
    printer.error(CORE, "core.py:700", "EngineCore encountered a fatal error.\n" + crash("ValueError: never heard of"))
    live.printed(printer).wait(LONE_S - 0.2)
    assert live.told() == []
    live.wait(0.6)
    assert live.told() == [("opened", "unexplained-failure")]


def test_an_unexplained_death_that_is_explained_in_time_is_not_told() -> None:
    live, printer = started()
    printer.error(CORE, "core.py:700", "EngineCore encountered a fatal error.\n" + crash("ValueError: never heard of"))
    live.printed(printer).wait(1)
    live.printed(printer.error(CORE, "core.py:701", crash())).wait(3)
    assert ("opened", "unexplained-failure") not in live.told()
    assert live.told()[0] == ("opened", "memory")


def test_what_turns_out_to_follow_from_something_else_is_taken_back_and_says_why() -> None:
    live, printer = started()
    live.printed(printer.error(CORE, "core.py:700", crash(NETWORK))).wait(1)
    live.printed(printer.wait(1).error(CORE, "core.py:701", crash(MEMORY))).wait(2)
    assert live.told()[0] == ("opened", "network")
    assert ("closed", "network") in live.told()
    closed = next(event for _, event in live.events if event.type == "finding.closed")
    assert closed.details["by"] == "memory"
    assert [f.id for f in live.session.findings()] == ["memory"]


# --- repeats


def test_a_storm_of_repeats_is_a_few_updates() -> None:
    live, printer = started()
    live.printed(printer.error(CORE, "core.py:700", crash()))
    for _ in range(93):
        live.printed(printer.wait(1).error(API, "serving_chat.py:900", crash(DEAD))).wait(1)
    live.close()
    updates = live.of("updated", "memory")
    assert len(live.of("opened", "memory")) == 1
    assert 3 <= len(updates) <= 10
    assert updates[-1][1].consequences[0].count == 93


def test_the_first_consequences_are_told_within_seconds_though_later_ones_come_rarely() -> None:
    live, printer = started()
    live.printed(printer.error(CORE, "core.py:700", crash())).wait(HALF_A_SECOND)
    live.printed(printer.error(API, "serving_chat.py:900", crash(DEAD))).wait(2)
    ((moment, finding),) = live.of("updated", "memory")
    assert moment < 1.5
    assert finding.consequences[0].id == "dead"


def test_nothing_is_told_while_nothing_changes() -> None:
    live, printer = started()
    live.printed(printer.error(CORE, "core.py:700", crash())).wait(5)
    before = len(live.events)
    for _ in range(50):
        live.printed(printer.wait(1).statistics()).wait(1)
    assert [kind for kind, _ in live.told()[before:]] == ["updated"]  # once: it lives on, so that was not its end


# --- absence


def test_a_night_of_silence_on_an_idle_server_raises_nothing() -> None:
    live, printer = started()
    printer.statistics(running=3).wait(10).statistics(running=0, prompt=0.0, generation=0.0, usage=0.0)
    live.printed(printer)
    for _ in range(10 * 60):
        live.printed(printer.access("/health", method="GET")).wait(60, step=5)
    assert live.told() == []


def test_a_stall_is_told_by_the_clock_while_health_checks_go_on() -> None:
    live, printer = started()
    printer.statistics(running=3).wait(10).statistics(running=3, prompt=0.0, generation=0.0)
    live.printed(printer)
    for _ in range(5):
        live.printed(printer.access("/health", method="GET")).wait(30, step=1)
    ((moment, finding),) = live.of("opened", "quiet-engine")
    assert finding.captures["running"] == 3
    assert 120 <= moment <= 122


def test_an_answered_request_ends_a_silence() -> None:
    live, printer = started()
    printer.statistics(running=3).wait(10).statistics(running=3, prompt=0.0, generation=0.0)
    live.printed(printer).wait(60, step=1)
    live.printed(printer.access()).wait(3600, step=5)
    assert live.told() == []


def test_an_engine_that_was_idle_when_it_froze_looks_idle_and_nothing_is_claimed() -> None:
    # requests come in after it froze: the statistics keep the last numbers, which say that none runs
    live, printer = started()
    printer.statistics(running=0, prompt=0.0, generation=0.0)
    live.printed(printer.request("hello")).wait(7200, step=5)
    assert live.told() == []


def test_a_line_that_still_stands_open_ends_a_silence() -> None:
    # the last line of a log is never known to be complete
    live = Live()
    printer = server().arguments().configured()
    printer.info(CORE, "gpu_model_runner.py:2602", "Starting to load model m...").wait(30)
    live.printed(printer.info(CORE, "default_loader.py:267", "Loading weights took 8.85 seconds"))
    live.wait(7200, step=5)
    assert live.told() == []


def test_a_start_that_exceeds_its_phases_usual_time_is_told_and_one_within_it_is_not() -> None:
    live = Live()
    printer = server().arguments().configured()
    live.printed(printer.info(CORE, "gpu_model_runner.py:2602", "Starting to load model m...").wait(1))
    live.wait(1700, step=5)
    assert live.told() == []
    live.wait(200, step=5)
    assert live.told() == [("opened", "slow-start")]


def test_tail_ends_while_a_start_is_under_way_and_says_nothing_of_it() -> None:
    live = Live()
    printer = server().arguments().configured()
    live.printed(printer.info(CORE, "gpu_model_runner.py:2602", "Starting to load model m...")).wait(5).close()
    assert live.told() == []


# --- starts


def crashed(printer: Printer) -> Printer:
    """Fails while loading."""
    return printer.arguments().configured().loading(upto=1).error(CORE, "core.py:700", crash()).wait(5)


def test_a_crash_loop_of_months_keeps_no_more_than_it_may_and_says_what_scan_says() -> None:
    live = Live(keep_runs=5)
    printer = server()
    for _ in range(40):
        live.printed(crashed(printer)).wait(1, step=0.2)
    live.close(ended=True)
    assert [kind for kind, _ in live.told()].count("opened") == 40
    assert len(live.pipeline.runs) <= 6
    assert sorted(live.session.findings(), key=lambda f: -f.run) == list(diagnose(RULES, printer.text).findings)


def test_a_server_that_comes_up_at_last_has_recovered_from_every_start_before_even_forgotten_ones() -> None:
    live = Live(keep_runs=5)
    printer = server()
    for _ in range(12):
        live.printed(crashed(printer)).wait(1, step=0.2)
    live.printed(printer.start().access()).wait(3).close(ended=True)
    assert all(f.outcome is Outcome.RECOVERED and f.severity is Severity.WARNING for f in live.session.findings())
    assert sorted(live.session.findings(), key=lambda f: -f.run) == list(diagnose(RULES, printer.text).findings)
    closed = [event for _, event in live.events if event.type == "finding.closed"]
    assert {event.details["because"] for event in closed} == {"a later start serves"}
    assert len(closed) == 12


def test_a_finding_of_a_server_that_had_served_is_closed_by_the_next_start() -> None:
    live, printer = started()
    live.printed(printer.error(CORE, "core.py:700", crash())).wait(1)
    live.printed(printer.wait(20).arguments()).wait(1)
    assert live.told()[-1] == ("closed", "memory")
    assert [f.severity for f in live.session.findings()] == [Severity.ERROR]  # it stays an error, and the exit status


def test_no_more_findings_are_remembered_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlogdiag.session.MAX_STANDING", 30)
    live = Live(keep_runs=2)
    printer = server()
    for _ in range(35):
        printer.now = datetime(2026, 4, 3, 9)
        printer.arguments().error(CORE, "core.py:700", MEMORY)
        live.printed(printer).wait(0.2, step=0.2)
        printer.out.clear()
        live.fed = 0
    assert len(live.session.findings()) == 30
    assert ("closed", "memory") in live.told()


def test_incidents_are_numbered_so_that_updates_can_be_told_apart() -> None:
    live, printer = started()
    live.printed(printer.warning(CORE, "core.py:600", "This step was slow by 9 s")).wait(0.2)
    live.printed(printer.error(CORE, "core.py:700", crash())).wait(1)
    live.printed(printer.error(API, "serving_chat.py:900", crash(DEAD))).wait(3)
    numbers = {(event.finding.id, event.details["incident"]) for _, event in live.events if event.finding}
    assert numbers == {("slow", 1), ("memory", 2)}


# --- nothing but scan


@pytest.mark.parametrize("seed", range(6))
def test_looking_at_any_time_changes_nothing(seed: int) -> None:
    roll = random.Random(seed)
    printer = server(roll.choice(("0.7.3", "0.11.0", "0.24.0", "0.33.0")))
    for _ in range(roll.randint(1, 4)):
        crashed(printer) if roll.random() < 0.5 else printer.start().access().statistics()
        for _ in range(roll.randint(0, 4)):
            what = roll.choice(
                (crash(), crash(NETWORK), crash(DEAD), "ValueError: what is that", "This step was slow by 3 s")
            )
            printer.wait(roll.random() * 5).error(roll.choice((CORE, API)), "core.py:700", what)
    live = Live()
    data = printer.text.encode()
    while data:
        size = data.find(b"\n", roll.randint(0, 3000)) + 1 or len(data)
        live.feed(data[:size]).wait(roll.choice((0.0, 0.01, 0.11, 0.3)), step=0.05)
        data = data[size:]
    live.close(ended=True)
    expected = diagnose(RULES, printer.text).findings
    assert expected
    assert sorted(live.session.findings(), key=str) == sorted(expected, key=str)


# --- the log's time zone


def reading(used: int) -> Reading:
    return Reading(None, stamp=f"at {used}")


@pytest.mark.parametrize("hours", [0, 8, -7, 5.5])
def test_a_reading_is_placed_on_the_logs_clock_whatever_zone_it_speaks(hours: float) -> None:
    utc = datetime(2026, 4, 3, 1, 0, 0, tzinfo=timezone.utc)
    live = Live(wall=utc)
    printer = server()
    printer.now = utc.replace(tzinfo=None)
    printer.wait(3600 * hours)
    for second in range(40):
        live.session.observe(reading(second), live.wall)
        live.printed(printer.info(API, "a.py:1", f"line {second}").wait(1)).wait(1, step=1)
    first = live.pipeline.clock.now
    assert first is not None
    assert len(live.readings) == 40
    assert [r.stamp for r in live.readings] == [f"at {n}" for n in range(40)]
    last = live.readings[-1].time
    assert last is not None
    assert abs(last - first) <= 1.5


def test_history_shows_no_time_zone() -> None:
    # a tail begins with old lines, and the server says nothing more: no reading can be placed, none is told
    live = Live(wall=datetime(2026, 4, 3, 18, 3, 17, tzinfo=timezone.utc))
    live.session.observe(reading(1), live.wall)
    live.printed(server().start()).wait(30, step=1)
    live.session.observe(reading(2), live.wall)
    assert live.readings == []


def test_a_burst_of_history_that_ends_at_a_quarter_of_an_hour_by_chance_shows_no_zone() -> None:
    live = Live(wall=datetime(2026, 4, 3, 18, 0, 0, tzinfo=timezone.utc))
    printer = server()
    for minute in (0, 13, 29):
        printer.now = datetime(2026, 4, 3, 2, minute, 59)
        live.printed(printer.info(API, "a.py:1", "old")).wait(0.01, step=0.01)
    live.session.observe(reading(1), live.wall)
    assert live.readings == []


def test_new_year_and_a_leap_day_pass_between_wall_and_log() -> None:
    for day in (
        datetime(2027, 12, 31, 23, 59, 30),
        datetime(2028, 2, 28, 23, 59, 30),
        datetime(2028, 2, 29, 23, 59, 30),
    ):
        live = Live(wall=day.replace(tzinfo=timezone.utc))
        printer = server()
        printer.now = day
        for _ in range(60):
            live.printed(printer.info(API, "a.py:1", "line").wait(1))
            live.session.observe(reading(1), live.wall)
            live.wait(1, step=1)
        now = live.pipeline.clock.now
        assert now is not None
        assert len(live.readings) == 60
        last = live.readings[-1].time
        assert last is not None
        assert abs(last - now) <= 1.5, day


# --- a second incident


def test_the_same_error_after_ten_quiet_minutes_of_work_is_another_incident() -> None:
    live, printer = started()
    for _ in range(3):
        live.printed(printer.error(API, "serving_chat.py:900", crash())).wait(1)
        for _ in range(6):
            live.printed(printer.wait(120).access().statistics()).wait(120, step=5)
    live.printed(printer.wait(60).error(API, "serving_chat.py:900", crash())).wait(1).close(ended=True)
    assert [event.details["incident"] for _, event in live.events if event.type == "finding.opened"] == [1, 2, 3, 4]
    assert sorted(live.session.findings(), key=str) == sorted(diagnose(RULES, printer.text).findings, key=str)


def test_the_same_error_soon_or_without_life_between_is_the_same_incident() -> None:
    live, printer = started()
    live.printed(printer.error(API, "serving_chat.py:900", crash())).wait(1)
    live.printed(printer.wait(300).access().error(API, "serving_chat.py:900", crash())).wait(300, step=5)
    live.printed(printer.wait(3000).error(API, "serving_chat.py:900", crash())).wait(1).close()
    assert len(live.of("opened", "memory")) == 1
    assert live.of("closed", "memory")[0][1].count == 3


def test_a_warning_is_a_state_and_never_split() -> None:
    live, printer = started()
    for _ in range(5):
        live.printed(printer.warning(CORE, "core.py:600", "This step was slow by 9 s")).wait(1)
        live.printed(printer.wait(900).access()).wait(1)
    assert len(live.of("opened", "slow")) == 1

"""Rules about time, each drawn as a time line: one letter an event, dots between them ten seconds each, `!` where it fires."""

from __future__ import annotations

import pytest
from small_rules import ids, rules_from

from vlogdiag.loading import Rules
from vlogdiag.pipeline import Pipeline, Result

STEP = 10
LINES = {
    "a": "alpha has come {n}",
    "b": "beta has come {n}",
    "c": "gamma has come {n}",
    "x": "reset of everything",
    "w": "Avg prompt throughput: 9.0 tokens/s, Avg generation throughput: 5.0 tokens/s, Running: 3 reqs, Waiting: 2 reqs, GPU KV cache usage: 99.0%",
    "0": "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%",
    "D": "Shutting down FastAPI HTTP server.",
}
START = (
    "INFO 04-03 08:59:00 [api_server.py:1] vLLM API server version 0.11.0\nINFO:     Application startup complete.\n"
)


def log_of(timeline: str, rank: int | None = None) -> str:
    """`a..b` is alpha, then beta thirty seconds later (each place is ten seconds)."""
    who = "" if rank is None else f"(Worker_TP{rank} pid={300 + rank}) "
    out = []
    for place, letter in enumerate(timeline):
        if letter in LINES:
            second = 9 * 3600 + place * STEP
            level = "INFO" if letter in "w0D" else "WARNING"
            stamp = f"04-03 {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
            out.append(f"{who}{level} {stamp} [x.py:1] {LINES[letter].format(n=place)}")
    return START + "\n".join(out) + "\n"


def run(rules: Rules, log: str, tick: float | None = None) -> Result:
    pipeline = Pipeline(rules, source="vllm.log")
    pipeline.feed(log.encode())
    if tick is not None:
        pipeline.flush()
        pipeline.tick(tick)
    return pipeline.close()


def fires(rules: Rules, timeline: str, tick: float | None = None) -> int:
    """How often the one rule fired."""
    return sum(finding.count for finding in run(rules, log_of(timeline), tick).findings)


def sequence(steps: str, **more: object) -> Rules:
    """`sequence` of the letters' lines; `more` are its other keys."""
    import yaml

    rule = {
        "id": "timed",
        "severity": "warning",
        "sequence": {"steps": [dict(step) for step in yaml.safe_load(steps)], **more},
    }
    return rules_from(yaml.safe_dump(rule))


A, B, C = "{line: 'alpha has come {:int}'}", "{line: 'beta has come {:int}'}", "{line: 'gamma has come {:int}'}"

# --- sequence ----------------------------------------------------------------------------------------------------------

IN_ORDER = [
    # time line      fires   why
    ("ab",           1, "both, in order"),
    ("ba",           0, "the other way round"),
    ("a",            0, "half of it"),
    ("b",            0, "the other half"),
    ("a.....b",      1, "just inside 60 s"),
    ("a......b",     0, "just outside"),
    ("aab",          1, "the first is repeated"),
    ("a......ab",    1, "the first one is too old, the second is not"),
    ("abab",         2, "it re-arms"),
    ("abb",          1, "one alpha serves once"),
    ("bab",          1, "what came too early does not count"),
]  # fmt: skip


@pytest.mark.parametrize(("timeline", "wanted", "why"), IN_ORDER, ids=[row[2] for row in IN_ORDER])
def test_steps_in_order_within_a_minute(timeline, wanted, why):
    assert fires(sequence(f"[{A}, {B}]", within="60s"), timeline) == wanted


ANY_ORDER = [
    ("ab",           1, "in order"),
    ("ba",           1, "the other way round"),
    ("b......a",     0, "too far apart"),
    ("aa",           0, "one of them twice"),
]  # fmt: skip


@pytest.mark.parametrize(("timeline", "wanted", "why"), ANY_ORDER, ids=[row[2] for row in ANY_ORDER])
def test_steps_in_any_order(timeline, wanted, why):
    assert fires(sequence(f"[{A}, {B}]", within="60s", any_order=True), timeline) == wanted


AT_LEAST = [
    ("aaa",          1, "three"),
    ("aa",           0, "two"),
    ("a..a..a",      1, "three within a minute"),
    ("a...a...a",    0, "never three within a minute"),
    ("aaaaaa",       2, "six are two times three"),
    ("aaaaa",        1, "after firing it counts from nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("timeline", "wanted", "why"), AT_LEAST, ids=[row[2] for row in AT_LEAST])
def test_at_least_three_within_a_minute(timeline, wanted, why):
    rules = sequence("[{line: 'alpha has come {:int}', at_least: 3}]", within="60s")
    assert fires(rules, timeline) == wanted


UNLESS = [
    ("axb",          0, "a reset between the steps"),
    ("xab",          1, "a reset before them"),
    ("abx",          1, "a reset after them"),
    ("axab",         1, "armed again after the reset"),
]  # fmt: skip


@pytest.mark.parametrize(("timeline", "wanted", "why"), UNLESS, ids=[row[2] for row in UNLESS])
def test_an_unless_line_resets(timeline, wanted, why):
    assert fires(sequence(f"[{A}, {B}]", within="60s", unless=["reset of everything"]), timeline) == wanted


OPTIONAL = [
    ("ac",           1, "without the optional step"),
    ("abc",          1, "with it"),
    ("bc",           0, "without what must be there"),
]  # fmt: skip


@pytest.mark.parametrize(("timeline", "wanted", "why"), OPTIONAL, ids=[row[2] for row in OPTIONAL])
def test_an_optional_step(timeline, wanted, why):
    rules = sequence(
        "[{line: 'alpha has come {:int}'}, {line: 'beta has come {:int}', optional: true}, {line: 'gamma has come {:int}'}]",
        within="60s",
    )
    assert fires(rules, timeline) == wanted


def test_without_a_duration_the_whole_run_counts():
    assert fires(sequence(f"[{A}, {B}]"), "a" + "." * 500 + "b") == 1


def test_steps_of_different_runs_do_not_add_up():
    log = (
        log_of("a")
        + "INFO 04-03 09:00:05 [api_server.py:1] vLLM API server version 0.11.0\n"
        + log_of("b").removeprefix(START)
    )
    assert ids(run(sequence(f"[{A}, {B}]", within="60s"), log)) == []


def test_each_rank_has_its_own_sequence():
    rules = sequence(f"[{A}, {B}]", within="60s", by=["rank"])
    apart = log_of("a", rank=0) + log_of(".b", rank=1).removeprefix(START)
    together = log_of("ab", rank=0) + log_of("..ab", rank=1).removeprefix(START)
    assert (ids(run(rules, apart)), run(rules, together).findings[0].count) == ([], 2)


def test_a_step_may_ask_for_its_numbers():
    rules = sequence("[{line: 'alpha has come {n:int}', when: n >= 2}, {line: 'beta has come {:int}'}]", within="60s")
    assert (fires(rules, "ab"), fires(rules, "..ab")) == (0, 1)


def test_the_first_record_leads_and_the_others_are_evidence():
    (finding,) = run(sequence(f"[{A}, {B}, {C}]", within="60s"), log_of("abc")).findings
    assert [e.text for e in finding.evidence] == ["alpha has come 0", "beta has come 1", "gamma has come 2"]
    assert (finding.first.line, finding.last.line) == (3, 5)


# --- silence -----------------------------------------------------------------------------------------------------------


def silence(**more: object) -> Rules:
    import yaml

    rule = {
        "id": "quiet",
        "severity": "warning",
        "silence": {"line": "alpha has come {n:int}", "for": "60s", **more},
    }
    return rules_from(yaml.safe_dump(rule))


UNTIL_SAME = [
    # no further alpha for a minute; another alpha decides it
    ("a....a",       0, "in time"),
    ("a......a",     1, "later than a minute"),
    ("a",            0, "nothing decides it"),
    ("a......b",     1, "the clock has gone on"),
    ("b......b",     0, "it never began"),
    ("a......a......a", 2, "it may happen again"),
]  # fmt: skip


@pytest.mark.parametrize(("timeline", "wanted", "why"), UNTIL_SAME, ids=[row[2] for row in UNTIL_SAME])
def test_silence_of_the_same_line(timeline, wanted, why):
    assert fires(silence(), timeline) == wanted


UNTIL = [
    # after alpha, no beta for a minute
    ("ab",           0, "answered at once"),
    ("a......b",     1, "answered too late"),
    ("a......c",     1, "never answered, and a minute has passed"),
    ("a...a...b",    1, "the first one counts"),
    ("a.b.a.b",      0, "each is answered"),
    ("a......",      0, "the log ends: nobody knows"),
]  # fmt: skip


@pytest.mark.parametrize(("timeline", "wanted", "why"), UNTIL, ids=[row[2] for row in UNTIL])
def test_silence_until_another_line(timeline, wanted, why):
    assert fires(silence(until=["beta has come {:int}"]), timeline) == wanted


TICKS = [
    ("a",   30, 0, "half a minute"),
    ("a",   60, 1, "a minute"),
    ("ab",  600, 0, "it was answered"),
    ("",    600, 0, "it never began"),
]  # fmt: skip


@pytest.mark.parametrize(("timeline", "tick", "wanted", "why"), TICKS, ids=[row[3] for row in TICKS])
def test_a_tick_lets_time_pass_without_a_line(timeline, tick, wanted, why):
    assert fires(silence(until=["beta has come {:int}"]), timeline, tick) == wanted


AT_END = [
    ("a",    1, "the log ends in silence"),
    ("ab",   0, "it was answered"),
    ("aD",   0, "the server was asked to stop"),
    ("",     0, "it never began"),
]  # fmt: skip


@pytest.mark.parametrize(("timeline", "wanted", "why"), AT_END, ids=[row[2] for row in AT_END])
def test_silence_at_the_end_of_a_finished_log(timeline, wanted, why):
    assert fires(silence(until=["beta has come {:int}"], at_end=True), timeline) == wanted


def test_a_silence_at_the_end_is_less_sure():
    (finding,) = run(silence(until=["beta has come {:int}"], at_end=True), log_of("a")).findings
    assert finding.confidence.word == "medium"


def test_a_log_that_broke_off_does_not_end_in_silence():
    pipeline = Pipeline(silence(until=["beta has come {:int}"], at_end=True), source="vllm.log")
    pipeline.feed(log_of("a").encode())
    assert pipeline.close("unreadable after 100 bytes").findings == ()


def test_a_new_start_ends_what_the_old_one_was_silent_about():
    log = (
        log_of("a")
        + "INFO 04-03 09:00:05 [api_server.py:1] vLLM API server version 0.11.0\n"
        + log_of(".......c").removeprefix(START)
    )
    assert ids(run(silence(until=["beta has come {:int}"]), log)) == []


def test_a_silence_may_ask_for_its_numbers():
    rules = silence(when="n >= 3")
    assert (fires(rules, "a......a"), fires(rules, "...a......b")) == (0, 1)


def test_a_silence_may_last_as_long_as_the_line_says():
    rules = silence(**{"for": "{n} * 100s"})
    assert (fires(rules, ".a.........b"), fires(rules, ".a..........b")) == (1, 1)
    assert fires(rules, "..a..........b") == 0


def test_an_idle_server_is_not_a_stalled_one():
    """Statistics with requests running, then none: a stall. A last line of zeros, then none: idle."""
    rules = rules_from(
        """
id: stalled
severity: warning
silence:
  line: "Running: {running:int} reqs, Waiting: {:int} reqs"
  level: info
  when: running >= 1
  for: 300s
"""
    )
    assert fires(rules, "w" + "." * 40 + "a") == 1
    assert fires(rules, "w0" + "." * 40 + "a") == 0


# --- after_run ---------------------------------------------------------------------------------------------------------

LINKED = rules_from(
    """
id: crashed
match: {line: "RuntimeError: it broke for good"}
---
id: port-taken
family: startup
match: {line: "OSError: Address already in use"}
---
id: port-held-by-leftovers
family: startup
refines: port-taken
order: 10
after_run: {any_of: [crashed]}
"""
)
FIRST = "INFO 04-03 08:00:00 [api_server.py:1] vLLM API server version 0.11.0\n"
CRASH = "ERROR 04-03 08:01:00 [core.py:1] RuntimeError: it broke for good\n"
AGAIN = "INFO 04-03 08:02:00 [api_server.py:1] vLLM API server version 0.11.0\nERROR 04-03 08:02:01 [x.py:1] OSError: Address already in use\n"


def test_a_cause_in_the_run_before_explains_the_next_start():
    assert ids(run(LINKED, FIRST + CRASH + AGAIN)) == ["port-held-by-leftovers", "crashed"]


def test_without_a_run_before_it_is_the_plain_rule():
    assert ids(run(LINKED, AGAIN)) == ["port-taken"]


def test_only_the_run_just_before_counts():
    healthy = "INFO 04-03 08:01:30 [api_server.py:1] vLLM API server version 0.11.0\nINFO:     Application startup complete.\n"
    assert ids(run(LINKED, FIRST + CRASH + healthy + AGAIN)) == ["port-taken", "crashed"]


def test_the_run_before_may_be_named_by_family():
    rules = rules_from(
        """
id: crashed
match: {line: "RuntimeError: it broke for good"}
---
id: port-taken
family: startup
match: {line: "OSError: Address already in use"}
after_run: [oom]
"""
    )
    assert ids(run(rules, FIRST + CRASH + AGAIN)) == ["port-taken", "crashed"]
    assert ids(run(rules, AGAIN)) == []


# --- series ------------------------------------------------------------------------------------------------------------

SERIES = rules_from(
    """
id: pressure
severity: warning
family: kv-cache
match:
  line: "KV cache usage: {usage:percent}"
  capture: ["Waiting: {waiting:int} reqs"]
  level: info
when: event.count >= 3 and mean(waiting) >= 2 and lowest(usage) >= 0.9
cause: "between {lowest(usage)} and {highest(usage)}"
"""
)


def test_series_see_every_record_of_the_event():
    assert ids(run(SERIES, log_of("w.w.w"))) == ["pressure"]


def test_one_record_that_differs_changes_a_series():
    assert ids(run(SERIES, log_of("w.w.w").replace("99.0%", "89.0%", 1))) == []

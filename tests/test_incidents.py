"""What broke first leads; what came of it hangs under it (DESIGN section 6)."""

from __future__ import annotations

import pytest
from ages import API, BY_VERSION, CORE, Printer, interleave, traceback
from small_rules import diagnose, ids, rules_from

from vlogdiag.model import Finding
from vlogdiag.pipeline import Result

RULES = rules_from(
    """
id: memory
match: {line: "RuntimeError: no memory on card {number:int}"}
---
id: memory-graphs
refines: memory
order: 10
match: {frames: {any: [capture_model]}}
---
id: network
family: hang
match: {line: "RuntimeError: peer {peer:int} is silent"}
---
id: watchdog
family: hang
match: {line: "Watchdog caught collective operation timeout after {ran:duration}"}
yields_to: {any_of: [memory, environment], within: "{ran} + 60s"}
---
id: refused
family: startup
match: {line: "ConnectionError: nobody listens"}
yields_to: {any_of: [watchdog]}
---
id: driver
family: environment
match: {line: "RuntimeError: the driver is too old"}
---
id: slow
severity: warning
family: hang
match: {line: "This step was slow by {by:duration}"}
---
id: too-long
family: request
severity: info
match: {line: "ValueError: that prompt is too long"}
---
id: stalled
severity: warning
family: hang
sequence:
  steps: [{line: "No answer from the workers for {:int} seconds", level: info, at_least: 3}]
  within: 600s
yields_to: {any_of: [watchdog], within: 1800s}
---
id: dead
role: symptom
family: noise
match: {line: "EngineDeadError: EngineCore encountered an issue."}
---
id: not-started
role: symptom
family: noise
match: {line: "Engine core initialization failed. See root cause above."}
---
id: leaks
role: noise
family: noise
match: {line: "leaked shared_memory objects to clean up", level: [none, info, warning, error]}
"""
)
MEMORY = "RuntimeError: no memory on card 0"
DEAD = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)"
NOT_STARTED = "RuntimeError: Engine core initialization failed. See root cause above."


def server() -> Printer:
    return Printer(BY_VERSION["0.24.0"]).start().access()


def broke(p: Printer, text: str, who: str | int = CORE, *frames: str) -> Printer:
    return p.error(
        who, "core.py:700", traceback(*(frames or ("vllm/v1/engine/core.py:1:step:self.run()",)), error=text)
    )


def only(result: Result) -> Finding:
    (finding,) = result.findings
    return finding


def under(finding: Finding) -> list[tuple[str, int]]:
    return [(c.id, c.count) for c in finding.consequences]


# --- cause and consequences --------------------------------------------------------------------------------------------


def test_symptoms_hang_under_the_cause():
    p = broke(server(), MEMORY)
    p.error(API, "async_llm.py:480", f"AsyncLLM output_handler failed.\n{DEAD}")
    finding = only(diagnose(RULES, p.text))
    assert (finding.id, under(finding), finding.outcome.value) == ("memory", [("dead", 1)], "fatal")


def test_a_hundred_repeats_of_a_symptom_are_one_line():
    p = broke(server(), MEMORY)
    for _ in range(93):
        p.wait(1).error(API, "async_llm.py:480", DEAD)
    assert under(only(diagnose(RULES, p.text))) == [("dead", 93)]


def test_ranks_that_print_the_same_are_counted_not_listed():
    p = Printer(BY_VERSION["0.24.0"], tensor_parallel=4).start().access()
    for rank in range(4):
        broke(p, f"RuntimeError: no memory on card {rank}", rank)
    finding = only(diagnose(RULES, p.text))
    assert (finding.count, finding.ranks, finding.captures["number"]) == (4, (0, 1, 2, 3), 0)


def test_ranks_that_say_nothing_are_named():
    p = Printer(BY_VERSION["0.24.0"], tensor_parallel=4).start().access()
    for rank in (0, 1, 3):
        broke(p, "RuntimeError: peer 2 is silent", rank)
    finding = only(diagnose(RULES, p.text))
    assert (finding.ranks, finding.ranks_missing) == ((0, 1, 3), (2,))


def test_a_parents_reprint_is_counted_not_listed():
    """The engine core prints the worker's exception again, without the frames that refine it."""
    p = broke(server(), MEMORY, 0, "vllm/v1/worker/gpu_worker.py:1:f:self.capture_model()")
    broke(p, MEMORY)
    finding = only(diagnose(RULES, p.text))
    assert (finding.id, finding.count, under(finding)) == ("memory-graphs", 2, [])


def test_a_chained_traceback_has_one_cause_the_first():
    chained = (
        traceback("a.py:1:f:g()", error=MEMORY)
        + "\n\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback("b.py:1:f:g()", error="RuntimeError: peer 1 is silent")
    )
    p = server().error(CORE, "core.py:700", f"EngineCore encountered a fatal error.\n{chained}")
    finding = only(diagnose(RULES, p.text))
    assert (finding.id, under(finding)) == ("memory", [("network", 1)])


def test_another_error_that_follows_without_sign_of_life_is_a_consequence():
    p = broke(server(), MEMORY)
    broke(p.wait(4), "RuntimeError: peer 1 is silent")
    finding = only(diagnose(RULES, p.text))
    assert (finding.id, under(finding)) == ("memory", [("network", 1)])


def test_the_rank_that_failed_first_leads_whatever_order_its_lines_arrive_in():
    """Each rank's own lines stay in order; which rank the file shows first is chance within a second."""
    import random

    def lines(rank: int, error: str) -> list[str]:
        p = Printer(BY_VERSION["0.24.0"], tensor_parallel=4)
        p.pids = {n: 200 + n for n in range(4)}
        return broke(p, error, rank).out

    for seed in range(8):
        mixed = interleave([lines(0, MEMORY), lines(1, "RuntimeError: no memory on card 1")], random.Random(seed))
        assert ids(diagnose(RULES, "\n".join(mixed) + "\n")) == ["memory"]


def test_two_failures_with_life_between_them_are_two():
    p = broke(server(), MEMORY)
    p.wait(60).access()
    broke(p.wait(60), "RuntimeError: peer 1 is silent")
    assert [(f.id, f.outcome.value) for f in diagnose(RULES, p.text).findings] == [
        ("network", "fatal"),
        ("memory", "degraded"),
    ]


# --- yielding ----------------------------------------------------------------------------------------------------------


def test_a_cause_that_yields_hangs_under_the_stronger_one():
    p = broke(server(), MEMORY)
    p.wait(600)
    p.loose(f"[rank1]:[E{p.now:%-m%d %H:%M:%S}.1 x.cpp:607] Watchdog caught collective operation timeout after 600s")
    finding = only(diagnose(RULES, p.text))
    assert (finding.id, under(finding)) == ("memory", [("watchdog", 1)])


def test_beyond_its_window_it_stands_alone():
    """NCCL's watchdog speaks as long after the cause as it waited, and no longer."""
    p = server()
    broke(p, MEMORY)
    p.wait(1).access()
    p.wait(3600).error(1, "nccl.py:1", "Watchdog caught collective operation timeout after 600s")
    assert ids(diagnose(RULES, p.text)) == ["watchdog", "memory"]


def test_it_yields_to_a_family():
    p = broke(server(), "RuntimeError: the driver is too old")
    p.wait(30).error(1, "nccl.py:1", "Watchdog caught collective operation timeout after 600s")
    assert ids(diagnose(RULES, p.text)) == ["driver"]


def test_it_yields_to_what_is_printed_a_moment_later():
    """Processes' lines arrive out of order: five seconds."""
    p = server()
    p.error(1, "nccl.py:1", "Watchdog caught collective operation timeout after 600s")
    broke(p.wait(3), MEMORY)
    assert ids(diagnose(RULES, p.text)) == ["memory"]


def test_it_does_not_yield_to_what_comes_much_later():
    p = server()
    p.error(1, "nccl.py:1", "Watchdog caught collective operation timeout after 600s")
    broke(p.wait(60), MEMORY)
    finding = only(diagnose(RULES, p.text))
    assert (finding.id, under(finding)) == ("watchdog", [("memory", 1)])


def test_notices_that_begin_before_the_failure_yield_to_what_explains_them():
    """A worker does not answer for minutes; then the watchdog says why."""
    p = server()
    for _ in range(9):
        p.wait(60).info(CORE, "shm.py:1", "No answer from the workers for 60 seconds")
    p.wait(60).error(1, "nccl.py:1", "Watchdog caught collective operation timeout after 600s")
    finding = only(diagnose(RULES, p.text))
    assert (finding.id, under(finding)) == ("watchdog", [("stalled", 3)])


def test_notices_long_before_the_failure_stand_alone():
    p = server()
    for _ in range(3):
        p.wait(60).info(CORE, "shm.py:1", "No answer from the workers for 60 seconds")
    p.wait(1500).error(1, "nccl.py:1", "Watchdog caught collective operation timeout after 600s")
    assert ids(diagnose(RULES, p.text)) == ["watchdog", "stalled"]


def test_without_the_stronger_one_it_stands():
    p = server()
    p.error(1, "nccl.py:1", "Watchdog caught collective operation timeout after 600s")
    assert ids(diagnose(RULES, p.text)) == ["watchdog"]


def test_a_chain_of_yielding_ends_at_the_strongest():
    p = broke(server(), MEMORY)
    p.wait(10).error(1, "nccl.py:1", "Watchdog caught collective operation timeout after 600s")
    broke(p.wait(10), "ConnectionError: nobody listens", API)
    finding = only(diagnose(RULES, p.text))
    assert (finding.id, {name for name, _ in under(finding)}) == ("memory", {"watchdog", "refused"})


def test_a_warning_gives_way_to_an_error_that_would_give_way_to_its_family():
    """Each names the other's family; an error is never put down to a warning, so the warning gives way."""
    rules = rules_from(
        """
{id: vanished, severity: warning, family: oom, match: {line: "the process is gone without a word"}, yields_to: [oom]}
---
{id: killed, family: oom, match: {line: "the process was killed by signal {n:int}"}, yields_to: [oom, hang]}
"""
    )
    p = server().error(API, "a.py:1", "the process is gone without a word")
    p.wait(1).error(API, "b.py:1", "the process was killed by signal 9")
    finding = only(diagnose(rules, p.text))
    assert (finding.id, under(finding)) == ("killed", [("vanished", 1)])


# --- only symptoms -----------------------------------------------------------------------------------------------------


def test_symptoms_alone_are_no_finding_but_say_where_to_look():
    p = server().error(API, "async_llm.py:480", DEAD)
    result = diagnose(RULES, p.text)
    assert (result.findings, [(u.symptom, u.count) for u in result.unexplained]) == ((), [("dead", 1)])
    assert "the cause stands in the output of another process" in result.notices[0]


def test_a_file_that_begins_in_the_middle_points_at_its_missing_beginning():
    log = "(APIServer pid=1) " + NOT_STARTED + "\n"
    assert "that this file does not hold" in diagnose(RULES, log).notices[0]


def test_an_unknown_error_before_the_symptoms_is_the_finding():
    p = broke(server(), "FancyError: nobody has seen this")
    p.error(API, "async_llm.py:480", DEAD)
    result = diagnose(RULES, p.text)
    finding = only(result)
    assert (finding.id, finding.family, finding.confidence.word) == ("unexplained-failure", "unexplained", "low")
    assert finding.evidence[0].text == "FancyError: nobody has seen this"


def test_an_unknown_error_of_a_server_that_lives_on_is_listed_only():
    p = broke(server(), "FancyError: nobody has seen this")
    p.wait(5).access()
    result = diagnose(RULES, p.text)
    assert (result.findings, [u.text for u in result.unexplained]) == ((), ["FancyError: nobody has seen this"])


def test_unknown_errors_that_differ_in_numbers_and_paths_are_one():
    p = server()
    for n in range(5):
        p.error(API, "serving.py:1", f"OddError: request {n} of /tmp/x{n}/y at 0x7f{n:06x}")
    p.wait(1).access()
    assert [(u.count, u.line) for u in diagnose(RULES, p.text).unexplained] == [(5, len(server().out) + 1)]


def test_sixty_kinds_of_unknown_errors_are_all_counted_and_fifty_listed():
    p = server()
    for n in range(60):
        p.wait(1).error(API, "serving.py:1", f"Odd{chr(65 + n // 26)}{chr(65 + n % 26)}Error: x")
    p.wait(1).access()
    result = diagnose(RULES, p.text)
    assert len(result.unexplained) == 50
    assert "60 distinct unexplained errors, 50 are listed" in result.notices[0]


def test_noise_claims_its_lines():
    p = server().stopping()
    p.loose(
        "x.py:254: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown"
    )
    result = diagnose(RULES, p.text)
    assert (result.findings, result.unexplained) == ((), ())


# --- outcome, severity, order ------------------------------------------------------------------------------------------


def test_what_the_server_survived_is_degraded():
    p = broke(server(), MEMORY)
    p.wait(5).access()
    finding = only(diagnose(RULES, p.text))
    assert (finding.outcome.value, finding.severity.word) == ("degraded", "error")


def test_working_statistics_are_a_sign_of_life():
    p = broke(server(), MEMORY)
    p.wait(5).statistics()
    assert only(diagnose(RULES, p.text)).outcome.value == "degraded"


@pytest.mark.parametrize(
    ("path", "status", "method"),
    [
        ("/health", "200 OK", "GET"),
        ("/v1/chat/completions", "500 Internal Server Error", "POST"),
        ("/metrics", "200 OK", "GET"),
    ],
)
def test_health_checks_and_refused_requests_are_no_sign_of_life(path, status, method):
    """A dead engine's API server still answers /health."""
    p = broke(server(), MEMORY)
    p.wait(5).access(path, status, method)
    assert only(diagnose(RULES, p.text)).outcome.value == "fatal"


def test_a_zero_statistics_line_is_no_sign_of_life():
    p = broke(server(), MEMORY)
    p.wait(5).statistics(running=4, prompt=0.0, generation=0.0)
    assert only(diagnose(RULES, p.text)).outcome.value == "fatal"


def test_one_clients_mistake_is_never_more_than_info():
    p = broke(server(), "ValueError: that prompt is too long", API)
    finding = only(diagnose(RULES, p.text))
    assert (finding.severity.word, finding.outcome.value) == ("info", "degraded")


def test_one_clients_mistake_does_not_explain_the_servers_death():
    p = broke(server(), "ValueError: that prompt is too long", API)
    broke(p.wait(5), MEMORY)
    assert ids(diagnose(RULES, p.text)) == ["memory", "too-long"]


def test_a_warning_before_the_failure_is_not_its_cause():
    p = server().warning(CORE, "x.py:1", "This step was slow by 12s")
    broke(p.wait(5), MEMORY)
    assert ids(diagnose(RULES, p.text)) == ["memory", "slow"]


def test_what_ended_the_run_comes_before_what_it_survived():
    p = broke(server(), "RuntimeError: peer 1 is silent")
    p.wait(300).access()
    broke(p.wait(300), MEMORY)
    assert ids(diagnose(RULES, p.text)) == ["memory", "network"]


def test_the_last_run_comes_first():
    p = broke(server(), MEMORY)
    q = Printer(p.age, now=p.now, out=p.out, pids={API: 900, CORE: 901}).start().access()
    broke(q, "RuntimeError: peer 1 is silent")
    assert [(f.id, f.run) for f in diagnose(RULES, q.text).findings] == [("network", 2), ("memory", 1)]


def test_a_crash_loop_gives_one_finding_per_run():
    p = Printer(BY_VERSION["0.24.0"])
    for n in range(7):
        p = Printer(p.age, now=p.now, out=p.out, pids={API: 1, CORE: 30 + n})
        broke(p.arguments().configured(), MEMORY)
        p.bare(API, NOT_STARTED)
        p.wait(20)
    found = diagnose(RULES, p.text).findings
    assert [(f.id, f.run, under(f)) for f in found] == [("memory", n, [("not-started", 1)]) for n in range(7, 0, -1)]


def test_consequences_stay_in_their_own_run():
    p = broke(Printer(BY_VERSION["0.24.0"]).arguments().configured(), MEMORY)
    q = Printer(p.age, now=p.now, out=p.out, pids={API: 900, CORE: 901}).arguments().configured()
    q.bare(API, NOT_STARTED)
    result = diagnose(RULES, q.text)
    assert [(f.id, f.run, under(f)) for f in result.findings] == [("memory", 1, [])]
    assert [(u.symptom, u.run) for u in result.unexplained] == [("not-started", 2)]


# --- refinements -------------------------------------------------------------------------------------------------------


def test_the_deepest_refinement_that_holds_speaks():
    p = broke(server(), MEMORY, CORE, "vllm/v1/worker/gpu_worker.py:1:f:self.capture_model()")
    assert ids(diagnose(RULES, p.text)) == ["memory-graphs"]


def test_the_base_speaks_where_no_refinement_holds():
    assert ids(diagnose(RULES, broke(server(), MEMORY).text)) == ["memory"]


# --- evidence ----------------------------------------------------------------------------------------------------------


def test_evidence_begins_with_the_line_that_matched():
    p = server().error(
        CORE, "core.py:700", "EngineCore encountered a fatal error.\n" + traceback("a.py:1:f:g()", error=MEMORY)
    )
    finding = only(diagnose(RULES, p.text))
    assert (finding.evidence[0].text, finding.evidence[0].line) == (MEMORY, len(p.out))


def test_evidence_is_at_most_six_lines_of_a_thousand_characters():
    p = server().error(CORE, "core.py:700", traceback(*["a.py:1:f:g()"] * 40, error=MEMORY + " " + "x" * 5000))
    finding = only(diagnose(RULES, p.text))
    assert len(finding.evidence) <= 6
    assert all(len(e.text) <= 1000 for e in finding.evidence)


def test_a_cut_record_lowers_the_confidence():
    cut = "\n".join(traceback("a.py:1:f:g()", error=MEMORY).split("\n")[1:])
    assert only(diagnose(RULES, cut + "\n")).confidence.word == "medium"

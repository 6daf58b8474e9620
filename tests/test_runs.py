"""One log, many starts: where each begins, how far it came, how it ended (DESIGN section 4)."""

from __future__ import annotations

import pytest
from ages import AGES, API, BY_VERSION, CORE, Age, Printer
from small_rules import diagnose, rules_from

from vlogdiag.model import Phase, RunSummary

RULES = rules_from(
    """
id: broke
match: {line: "RuntimeError: it broke for good"}
---
id: engine-start-failed
role: symptom
match: {line: "Engine core initialization failed. See root cause above."}
"""
)
DEAD = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


def runs(text: str) -> tuple[RunSummary, ...]:
    return diagnose(RULES, text).summary.runs


def spans(text: str) -> list[tuple[int | None, int | None]]:
    return [(run.first_line, run.last_line) for run in runs(text)]


def printer(version: str = "0.24.0", **more: object) -> Printer:
    return Printer(BY_VERSION[version], **more)  # type: ignore[arg-type]


def again(p: Printer, **more: object) -> Printer:
    """The next start in the same file: other pids, unless told otherwise."""
    return Printer(
        p.age, now=p.now, out=p.out, pids=dict(more.get("pids", {}) or {API: 900 + len(p.out), CORE: 950 + len(p.out)})
    )  # type: ignore[call-overload]


# --- one start ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", AGES, ids=lambda age: age.version)
@pytest.mark.parametrize("ranks", [1, 4])
def test_a_start_prints_many_marks_and_is_one_run(age: Age, ranks: int):
    """Version line, banner, each engine's configuration: one start."""
    p = Printer(age, tensor_parallel=ranks).start()
    p.access().statistics()
    (run,) = runs(p.text)
    assert (run.vllm_version, run.outcome, run.phase) == (age.version, "serving", Phase.SERVING)


def test_a_shell_line_before_the_servers_own_is_the_same_start():
    p = printer()
    p.loose("$ vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 8192")
    p.start()
    (run,) = runs(p.text)
    assert run.first_line == 1


def test_lines_before_the_first_mark_belong_to_the_first_start():
    text = "==========\n== CUDA ==\n" + printer().start().text
    assert [first for first, _ in spans(text)] == [1]


def test_data_parallel_engines_are_one_start():
    """Four engines each announce themselves: other names, one server."""
    p = printer("0.11.0").arguments(data_parallel_size=4)
    head = f"INFO {p.now:%m-%d %H:%M:%S} [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='m'"
    for engine in range(4):
        p.loose(f"(EngineCore_DP{engine} pid={300 + engine}) {head}")
    p.loaded().serving()
    assert len(runs(p.text)) == 1


def test_two_api_servers_of_one_start_are_one_run():
    p = printer("0.11.0")
    for number in range(2):
        p.loose(
            f"(ApiServer_{number} pid={20 + number}) INFO {p.now:%m-%d %H:%M:%S} [api_server.py:1839] vLLM API server version 0.11.0"
        )
    p.configured().loading()
    assert len(runs(p.text)) == 1


def test_an_engine_without_any_api_server_is_a_start():
    """The offline LLM class, or a file of the engine process alone."""
    text = printer("0.11.0").configured().loading().text
    assert [run.phase for run in runs(text)] == [Phase.LOADING]


def test_an_engine_that_restarts_without_its_server_is_another_start():
    p = printer("0.8.5.post1").configured().loading()
    p.error(CORE, "core.py:500", "EngineCore failed to start.")
    p.wait(60).configured().loading()
    assert len(runs(p.text)) == 2


# --- several starts ----------------------------------------------------------------------------------------------------


def test_a_start_after_one_that_served_is_another():
    p = printer().start()
    p.access()
    end = len(p.out) + 1  # the platform's line comes before the banner and could be anybody's
    text = again(p).start().text
    assert spans(text) == [(1, end), (end + 1, text.count("\n"))]


def test_a_start_after_a_fatal_error_is_another():
    p = printer().arguments().configured()
    p.bare(API, DEAD)
    end = len(p.out) + 1
    text = again(p).arguments().text
    assert [first for first, _ in spans(text)] == [1, end + 1]


def test_a_start_after_an_exit_mark_is_another():
    p = printer().arguments()
    p.bare(API, "INFO:     Application shutdown complete.")
    assert len(runs(again(p).arguments().text)) == 2


def test_a_container_that_reuses_pid_1_starts_anew():
    """The same role announces itself again, although nothing says that the first one ended (killed by SIGKILL)."""
    pids = {API: 1, CORE: 40}
    p = printer(pids=dict(pids)).arguments().configured().loading(upto=2)
    text = again(p, pids=pids).arguments().configured().loading().text
    assert len(runs(text)) == 2


@pytest.mark.parametrize("age", AGES, ids=lambda age: age.version)
def test_seven_starts_are_seven_in_every_age(age: Age):
    p = Printer(age)
    for number in range(7):
        p = Printer(age, now=p.now, out=p.out, pids={API: 1, CORE: 40 + number})
        p.arguments().configured().loading()
        p.bare(CORE, 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nRuntimeError: it broke for good')
        p.wait(30)
    found = runs(p.text)
    assert [run.outcome for run in found] == ["fatal"] * 7


def test_an_echoed_command_after_a_failure_begins_the_next_start():
    p = printer().arguments()
    p.bare(API, DEAD)
    end = len(p.out)
    p.loose("root@box:/# vllm serve m --max-model-len 4096")
    text = again(p).arguments().text
    assert [first for first, _ in spans(text)] == [1, end + 1]


def test_a_refused_argument_and_the_next_try_are_two_starts():
    """argparse's errors have no header and no mark of a start."""
    text = "$ vllm serve m --request-timeout 60\nusage: vllm [-h] [-v]\nvllm: error: unrecognized arguments: --request-timeout 60\n$ vllm serve m\n"
    assert spans(text) == [(1, 3), (4, 4)]


def test_a_prompt_that_quotes_a_version_line_is_no_start():
    p = printer("0.9.2").start()
    p.request("what means 'vLLM API server version 0.6.0' and 'Initializing an LLM engine (v0.6.0) with config'?")
    (run,) = runs(p.text)
    assert run.vllm_version == "0.9.2"


def test_an_error_dump_that_names_the_engine_is_no_start():
    """`Dumping input data for V1 LLM engine (v0.11.0)` repeats the configuration at ERROR level."""
    p = printer("0.11.0").start()
    p.error(CORE, "dump_input.py:69", "Dumping input data for V1 LLM engine (v0.11.0) with config: model='m'")
    assert len(runs(p.text)) == 1


# --- phases ------------------------------------------------------------------------------------------------------------

STAGES = [
    ("arguments", Phase.STARTING),
    ("configured", Phase.STARTING),
    ("loading", Phase.LOADING),
    ("loaded", Phase.PROFILING),
    ("compiled", Phase.PROFILING),
    ("kv_cache", Phase.PROFILING),
    ("captured", Phase.CAPTURING),
    ("serving", Phase.SERVING),
    ("stopping", Phase.STOPPING),
]


@pytest.mark.parametrize("age", AGES, ids=lambda age: age.version)
def test_each_stage_of_a_start_is_recognised(age: Age):
    p, reached = Printer(age), []
    for stage, _ in STAGES:
        getattr(p, stage)()
        reached.append((stage, runs(p.text)[-1].phase))
    assert reached == STAGES


def test_a_traceback_that_mentions_a_phase_moves_nothing():
    p = printer().arguments().configured().loading()
    p.error(CORE, "core.py:1", "RuntimeError: while Capturing CUDA graph shapes and Application startup complete")
    assert runs(p.text)[0].phase is Phase.LOADING


# --- how it ended ------------------------------------------------------------------------------------------------------


def test_a_server_that_was_asked_to_stop_has_stopped():
    assert runs(printer().start().access().stopping().text)[0].outcome == "stopped"


def test_ctrl_c_is_a_stop_whatever_is_printed_after_it():
    """0.32.0 prints EngineDeadError and leak lists after Ctrl-C (VLLM-FACTS section 5)."""
    p = printer("0.32.0").start().access()
    p.info(API, "launcher.py:254", "[shutdown] API server: shutdown triggered")
    p.bare(API, 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nKeyboardInterrupt')
    p.error(
        API,
        "async_llm.py:480",
        "AsyncLLM output_handler failed.\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
    )
    assert runs(p.text)[0].outcome == "stopped"


def test_a_failure_while_serving_is_fatal():
    p = printer().start().access()
    p.error(CORE, "core.py:700", "EngineCore encountered a fatal error.\nRuntimeError: it broke for good")
    assert runs(p.text)[0].outcome == "fatal"


def test_a_failure_that_the_server_survived_is_not_fatal():
    p = printer().start().access()
    p.error(CORE, "core.py:700", "RuntimeError: it broke for good")
    p.wait(5).access()
    assert runs(p.text)[0].outcome == "degraded"


def test_a_failed_start_followed_by_one_that_serves_has_recovered():
    p = printer().arguments()
    p.error(CORE, "core.py:700", "EngineCore failed to start.\nRuntimeError: it broke for good")
    p.bare(API, DEAD)
    p = again(p).start()
    found = diagnose(RULES, p.text)
    assert [run.outcome for run in found.summary.runs] == ["recovered", "serving"]
    assert [(f.id, f.outcome.value, f.severity.word) for f in found.findings] == [("broke", "recovered", "warning")]


def test_a_crash_while_serving_stays_an_error_however_often_it_restarts():
    p = printer().start().access()
    p.error(CORE, "core.py:700", "EngineCore encountered a fatal error.\nRuntimeError: it broke for good")
    found = diagnose(RULES, again(p).start().access().text)
    assert [(f.outcome.value, f.severity.word) for f in found.findings] == [("fatal", "error")]


def test_an_ordinary_log_without_end_is_serving():
    assert runs(printer().start().text)[0].outcome == "serving"


def test_a_start_that_just_stops_in_the_middle_is_unknown():
    """The file may be cut, or the start goes on: nobody knows."""
    assert runs(printer().arguments().configured().loading(upto=2).text)[0].outcome is None


def test_an_empty_log_has_no_version_and_no_outcome():
    assert [(run.vllm_version, run.outcome) for run in runs("")] in ([], [(None, None)])


def test_a_signal_that_comes_after_the_failure_excuses_nothing():
    """Docker sends SIGTERM to what is already dying."""
    p = printer().start().access()
    p.error(
        API,
        "async_llm.py:480",
        "AsyncLLM output_handler failed.\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
    )
    for _ in range(60):
        p.access(status="500 Internal Server Error")
    p.info(API, "launcher.py:254", "[shutdown] API server: shutdown triggered")
    assert runs(p.text)[0].outcome == "fatal"


def test_a_symptom_of_an_asked_shutdown_is_not_reported_as_unexplained():
    p = printer().start().access()
    p.info(API, "launcher.py:99", "Shutting down FastAPI HTTP server.")
    p.bare(API, DEAD)
    result = diagnose(RULES, p.text)
    assert (result.findings, result.unexplained, result.notices) == ((), (), ())

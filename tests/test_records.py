"""Lines to records: one per event and speaker, whatever stands between its lines."""

from __future__ import annotations

import itertools
import json
import random
from datetime import datetime, timedelta

import pytest
from ages import BY_VERSION, CORE, Printer, docker_json, interleave, traceback
from hypothesis import given, settings
from hypothesis import strategies as st

from vlogdiag.log.headers import DOCKER_PART, Stamp, parse_line
from vlogdiag.log.records import MAX_RECORD, Assembler, Context, LogClock
from vlogdiag.model import Level, Phase, Record

TRACE = traceback(
    "vllm/v1/engine/core.py:700:run_engine_core:engine_core = EngineCoreProc()", error="ValueError: no room"
)
FRAMES = TRACE.split("\n")


def records(text: str) -> list[Record]:
    """Records of a log in order of their first line."""
    assembler = Assembler(lambda parsed, number, time: Context(1, Phase.STARTING))
    found: list[Record] = []
    for number, line in enumerate(text.split("\n"), 1):
        found.extend(assembler.line(number, 0, line[:-1] if line.endswith("\r") else line))
    found.extend(assembler.close())
    return sorted(found, key=lambda record: record.first.number)


def said(text: str) -> list[tuple[str, str]]:
    """(speaker, text) of each record."""
    return [(record.origin.label, record.text) for record in records(text)]


def headed(head: str, text: str) -> str:
    return "\n".join(head + line for line in text.split("\n"))


# --- messages with a header --------------------------------------------------------------------------------------------


def test_a_message_of_many_lines_is_one_record():
    text = headed("ERROR 04-03 15:05:56 [core.py:700] ", "EngineCore failed to start.\n" + TRACE)
    assert [r.text for r in records(text)] == ["EngineCore failed to start.\n" + TRACE]


def test_the_carriage_return_that_vllm_writes_inside_messages_is_no_part_of_them():
    """`NewLineFormatter` joins lines with `\\r\\n` and the header, in every release."""
    text = Printer(BY_VERSION["0.24.0"]).error(CORE, "core.py:700", "EngineCore failed to start.\n" + TRACE).text
    assert "\r\n" in text
    (record,) = records(text)
    assert record.text == "EngineCore failed to start.\n" + TRACE


def test_two_messages_of_one_second_and_source_are_two_records():
    text = "INFO 04-03 15:05:56 [a.py:1] Engine 000: Running: 1 reqs\nINFO 04-03 15:05:56 [a.py:1] Engine 001: Running: 2 reqs"
    assert len(records(text)) == 2


def test_another_time_or_source_is_another_record():
    text = "ERROR 04-03 15:05:56 [a.py:1] one\nERROR 04-03 15:05:57 [a.py:1] two\nERROR 04-03 15:05:57 [b.py:1] three"
    assert [r.text for r in records(text)] == ["one", "two", "three"]


def test_blank_lines_inside_a_message_stay_at_its_end_they_go():
    text = headed("ERROR 04-03 15:05:56 [a.py:1] ", "one\n\ntwo\n\n")
    assert records(text)[0].text == "one\n\ntwo"


def test_line_numbers_are_those_of_the_file():
    text = "\nINFO 04-03 15:05:56 [a.py:1] x\n" + headed("ERROR 04-03 15:05:57 [a.py:1] ", "y\nz")
    assert [[line.number for line in r.lines] for r in records(text)] == [[2], [3, 4]]


# --- interleaved ranks -------------------------------------------------------------------------------------------------


def ranks(count: int) -> list[list[str]]:
    """Each rank's own traceback, with a number that tells them apart."""
    return [
        headed(
            f"(Worker_TP{rank} pid={100 + rank}) ERROR 04-03 15:05:56 [multiproc_executor.py:654] ",
            TRACE.replace("no room", f"no room on rank {rank}"),
        ).split("\n")
        for rank in range(count)
    ]


@given(st.integers(0, 10**9), st.integers(2, 8))
@settings(max_examples=60, deadline=None)
def test_eight_ranks_may_interleave_line_by_line(seed, count):
    mixed = interleave(ranks(count), random.Random(seed))
    found = records("\n".join(mixed))
    assert sorted((r.origin.rank, r.text) for r in found) == [
        (rank, TRACE.replace("no room", f"no room on rank {rank}")) for rank in range(count)
    ]


@given(st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_bare_tracebacks_with_a_prefix_interleave_too(seed):
    """Up to 0.30.0 every line of a process has its prefix, also what Python itself prints."""
    speakers = [
        headed(f"(EngineCore_DP{n} pid={n}) ", TRACE.replace("room", f"room {n}")).split("\n") for n in range(4)
    ]
    found = records("\n".join(interleave(speakers, random.Random(seed))))
    assert sorted((r.origin.pid, r.text) for r in found) == [(n, TRACE.replace("room", f"room {n}")) for n in range(4)]


def test_torchs_rank_prefix_tells_tracebacks_apart():
    lines = [f"[rank{rank}]: {line}" for line in FRAMES for rank in range(3)]
    found = records("\n".join(lines))
    assert [(r.origin.rank, r.text) for r in found] == [(rank, TRACE) for rank in range(3)]


def test_a_speaker_is_its_pid_whatever_it_is_called():
    """`VllmWorker-0` becomes `Worker` under one pid (0.32.0)."""
    head = "WARNING 11-30 23:53:16 [vllm.py:725] "
    first, second = records(f"(VllmWorker-0 pid=4652) {head}one\n(Worker pid=4652) {head}two")
    assert first.origin.pid == second.origin.pid


def test_the_same_pid_in_two_containers_is_two_speakers():
    text = "\n".join(
        f"{name}  | {line}"
        for line in headed("(EngineCore pid=1) ERROR 04-03 15:05:56 [core.py:700] ", TRACE).split("\n")
        for name in ("vllm-1", "vllm-2")
    )
    assert sorted((r.origin.host, r.text) for r in records(text)) == [("vllm-1", TRACE), ("vllm-2", TRACE)]


def test_other_speakers_lines_between_do_not_cut_a_message():
    lines = headed("(Worker_TP0 pid=1) ERROR 04-03 15:05:56 [m.py:654] ", TRACE).split("\n")
    noise = '(APIServer pid=2) INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'
    found = records("\n".join(part for line in lines for part in (line, *[noise] * 30)))
    assert [r.text for r in found if r.level is Level.ERROR] == [TRACE]


# --- bare tracebacks ---------------------------------------------------------------------------------------------------


def test_a_bare_traceback_without_prefix_is_one_record():
    """From 0.31.0 on Python's own output carries no prefix at all."""
    text = f"INFO 04-03 15:05:56 [a.py:1] x\n{TRACE}\nINFO 04-03 15:05:57 [a.py:1] y"
    assert [r.text for r in records(text)] == ["x", TRACE, "y"]


def test_access_lines_between_the_frames_of_a_bare_traceback():
    access = 'INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'
    text = "\n".join(part for line in FRAMES for part in (line, access))
    bare = [r.text for r in records(text) if r.level is None]
    assert bare == [TRACE]


CHAINED = f"""{TRACE}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/x.py", line 1, in main
    main()
RuntimeError: Engine core initialization failed. See root cause above."""


def test_chained_tracebacks_are_one_record_in_their_order():
    assert [r.text for r in records(CHAINED)] == [CHAINED]


def test_chained_tracebacks_with_a_header_are_one_record():
    text = headed("(APIServer pid=1) ERROR 04-03 15:05:56 [a.py:1] ", CHAINED)
    assert [r.text for r in records(text)] == [CHAINED]


def test_during_handling_chains_as_well():
    text = CHAINED.replace(
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    )
    assert len(records(text)) == 1


def test_two_tracebacks_in_a_row_that_are_not_chained_are_two():
    assert [r.text for r in records(f"{TRACE}\n{TRACE.replace('no room', 'other')}")] == [
        TRACE,
        TRACE.replace("no room", "other"),
    ]


def test_the_line_that_names_the_process_heads_its_traceback():
    text = f"Process EngineCore_DP0:\n{TRACE}"
    assert [r.text for r in records(text)] == [text]


def test_what_follows_the_exceptions_line_belongs_to_it():
    advice = "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    assert [r.text for r in records(f"{TRACE}\n{advice}\nINFO 04-03 15:05:57 [a.py:1] y")] == [
        f"{TRACE}\n{advice}",
        "y",
    ]


def test_pydantics_list_belongs_to_its_exception():
    text = traceback(
        "vllm/config/model.py:1:f:g()",
        error="pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, Model architectures ['X'] are not supported for now. [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]\n    For further information visit https://errors.pydantic.dev/2.12/v/value_error",
    )
    assert [r.text for r in records(text)] == [text]


def test_a_file_that_starts_inside_a_traceback_says_so():
    text = "\n".join(FRAMES[1:]) + "\nINFO 04-03 15:05:57 [a.py:1] y"
    first = records(text)[0]
    assert (first.cut, first.text) == (True, "\n".join(FRAMES[1:]))


def test_a_whole_traceback_is_not_marked_cut():
    assert not any(r.cut for r in records(TRACE))


# --- other forms -------------------------------------------------------------------------------------------------------


def test_uvicorns_error_takes_its_traceback():
    text = f"ERROR:    Exception in ASGI application\n{TRACE}\nINFO:     Shutting down"
    first = records(text)[0]
    assert (first.kind, first.level, first.text) == ("uvicorn", Level.ERROR, f"Exception in ASGI application\n{TRACE}")


def test_an_access_line_is_one_record_and_takes_nothing():
    text = f'INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK\n{TRACE}'
    assert [r.level for r in records(text)] == [Level.INFO, None]


def test_glog_lines_take_the_indented_lines_that_follow():
    text = "[W1130 23:53:16.821998754 OperatorEntry.cpp:218] Warning: Warning only once for all operators.\n  Overriding a previously registered kernel\n  operator: aten::_addmm\nINFO 04-03 15:05:57 [a.py:1] y"
    assert len(records(text)) == 2


def test_a_watchdogs_message_is_its_ranks():
    text = "\n".join(
        f"[rank{rank}]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout"
        for rank in range(4)
    )
    assert [r.origin.rank for r in records(text)] == [0, 1, 2, 3]


def test_each_state_of_a_progress_bar_is_a_line_of_its_own():
    """tqdm overwrites itself with `\\r`: the file holds one physical line."""
    text = "\rLoading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]\rLoading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:05,  1.46s/it]\nINFO 04-03 15:05:57 [a.py:1] y"
    found = records(text)
    assert [(r.kind, r.first.number) for r in found] == [("progress", 1), ("progress", 1), ("vllm", 2)]


def test_an_error_behind_a_progress_bar_on_one_physical_line_is_found():
    text = "Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]\rERROR 04-03 15:05:57 [a.py:1] broke"
    assert [r.text for r in records(text) if r.level is Level.ERROR] == ["broke"]


def test_rays_count_of_folded_repeats_is_kept():
    (record,) = records(
        "(RayWorkerWrapper pid=249, ip=10.0.0.12) ERROR 03-02 00:36:31 worker_base.py:581] it broke [repeated 6x across cluster]"
    )
    assert (record.repeats, record.text) == (6, "it broke")


def test_docker_json_lines_join_like_plain_ones():
    text = headed("(EngineCore_DP0 pid=229) ERROR 04-03 15:05:56 [core.py:700] ", TRACE)
    assert [r.text for r in records("\n".join(docker_json(text.split("\n"))))] == [TRACE]


def test_a_line_that_docker_cut_at_16_kib_is_one_line():
    header = "ERROR 04-03 15:05:56 [core.py:700] "
    first, second = "CUDA out of ".rjust(DOCKER_PART - len(header), "."), "memory. Tried to allocate 2.00 GiB"
    text = json.dumps({"log": header + first}) + "\n" + json.dumps({"log": second + "\n"})
    assert [r.text for r in records(text)] == [first + second]


def test_a_cut_line_keeps_what_its_header_says():
    header = "(EngineCore_DP0 pid=9) ERROR 04-03 15:05:56 [core.py:700] "
    parts = ["P " + header + "CUDA out of ", "P memory. Tried ", "F to allocate 2.00 GiB"]
    text = "\n".join(f"2026-04-03T13:05:56.1Z stdout {part}" for part in parts)
    (record,) = records(text)
    assert (record.level, record.origin.pid, record.source) == (Level.ERROR, 9, "core.py:700")
    assert record.text == "CUDA out of memory. Tried to allocate 2.00 GiB"


def test_json_that_was_cut_is_read_when_it_is_whole():
    whole = json.dumps({"log": "ERROR 04-03 15:05:56 [core.py:700] CUDA out of memory\n"})
    text = f"2026-04-03T13:05:56.1Z stdout P {whole[:30]}\n2026-04-03T13:05:56.1Z stdout F {whole[30:]}"
    (record,) = records(text)
    assert (record.level, record.text) == (Level.ERROR, "CUDA out of memory")


def test_lines_whose_newline_a_shipper_took_are_lines():
    lines = [
        "ERROR 04-03 15:05:56 [core.py:700] one",
        "Traceback (most recent call last):",
        '  File "x.py", line 3, in f',
    ]
    text = "\n".join(json.dumps({"log": line, "stream": "stderr"}) for line in lines)
    assert [[line.number for line in r.lines] for r in records(text)] == [[1], [2, 3]]


def test_a_line_that_containerd_cut_is_one_line():
    text = "2026-04-03T13:05:56.1Z stdout P ERROR 04-03 15:05:56 [core.py:700] CUDA out of \n2026-04-03T13:05:56.1Z stdout P memory. Tried \n2026-04-03T13:05:56.1Z stdout F to allocate 2.00 GiB"
    assert [r.text for r in records(text)] == ["CUDA out of memory. Tried to allocate 2.00 GiB"]


def test_a_shipper_that_puts_many_lines_into_one_is_taken_apart():
    message = "INFO 04-03 15:05:56 [a.py:1] x\n" + headed("ERROR 04-03 15:05:57 [core.py:700] ", TRACE)
    assert [r.text for r in records(json.dumps({"log": message + "\n"}))] == ["x", TRACE]


def test_a_json_message_that_quotes_a_header_is_one_record():
    """Only the logger's own level counts: a prompt may quote anything."""
    line = json.dumps(
        {
            "asctime": "2026-11-30 23:18:15,123",
            "levelname": "INFO",
            "name": "vllm",
            "message": "Received request 1: prompt: 'why\nERROR 04-03 15:05:57 [core.py:700] CUDA out of memory'",
        }
    )
    assert [r.level for r in records(line)] == [Level.INFO]


def test_a_json_loggers_traceback_is_one_record():
    line = json.dumps(
        {
            "asctime": "2026-11-30 23:18:15,123",
            "levelname": "ERROR",
            "name": "vllm.v1.engine.core",
            "message": f"EngineCore failed to start.\n{TRACE}",
        }
    )
    assert [r.text for r in records(line)] == [f"EngineCore failed to start.\n{TRACE}"]


def test_argparses_usage_belongs_to_one_record():
    text = "usage: vllm [-h] [-v] {chat,serve} ...\nvllm: error: unrecognized arguments: --request-timeout 60"
    assert [r.text for r in records(text)] == [text]


# --- prompts -----------------------------------------------------------------------------------------------------------

PROMPT = f"Why does this fail?\n\n{TRACE}\nERROR is what it says."


def test_a_prompt_that_quotes_a_traceback_stays_in_its_request():
    """0.4 to 0.10: the request is logged with its prompt; a formatter of one's own leaves line ends unprefixed."""
    text = f"INFO 04-03 15:05:56 [logger.py:43] Received request chatcmpl-1: prompt: {PROMPT}, params: SamplingParams(n=1), lora_request: None.\nINFO 04-03 15:05:57 [a.py:1] y"
    found = records(text)
    assert [(r.level, r.text[:16]) for r in found] == [(Level.INFO, "Received request"), (Level.INFO, "y")]


def test_a_prompt_whose_lines_repeat_the_header_stays_in_its_request():
    text = headed(
        "INFO 04-03 15:05:56 [logger.py:43] ",
        f"Received request chatcmpl-1: prompt: '{PROMPT}', params: SamplingParams(n=1)",
    )
    assert len(records(text)) == 1


def test_after_a_requests_end_a_bare_traceback_is_its_own_record():
    text = f"INFO 04-03 15:05:56 [logger.py:43] Received request chatcmpl-1: prompt: 'hi', params: SamplingParams(n=1), lora_request: None.\n{TRACE}"
    assert [r.level for r in records(text)] == [Level.INFO, None]


# --- bounds ------------------------------------------------------------------------------------------------------------


def test_a_message_without_end_is_cut_and_says_so():
    line = "ERROR 04-03 15:05:56 [a.py:1] " + "x" * 1000
    found = records(
        "\n".join(["ERROR 04-03 15:05:56 [a.py:1] It broke.", *[line] * 200, "INFO 04-03 15:05:57 [a.py:1] y"])
    )
    assert all(len(r.text) <= MAX_RECORD + 2000 for r in found)
    assert found[0].cut


def test_three_thousand_speakers_are_not_held_open():
    assembler = Assembler(lambda parsed, number, time: Context(1, Phase.STARTING))
    for number in range(1, 3_001):
        assembler.line(number, 0, f"(Worker pid={number}) ERROR 04-03 15:05:56 [a.py:1] x")
    assert len(assembler.close()) <= 1024


@given(
    st.lists(
        st.sampled_from(
            [
                *FRAMES,
                "",
                "INFO 04-03 15:05:56 [a.py:1] x",
                "  indented",
                "(Worker pid=1) ERROR 04-03 15:05:56 [m.py:1] e",
                "\r",
                "The above exception was the direct cause of the following exception:",
            ]
        ),
        max_size=60,
    )
)
@settings(max_examples=200, deadline=None)
def test_every_line_lands_in_exactly_one_record(lines):
    """Nothing is lost but blank lines, and nothing is counted twice."""
    found = records("\n".join(lines))
    numbers = [line.number for r in found for line in r.lines]
    assert len(numbers) == len(set(numbers))
    spoken = {n for n, line in enumerate(lines, 1) if parse_line(line.rstrip("\r")).text.strip()}
    assert spoken <= set(numbers)


# --- the clock ---------------------------------------------------------------------------------------------------------


def at(month: int, day: int, clock: str = "00:00:00", year: int | None = None) -> Stamp:
    hours, minutes, seconds = clock.split(":")
    return Stamp(month, day, int(hours) * 3600 + int(minutes) * 60 + float(seconds), year, "")


DAY = 86_400.0
STEPS = [
    ("the same second", at(4, 3, "15:05:56"), at(4, 3, "15:05:56"), 0),
    ("a minute", at(4, 3, "15:05:56"), at(4, 3, "15:06:56"), 60),
    ("midnight", at(4, 3, "23:59:59"), at(4, 4), 1),
    ("the end of a month", at(4, 30), at(5, 1), DAY),
    ("New Year", at(12, 31, "23:59:59"), at(1, 1), 1),
    ("half a year", at(1, 1), at(7, 1), 181 * DAY),
    ("February of a common year", at(2, 28), at(3, 1), DAY),
    ("29 February", at(2, 28), at(2, 29), DAY),
    ("after 29 February", at(2, 29), at(3, 1), DAY),
]  # fmt: skip


@pytest.mark.parametrize(("name", "first", "second", "seconds"), STEPS, ids=[step[0] for step in STEPS])
def test_steps_of_time(name, first, second, seconds):
    clock = LogClock()
    begin = clock.time(first)
    assert clock.time(second) - begin == pytest.approx(seconds, abs=DAY if name == "New Year" else 0)


def test_new_year_moves_forward():
    clock = LogClock()
    begin = clock.time(at(12, 31, "23:59:59"))
    assert clock.time(at(1, 1)) > begin


def test_a_line_that_arrives_late_does_not_move_the_clock_back():
    clock = LogClock()
    clock.time(at(4, 3, "12:00:00"))
    now = clock.now
    assert clock.time(at(4, 3, "11:59:58")) == (now or 0) - 2
    assert clock.now == now


def test_a_late_line_of_last_year_is_last_years():
    clock = LogClock()
    last = clock.time(at(12, 31, "23:59:58"))
    clock.time(at(1, 1, "00:00:01"))
    assert clock.time(at(12, 31, "23:59:59")) == last + 1


def test_two_new_years():
    clock = LogClock()
    times = [clock.time(at(month, 1)) for month in (12, 1, 5, 9, 12, 1)]
    assert times == sorted(times)


@given(st.lists(st.integers(0, 3 * 365 * 24 - 1), min_size=2, max_size=30).map(sorted))
def test_time_never_runs_backwards_over_years(hours):
    """Any log whose gaps are below half a year."""
    if any(b - a > 170 * 24 for a, b in itertools.pairwise(hours)):
        return
    clock = LogClock()
    times = []
    for hour in hours:
        moment = datetime(2026, 1, 1) + timedelta(hours=hour)
        times.append(clock.time(at(moment.month, moment.day, f"{moment:%H:%M:%S}")))
    assert times == sorted(times)


def test_a_record_knows_its_year_where_a_wrapper_says_it():
    (record,) = records("2026-04-03T13:05:56.1Z ERROR 04-03 15:05:56 [core.py:700] x")
    assert record.iso == "2026-04-03T15:05:56"


def test_a_record_without_any_year_has_no_iso_time():
    (record,) = records("ERROR 04-03 15:05:56 [core.py:700] x")
    assert (record.iso, record.stamp) == (None, "04-03 15:05:56")


def test_a_prefixed_traceback_may_wait_long_for_its_next_line():
    """Eight ranks and the access log between two lines of one process."""
    access = '(APIServer pid=1) INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'
    lines = [part for line in FRAMES for part in (f"(Worker_TP1 pid=7) {line}", *[access] * 60)]
    assert [r.text for r in records("\n".join(lines)) if r.level is None] == [TRACE]


def test_uvicorns_traceback_stays_with_its_error_though_others_speak_between():
    lines = headed("(APIServer pid=1) ", f"ERROR:    Exception in ASGI application\n{TRACE}").split("\n")
    other = "(EngineCore pid=2) INFO 04-03 15:05:56 [a.py:1] x"
    found = records("\n".join(part for line in lines for part in (line, other)))
    assert [r.text for r in found if r.kind == "uvicorn"] == [f"Exception in ASGI application\n{TRACE}"]

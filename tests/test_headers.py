"""Every way in which a line of a vLLM log begins, taken apart: header ages, process prefixes, wrappers, other programs."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vlogdiag.log import headers
from vlogdiag.log.headers import Parsed, parse_line
from vlogdiag.model import Level

INFO, WARNING, ERROR, CRITICAL = Level.INFO, Level.WARNING, Level.ERROR, Level.CRITICAL


def fields(parsed: Parsed, *names: str) -> tuple[object, ...]:
    return tuple(getattr(parsed, name) for name in names)


def stamp(parsed: Parsed) -> str | None:
    return parsed.stamp.text if parsed.stamp else None


# --- vLLM's own header, by age -----------------------------------------------------------------------------------------

OWN = [
    # line, process, pid, rank, engine, level, stamp, source, text
    ("INFO 01-24 10:22:37 model_runner.py:452] Starting", None, None, None, None, INFO, "01-24 10:22:37", "model_runner.py:452", "Starting"),  # to 0.7.3
    ("WARNING 07-01 20:30:01 [api_server.py:1197] x", None, None, None, None, WARNING, "07-01 20:30:01", "api_server.py:1197", "x"),  # 0.8.0
    ("DEBUG 11-22 08:00:00 [v1/engine/core.py:75] tick", None, None, None, None, Level.DEBUG, "11-22 08:00:00", "v1/engine/core.py:75", "tick"),  # 0.10.2, DEBUG
    ("INFO 11-22 08:00:00 [model_executor/.../quantization/utils/fp8_utils.py:9] q", None, None, None, None, INFO, "11-22 08:00:00", "model_executor/.../quantization/utils/fp8_utils.py:9", "q"),
    ("CRITICAL 03-13 09:00:43 [core_client.py:260] Got fatal signal", None, None, None, None, CRITICAL, "03-13 09:00:43", "core_client.py:260", "Got fatal signal"),
    ("(VllmWorkerProcess pid=2144910) ERROR 01-12 08:36:38 multiproc_worker_utils.py:233] e", "VllmWorkerProcess", 2144910, None, None, ERROR, "01-12 08:36:38", "multiproc_worker_utils.py:233", "e"),  # 0.4.2..0.10.2
    ("(RayWorkerVllm pid=308) INFO 01-30 14:12:02 model_runner.py:629] w", "RayWorkerVllm", 308, None, None, INFO, "01-30 14:12:02", "model_runner.py:629", "w"),
    ("(VllmWorker rank=3 pid=1234) ERROR 06-05 06:18:13 [multiproc_executor.py:470] e", "VllmWorker", 1234, 3, None, ERROR, "06-05 06:18:13", "multiproc_executor.py:470", "e"),  # 0.6.5..0.10.0
    ("(EngineCore_0 pid=99) INFO 07-05 06:18:13 [core.py:69] e", "EngineCore_0", 99, None, 0, INFO, "07-05 06:18:13", "core.py:69", "e"),  # 0.9.0..0.10.1
    ("(VllmWorker TP0 pid=7) INFO 08-05 06:18:13 [core.py:69] e", "VllmWorker_TP0", 7, 0, None, INFO, "08-05 06:18:13", "core.py:69", "e"),  # 0.10.1
    ("(VllmWorker PP0_TP1 pid=8) INFO 08-05 06:18:13 [core.py:69] e", "VllmWorker_PP0_TP1", 8, 1, None, INFO, "08-05 06:18:13", "core.py:69", "e"),
    ("(APIServer pid=1) INFO 09-05 06:18:13 [api_server.py:1896] v", "APIServer", 1, None, None, INFO, "09-05 06:18:13", "api_server.py:1896", "v"),  # 0.10.1
    ("(ApiServer_0 pid=12) INFO 09-05 06:18:13 [api_server.py:1896] v", "ApiServer_0", 12, None, None, INFO, "09-05 06:18:13", "api_server.py:1896", "v"),
    ("(EngineCore_DP0 pid=229) INFO 09-05 06:18:13 [core.py:77] v", "EngineCore_DP0", 229, None, 0, INFO, "09-05 06:18:13", "core.py:77", "v"),  # 0.10.2
    ("(EngineCore_DP3 pid=232) INFO 09-05 06:18:13 [core.py:77] v", "EngineCore_DP3", 232, None, 3, INFO, "09-05 06:18:13", "core.py:77", "v"),
    ("(Worker pid=5) INFO 09-05 06:18:13 [gpu_worker.py:77] v", "Worker", 5, None, None, INFO, "09-05 06:18:13", "gpu_worker.py:77", "v"),
    ("(Worker_TP2 pid=6) INFO 09-05 06:18:13 [gpu_worker.py:77] v", "Worker_TP2", 6, 2, None, INFO, "09-05 06:18:13", "gpu_worker.py:77", "v"),
    ("(Worker_DP0_PP0_TP1_EP3 pid=9) INFO 09-05 06:18:13 [gpu_worker.py:77] v", "Worker_DP0_PP0_TP1_EP3", 9, 1, None, INFO, "09-05 06:18:13", "gpu_worker.py:77", "v"),
    ("(Worker_PP1 pid=9) INFO 09-05 06:18:13 [gpu_worker.py:77] v", "Worker_PP1", 9, 1, None, INFO, "09-05 06:18:13", "gpu_worker.py:77", "v"),
    ("(EngineCore pid=163) INFO 06-05 09:00:18 [core.py:109] v", "EngineCore", 163, None, None, INFO, "06-05 09:00:18", "core.py:109", "v"),  # 0.18.0
    ("(DPSupervisor pid=3) INFO 06-05 09:00:18 [s.py:1] v", "DPSupervisor", 3, None, None, INFO, "06-05 09:00:18", "s.py:1", "v"),  # 0.22
    ("(APIServer_DP0 pid=3) INFO 06-05 09:00:18 [s.py:1] v", "APIServer_DP0", 3, None, None, INFO, "06-05 09:00:18", "s.py:1", "v"),
    ("(MainProcess pid=3) WARNING 11-30 23:18:15 [envs.py:1] v", "MainProcess", 3, None, None, WARNING, "11-30 23:18:15", "envs.py:1", "v"),  # 0.31.0
    ("(SpawnProcess-1 pid=3) WARNING 11-30 23:18:15 [envs.py:1] v", "SpawnProcess-1", 3, None, None, WARNING, "11-30 23:18:15", "envs.py:1", "v"),
    ("(VllmWorker-0 pid=4652) WARNING 11-30 23:53:16 [vllm.py:725] v", "VllmWorker-0", 4652, 0, None, WARNING, "11-30 23:53:16", "vllm.py:725", "v"),
]  # fmt: skip


@pytest.mark.parametrize("row", OWN, ids=lambda row: row[0][:48])
def test_vllms_own_header_of_every_age(row):
    line, process, pid, rank, engine, level, when, source, text = row
    parsed = parse_line(line)
    assert parsed.kind == "vllm"
    assert fields(parsed, "process", "pid", "rank", "engine", "level", "source", "text") == (
        process, pid, rank, engine, level, source, text,
    )  # fmt: skip
    assert stamp(parsed) == when
    assert parsed.stamp is not None
    assert parsed.stamp.year is None  # never a year, in any release


COLOURS = [
    ("\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO 12-01 00:22:08 [api_server.py:1839] v", "0.4.2 to 0.11.2"),
    ("\x1b[0;36m(APIServer pid=1)\x1b[0;0m INFO 12-01 00:22:08 [api_server.py:1839] v", "0.12.0 and later"),
    ("\x1b[0;36m(APIServer pid=1)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m12-01 00:22:08\x1b[0m \x1b[90m[api_server.py:1839]\x1b[0m v", "FORCE_COLOR"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "age"), COLOURS, ids=[age for _, age in COLOURS])
def test_colours_written_into_files_change_nothing(line, age):
    assert fields(parse_line(line), "process", "pid", "level", "source", "text", "kind") == (
        "APIServer", 1, INFO, "api_server.py:1839", "v", "vllm",
    )  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "node7 INFO 01-24 10:22:37 [core.py:77] v",  # VLLM_LOGGING_PREFIX, 0.6.4 and later
        "[replica-3] INFO 01-24 10:22:37 [core.py:77] v",
        "gpu=0|INFO 01-24 10:22:37 [core.py:77] v",
        "my-prefix: (EngineCore pid=7) INFO 01-24 10:22:37 [core.py:77] v",  # before the process from 0.31.0 on
        "2025-07-17 11:38:23.6777  >> INFO 01-24 10:22:37 [core.py:77] v",  # a shipper that nobody told us of
    ],
)
def test_foreign_text_before_the_header_is_no_part_of_it(line):
    parsed = parse_line(line)
    assert (parsed.level, parsed.source, parsed.text) == (INFO, "core.py:77", "v")


@pytest.mark.parametrize(
    "line",
    [
        "user wrote 'ERROR 01-24 10:22:37 [core.py:77] CUDA out of memory'",
        '"ERROR 01-24 10:22:37 [core.py:77] x" is what it says',
        "`ERROR 01-24 10:22:37 [core.py:77] x`",
    ],
)
def test_a_quoted_header_is_no_header(line):
    assert parse_line(line).level is None


def test_a_header_deep_inside_a_line_is_no_header():
    line = "a prompt that goes on and on " * 6 + "ERROR 01-24 10:22:37 [core.py:77] x"
    assert parse_line(line).level is None


# --- wrappers ----------------------------------------------------------------------------------------------------------

INNER = "(EngineCore_DP0 pid=229) ERROR 04-03 15:05:56 [core.py:700] EngineCore failed to start."
WRAPPED = [
    ("docker json-file", json.dumps({"log": INNER + "\n", "stream": "stderr", "time": "2026-04-03T13:05:56.123456789Z"}), None),
    ("docker logs -t", f"2026-04-03T13:05:56.123456789Z {INNER}", None),
    ("containerd CRI", f"2026-04-03T13:05:56.123456789Z stdout F {INNER}", None),
    ("containerd CRI with zone", f"2026-04-03T15:05:56.123456789+02:00 stderr F {INNER}", None),
    ("kubectl --timestamps", f"2026-04-03T13:05:56.123456789Z {INNER}", None),
    ("kubectl --prefix", f"[pod/vllm-7d9c5b6f4-x2x8k/server] {INNER}", "vllm-7d9c5b6f4-x2x8k"),
    ("kubectl --prefix --timestamps", f"[pod/vllm-7d9c5b6f4-x2x8k/server] 2026-04-03T13:05:56.1Z {INNER}", "vllm-7d9c5b6f4-x2x8k"),
    ("compose", f"vllm-1  | {INNER}", "vllm-1"),
    ("compose without blanks", f"vllm-qwen3vl-1| {INNER}", "vllm-qwen3vl-1"),
    ("compose with timestamps", f"vllm-1  | 2026-04-03T13:05:56.1Z {INNER}", "vllm-1"),
    ("journalctl", f"Apr 03 15:05:56 gpubox vllm[812]: {INNER}", "gpubox"),
    ("journalctl, one-digit day", f"Apr  3 15:05:56 gpubox vllm[812]: {INNER}", "gpubox"),
    ("journalctl -o short-iso", f"2026-04-03T15:05:56+0200 gpubox vllm[812]: {INNER}", "gpubox"),
    ("syslog RFC 5424", f"<30>1 2026-04-03T15:05:56.123Z gpubox vllm 812 - - {INNER}", "gpubox"),
    ("stern", f"vllm-7d9c5b6f4-x2x8k vllm {INNER}", "vllm-7d9c5b6f4-x2x8k"),
    ("cloud logging, text", json.dumps({"textPayload": INNER, "severity": "INFO", "timestamp": "2026-04-03T13:05:56Z", "resource": {"labels": {"pod_name": "vllm-0"}}}), "vllm-0"),
    ("cloud logging, JSON", json.dumps({"jsonPayload": {"message": INNER}, "severity": "INFO", "timestamp": "2026-04-03T13:05:56Z"}), None),
    ("fluent-bit", json.dumps({"log": INNER + "\n", "kubernetes": {"pod_name": "vllm-0"}}), "vllm-0"),
    ("journald JSON", json.dumps({"MESSAGE": INNER, "_HOSTNAME": "gpubox", "PRIORITY": "6"}), "gpubox"),
    ("json-file inside CRI", f"2026-04-03T13:05:56.1Z stdout F {json.dumps({'log': INNER + chr(10)})}", None),
    ("loki", "2026-04-03T13:05:56Z\t{app=\"vllm\", pod=\"vllm-0\"}\t" + INNER, None),
    ("severity column", f"INFO 2026-04-03T13:05:56.123Z [resource.labels.containerName: vllm] {INNER}", None),
    ("bracketed time", f"[2026-04-03 15:05:56] {INNER}", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "line", "host"), WRAPPED, ids=[name for name, _, _ in WRAPPED])
def test_every_wrapper_comes_off(name, line, host):
    parsed = parse_line(line)
    assert fields(parsed, "process", "pid", "engine", "level", "source", "text") == (
        "EngineCore_DP0", 229, 0, ERROR, "core.py:700", "EngineCore failed to start.",
    )  # fmt: skip
    assert (stamp(parsed), parsed.host) == ("04-03 15:05:56", host)


def test_the_innermost_level_counts_not_the_exporters():
    """A cloud exporter calls everything INFO, kubelet's stream is stderr for everything."""
    assert parse_line(f"INFO 2026-04-03T13:05:56.123Z {INNER}").level is ERROR
    assert (
        parse_line(json.dumps({"severity": "ERROR", "textPayload": "INFO 04-03 15:05:56 [a.py:1] fine"})).level is INFO
    )


def test_a_wrapper_alone_gives_no_level():
    """`severity` of an exporter says what stream it was, not what vLLM thinks."""
    parsed = parse_line(json.dumps({"severity": "ERROR", "textPayload": '  File "x.py", line 3, in f'}))
    assert (parsed.level, parsed.text) == (None, '  File "x.py", line 3, in f')


def test_the_wrappers_year_is_kept_beside_the_programs_own_time():
    parsed = parse_line(f"2026-04-03T13:05:56.123456789Z {INNER}")
    assert parsed.outer is not None
    assert (parsed.outer.year, parsed.stamp.year if parsed.stamp else 0) == (2026, None)


@pytest.mark.parametrize(
    ("line", "partial"),
    [
        (json.dumps({"log": "the first half of a long line".ljust(headers.DOCKER_PART), "stream": "stdout"}), True),
        (json.dumps({"log": "a line whose newline a shipper took", "stream": "stdout"}), False),
        (json.dumps({"log": "and its end\n", "stream": "stdout"}), False),
        ("2026-04-03T13:05:56.1Z stdout P the first half", True),
        ("2026-04-03T13:05:56.1Z stdout F and its end", False),
    ],
)
def test_lines_that_the_runtime_cut_are_marked(line, partial):
    assert parse_line(line).partial is partial


def test_blanks_at_the_beginning_survive_every_wrapper():
    """Frames of a traceback are known by their indentation."""
    frame = '  File "/app/x.py", line 3, in f'
    for line in (f"vllm-1  | {frame}", f"2026-04-03T13:05:56.1Z stdout F {frame}", json.dumps({"log": frame + "\n"})):
        assert parse_line(line).text == frame


# --- Ray and torch prefixes ---------------------------------------------------------------------------------------------


def test_rays_prefix_and_its_count_of_folded_repeats():
    parsed = parse_line(
        "(RayWorkerWrapper pid=249, ip=10.0.0.12) INFO 03-02 00:30:20 cuda.py:160] Using Triton MLA backend. [repeated 14x across cluster]"
    )
    assert fields(parsed, "process", "pid", "host", "repeats", "text", "level") == (
        "RayWorkerWrapper", 249, "10.0.0.12", 14, "Using Triton MLA backend.", INFO,
    )  # fmt: skip


def test_rays_longer_note_about_repeats():
    parsed = parse_line(
        "(RayWorkerWrapper pid=249) x [repeated 6x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication)"
    )
    assert (parsed.repeats, parsed.text) == (6, "x")


def test_the_inner_process_wins_over_rays_wrapper():
    parsed = parse_line(
        "(EngineCore_DP0 pid=50) (RayWorkerWrapper pid=7, ip=10.0.0.5) ERROR 03-02 00:30:20 [worker_base.py:1] e"
    )
    assert fields(parsed, "process", "pid", "host", "text") == ("RayWorkerWrapper", 7, "10.0.0.5", "e")


def test_torchs_excepthook_names_the_rank():
    parsed = parse_line("[rank2]: Traceback (most recent call last):")
    assert fields(parsed, "rank", "text", "level") == (2, "Traceback (most recent call last):", None)


def test_torchs_excepthook_keeps_the_frames_indentation():
    assert parse_line('[rank2]:   File "/x.py", line 3, in f').text == '  File "/x.py", line 3, in f'


# --- other programs in the same file -----------------------------------------------------------------------------------

OTHERS = [
    ("uvicorn access", '(APIServer pid=1) INFO:     127.0.0.1:53412 - "POST /v1/chat/completions HTTP/1.1" 200 OK', "uvicorn", INFO, '127.0.0.1:53412 - "POST /v1/chat/completions HTTP/1.1" 200 OK'),
    ("uvicorn error", "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use", "uvicorn", ERROR, "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"),
    ("uvicorn warning", "WARNING:  Invalid HTTP request received.", "uvicorn", WARNING, "Invalid HTTP request received."),
    ("glog with time", "[rank0]:[W914 04:53:45.615225908 ProcessGroupNCCL.cpp:1476] Warning: WARNING: destroy_process_group() was not called", "glog", WARNING, "Warning: WARNING: destroy_process_group() was not called"),
    ("glog error", "[rank3]:[E321 02:07:08.407000000 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught", "glog", ERROR, "[Rank 3] Watchdog caught"),
    ("glog of torch 2.3, no time", "[rank0]:[E ProcessGroupNCCL.cpp:563] [Rank 0] Watchdog caught", "glog", ERROR, "[Rank 0] Watchdog caught"),
    ("torch's Python logger", "W1130 23:05:11.854000 29507 torch/utils/cpp_extension.py:72] No CUDA runtime", "glog", WARNING, "No CUDA runtime"),
    ("NCCL with host", "gpubox:412:498 [0] NCCL INFO Bootstrap : Using eth0", "nccl", INFO, "NCCL INFO Bootstrap : Using eth0"),
    ("NCCL warning", "gpubox:412:498 [1] transport/shm.cc:590 NCCL WARN Error while creating shared memory segment", "nccl", WARNING, "NCCL WARN Error while creating shared memory segment"),
    ("NCCL warning without host", "transport/shm.cc:590 NCCL WARN Error while creating shared memory segment", "nccl", WARNING, "NCCL WARN Error while creating shared memory segment"),
    ("Ray's own logger", "2026-04-03 15:05:56,123\tINFO worker.py:1888 -- Started a local Ray instance.", "ray", INFO, "Started a local Ray instance."),
    ("Ray's C++", "[2026-04-03 15:05:56,123 E 412 498] (raylet) node_manager.cc:3069: 1 Workers killed", "raylet", ERROR, "1 Workers killed"),
    ("nginx", '2026/04/03 15:05:56 [error] 29#29: *12 upstream timed out (110: Connection timed out)', "nginx", ERROR, "upstream timed out (110: Connection timed out)"),
    ("gunicorn", "[2026-04-03 15:05:56 +0000] [9] [CRITICAL] WORKER TIMEOUT (pid:12)", "gunicorn", CRITICAL, "WORKER TIMEOUT (pid:12)"),
    ("logging.basicConfig", "ERROR:root:it broke", "python", ERROR, "it broke"),
    ("a plain Python logger", "2026-04-03 15:05:56,123 - proxy - ERROR - upstream timed out", "python", ERROR, "upstream timed out"),
    ("kernel ring buffer", "[86400.123456] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", "kernel", None, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."),
    ("kernel in the journal", "Apr 03 15:05:56 gpubox kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", "kernel", None, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."),
    ("shell echo", "$ vllm serve Qwen/Qwen3-8B --port 8000", "shell", None, "vllm serve Qwen/Qwen3-8B --port 8000"),
    ("shell trace", "+ vllm serve Qwen/Qwen3-8B --port 8000", "shell", None, "vllm serve Qwen/Qwen3-8B --port 8000"),
    ("shell prompt", "root@gpubox:/app# vllm serve Qwen/Qwen3-8B", "shell", None, "vllm serve Qwen/Qwen3-8B"),
    ("progress of the weights", "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:05,  1.46s/it]", "progress", INFO, "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:05,  1.46s/it]"),
    ("progress of the graphs", "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 67/67 [00:04<00:00, 15.18it/s]", "progress", INFO, "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 67/67 [00:04<00:00, 15.18it/s]"),
]  # fmt: skip


@pytest.mark.parametrize("row", OTHERS, ids=[row[0] for row in OTHERS])
def test_other_programs_in_the_same_file(row):
    _, line, kind, level, text = row
    assert fields(parse_line(line), "kind", "level", "text") == (kind, level, text)


def test_glog_gives_rank_and_time_without_a_year():
    parsed = parse_line("[rank3]:[E321 02:07:08.40 ProcessGroupNCCL.cpp:607] [Rank 3] x")
    assert (parsed.rank, stamp(parsed), parsed.stamp.year if parsed.stamp else 0) == (3, "03-21 02:07:08.40", None)


def test_ncclss_line_names_pid_and_rank():
    assert fields(parse_line("gpubox:412:498 [1] NCCL INFO x"), "pid", "rank", "source") == (412, 1, None)


def test_tracebacks_without_prefix_have_no_level():
    """From 0.31.0 only log records carry the process: a bare traceback must stay reachable."""
    for line in ("Traceback (most recent call last):", '  File "/x.py", line 1, in f', "ValueError: no", ""):
        assert fields(parse_line(line), "level", "kind", "text") == (None, "bare", line)


def test_a_json_logger_gives_level_process_and_traceback():
    """`--logging-config.formatter json`, 0.32.0 and later."""
    line = json.dumps({"asctime": "2026-11-30 23:18:15,123", "levelname": "ERROR", "name": "vllm.v1.engine.core", "processName": "EngineCore_DP0", "process": 4622, "message": "EngineCore failed to start.", "exc_info": "Traceback (most recent call last):\n  File \"x.py\", line 1, in f\nValueError: no"})  # fmt: skip
    parsed = parse_line(line)
    assert fields(parsed, "kind", "level", "process", "pid") == ("json", ERROR, "EngineCore_DP0", 4622)
    assert parsed.text.startswith("EngineCore failed to start.\nTraceback (most recent call last):")
    assert stamp(parsed) == "2026-11-30 23:18:15,123"


def test_braces_that_are_no_json_stay_text():
    for line in ("{'model': 'x'}", "{", "{}", '{"a": 1}', "[1, 2]", "null"):
        assert parse_line(line).level is None


@pytest.mark.parametrize("line", ["INFO 13-45 10:22:37 [core.py:77] v", "INFO 00-00 10:22:37 core.py:77] v"])
def test_an_impossible_date_is_no_time(line):
    assert parse_line(line).stamp is None


def test_29_february_is_a_date():
    assert stamp(parse_line("INFO 02-29 23:59:59 [core.py:77] v")) == "02-29 23:59:59"


@given(st.text(max_size=300))
def test_no_line_is_refused(line):
    parsed = parse_line(line.replace("\n", " "))
    assert isinstance(parsed.text, str)


@given(
    st.sampled_from([row[0] for row in OWN]),
    st.text(st.characters(exclude_characters="\n\r\x1b]", exclude_categories=["Cs"]), max_size=60),
)
def test_whatever_the_message_holds_the_header_is_read_alike(line, message):
    """Headers are remembered by their text: a message must never leak into the next line's header."""
    head = line[: line.rindex("] ") + 2]
    parsed, plain = parse_line(head + message), parse_line(line)
    assert fields(parsed, "process", "pid", "rank", "engine", "level", "source") == fields(
        plain, "process", "pid", "rank", "engine", "level", "source"
    )
    assert parsed.text == message


@pytest.mark.parametrize("name", [name for name, _ in headers._wrappers()])
def test_every_wrapper_is_tried_for_every_character_that_it_can_begin_with(name: str) -> None:
    pattern = dict(headers._wrappers())[name]
    tried = {chr(n) for n in range(256) if name in dict(headers._wrappers_behind(chr(n)))}
    lines = st.from_regex(pattern).map(lambda line: line.lstrip("\n"))

    @given(lines)
    @settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None)
    def holds(line: str) -> None:
        if pattern.match(line) and line[0].isascii():
            assert line[0] in tried

    holds()

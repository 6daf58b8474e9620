"""What a run says of itself: version as a set, arguments from the four places that print them, memory, statistics."""

from __future__ import annotations

import pytest
from ages import AGES, API, BY_VERSION, CORE, Age, Printer
from hypothesis import given
from hypothesis import strategies as st
from small_rules import diagnose, rules_from

from vlogdiag.diagnosis import arguments
from vlogdiag.model import RunSummary
from vlogdiag.values import GIB

RULES = rules_from("{id: broke, match: {line: 'RuntimeError: it broke for good'}}")


def run_of(log: str, **more: object) -> RunSummary:
    (run,) = diagnose(RULES, log, **more).summary.runs  # type: ignore[arg-type]
    return run


# --- arguments ---------------------------------------------------------------------------------------------------------

PLACES = [
    (
        "non-default args, 0.9.0 and later",
        "(APIServer pid=1) INFO 09-05 06:18:13 [utils.py:233] non-default args: {'model_tag': 'Qwen/Qwen3-8B', 'port': 3001, 'model': 'Qwen/Qwen3-8B', 'max_model_len': 8192, 'gpu_memory_utilization': 0.75}",
        {"model": "Qwen/Qwen3-8B", "port": 3001, "max_model_len": 8192, "gpu_memory_utilization": 0.75},
    ),
    (
        "Namespace, before",
        "INFO 11-05 18:00:00 api_server.py:529] args: Namespace(host=None, port=3001, allow_credentials=False, allowed_origins=['*'], model='Qwen/Qwen3-8B', max_model_len=8192, gpu_memory_utilization=0.75, dispatch_function=<function serve at 0x7f10>)",
        {"model": "Qwen/Qwen3-8B", "port": 3001, "max_model_len": 8192, "gpu_memory_utilization": 0.75},
    ),
    (
        "the engine's configuration",
        "(EngineCore_DP0 pid=9) INFO 09-05 06:18:13 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='Qwen/Qwen3-8B', speculative_config=None, dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2, quantization=awq_marlin, enforce_eager=True, kv_cache_dtype=fp8, served_model_name=qwen, pooler_config=None",
        {"model": "Qwen/Qwen3-8B", "max_model_len": 8192, "tensor_parallel_size": 2, "quantization": "awq_marlin", "enforce_eager": True, "kv_cache_dtype": "fp8", "dtype": "bfloat16"},
    ),
    (
        "an echoed command",
        "$ VLLM_USE_V1=0 vllm serve Qwen/Qwen3-8B --port 3001 --max-model-len 8192 --gpu-memory-utilization=0.75 --enforce-eager --served-model-name a b",
        {"model": "Qwen/Qwen3-8B", "port": 3001, "max_model_len": 8192, "gpu_memory_utilization": 0.75, "enforce_eager": True, "served_model_name": ["a", "b"]},
    ),
    (
        "the module's command",
        "+ python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --max_model_len 8192 -tp 2",
        {"model": "Qwen/Qwen3-8B", "max_model_len": 8192, "tensor_parallel_size": 2},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("place", "line", "args"), PLACES, ids=[place for place, _, _ in PLACES])
def test_arguments_are_read_from_every_place_that_prints_them(place, line, args):
    found = run_of(line + "\n").args
    assert {name: found.get(name) for name in args} == args


def test_what_the_user_gave_wins_over_what_the_engine_resolved():
    p = Printer(BY_VERSION["0.24.0"]).arguments(max_model_len=4096).configured(4096)
    assert run_of(p.text).args["max_model_len"] == 4096


def test_the_model_is_found_in_each_place():
    for _, line, _ in PLACES:
        assert run_of(line + "\n").model == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("args: Namespace(api_key='sk-secret', hf_token='hf_x')", {"api_key": "***", "hf_token": "***"}),
        ("non-default args: {'api_key': ['sk-secret']}", {"api_key": "***"}),
        ("$ vllm serve m --api-key sk-secret", {"model": "m", "api_key": "***"}),
    ],
)
def test_secrets_are_left_out(text, args):
    line = text if text.startswith("$") else f"INFO 11-05 18:00:00 api_server.py:529] {text}"
    assert run_of(line + "\n").args == args


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("{'a': 1, 'b': 'x, y: {z}', 'c': [1, 2], 'd': {'e': None}}", {"a": 1, "b": "x, y: {z}", "c": [1, 2], "d": {"e": None}}),
        ("{'a': <LoadFormat.AUTO: 'auto'>, 'b': 2}", {"a": "auto", "b": 2}),
        ("{'a': torch.bfloat16, 'b': <object at 0x7f>}", {"a": "bfloat16"}),
        ("{'a': \"it's\", 'b': 'say \\'x\\''}", {"a": "it's", "b": "say 'x'"}),
        ("{'a': None, 'b': 1", {"b": 1}),
        ("{", {}),
        ("{}", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_python_repr_is_read_as_far_as_it_can_be(text, args):
    assert arguments.from_dict(text) == args


@given(st.text("{}[]()'\"\\,:=ab1 <>", max_size=200))
def test_no_repr_is_refused(text):
    arguments.from_dict(text)
    arguments.from_namespace("Namespace(" + text)
    arguments.from_config("with config: " + text)
    arguments.from_shell("vllm serve " + text)


@pytest.mark.parametrize(
    ("command", "args", "env"),
    [
        ("vllm serve m --x -1 --y=2", {"model": "m", "x": -1, "y": 2}, {}),
        ("CUDA_VISIBLE_DEVICES=0,1 vllm serve m", {"model": "m"}, {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ("nohup /opt/venv/bin/vllm serve m --port 1 > vllm.log 2>&1 &", {"model": "m", "port": 1}, {}),
        ("docker run --gpus all vllm/vllm-openai --model m", None, None),
        ("ls -la", None, None),
        ("vllm bench throughput --model m", None, None),
        ("vllm serve 'unbalanced", {"model": "'unbalanced"}, {}),
    ],
)
def test_a_shell_line_is_read_as_the_server_reads_it(command, args, env):
    assert arguments.from_shell(command) == (None if args is None else (args, env))


def test_a_prompt_that_quotes_arguments_sets_none():
    p = Printer(BY_VERSION["0.9.2"]).start(8192)
    p.request("why does non-default args: {'max_model_len': 1} appear? GPU KV cache size: 16 tokens")
    run = run_of(p.text)
    assert (run.args["max_model_len"], run.facts["log.kv_tokens"]) == (8192, 981136)


# --- version -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", AGES, ids=lambda age: age.version)
@pytest.mark.parametrize("stages", [["arguments"], ["configured"]], ids=lambda stages: stages[0])
def test_the_version_is_read_from_the_servers_and_from_the_engines_line(age: Age, stages: list[str]):
    p = Printer(age)
    for stage in stages:
        getattr(p, stage)()
    assert run_of(p.text).vllm_version == age.version


SHAPES = [
    ("INFO 01-24 10:22:37 model_runner.py:452] x", "0.7.3", "0.8.0"),
    ("INFO 01-24 10:22:37 [model_runner.py:452] x", "0.8.0", "0.7.3"),
    ("(VllmWorkerProcess pid=1) INFO 01-24 10:22:37 model_runner.py:452] x", "0.6.6", "0.4.0"),
    ("(VllmWorker rank=0 pid=1) INFO 01-24 10:22:37 [gpu_worker.py:452] x", "0.9.2", "0.10.2"),
    ("(EngineCore_0 pid=1) INFO 01-24 10:22:37 [core.py:452] x", "0.10.1", "0.10.2"),
    ("(APIServer pid=1) INFO 01-24 10:22:37 [core.py:452] x", "0.10.1", "0.10.0"),
    ("(EngineCore_DP0 pid=1) INFO 01-24 10:22:37 [core.py:452] x", "0.11.0", "0.10.1"),
    ("(EngineCore pid=1) INFO 01-24 10:22:37 [core.py:452] x", "0.18.0", "0.17.1"),
    ("(Worker_TP0 pid=1) INFO 01-24 10:22:37 [core.py:452] x", "0.10.2", "0.10.1"),
]


@pytest.mark.parametrize(("line", "inside", "outside"), SHAPES, ids=[line[:40] for line, _, _ in SHAPES])
def test_the_shape_of_headers_narrows_the_version(line, inside, outside):
    from packaging.specifiers import SpecifierSet

    run = run_of(line + "\n")
    assert run.vllm_version is None
    assert run.versions_possible is not None
    allowed = [SpecifierSet(part) for part in run.versions_possible.split("||")]
    assert any(inside in spec for spec in allowed)
    assert not any(outside in spec for spec in allowed)


def test_two_shapes_narrow_further():
    run = run_of(
        "(APIServer pid=1) INFO 01-24 10:22:37 [a.py:1] x\n(EngineCore_0 pid=2) INFO 01-24 10:22:37 [b.py:1] y\n"
    )
    assert run.versions_possible == ">=0.10.1,<0.10.2"


def test_a_log_without_any_header_allows_every_version():
    assert (
        run_of(
            'Traceback (most recent call last):\n  File "x", line 1, in f\nRuntimeError: it broke for good\n'
        ).versions_possible
        is None
    )


def test_a_later_start_is_the_same_installation():
    p = Printer(BY_VERSION["0.11.0"]).start().access()
    p.loose("$ vllm serve m")
    p.loose("(EngineCore_DP0 pid=77) ERROR 04-03 09:20:00 [core.py:1] RuntimeError: it broke for good")
    runs = diagnose(RULES, p.text).summary.runs
    assert [run.vllm_version for run in runs] == ["0.11.0", "0.11.0"]


def test_the_option_wins_over_the_log():
    assert run_of(Printer(BY_VERSION["0.11.0"]).start().text, version="0.12.0").vllm_version == "0.12.0"


def test_a_forks_version_is_kept_as_it_is_printed():
    line = "INFO 09-05 06:18:13 [api_server.py:1896] vLLM API server version 0.11.1.dev12+g123abc\n"
    assert run_of(line).vllm_version == "0.11.1.dev12+g123abc"


# --- numbers -----------------------------------------------------------------------------------------------------------


def test_numbers_of_a_start_are_facts():
    facts = run_of(Printer(BY_VERSION["0.24.0"]).start().text).facts
    wanted = {
        "log.weights": pytest.approx(14.2487 * GIB),
        "log.kv_memory": pytest.approx(52.4 * GIB),
        "log.kv_tokens": 981136,
        "log.concurrency": 29.94,
        "log.max_model_len": 32768,
        "log.max_num_batched_tokens": 8192,
        "log.capture_seconds": 7,
        "log.graph_memory": pytest.approx(0.95 * GIB),
        "log.init_seconds": 45.99,
        "log.architecture": "Qwen2ForCausalLM",
        "log.engine": "V1",
        "log.device": "cuda",
    }
    assert {name: facts.get(name) for name in wanted} == wanted


def test_the_v0_memory_profile_is_read():
    facts = run_of(Printer(BY_VERSION["0.7.3"]).start().text).facts
    assert facts["card.total"] == pytest.approx(79.10 * GIB)
    assert facts["log.activation_peak"] == pytest.approx(4.35 * GIB)
    assert facts["log.budget"] == pytest.approx(71.19 * GIB)
    assert facts["log.kv_blocks"] == 61321


def test_the_tightest_rank_decides_the_memory():
    head = "INFO 01-24 10:22:37 [gpu_worker.py:298] Available KV cache memory:"
    log = "".join(
        f"(Worker_TP{rank} pid={rank + 1}) {head} {size} GiB\n" for rank, size in enumerate((21.3, 19.8, 21.3, 20.1))
    )
    assert run_of(log).facts["log.kv_memory"] == pytest.approx(19.8 * GIB)


def test_the_last_statistics_line_is_the_state():
    p = Printer(BY_VERSION["0.24.0"]).start()
    p.statistics(running=9, waiting=4, usage=97.1).wait(10).statistics(running=2, waiting=1, usage=96.0)
    facts = run_of(p.text).facts
    assert (facts["log.running"], facts["log.waiting"]) == (2, 1)


def test_each_start_has_its_own_facts():
    p = Printer(BY_VERSION["0.24.0"]).start(4096)
    p.access()
    q = Printer(p.age, now=p.now, out=p.out, pids={API: 800, CORE: 801}).start(8192)
    runs = diagnose(RULES, q.text).summary.runs
    assert [run.args["max_model_len"] for run in runs] == [4096, 8192]


def test_implausible_numbers_are_unknown():
    """`17179869184.00 GiB` is an underflow, not a card."""
    log = "INFO 01-24 10:22:37 [gpu_worker.py:298] Available KV cache memory: 17179869184.00 GiB\n"
    assert "log.kv_memory" not in run_of(log).facts

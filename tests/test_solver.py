"""The memory sums against vLLM's own formula, its printed estimates and what users found to work."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from vlogdiag.catalog import Versions
from vlogdiag.cli import application
from vlogdiag.loading import load
from vlogdiag.pipeline import Pipeline
from vlogdiag.solver.profile import MemoryProfile, profile_of
from vlogdiag.solver.sizing import estimated_profile, parameters
from vlogdiag.solver.sums import Change, longest_context, minimal_utilization, what_if

GIB = 2**30
RULES = load()


def vllm_fits(kv_memory: float, length: int, per_token: float, block: int = 16) -> bool:
    """vLLM's check (`v1/core/kv_cache_utils.py`): one request of full length, in whole blocks, must fit."""
    return math.ceil(length / block) * block * per_token <= kv_memory


def vllm_longest(kv_memory: float, per_token: float, block: int = 16) -> int:
    """vLLM's `estimate_max_model_len`: the largest length that passes the check."""
    return int(kv_memory // (block * per_token)) * block


# Model families: 2 (key and value) x layers x KV heads x head size x 2 bytes, from their config.json.
PER_TOKEN = {
    "Qwen3-8B": 2 * 36 * 8 * 128 * 2,
    "Qwen3-VL-8B": 2 * 36 * 8 * 128 * 2,
    "Qwen2.5-7B": 2 * 28 * 4 * 128 * 2,
    "Qwen2.5-VL-72B": 2 * 80 * 8 * 128 * 2,
    "Llama-3.1-8B": 2 * 32 * 8 * 128 * 2,
    "Llama-3.1-70B/tp4": 2 * 80 * 2 * 128 * 2,
    "Mistral-7B": 2 * 32 * 8 * 128 * 2,
    "Phi-4": 2 * 40 * 10 * 128 * 2,
    "Gemma-2-9B": 2 * 42 * 8 * 256 * 2,
}
KNOWN = [
    # model, context asked, KV memory left (GiB): what a start prints, by the formula above
    ("Qwen3-8B", 40960, 4.00),
    ("Qwen3-8B", 131072, 9.83),
    ("Qwen3-VL-8B", 262144, 3.18),
    ("Qwen3-VL-8B", 262144, 21.40),
    ("Qwen2.5-7B", 32768, 1.02),
    ("Qwen2.5-7B", 131072, 5.77),
    ("Qwen2.5-VL-72B", 128000, 12.51),
    ("Llama-3.1-8B", 131072, 6.96),
    ("Llama-3.1-8B", 131072, 15.31),
    ("Llama-3.1-70B/tp4", 131072, 7.75),
    ("Mistral-7B", 32768, 2.24),
    ("Phi-4", 16384, 1.90),
    ("Gemma-2-9B", 8192, 1.35),
    ("Gemma-2-9B", 8192, 0.61),
    ("Qwen3-8B", 32768, 0.44),
]


def too_small(version: str, length: int, needed: float, available: float, estimate: int | None) -> str:
    """A failed start of V1 as vLLM prints it."""
    hint = f"Based on the available memory, the estimated maximum model length is {estimate}. " if estimate else ""
    return (
        f"(APIServer pid=1) INFO 11-30 23:22:04 [api_server.py:1839] vLLM API server version {version}\n"
        f"(APIServer pid=1) INFO 11-30 23:22:04 [utils.py:233] non-default args: {{'model': 'm', 'max_model_len': {length}}}\n"
        f"(EngineCore_DP0 pid=9) INFO 11-30 23:22:10 [gpu_worker.py:298] Available KV cache memory: {available / GIB:.2f} GiB\n"
        "(EngineCore_DP0 pid=9) ERROR 11-30 23:22:11 [core.py:708] EngineCore failed to start.\n"
        "(EngineCore_DP0 pid=9) ERROR 11-30 23:22:11 [core.py:708] Traceback (most recent call last):\n"
        f"(EngineCore_DP0 pid=9) ERROR 11-30 23:22:11 [core.py:708] ValueError: To serve at least one request with the models's max seq len ({length}), "
        f"({needed / GIB:.2f} GiB KV cache is needed, which is larger than the available KV cache memory ({available / GIB:.2f} GiB). {hint}"
        "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
    )


def profile_from(log: str) -> MemoryProfile:
    pipeline = Pipeline(RULES, source="x")
    pipeline.feed(log.encode())
    result = pipeline.close()
    return profile_of(result.summary.runs[-1], result.findings)


@pytest.mark.parametrize(("model", "length", "left"), KNOWN)
@pytest.mark.parametrize("printed", [True, False])
def test_the_longest_context_is_within_three_per_cent_and_on_the_safe_side(
    model: str, length: int, left: float, printed: bool
) -> None:
    per_token = PER_TOKEN[model]
    available = left * GIB
    needed = math.ceil(length / 16) * 16 * per_token
    truth = vllm_longest(available, per_token)
    profile = profile_from(too_small("0.11.0", length, needed, available, truth if printed else None))
    found = longest_context(profile)
    assert found is not None
    if printed:
        assert found == truth  # vLLM's own figure, from numbers it did not round
    # Two printed decimals bound what can be known: half a hundredth of a GiB on either side.
    rounding = 0.005 * GIB / per_token + 0.005 / (needed / GIB) * truth
    assert found <= truth + 16 + rounding
    assert found >= truth * 0.97 - 16


def test_v0_says_the_tokens_themselves() -> None:
    profile = profile_from(
        "INFO 11-30 23:22:04 api_server.py:526] vLLM API server version 0.6.2\n"
        "INFO 11-30 23:22:04 api_server.py:527] args: Namespace(model='m', max_model_len=131072, gpu_memory_utilization=0.9)\n"
        "ERROR 11-30 23:22:11 engine.py:366] ValueError: The model's max seq len (131072) is larger than the maximum number of "
        "tokens that can be stored in KV cache (86432). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.\n"
    )
    assert longest_context(profile) == 86432


@given(
    per_token=st.sampled_from(sorted(PER_TOKEN.values())),
    length=st.integers(1, 300_000),
    kv=st.floats(0.05, 120),
    block=st.sampled_from([1, 8, 16, 32, 64, 128]),
)
def test_what_it_says_fits_fits_by_vllms_formula(per_token: int, length: int, kv: float, block: int) -> None:
    profile = MemoryProfile(
        Versions.exact("0.11.0"),
        kv_memory=kv * GIB,
        bytes_per_token=float(per_token),
        max_model_len=length,
        block=block,
    )
    longest = longest_context(profile)
    assert longest is not None and longest % block == 0
    assert longest == 0 or vllm_fits(kv * GIB, longest, per_token, block)
    assert not vllm_fits(kv * GIB, longest + block, per_token, block)
    estimate = what_if(profile, Change())
    assert estimate.fits is (longest >= length)
    if estimate.fits:
        assert vllm_fits(kv * GIB, length, per_token, block)


@given(
    total=st.floats(8, 192),
    utilization=st.floats(0.3, 0.95),
    used_share=st.floats(0.1, 0.95),
    per_token=st.sampled_from(sorted(PER_TOKEN.values())),
    length=st.integers(16, 200_000),
)
def test_the_utilisation_it_names_is_enough_and_one_per_cent_less_is_not(
    total: float, utilization: float, used_share: float, per_token: int, length: int
) -> None:
    used = utilization * total * GIB * used_share
    kv = utilization * total * GIB - used
    profile = MemoryProfile(
        Versions.exact("0.11.0"),
        total=total * GIB,
        utilization=utilization,
        kv_memory=kv,
        bytes_per_token=float(per_token),
    )
    least = minimal_utilization(profile, length)
    assert least is not None
    assert what_if(profile, Change(max_model_len=length, utilization=least)).fits is True
    assert not vllm_fits((least - 0.011) * total * GIB - used, length, per_token)


@given(tp=st.sampled_from([1, 2, 4, 8]), more=st.sampled_from([2, 4]), kv=st.floats(1, 30), weights=st.floats(4, 40))
def test_more_ranks_never_hold_fewer_tokens(tp: int, more: int, kv: float, weights: float) -> None:
    total = (kv + weights + 4) * GIB / 0.9
    profile = MemoryProfile(
        Versions.exact("0.11.0"), total=total, utilization=0.9, weights=weights * GIB, kv_memory=kv * GIB,
        bytes_per_token=147456.0, max_model_len=8192, tensor_parallel=tp,
    )  # fmt: skip
    before, after = what_if(profile, Change()), what_if(profile, Change(tensor_parallel=tp * more))
    assert before.kv_tokens is not None and after.kv_tokens is not None and after.kv_tokens >= before.kv_tokens


def test_fp8_doubles_the_tokens_and_says_so() -> None:
    profile = MemoryProfile(Versions.exact("0.11.0"), kv_memory=4 * GIB, bytes_per_token=147456.0, max_model_len=40960)
    plain, small = what_if(profile, Change()), what_if(profile, Change(kv_dtype="fp8"))
    assert plain.kv_tokens is not None and small.kv_tokens is not None
    assert abs(small.kv_tokens - 2 * plain.kv_tokens) <= 32
    assert any("one byte in fp8" in text for text in small.assumptions)


def test_what_the_log_does_not_hold_is_unknown_not_guessed() -> None:
    estimate = what_if(MemoryProfile(Versions.all()), Change(max_model_len=8192))
    assert (estimate.fits, estimate.kv_tokens, estimate.concurrency) == (None, None, None)


def test_another_card_needs_the_memory_profile() -> None:
    known = MemoryProfile(Versions.exact("0.11.0"), kv_memory=4 * GIB, bytes_per_token=147456.0, max_model_len=8192)
    assert what_if(known, Change(card=80 * GIB)).fits is None


def test_graphs_outside_the_budget_are_pointed_out_before_0_20() -> None:
    profile = MemoryProfile(
        Versions.exact("0.11.0"), total=24 * GIB, utilization=0.9, kv_memory=4 * GIB, bytes_per_token=147456.0,
        max_model_len=8192, graphs=1.5 * GIB,
    )  # fmt: skip
    assert "CUDA graphs take 1.50 GiB outside the budget" in (what_if(profile, Change(utilization=0.95)).hint or "")
    inside = MemoryProfile(
        Versions.exact("0.22.0"), total=24 * GIB, utilization=0.92, kv_memory=4 * GIB, graphs=1.5 * GIB
    )
    assert what_if(inside, Change(utilization=0.95)).hint is None


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", 8),
        ("Qwen/Qwen2.5-0.5B", 0.5),
        ("/models/Llama-3.3-70B-Instruct-AWQ", 70),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 30),
        ("meta-llama/Llama-3.2-1B", 1),
        ("mistralai/Pixtral-Large-Instruct-2411", None),
        ("opt", None),
    ],
)
def test_the_name_says_the_size_or_nothing(name: str, billions: float | None) -> None:
    assert parameters(name) == billions


def test_an_8b_vision_model_needs_more_than_16_gib_in_16_bit_and_fits_quantised() -> None:
    versions = Versions.exact("0.11.0")
    whole = estimated_profile("Qwen/Qwen3-VL-8B-Instruct", 16 * GIB, versions, max_model_len=8192)
    small = estimated_profile("Qwen/Qwen3-VL-8B-Instruct-AWQ", 16 * GIB, versions, max_model_len=8192)
    large = estimated_profile("Qwen/Qwen3-VL-8B-Instruct", 24 * GIB, versions, max_model_len=8192)
    assert whole is not None and small is not None and large is not None
    assert what_if(whole, Change()).fits is False
    assert what_if(small, Change()).fits is True
    assert what_if(large, Change()).fits is True


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(application(), ["whatif", *words])
    return result.exit_code, result.stdout


def test_the_command_answers_as_data(tmp_path: object) -> None:
    log = tmp_path / "vllm.log"  # type: ignore[operator]
    log.write_text(too_small("0.11.0", 131072, 18 * GIB, 9.83 * GIB, 71568))
    status, text = run(str(log), "--max-model-len", "65536", "--json")
    data = json.loads(text)
    assert status == 0 and data["fits"] is True and data["kv_tokens"] == 71568 and data["max_model_len"] == 65536
    assert run(str(log), "--max-model-len", "131072")[0] == 1
    assert run("--model", "Qwen/Qwen3-VL-8B-Instruct", "--card", "24GiB", "--max-model-len", "8192")[0] == 0


def test_bad_input_is_a_sentence_and_a_status(tmp_path: object) -> None:
    assert run("--model", "m")[0] == 2
    assert run("--model", "opt", "--card", "24GiB")[0] == 3
    assert run("--model", "m-8B", "--card", "huge")[0] == 2
    assert run(str(tmp_path / "missing.log"))[0] == 3  # type: ignore[operator]


STORY = Path(__file__).parent.parent / "docs" / "story" / "before.log"
SAMPLES = Path(__file__).parent.parent / "sample_logs"


@pytest.mark.parametrize(
    "options",
    [
        ("--card", "80GiB", "--max-model-len", "131072"),
        ("--gpu-memory-utilization", "0.95"),
        ("-tp", "2"),
        ("--kv-cache-dtype", "nvfp4"),
        ("--max-num-batched-tokens", "65536", "--max-model-len", "8192"),
        ("--max-num-seqs", "4096", "--max-model-len", "8192"),
    ],
    ids=lambda options: options[0],
)
def test_a_figure_of_the_old_set_up_is_none_of_the_new_one(options: tuple[str, ...]) -> None:
    """The log holds no memory profile: what another card, share or type comes to cannot be told."""
    status, text = run(str(STORY), *options)
    assert status == 3 and text.startswith("cannot be told: ")
    if "--max-model-len" not in options[:1] and not options[0].startswith("--max-num"):
        assert "tokens =" not in text and "20896" not in text


def test_tokens_that_vllm_counted_hold_only_for_its_own_set_up() -> None:
    counted = MemoryProfile(Versions.exact("0.6.2"), kv_tokens=86432, max_model_len=131072)
    assert what_if(counted, Change()).kv_tokens == 86432
    for change in (Change(kv_dtype="fp8"), Change(tensor_parallel=2), Change(card=80 * GIB), Change(utilization=0.95)):
        assert what_if(counted, change).kv_tokens is None


def test_the_bytes_of_an_oom_are_no_context_length() -> None:
    status, text = run(str(SAMPLES / "sampler-three-starts.log"))
    assert (status, text.splitlines()[0]) == (0, "fits: a context of 32768 tokens")


def test_one_log_at_a_time(tmp_path: Path) -> None:
    assert run(str(SAMPLES))[0] == 2
    assert run("")[0] == 3


@pytest.mark.parametrize(
    "options",
    [
        ("--max-model-len", "9" * 400),
        ("--max-num-seqs", "9" * 400),
        ("--max-num-batched-tokens", "9" * 400),
        ("-tp", "9" * 400),
        ("--gpu-memory-utilization", "nan"),
        ("--kv-cache-dtype", "bogus"),
        ("--kv-cache-dtype", "fp8_ds_mla", "--vllm-version", "0.11.0"),
        ("--model", "m-8B"),
    ],
    ids=lambda options: options[0] + options[1][:9],
)
def test_numbers_and_types_that_nobody_means_are_usage_errors(options: tuple[str, ...]) -> None:
    assert run(str(STORY), *options)[0] == 2


def test_a_size_that_no_model_has_is_unknown() -> None:
    assert run("--model", f"Qwen3-{'9' * 400}B", "--card", "80GiB")[0] == 3
    assert run("--model", "m-8B", "--card", "80GiB", "--run", "2")[0] == 2

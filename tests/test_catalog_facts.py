"""Every row of sections 1 and 2 of the facts about vLLM, held against the catalogue."""

from __future__ import annotations

import pytest

from vlogdiag import catalog
from vlogdiag.catalog import Versions
from vlogdiag.catalog.lookup import metric_entries

ALL = "0.4.0.."


def since_until(text: str) -> Versions:
    return Versions.of(text)


FLAGS = [
    ("--gpu-memory-utilization", ALL),
    ("--device-memory-utilization", "0.31.0.."),
    ("--max-model-len", ALL),
    ("--enforce-eager", ALL),
    ("--no-enforce-eager", "0.9.0.."),
    ("--kv-cache-dtype", ALL),
    ("--max-num-batched-tokens", ALL),
    ("--max-num-seqs", ALL),
    ("--disable-log-stats", ALL),
    ("--disable-log-requests", "0.4.0..0.16.0,0.33.0.."),
    ("--enable-log-requests", "0.10.1.."),
    ("--block-size", ALL),
    ("--swap-space", "0.4.0..0.17.1"),
    ("--cpu-offload-gb", "0.5.3.."),
    ("--limit-mm-per-prompt", "0.5.5.."),
    ("--mm-processor-kwargs", "0.6.2.."),
    ("--trust-request-mm-kwargs", "0.31.0.."),
    ("--mm-encoder-tp-mode", "0.10.2.."),
    ("--enable-multimodal-encoder-data-parallel", "0.9.1..0.12.0"),
    ("--skip-mm-profiling", "0.10.1.."),
    ("--mm-processor-cache-gb", "0.10.1.."),
    ("--disable-mm-preprocessor-cache", "0.6.6..0.12.0"),
    ("--quantization", ALL),
    ("--tensor-parallel-size", ALL),
    ("-tp", ALL),
    ("--distributed-executor-backend", "0.4.3.."),
    ("--disable-custom-all-reduce", ALL),
    ("--compilation-config", "0.6.5.."),
    ("-cc", "0.12.0.."),
    ("--optimization-level", "0.12.0.."),
    ("--cudagraph-capture-sizes", "0.11.1.."),
    ("--cuda-graph-sizes", "0.9.0..0.12.0"),
    ("--max-cudagraph-capture-size", "0.11.1.."),
    ("--calculate-kv-scales", "0.7.0..0.27.1"),
    ("--preemption-mode", "0.5.1..0.10.2"),
    ("--preemption_mode", "0.5.0..0.5.0.post1"),
    ("--kv-cache-memory-bytes", "0.10.2.."),
    ("--kv-offloading-size", "0.11.1.."),
    ("--enable-chunked-prefill", ALL),
    ("--async-scheduling", "0.10.0.."),
    ("--allowed-local-media-path", "0.6.4.."),
    ("--attention-backend", "0.13.0.."),
    ("--no-enable-prefix-caching", "0.6.5.."),
    ("--no-enable-chunked-prefill", "0.8.5.."),
    ("--disable-chunked-prefill", "0.33.0.."),
    ("--disable-prefix-caching", "0.33.0.."),
    ("--enable-custom-all-reduce", "0.33.0.."),
]


@pytest.mark.parametrize(("name", "where"), FLAGS)
def test_an_option_exists_in_exactly_these_releases(name: str, where: str) -> None:
    assert catalog.flag(name, Versions.all()).present.words() == Versions.of(where).words()


@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        ("--gpu-mem-util", "--gpu-memory-utilization"),
        ("--request-timeout", None),
        ("--health-check-interval", None),
    ],
)
def test_an_option_that_tutorials_name_never_existed(name: str, replacement: str | None) -> None:
    answer = catalog.flag(name, Versions.all())
    assert (answer.exists, answer.never, answer.replacement) == (False, True, replacement)
    assert answer.source
    assert not catalog.knows_flag(name)
    for release in catalog.releases():
        assert catalog.resolve(name, Versions.exact(release)).kind == "never"


DEFAULTS = [
    ("--gpu-memory-utilization", "..0.19.1", 0.9),
    ("--gpu-memory-utilization", "0.20.0..", 0.92),
    ("--max-num-seqs", "..0.6.4.post1", 256),
    ("--max-num-seqs", "0.6.5..", None),
    ("--block-size", "..0.6.4.post1", 16),
    ("--block-size", "0.6.5..", None),
    ("--swap-space", "..0.17.1", 4),
    ("--cpu-offload-gb", "0.5.3..", 0),
    ("--mm-encoder-tp-mode", "0.10.2..", "weights"),
    ("--mm-processor-cache-gb", "0.10.1..", 4),
    ("--tensor-parallel-size", "..", 1),
    ("--enable-log-requests", "0.10.1..", False),
    ("--async-scheduling", "0.10.0..0.13.0", False),
    ("--async-scheduling", "0.14.0..", None),
]


@pytest.mark.parametrize(("name", "where", "value"), DEFAULTS)
def test_a_default_holds_in_each_of_these_releases(name: str, where: str, value: object) -> None:
    for release in Versions.of(where):
        assert catalog.default(name, Versions.exact(release)) == value, release


VALUES = [
    ("--max-model-len", "auto", "0.14.0.."),
    ("--max-model-len", "-1", "0.14.0.."),
    ("--max-model-len", "32k", "0.8.4.."),
    ("--max-num-batched-tokens", "4k", "0.9.1.."),
    ("--kv-cache-memory-bytes", "4G", "0.10.2.."),
    ("--kv-cache-dtype", "fp8", "0.4.1.."),
    ("--kv-cache-dtype", "fp8_e4m3", "0.4.3.."),
    ("--kv-cache-dtype", "fp8_e5m2", "0.4.0..0.4.0.post1,0.4.3.."),
    ("--kv-cache-dtype", "fp8_e4m3fn", ""),
    ("--kv-cache-dtype", "fp8_per_token_head", "0.20.0.."),
    ("--block-size", "1", "0.8.5.."),
    ("--block-size", "16", ALL),
    ("--block-size", "256", "0.5.5,0.11.1.."),
    ("--block-size", "48", "0.18.0.."),
    ("--limit-mm-per-prompt", "image=2,video=0", "0.5.5..0.9.2"),
    ("--limit-mm-per-prompt", '{"image": 2}', "0.8.5.."),
    ("--mm-encoder-tp-mode", "data", "0.10.2.."),
    ("--distributed-executor-backend", "ray", "0.4.3.."),
    ("--distributed-executor-backend", "mp", "0.4.3.."),
    ("--distributed-executor-backend", "uni", "0.7.0.."),
    ("--distributed-executor-backend", "external_launcher", "0.7.0.."),
    ("--compilation-config", "3", "0.6.5..0.9.1"),
    ("--compilation-config", '{"level": 3}', "0.6.5..0.17.1"),
    ("--quantization", "gptq", ALL),
    ("--quantization", "awq", ALL),
    ("--quantization", "nosuchmethod", "0.9.2.."),
    ("--enforce-eager", "true", ""),
    ("--enable-chunked-prefill", "false", "0.4.0..0.4.0.post1,0.5.3..0.8.4"),
]


@pytest.mark.parametrize(("name", "value", "where"), VALUES)
def test_a_value_is_taken_by_exactly_these_releases(name: str, value: str, where: str) -> None:
    wanted = Versions.of(where) if where else Versions.none()
    present = catalog.flag(name, Versions.all()).present
    taken = [release for release in present if catalog.value_allowed(name, value, Versions.exact(release))]
    assert taken == list(wanted)


def test_quantisation_methods_that_were_dropped_are_refused_since_then() -> None:
    for method, last, first in (("gguf", "0.23.0", "0.24.0"), ("bitsandbytes", "0.27.1", "0.28.0")):
        assert catalog.value_allowed("--quantization", method, Versions.exact(last)) is True
        assert catalog.value_allowed("--quantization", method, Versions.exact(first)) is False


ABBREVIATIONS = [
    ("--gpu-memory-util", "--gpu-memory-utilization", ".."),
    ("--gpu-mem", "--gpu-memory-utilization", ".."),
    ("--kv-cache-memory", "--kv-cache-memory-bytes", "0.10.2.."),
]


@pytest.mark.parametrize(("text", "canonical", "where"), ABBREVIATIONS)
def test_a_unique_prefix_stands_for_its_option(text: str, canonical: str, where: str) -> None:
    for release in Versions.of(where):
        found = catalog.resolve(text, Versions.exact(release))
        assert (found.kind, found.canonical) == ("abbreviation", canonical), release


def test_an_ambiguous_prefix_is_said_to_be_one() -> None:
    found = catalog.resolve("--device", Versions.exact("0.32.0"))
    assert found.kind == "ambiguous"
    assert "--device-ids" in found.candidates


def test_underscores_are_taken_for_dashes_from_0_5_1() -> None:
    for release in catalog.releases():
        taken = catalog.resolve("--max_model_len", Versions.exact(release)).kind == "exact"
        assert taken == (release in Versions.of("0.5.1..")), release


def test_dotted_json_is_understood_from_0_9_0() -> None:
    for release in Versions.of("0.5.5.."):
        found = catalog.resolve("--limit-mm-per-prompt.image", Versions.exact(release))
        assert (found.kind == "exact") == (release in Versions.of("0.9.0..")), release
        assert (found.canonical, found.dotted) == ("--limit-mm-per-prompt", "image")


def test_dash_o_changes_its_meaning_in_0_12_0() -> None:
    for release in Versions.of("0.6.5.."):
        meaning = catalog.resolve("-O3", Versions.exact(release))
        wanted = "--optimization-level" if release in Versions.of("0.12.0..") else "--compilation-config"
        assert (meaning.kind, meaning.canonical) == ("exact", wanted), release
        dotted = catalog.resolve("-O.level", Versions.exact(release)).kind
        assert (dotted == "exact") == (release in Versions.of("0.9.2..0.12.0")), release
        assert (catalog.resolve("-cc.mode", Versions.exact(release)).kind == "exact") == (
            release in Versions.of("0.12.0..")
        )


MAPPINGS = [("0.5.5..0.8.4", "image=2,video=0"), ("0.8.5..", '{"image": 2, "video": 0}')]


@pytest.mark.parametrize(("where", "spelled"), MAPPINGS)
def test_a_mapping_is_spelled_as_the_release_takes_it(where: str, spelled: str) -> None:
    for release in Versions.of(where):
        version = Versions.exact(release)
        text = catalog.spell_mapping("--limit-mm-per-prompt", {"image": 2, "video": 0}, version)
        assert text == spelled
        assert catalog.value_allowed("--limit-mm-per-prompt", text, version)


EFFECTS = [
    ("--disable-log-requests", "0.4.0..0.10.0", True),
    ("--disable-log-requests", "0.10.1..0.16.0", False),
    ("--disable-log-requests", "0.33.0..", True),
    ("--swap-space", "0.4.0..0.10.2", True),
    ("--swap-space", "0.11.0..0.17.1", False),
    ("--calculate-kv-scales", "0.7.0..0.27.1", True),
]


@pytest.mark.parametrize(("name", "where", "effective"), EFFECTS)
def test_what_is_accepted_without_effect_is_known(name: str, where: str, effective: bool) -> None:
    for release in Versions.of(where):
        assert catalog.flag(name, Versions.exact(release)).effective is effective, release


DEPRECATED = [
    ("--disable-log-requests", "0.10.1..0.16.0"),
    ("--disable-mm-preprocessor-cache", "0.10.1..0.12.0"),
    ("--calculate-kv-scales", "0.19.0..0.27.1"),
    ("--cuda-graph-sizes", "0.11.1..0.12.0"),
]


@pytest.mark.parametrize(("name", "where"), DEPRECATED)
def test_what_is_deprecated_is_known(name: str, where: str) -> None:
    for release in catalog.flag(name, Versions.all()).present:
        wanted = release in Versions.of(where)
        assert catalog.flag(name, Versions.exact(release)).deprecated is wanted, release


REPLACEMENTS = [
    ("--gpu-mem-util", "0.4.0..", "--gpu-memory-utilization"),
    ("--cudagraph-capture-sizes", "0.9.0..0.11.0", "--cuda-graph-sizes"),
    ("--cuda-graph-sizes", "0.13.0..", "--cudagraph-capture-sizes"),
    ("--disable-chunked-prefill", "0.8.5..0.32.0", "--no-enable-chunked-prefill"),
    ("--device-memory-utilization", "..0.30.0", "--gpu-memory-utilization"),
]


@pytest.mark.parametrize(("name", "where", "other"), REPLACEMENTS)
def test_a_counterpart_with_the_same_value_exists_where_it_is_named(name: str, where: str, other: str) -> None:
    versions = Versions.of(where)
    assert catalog.counterpart(name, versions) == other
    assert catalog.flag(other, versions).exists is True


INSTEAD = [
    ("--swap-space", "0.18.0", "--kv-offloading-size"),
    ("--mm-encoder-tp-mode", "0.9.2", "--enable-multimodal-encoder-data-parallel"),
    ("--disable-mm-preprocessor-cache", "0.13.0", "--mm-processor-cache-gb 0"),
    ("--distributed-executor-backend", "0.4.2", "--worker-use-ray"),
    ("--disable-log-requests", "0.20.0", "--no-enable-log-requests"),
    ("--calculate-kv-scales", "0.28.0", "fp8_per_token_head"),
    ("--preemption-mode", "0.11.0", "nothing"),
]


@pytest.mark.parametrize(("name", "release", "words"), INSTEAD)
def test_what_to_write_instead_is_said(name: str, release: str, words: str) -> None:
    assert words in (catalog.flag(name, Versions.exact(release)).replacement or "")


VARIABLES = [
    ("VLLM_ENGINE_ITERATION_TIMEOUT_S", "..0.31.0", "..0.10.2"),
    ("VLLM_RPC_TIMEOUT", "0.6.2..0.22.1", "0.6.2..0.10.2"),
    ("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "0.9.2..", "0.9.2.."),
    ("VLLM_ENGINE_READY_TIMEOUT_S", "0.14.0..", "0.14.0.."),
    ("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "0.9.1..", "0.9.1.."),
    ("VLLM_IMAGE_FETCH_TIMEOUT", "0.5.0..", "0.5.0.."),
    ("VLLM_USE_V1", "0.6.4..0.11.0", "0.6.4..0.10.2"),
    ("VLLM_ATTENTION_BACKEND", "0.4.1..0.14.1", "0.4.1..0.14.1"),
]


@pytest.mark.parametrize(("name", "where", "effective"), VARIABLES)
def test_a_variable_is_defined_and_effective_in_exactly_these_releases(name: str, where: str, effective: str) -> None:
    assert catalog.env(name, Versions.all()).present.words() == Versions.of(where).words()
    idle = [r for r in Versions.of(where) if not catalog.env(name, Versions.exact(r)).effective]
    assert idle == list(Versions.of(where) - Versions.of(effective))


ENV_DEFAULTS = [
    ("VLLM_ENGINE_ITERATION_TIMEOUT_S", "0.4.2..0.31.0", 60),
    ("VLLM_RPC_TIMEOUT", "0.6.2..0.22.1", 10000),
    ("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "0.9.2..", 300),
    ("VLLM_ENGINE_READY_TIMEOUT_S", "0.14.0..", 600),
    ("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "0.9.1..", 5),
    ("VLLM_IMAGE_FETCH_TIMEOUT", "0.5.0..", 5),
    ("VLLM_USE_V1", "0.6.4..0.7.3", False),
    ("VLLM_USE_V1", "0.8.0..0.11.0", True),
]


@pytest.mark.parametrize(("name", "where", "value"), ENV_DEFAULTS)
def test_a_variable_has_this_default(name: str, where: str, value: object) -> None:
    for release in Versions.of(where):
        assert catalog.env_default(name, Versions.exact(release)) == value, release


def test_the_attention_backend_variable_names_the_option_that_replaced_it() -> None:
    assert catalog.env("VLLM_ATTENTION_BACKEND", Versions.exact("0.13.0")).deprecated
    assert catalog.env("VLLM_ATTENTION_BACKEND", Versions.exact("0.15.0")).replacement == "--attention-backend"


def test_pytorchs_variable_is_known_and_is_not_vllms() -> None:
    assert catalog.knows_env("PYTORCH_CUDA_ALLOC_CONF")
    answer = catalog.env("PYTORCH_CUDA_ALLOC_CONF", Versions.exact("0.31.0"))
    assert (answer.exists, answer.never) == (False, False)
    assert "PYTORCH_ALLOC_CONF first" in (answer.note or "")
    assert "sleep" in (catalog.env("PYTORCH_CUDA_ALLOC_CONF", Versions.exact("0.12.0")).note or "")


ENDPOINTS = [
    ("/stats", ""),
    ("/metrics", ALL),
    ("/health", ALL),
    ("/version", ALL),
    ("/ping", "0.7.0.."),
    ("/load", "0.8.0.."),
    ("/server_info", "0.8.5.."),
]


@pytest.mark.parametrize(("path", "where"), ENDPOINTS)
def test_an_endpoint_exists_in_exactly_these_releases(path: str, where: str) -> None:
    answer = catalog.endpoint(path, Versions.all())
    assert list(answer.present) == list(Versions.of(where) if where else Versions.none())
    assert answer.never is (where == "")


METRICS = [
    ("vllm:num_requests_running", ALL),
    ("vllm:num_requests_waiting", ALL),
    ("vllm:e2e_request_latency_seconds", ALL),
    ("vllm:e2e_request_latency_seconds_sum", ALL),
    ("vllm:time_to_first_token_seconds", ALL),
    ("vllm:num_requests_swapped", "..0.8.2"),
    ("vllm:cpu_cache_usage_perc", "..0.8.2"),
    ("vllm:gpu_cache_usage_perc", "..0.10.2"),
    ("vllm:kv_cache_usage_perc", "0.9.2.."),
    ("vllm:num_preemptions_total", "0.4.3.."),
    ("vllm:time_per_output_token_seconds", "..0.11.2"),
    ("vllm:inter_token_latency_seconds", "0.10.2.."),
    ("vllm:avg_prompt_throughput_toks_per_s", "..0.6.6.post1"),
    ("vllm:request_queue_time_seconds", "0.6.4.."),
    ("vllm:num_requests_waiting_by_reason", "0.20.0.."),
]


@pytest.mark.parametrize(("name", "where"), METRICS)
def test_a_metric_is_visible_in_exactly_these_releases(name: str, where: str) -> None:
    assert catalog.metric(name, Versions.all()).present.words() == Versions.of(where).words()


HIDDEN = [
    ("vllm:num_requests_swapped", "0.8.3..0.9.0.1"),
    ("vllm:cpu_cache_usage_perc", "0.8.3..0.9.0.1"),
    ("vllm:gpu_cache_usage_perc", "0.11.0..0.11.2"),
    ("vllm:time_per_output_token_seconds", "0.12.0..0.14.1"),
]


@pytest.mark.parametrize(("name", "where"), HIDDEN)
def test_a_metric_is_declared_but_hidden_in_exactly_these_releases(name: str, where: str) -> None:
    entries, _ = metric_entries(name)
    assert [Versions(entry.where).words() for entry in entries if entry.hidden] == [Versions.of(where).words()]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("vllm:engine_queue_size", "vllm:num_requests_waiting"),
        ("vllm:request_latency_seconds", "vllm:e2e_request_latency_seconds"),
        ("vllm:request_latency_seconds_sum", "vllm:e2e_request_latency_seconds"),
    ],
)
def test_a_metric_that_dashboards_name_never_existed(name: str, other: str) -> None:
    answer = catalog.metric(name, Versions.all())
    assert (answer.exists, answer.never, answer.replacement) == (False, True, other)

"""Messages in the words of other releases, and typed again without their punctuation: a rule knows them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from regression_logs import report

RULES = Path(__file__).parent.parent / "rules"

CORE = "(EngineCore pid=229) ERROR 11-30 15:05:56 [core.py:1197] ValueError: "
RETYPED = [
    ("kv-cache-too-small", "max seq len (1048576), 22.5 GiB KV cache is needed, which is larger than the available KV "
     "cache memory (17.39 GiB)"),
    ("kv-cache-too-small", "max seq len 1048576, 22.5 GiB KV cache is needed, larger than the available KV cache memory: "
     "17.39 GiB"),
    ("kv-cache-too-small", "max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache: 86432"),
    ("batched-tokens-below-max-num-seqs", "max_num_batched_tokens 64 must be greater than or equal to max_num_seqs 256"),
    ("batched-tokens-below-max-model-len", "max_num_batched_tokens 2048 is smaller than max_model_len 8192."),
    ("max-model-len-beyond-model", "User-specified max_model_len 65536 is greater than the derived max_model_len 32768"),
    ("mamba-blocks-too-few", "max_num_seqs 1024 exceeds available Mamba cache blocks 379."),
    ("tp-heads-not-divisible", "Total number of attention heads 14 must be divisible by tensor parallel size 4"),
    ("world-size-above-gpus", "World size 4 is larger than the number of available GPUs 2 in this node."),
    ("lora-rank-not-allowed", "max_lora_rank 48 must be one of 8, 16, 32, 64, 128, 256"),
    ("no-kv-cache-room", "No available memory for the cache blocks"),
    ("multimodal-options-on-text-model", "limit_mm_per_prompt is only supported for multimodal models"),
]  # fmt: skip
"""What people type again by hand or read off a screen: brackets, backticks and full stops are the first to go."""

ALIKE = [
    "max_num_batched_tokens (8192) is large enough for max_num_seqs (256)",
    "max seq len (4096); the KV cache memory available is 17.39 GiB, and 2.5 GiB KV cache is needed",
    "Total number of attention heads 16, tensor parallel size 4",
    "World size 4, number of available GPUs 8 in this node",
    "User-specified max_model_len 4096 is below the derived max_model_len 32768",
]
"""The same words about another matter."""

LOOSE = {
    "batched-tokens-below-item", "batched-tokens-below-max-model-len", "batched-tokens-below-max-num-seqs",
    "kv-cache-too-small", "local-media-path-invalid", "lora-cpu-slots", "mamba-blocks-too-few", "mm-limit-above-model",
    "picture-tokens-cut-off", "tp-heads-not-divisible", "video-frame-rates", "world-size-above-gpus",
}  # fmt: skip
"""Rules whose message means the same without any one of its brackets or backticks."""


@pytest.mark.parametrize(("rule", "message"), RETYPED, ids=lambda value: value[:40])
def test_a_message_typed_again_is_known(rule: str, message: str, tmp_path: Path) -> None:
    assert rule in {finding["id"] for finding in report(CORE + message + "\n", tmp_path)["findings"]}


@pytest.mark.parametrize("message", ALIKE, ids=lambda value: value[:40])
def test_the_same_words_about_another_matter_are_not(message: str, tmp_path: Path) -> None:
    loosened = {rule for rule, _ in RETYPED}
    assert not loosened & {finding["id"] for finding in report(CORE + message + "\n", tmp_path)["findings"]}


def variants() -> Iterator[tuple[str, str]]:
    """Every example of the loosened rules, with one bracket or backtick less in its last line."""
    for path in sorted(RULES.rglob("*.yaml")):
        if path.stem not in LOOSE:
            continue
        for example in yaml.safe_load(path.read_text(encoding="utf-8"))["examples"]["fires"]:
            log, message = example["log"], example["log"].rstrip("\n").rfind("Error: ")
            if "\n" in log.strip() or message < 0:
                continue
            yield from ((path.stem, log[:at] + log[at + 1 :]) for at in range(message, len(log)) if log[at] in "()`")


def test_one_bracket_or_backtick_less_changes_nothing(tmp_path: Path) -> None:
    cases = list(variants())
    assert len(cases) > 40
    silent = {
        f"{rule}: {log}"
        for rule, log in cases
        if rule not in {finding["id"].removesuffix("-cpu") for finding in report(log, tmp_path)["findings"]}
    }
    assert not silent


def test_the_memory_profile_of_newer_releases_is_read(tmp_path: Path) -> None:
    line = (
        "(Worker pid=231) INFO 11-30 15:05:56 [gpu_worker.py:1064] Free memory on device (78.7/79.1 GiB) on startup. "
        "Desired GPU memory utilization is (0.92, 72.77 GiB). Actual usage is 17.5 GiB for consumed memory (weights + "
        "non-torch), 1.25 GiB for peak activation, and 0.5 GiB for CUDAGraph memory. Replace gpu_memory_utilization "
        "config with `--kv-cache-memory=57000000000` (53.09 GiB) to fit into requested memory.\n"
    )
    facts = report(line, tmp_path)["sources"][0]["runs"][0]["facts"]
    assert {"log.activation_peak", "log.graph_memory", "log.budget", "card.total"} <= set(facts)

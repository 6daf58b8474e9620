"""Gathers the numbers of one run's memory from facts, arguments and findings; what was not printed stays unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vlogdiag import catalog
from vlogdiag.catalog import Versions
from vlogdiag.model import Finding, RunSummary

__all__ = ["MemoryProfile", "profile_of"]

BLOCK = 16
"""Tokens of a KV block on CUDA unless the run says otherwise (VLLM-FACTS, `--block-size`)."""


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """One rank's memory; bytes, tokens, shares 0..1. None is unknown; `assumed` names what is a default or a guess."""

    versions: Versions
    total: float | None = None
    free: float | None = None
    utilization: float | None = None
    weights: float | None = None
    activation: float | None = None
    non_torch: float | None = None
    graphs: float | None = None
    kv_memory: float | None = None
    kv_tokens: int | None = None
    bytes_per_token: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    tensor_parallel: int = 1
    block: int = BLOCK
    kv_dtype: str = "auto"
    model: str | None = None
    estimated_len: int | None = None
    """What vLLM itself printed as the longest length that fits."""
    needed: float | None = None
    assumed: tuple[str, ...] = ()

    @property
    def budget(self) -> float | None:
        """What this instance may use of the card: utilisation x total."""
        return None if self.total is None or self.utilization is None else self.total * self.utilization

    @property
    def graphs_inside(self) -> bool:
        """Whether the budget pays for CUDA graphs too (0.20.0 and later)."""
        return self.versions.within(Versions.parse_spec(">=0.20.0")) is True

    @property
    def used(self) -> float | None:
        """What is not KV cache inside the budget: by the budget's own sum, else by the parts that were printed."""
        if self.budget is not None and self.kv_memory is not None:
            return self.budget - self.kv_memory
        if self.weights is None or self.activation is None:
            return None
        return (
            self.weights
            + self.activation
            + (self.non_torch or 0.0)
            + ((self.graphs or 0.0) if self.graphs_inside else 0.0)
        )


def profile_of(run: RunSummary, findings: Iterable[Finding] = ()) -> MemoryProfile:
    """The profile of one start, with the numbers that its KV findings captured (needed and available memory).

    `findings` are those of the start's own log. An OOM's `wanted` is bytes of one tensor: other families have no say.
    """
    versions = Versions.exact(run.vllm_version) if run.vllm_version else Versions.all()
    facts: Mapping[str, Any] = run.facts
    captured: dict[str, Any] = {}
    for finding in findings:
        if finding.run == run.run and finding.family == "kv-cache":
            captured |= {k: v for k, v in finding.captures.items() if isinstance(v, (int, float)) and k not in captured}
    assumed: list[str] = []

    def argument(name: str) -> Any:
        return run.args.get(name)

    def number(*values: Any) -> float | None:
        for value in values:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value)
        return None

    utilization = number(argument("gpu_memory_utilization"), facts.get("log.gpu_memory_utilization"))
    if utilization is None:
        utilization = number(catalog.default("--gpu-memory-utilization", versions))
        if utilization is not None:
            assumed.append(f"--gpu-memory-utilization {utilization:g} (default)")
    said = number(argument("max_model_len"))
    wanted = number(said if said and said > 0 else None, captured.get("wanted"), facts.get("log.max_model_len"))
    needed = number(captured.get("needed"))
    kv_memory = number(captured.get("available"), facts.get("log.kv_memory"))
    kv_tokens = number(facts.get("log.kv_tokens"))
    block = int(number(argument("block_size")) or BLOCK)
    per_token = None
    if needed is not None and (counted := number(captured.get("wanted"), wanted)):
        per_token = needed / (-(-int(counted) // block) * block)
    elif kv_memory is not None and kv_tokens:
        per_token = kv_memory / kv_tokens
    blocks = number(facts.get("log.kv_blocks"))
    if kv_tokens is None and blocks is not None:
        kv_tokens = blocks * block
    return MemoryProfile(
        versions=versions,
        total=number(facts.get("card.total"), facts.get("log.total_memory")),
        free=number(facts.get("card.free"), facts.get("log.free_memory")),
        utilization=utilization,
        weights=number(facts.get("log.weights")),
        activation=number(facts.get("log.activation_peak")),
        non_torch=number(facts.get("log.non_torch")),
        graphs=number(facts.get("log.graph_memory")),
        kv_memory=kv_memory,
        kv_tokens=int(kv_tokens) if kv_tokens is not None else None,
        bytes_per_token=per_token,
        max_model_len=int(wanted) if wanted is not None else None,
        max_num_seqs=_whole(argument("max_num_seqs")),
        max_num_batched_tokens=_whole(argument("max_num_batched_tokens"), facts.get("log.max_num_batched_tokens")),
        tensor_parallel=_whole(argument("tensor_parallel_size"), facts.get("log.tensor_parallel_size")) or 1,
        block=block,
        kv_dtype=str(argument("kv_cache_dtype") or "auto"),
        model=run.model,
        estimated_len=_whole(captured.get("fits")),
        needed=needed,
        assumed=tuple(assumed),
    )


def _whole(*values: Any) -> int | None:
    for value in values:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value)
    return None

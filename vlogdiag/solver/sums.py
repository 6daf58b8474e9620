"""The sums themselves: longest context, utilisation for a length, what a change of settings gains.

vLLM's rule (`v1/core/kv_cache_utils.py`, 0.7.0 and later): a start succeeds when the KV cache holds one request of
`max_model_len`, rounded up to whole blocks. The KV cache gets what `utilisation x total` leaves after weights, the
activation peak, memory outside torch and, from 0.20.0, CUDA graphs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vlogdiag.solver.profile import MemoryProfile

__all__ = ["Change", "Estimate", "blocks_bytes", "longest_context", "minimal_utilization", "what_if"]

HIGHEST = 0.95
"""More than this share leaves nothing for what the profiler does not see (a second context, fragmentation)."""
GIB = 2**30
BYTES = {
    **dict.fromkeys(("auto", "bfloat16", "float16"), 2),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 1),
}
"""Bytes of one KV value; types with scales of their own or fewer bits (nvfp4, turboquant …) are not summed up here."""


@dataclass(frozen=True, slots=True)
class Change:
    """Settings to try; None keeps the run's own."""

    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    utilization: float | None = None
    kv_dtype: str | None = None
    tensor_parallel: int | None = None
    card: float | None = None
    """Bytes of another card."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a set-up comes to; `fits` None means that the log does not hold the numbers."""

    fits: bool | None
    kv_memory: float | None
    kv_tokens: int | None
    concurrency: float | None
    headroom: float | None
    """Bytes of the card outside the budget."""
    longest: int | None
    arithmetic: str
    assumptions: tuple[str, ...]
    hint: str | None = None


def longest_context(profile: MemoryProfile, kv_memory: float | None = None) -> int | None:
    """Tokens of the longest request that the KV cache holds, in whole blocks."""
    if kv_memory is None and profile.estimated_len is not None:
        return profile.estimated_len  # vLLM's own figure, from numbers that it did not round
    memory = profile.kv_memory if kv_memory is None else kv_memory
    if memory is None or not profile.bytes_per_token or profile.bytes_per_token <= 0:
        return profile.kv_tokens if kv_memory is None else None
    if memory <= 0:
        return 0
    tokens = memory / profile.bytes_per_token
    return int(tokens // profile.block) * profile.block


def blocks_bytes(profile: MemoryProfile, tokens: int) -> float | None:
    """Bytes that a request of `tokens` takes, by whole blocks."""
    if not profile.bytes_per_token:
        return None
    return math.ceil(tokens / profile.block) * profile.block * profile.bytes_per_token


def minimal_utilization(profile: MemoryProfile, tokens: int) -> float | None:
    """Smallest `--gpu-memory-utilization`, in whole per cents, with which `tokens` fit; may exceed what is sensible."""
    wanted = blocks_bytes(profile, tokens)
    if wanted is None or profile.kv_memory is None or profile.total is None or profile.utilization is None:
        return None
    missing = wanted - profile.kv_memory
    return math.ceil((profile.utilization + missing / profile.total) * 100 - 1e-9) / 100


def what_if(profile: MemoryProfile, change: Change) -> Estimate:
    """The run with other settings. Savings that the log cannot prove are not counted, costs are."""
    assumptions = list(profile.assumed)
    length = change.max_model_len or profile.max_model_len
    total = change.card or profile.total
    utilization = change.utilization if change.utilization is not None else profile.utilization
    per_token = _per_token(profile, change, assumptions)
    used, whole = _used(profile, change, assumptions)
    kv_memory: float | None
    if used is not None and total is not None and utilization is not None:
        kv_memory = utilization * total - used
        same_memory = profile.kv_memory is not None and math.isclose(kv_memory, profile.kv_memory, rel_tol=1e-9)
    else:
        same_memory = (
            change.card in (None, profile.total)
            and change.utilization in (None, profile.utilization)
            and change.tensor_parallel in (None, profile.tensor_parallel)
        )
        kv_memory = profile.kv_memory if same_memory else None
    # Tokens that vLLM counted hold for the set-up in which it counted them, and for no other.
    same = same_memory and _same_tokens(profile, change)
    moved = replace(
        profile,
        kv_memory=kv_memory,
        bytes_per_token=per_token,
        kv_tokens=profile.kv_tokens if same else None,
        estimated_len=profile.estimated_len if same else None,
    )
    longest = longest_context(moved)
    fits: bool | None = None
    if longest is not None and length is not None:
        fits = longest >= length
        if fits and not whole:
            fits = None  # a cost that the log does not give is to be paid from it
    elif kv_memory is not None and kv_memory <= 0:
        fits = False
    concurrency = longest / length if longest is not None and length else None
    headroom = total * (1 - utilization) if total is not None and utilization is not None else None
    return Estimate(
        fits=fits,
        kv_memory=kv_memory,
        kv_tokens=longest,
        concurrency=concurrency,
        headroom=headroom,
        longest=longest,
        arithmetic=_arithmetic(total, utilization, used, kv_memory, per_token, longest),
        assumptions=tuple(dict.fromkeys(assumptions)),
        hint=_hint(profile, utilization, headroom),
    )


def _same_tokens(profile: MemoryProfile, change: Change) -> bool:
    """Whether a token takes the bytes that it took in the run, known or not."""
    was, will = BYTES.get(profile.kv_dtype), BYTES.get(change.kv_dtype or profile.kv_dtype)
    same_type = change.kv_dtype in (None, profile.kv_dtype) or (was is not None and was == will)
    return same_type and change.tensor_parallel in (None, profile.tensor_parallel)


def _per_token(profile: MemoryProfile, change: Change, assumptions: list[str]) -> float | None:
    per_token = profile.bytes_per_token
    if per_token is None:
        return None
    if change.kv_dtype is not None and change.kv_dtype != profile.kv_dtype:
        was, will = BYTES.get(profile.kv_dtype), BYTES.get(change.kv_dtype)
        if was is None or will is None:
            assumptions.append(f"how many bytes KV values take in {change.kv_dtype} is not known here")
            return None
        if was != will:
            per_token = per_token * will / was
            assumptions.append("a KV value takes one byte in fp8 and two otherwise")
    if change.tensor_parallel and change.tensor_parallel != profile.tensor_parallel:
        per_token = per_token * profile.tensor_parallel / change.tensor_parallel
        assumptions.append("KV heads are shared out evenly among the ranks")
    return per_token


def _used(profile: MemoryProfile, change: Change, assumptions: list[str]) -> tuple[float | None, bool]:
    """Bytes beside the KV cache, and whether every cost of the change is in them."""
    used = profile.used
    tokens, was = change.max_num_batched_tokens, profile.max_num_batched_tokens
    seqs, before = change.max_num_seqs, profile.max_num_seqs
    whole = True
    if used is None or profile.activation is None:
        for option, asked, own in (("--max-num-batched-tokens", tokens, was), ("--max-num-seqs", seqs, before)):
            if asked not in (None, own):
                assumptions.append(f"the activation peak is not in the log: {option} was not counted")
                whole = whole and own is not None and asked is not None and asked < own
    if used is None:
        return None, whole
    if change.tensor_parallel and change.tensor_parallel != profile.tensor_parallel:
        if profile.weights is None:
            return None, whole
        used += profile.weights * (profile.tensor_parallel / change.tensor_parallel - 1)
        assumptions.append("weights are shared out evenly, the activation peak stays the same")
    if profile.activation is None:
        return used, whole
    if tokens is not None and was:
        used += profile.activation * (tokens / was - 1)
        assumptions.append("the activation peak grows and shrinks with --max-num-batched-tokens")
    elif tokens is not None:
        assumptions.append("the run's --max-num-batched-tokens is not in the log: the change was not counted")
        whole = False
    if seqs is not None and before is not None and seqs > before:
        used += profile.activation * 0.1 * (seqs / before - 1)
        assumptions.append("each doubling of --max-num-seqs costs a tenth of the activation peak (sampling)")
    elif seqs is not None and before is None:
        assumptions.append("the run's --max-num-seqs is not in the log: the change was not counted")
        whole = False
    elif seqs is not None and seqs != before:
        assumptions.append("fewer sequences save little at start, and were not counted")
    return used, whole


def _arithmetic(
    total: float | None,
    utilization: float | None,
    used: float | None,
    kv: float | None,
    per_token: float | None,
    longest: int | None,
) -> str:
    if kv is None:
        return "the log does not hold the memory profile"
    if total is None or utilization is None or used is None:
        tokens = f" / {per_token:.0f} bytes a token = {longest} tokens" if per_token and longest is not None else ""
        return f"KV cache {_gib(kv)}{tokens}"
    text = f"{_gib(total)} x {utilization:g} - {_gib(used)} used = {_gib(kv)} KV cache"
    if per_token and longest is not None:
        text += f"; / {per_token / 1024:.1f} KiB a token = {longest} tokens"
    return text


def _hint(profile: MemoryProfile, utilization: float | None, headroom: float | None) -> str | None:
    if utilization is not None and utilization > HIGHEST:
        return f"more than {HIGHEST} of the card leaves no room for what the profiler does not see"
    outside = 0.0 if profile.graphs_inside else (profile.graphs or 0.0)
    if headroom is not None and outside and headroom < outside:
        return f"CUDA graphs take {_gib(outside)} outside the budget, and {_gib(headroom)} are left there"
    return None


def _gib(value: float | None) -> str:
    return "?" if value is None else f"{value / GIB:.2f} GiB"

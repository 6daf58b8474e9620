"""A start for a card when the log (or the command line) names only the model: estimated from its size in the name.

Everything here is an estimate and says so; a run's own memory profile replaces it.
"""

from __future__ import annotations

import re

from vlogdiag.catalog import Versions
from vlogdiag.solver.profile import MemoryProfile

__all__ = ["estimated_profile", "parameters"]

SIZE = re.compile(r"(?<![\w.])(\d{1,5}(?:\.\d{1,5})?)[Bb](?![A-Za-z0-9])|[-_](\d{1,5}(?:\.\d{1,5})?)[bB](?=$|[-_./])")
BITS = (
    (re.compile(r"awq|gptq|int4|w4a16|4bit|nf4|nvfp4|mxfp4", re.I), 4.5),
    (re.compile(r"fp8|int8|w8a8|8bit", re.I), 8.5),
)
KV_LAYERS = ((4, 28, 4), (9, 36, 8), (15, 40, 8), (35, 64, 8), (80, 80, 8), (1e9, 96, 8))
"""(up to billions, layers, KV heads of 128): what Qwen2.5, Qwen3 and Llama 3 models of that size have."""
HEAD = 128
GIB = 2**30


def parameters(model: str) -> float | None:
    """Billions of parameters by the model's name; None if it says none. Mixtures count whole (`30B-A3B` is 30)."""
    found = SIZE.search(model.rsplit("/", 1)[-1])
    if found is None:
        return None
    return float(found[1] or found[2])


def estimated_profile(
    model: str, card: float, versions: Versions, *, max_model_len: int | None = None
) -> MemoryProfile | None:
    """A profile from name and card; None when the name gives no size."""
    billions = parameters(model)
    if billions is None:
        return None
    bits = next((b for pattern, b in BITS if pattern.search(model)), 16.0)
    layers, heads = next((layers, heads) for limit, layers, heads in KV_LAYERS if billions <= limit)
    weights = billions * 1e9 * bits / 8
    vision = 1.0 if re.search(r"vl|vision|omni", model, re.I) else 0.0
    activation = (1.0 + 0.05 * billions + vision) * GIB
    utilization = 0.92 if versions.within(Versions.parse_spec(">=0.20.0")) else 0.9
    batched = 8192 if card >= 70 * GIB else 2048  # vLLM's own defaults of a server, by the card's size
    used = weights + activation + 0.6 * GIB
    return MemoryProfile(
        versions=versions,
        total=card,
        utilization=utilization,
        weights=weights,
        activation=activation,
        non_torch=0.6 * GIB,
        kv_memory=utilization * card - used,
        bytes_per_token=2.0 * layers * heads * HEAD * 2,
        max_model_len=max_model_len,
        max_num_seqs=256,
        max_num_batched_tokens=batched,
        model=model,
        assumed=(
            f"{billions:g} billion parameters of {bits:g} bits (by the model's name)",
            f"{layers} layers with {heads} KV heads of {HEAD} (usual for that size)",
            f"an activation peak that is usual for that size with {batched} batched tokens and 256 sequences",
            f"--gpu-memory-utilization {utilization:g} (default)",
        ),
    )

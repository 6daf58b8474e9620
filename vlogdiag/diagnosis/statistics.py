"""Reads vLLM's periodic statistics line (every age, V0 and V1) into numbers.

Source: vLLM `v1/metrics/loggers.py`, `engine/metrics.py` (0.4.0 to 0.33.0).
"""

from __future__ import annotations

import re

from msgspec import Struct

__all__ = ["Statistics", "parse_statistics"]

NUMBER = {
    "prompt": re.compile(r"Avg prompt throughput: (\d+(?:\.\d+)?) tokens/s"),
    "generation": re.compile(r"Avg generation throughput: (\d+(?:\.\d+)?) tokens/s"),
    "running": re.compile(r"Running: (\d+) reqs"),
    "waiting": re.compile(r"(?:Waiting|Pending): (\d+) reqs"),
    "kv_usage": re.compile(r"(?:GPU|CPU|XPU|NPU|TPU|HPU)? ?KV cache usage: (\d+(?:\.\d+)?)%"),
    "preemptions": re.compile(r"Preemptions: (\d+)"),
    "prefix_hits": re.compile(r"(?<!External )[Pp]refix cache hit rate: (?:GPU: )?(\d+(?:\.\d+)?)%"),
    "media_hits": re.compile(r"MM cache hit rate: (\d+(?:\.\d+)?)%"),
}
ENGINE = re.compile(r"Engine (\d{3}): ")


class Statistics(Struct, frozen=True):
    """One statistics line; shares are 0..1, throughput tokens a second; what the line lacks is None."""

    engine: int | None = None
    prompt: float | None = None
    generation: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    prefix_hits: float | None = None
    media_hits: float | None = None


def parse_statistics(text: str) -> Statistics:
    """Numbers of a message that `prefilter.is_statistics` recognises."""
    found: dict[str, float | None] = {}
    for name, pattern in NUMBER.items():
        match = pattern.search(text)
        found[name] = None if match is None else float(match[1]) / (100 if pattern.pattern.endswith("%") else 1)
    engine = ENGINE.match(text)
    return Statistics(engine=int(engine[1]) if engine else None, **found)

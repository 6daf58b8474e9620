"""A report's values to the words that people read: families, phases, times, ranges, what a log is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from vlogdiag.model import Finding, Phase, Position, SourceSummary

FAMILIES = {
    "oom": "GPU memory",
    "kv-cache": "KV cache room",
    "fragmentation": "memory fragmentation",
    "hang": "hang or time-out",
    "shape": "shape mismatch",
    "multimodal": "multimodal input",
    "startup": "start-up",
    "environment": "environment",
    "hardware": "hardware",
    "request": "one request",
    "noise": "noise",
    "unexplained": "cause not recognised",
}

PHASES = {
    Phase.STARTING: "while starting",
    Phase.LOADING: "while loading the model",
    Phase.PROFILING: "while profiling memory",
    Phase.CAPTURING: "while capturing CUDA graphs",
    Phase.SERVING: "while serving",
    Phase.STOPPING: "while stopping",
}

OF_THE_HOST = ("process-", "cpu-", "ray-", "pinned-", "rdma-", "swap-", "library-", "checkpoint-larger-than-ram")
"""How the ids of rules begin that are about the host's memory, and do not say so."""

_CLOCK = re.compile(r"\d{1,2}:\d{2}:\d{2}")


def family(finding: Finding) -> str:
    """The kind of trouble in words; memory of the host is told from that of the GPU by the rule's id."""
    if finding.family == "oom" and ("host" in finding.id.split("-") or finding.id.startswith(OF_THE_HOST)):
        return "host memory"
    return FAMILIES.get(finding.family, finding.family)


def log_name(path: str) -> str:
    """A log's path as people call it."""
    return "standard input" if path == "-" else path


def during(phase: Phase | None) -> str:
    """` while serving`, with a leading blank, or nothing where the phase is unknown."""
    return f" {PHASES[phase]}" if phase is not None else ""


def clock(position: Position | None) -> str | None:
    """`13:02:11` of a time as the log spells it; None where there is none."""
    if position is None or position.time is None:
        return None
    found = _CLOCK.search(position.time)
    return found[0] if found else position.time


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """`1 start`, `3 starts`, `41,580 lines`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def times(count: int) -> str:
    """`once`, `twice`, `7 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def ranges(numbers: Iterable[int]) -> str:
    """`1-3, 5` for 1, 2, 3, 5; two neighbours stay `1, 2`."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(f"{span[0]}-{span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans)


def span(first: int | None, last: int | None) -> str | None:
    """`line 61`, `lines 61-80`; None where the first is unknown."""
    if first is None:
        return None
    return f"lines {first}-{last}" if last is not None and last > first else f"line {first}"


def log_parts(sources: Sequence[SourceSummary]) -> list[str]:
    """What the logs are: version, model, logs, lines, starts; what is unknown is left out."""
    runs = [run for source in sources for run in source.runs]
    versions = list(dict.fromkeys(version for run in runs if (version := run.vllm_version or run.versions_possible)))
    models = list(dict.fromkeys(run.model for run in runs if run.model))
    parts = []
    if versions:
        parts.append("vLLM " + ", then ".join(version.removeprefix("==") for version in versions[-3:]))
    elif runs:
        parts.append("vLLM of unknown version")
    if models:
        parts.append(", ".join(models[-2:]))
    if len(sources) > 1:
        parts.append(plural(len(sources), "log"))
    parts.append(plural(sum(source.lines for source in sources), "line"))
    if len(runs) > len(sources):
        parts.append(plural(len(runs), "start"))
    omitted = sum(source.omitted.lines for source in sources)
    if omitted:
        parts.append(f"{plural(omitted, 'line')} not looked at")
    return parts

"""The GPUs as the driver tells of them: through NVML, and in nvidia-smi's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from vlogdiag.live.describe import describe, describe_missing
from vlogdiag.live.probes import probes_for
from vlogdiag.live.readings import encode, to_line
from vlogdiag.live.sampler import take
from vlogdiag.model import Reading, Unavailable
from vlogdiag.snapshot.collect.base import Collected, Context
from vlogdiag.snapshot.collect.commands import Output, run_command
from vlogdiag.snapshot.collect.server import server_url

NAME = "gpu"
READING_FILE = "readings.jsonl"
LIMIT = 4.5
"""Below the collectors' limit, so that what did answer is kept when something else hangs."""

COMMANDS = (
    ("nvidia-smi-q.txt", ("nvidia-smi", "-q")),
    ("nvidia-smi-topo.txt", ("nvidia-smi", "topo", "-m")),
)
_TROUBLE = ("NVIDIA-SMI has failed", "Failed to initialize NVML", "No devices were found")


def collect(context: Context, *, reading: Callable[[Context], Reading] | None = None) -> Collected:
    """One reading of GPUs, host and server, and nvidia-smi's listings; each may be missing."""
    with ThreadPoolExecutor(len(COMMANDS), thread_name_prefix="nvidia-smi") as pool:
        jobs = [
            (name, pool.submit(run_command, argv, limit=LIMIT, environment=context.environment))
            for name, argv in COMMANDS
        ]
        taken = (reading or take_reading)(context)
        answers = [(name, job.result()) for name, job in jobs]
    files: dict[str, str] = {READING_FILE: to_line(taken)}
    missing: list[Unavailable] = []
    for name, answer in answers:
        if isinstance(answer, Output) and answer.status in (0, None) and not answer.text.startswith(_TROUBLE):
            files[name] = answer.text
        elif isinstance(answer, Output):
            said = answer.text.strip().splitlines()
            missing.append(
                Unavailable(name.removesuffix(".txt"), said[0] if said else f"ended with status {answer.status}")
            )
        else:
            missing.append(Unavailable(name.removesuffix(".txt"), answer.reason))
    missing += _missing(taken)
    data: dict[str, Any] = {"reading": encode(taken), "said": list(describe(taken))}
    return Collected(NAME, data, files, tuple(missing))


def _missing(taken: Reading) -> Iterator[Unavailable]:
    """What the reading lacks; many values that lack for one reason (an old card, a setting) are one line."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for line in describe_missing(taken):
        source, _, said = line.partition(": ")
        if source in ("metrics", "health"):
            continue  # server.py asks the same pages
        what, colon, reason = said.rpartition(": ")
        by_reason.setdefault((source, reason if colon else said), []).append(what)
    for (source, reason), values in by_reason.items():
        named = ", ".join(value for value in values if value)
        yield Unavailable(source, f"{reason}: {named}" if named else reason)


def take_reading(context: Context) -> Reading:
    """The machine now; a driver or server that hangs costs its part of the reading."""
    return take(probes_for(server_url(context)), limit=LIMIT, stamp=context.stamp)

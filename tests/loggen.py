"""Composes logs for the property tests: starts of every age, healthy noise, failures out of the rules' own examples."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ages import AGES, API, CORE, WRAPPERS, Age, Printer, interleave, traceback
from healthy import Life

from vlogdiag.loading import Rules

STAMP = re.compile(r"(\d\d-\d\d \d\d:\d\d:\d\d)(?= \[?[\w./]+:\d+\])")
STAGES = ("arguments", "configured", "loading", "loaded", "compiled", "kv_cache", "captured", "serving")


@dataclass(frozen=True)
class Failure:
    """A log on which a rule fires."""

    rule: str
    log: str


def failures_of(rules: Rules) -> tuple[Failure, ...]:
    """The `fires` examples that need nothing but their text."""
    return tuple(
        Failure(signature.id, example.log)
        for signature in rules.book.signatures
        for example in signature.examples
        if example.kind == "fires" and not example.facts and example.tick is None and len(example.log) < 20_000
    )


def moved(text: str, now: datetime) -> str:
    """The text with vLLM's times moved to `now`, their distances kept."""
    first: list[datetime] = []

    def move(match: re.Match[str]) -> str:
        try:
            then = datetime.strptime("2024-" + match[1], "%Y-%m-%d %H:%M:%S")
        except ValueError:
            return match[0]
        first.append(then)
        return f"{now + (then - first[0]):%m-%d %H:%M:%S}"

    return STAMP.sub(move, text)


def compose(seed: int, failures: Sequence[Failure]) -> bytes:
    """One log of one to three starts; most of them fail."""
    rng = random.Random(seed)
    age = rng.choice(AGES)
    now = datetime(2026, rng.randrange(1, 13), rng.randrange(1, 28), rng.randrange(24), rng.randrange(60))
    lines: list[str] = []
    for number in range(rng.choice((1, 1, 1, 2, 3))):
        life = Life(
            age,
            rng,
            ("CUDA out of memory. Tried to allocate 2.00 GiB.\nTraceback (most recent call last):\nValueError: no",),
        )
        p = life.p
        p.now, p.out = now, lines
        p.pids = {API: 1, CORE: 50 + number, **{rank: 60 + 4 * number + rank for rank in range(p.tensor_parallel)}}
        served = rng.random() < 0.6
        begin_start(p, rng, served)
        if served:
            life.serve(rng.choice((3, 10, 30, 120)))
        if rng.random() < 0.93:
            fail(p, rng, failures)
            if served and rng.random() < 0.4:
                life.serve(rng.randrange(3, 20))
        if rng.random() < 0.3:
            p.stopping()
        now = p.now + timedelta(seconds=rng.randrange(5, 900))
    wrapper = rng.choice((None, None, None, *WRAPPERS.values()))
    made = wrapper(lines) if wrapper is not None else lines
    text = "\n".join(made) + ("" if rng.random() < 0.1 else "\n")
    return text.replace("\n", "\r\n").encode() if rng.random() < 0.05 else text.encode()


def begin_start(p: Printer, rng: random.Random, served: bool) -> None:
    """A start that comes as far as `serving`, or stops somewhere before."""
    for stage in STAGES[: len(STAGES) if served else rng.randrange(len(STAGES))]:
        getattr(p, stage)()


def fail(p: Printer, rng: random.Random, failures: Sequence[Failure]) -> None:
    """One to three failures, as they stand in the rules' examples, with what a dying server prints after them."""
    for failure in rng.sample(failures, rng.choice((1, 1, 1, 2, 3))):
        p.loose(moved(failure.log.rstrip("\n"), p.now))
        p.wait(rng.choice((0, 1, 30, 700)))
    if rng.random() < 0.5:
        p.error(
            API,
            "async_llm.py:480",
            "AsyncLLM output_handler failed.\n"
            + traceback(
                "vllm/v1/engine/async_llm.py:439:output_handler:outputs = await engine_core.get_output_async()",
                error="vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
            ),
        )
    if rng.random() < 0.3:
        p.error(
            CORE,
            "odd.py:1",
            traceback("vllm/odd.py:1:f:g()", error=f"OddError{rng.choice('ABC')}: nobody has seen this"),
        )


ERRORS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 116.00 MiB. GPU {rank} has a total capacity of 23.64 GiB of which {rank}1.31 MiB is free. Of the allocated memory 22.31 GiB is allocated by PyTorch, and 161.02 MiB is reserved by PyTorch but unallocated.",
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
    "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (576x1024 and 4096x4096)",
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "OddError: nobody has seen this on rank {rank}",
)  # fmt: skip
FRAMES = (
    "vllm/v1/worker/gpu_worker.py:265:compile_or_warm_up_model:self.model_runner.capture_model()",
    "vllm/v1/worker/gpu_model_runner.py:1909:execute_model:self._dummy_run(num_tokens)",
    "vllm/v1/worker/gpu_worker.py:273:load_model:self.model_runner.load_model()",
)


def speakers(seed: int) -> tuple[list[str], list[list[str]], list[str]]:
    """What comes before, the lines of each prefixed speaker of one moment, and what comes after.

    Only ages whose every line carries its speaker; all within one second, since another order of seconds would be
    another story.
    """
    rng = random.Random(seed)
    age: Age = rng.choice([age for age in AGES if age.api and age.everywhere])
    ranks = rng.choice((2, 4, 8))
    p = Printer(age, tensor_parallel=ranks, rng=rng).arguments().configured().loading().loaded()
    served = rng.random() < 0.5
    if served:
        p.compiled().kv_cache().captured().serving().access()
    before, groups = list(p.out), []
    error, frames = rng.choice(ERRORS), rng.sample(FRAMES, rng.randrange(1, 3))
    for rank in range(ranks):
        p.out = []
        head = rng.choice(("WorkerProc hit an exception.\n", "")) if rank else "WorkerProc hit an exception.\n"
        p.error(rank, "multiproc_executor.py:654", head + traceback(*frames, error=error.format(rank=rank)))
        if rng.random() < 0.5:
            p.bare(rank, traceback(*frames, error=error.format(rank=rank)))
        groups.append(p.out)
    p.out = []
    for _ in range(rng.randrange(0, 25)):
        p.access("/health", method="GET")
    groups.append(p.out)
    p.out = []
    p.wait(2).error(
        API,
        "async_llm.py:480",
        "AsyncLLM output_handler failed.\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
    )
    return before, groups, p.out


def interleaved(seed: int, order: int) -> bytes:
    """The log of `speakers(seed)` in one of its possible orders."""
    before, groups, after = speakers(seed)
    return "".join(line + "\n" for line in (*before, *interleave(groups, random.Random(order)), *after)).encode()

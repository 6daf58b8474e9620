"""Writes the frozen benchmark logs: the same bytes on every machine, from a seed and vLLM's own line shapes.

The mix is frozen: changing a line here makes old figures incomparable, so add a new mix instead.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

FRAMES = tuple(
    text
    for line in range(700, 714)
    for text in (
        f'  File "/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/core.py", line {line}, in run_engine_core',
        "    self._process_engine_step()",
    )
)
BLOCK = 20_000


class Clock:
    """Log time that moves on by a few hundredths of a second a line."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        self.step = step

    def stamp(self, roll: random.Random) -> str:
        self.now += roll.random() * self.step
        second = int(self.now)
        return f"07-{1 + second // 86_400 % 28:02d} {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def traceback_block(stamp: str, number: int) -> list[str]:
    """A 31-line error of the engine core that no rule knows."""
    head = f"(EngineCore_DP0 pid=229) ERROR {stamp} [core.py:700] "
    lines = [f"{head}EngineCore could not finish step {number}", f"{head}Traceback (most recent call last):"]
    lines += [head + frame for frame in FRAMES]
    return [*lines, f"{head}ValueError: step {number} was rejected"]


def mix(seed: int = 7, *, statistics: float = 0.05, error_every: int = 10_000) -> Iterator[str]:
    """58 % access lines, 20 % request lines, statistics, 2 % warnings, tracebacks, the rest INFO; endless."""
    roll = random.Random(seed)
    clock = Clock(0.05)
    api = "(APIServer pid=7) "
    access = 0.58 if statistics <= 0.05 else 0.58 - (statistics - 0.05)
    number = 0
    while True:
        number += 1
        stamp = clock.stamp(roll)
        if number % error_every == 0:
            yield from traceback_block(stamp, number)
            continue
        kind = roll.random()
        if kind < access:
            address = f"10.0.{roll.randrange(255)}.{roll.randrange(255)}:{roll.randrange(1024, 65_535)}"
            yield f'{api}INFO:     {address} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        elif kind < access + 0.20:
            thing, place = roll.choice(("cat", "dog", "house", "harbour")), roll.choice(("sun", "rain", "snow"))
            yield (
                f"{api}INFO {stamp} [logger.py:43] Received request chatcmpl-{roll.getrandbits(128):032x}: prompt: "
                f"'describe the picture of a {thing} in the {place}', params: SamplingParams(n=1, temperature=0.7, "
                f"max_tokens={roll.randrange(4000)}), lora_request: None."
            )
        elif kind < access + 0.20 + statistics:
            yield (
                f"{api}INFO {stamp} [loggers.py:127] Engine 000: Avg prompt throughput: {roll.random() * 900:.1f} tokens/s, "
                f"Avg generation throughput: {roll.random() * 900 + 1:.1f} tokens/s, Running: {roll.randrange(1, 30)} reqs, "
                f"Waiting: 0 reqs, GPU KV cache usage: {roll.random() * 80:.1f}%, Prefix cache hit rate: {roll.random() * 90:.1f}%"
            )
        elif kind < access + 0.22 + statistics:
            field = roll.choice(("top_a", "min_tokens_extra"))
            yield (
                f"{api}WARNING {stamp} [protocol.py:82] The following fields were present in the request but ignored: "
                f"{{'{field}'}}"
            )
        else:
            yield f"{api}INFO {stamp} [async_llm.py:269] Added request chatcmpl-{roll.getrandbits(128):032x}."


def flood() -> Iterator[str]:
    """One cause, then 93 growing EngineDeadError tracebacks: 41,000 lines."""
    stamp = "07-01 12:00:00"
    core = f"(EngineCore_DP0 pid=229) ERROR {stamp} [core.py:700] "
    yield "(APIServer pid=7) INFO 07-01 11:59:00 [api_server.py:1839] vLLM API server version 0.11.0"
    yield "(APIServer pid=7) INFO:     Application startup complete."
    yield f"{core}EngineCore encountered a fatal error."
    yield f"{core}Traceback (most recent call last):"
    for frame in FRAMES:
        yield core + frame
    yield (
        f"{core}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "23.69 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process has 22.40 GiB memory in use. Of "
        "the allocated memory 21.90 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated."
    )
    written = 0
    for number in range(93):
        api = f"(APIServer pid=7) ERROR 07-01 12:00:{1 + number % 59:02d} [serving_chat.py:{900 + number}] "
        yield f"{api}Error in chat completion stream generator."
        yield f"{api}Traceback (most recent call last):"
        for depth in range(int(8 * (number + 1))):
            yield f'{api}  File "/srv/venv/lib/python3.12/site-packages/vllm/v1/engine/async_llm.py", line {depth}, in generate'
            written += 1
        yield (
            f"{api}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) "
            "for the root cause."
        )
        if written > 40_700:
            break


def interleaved(seed: int = 3) -> Iterator[str]:
    """Tracebacks of eight ranks, line by line mixed; endless."""
    roll = random.Random(seed)
    number = 0
    while True:
        number += 1
        second = number // 3
        stamp = (
            f"07-{1 + second // 86_400 % 28:02d} {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        )
        blocks = []
        for rank in range(8):
            head = f"(Worker_TP{rank} pid={1000 + rank}) ERROR {stamp} [multiproc_executor.py:597] "
            lines = [f"{head}WorkerProc could not go on.", f"{head}Traceback (most recent call last):"]
            lines += [head + frame for frame in FRAMES]
            blocks.append([*lines, f"{head}RuntimeError: something odd happened in step {number * 8 + rank}"])
        places = [0] * 8
        alive = list(range(8))
        while alive:
            rank = roll.choice(alive)
            for _ in range(roll.randint(1, 3)):
                if places[rank] < len(blocks[rank]):
                    yield blocks[rank][places[rank]]
                    places[rank] += 1
            if places[rank] >= len(blocks[rank]):
                alive.remove(rank)


def write(path: Path, lines: Callable[[], Iterator[str]], size: int | None) -> Path:
    """Write at least `size` bytes of `lines` (all of them when None), unless the file is there already."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    done = 0
    buffer: list[str] = []
    with part.open("wb") as out:
        for line in lines():
            buffer.append(line)
            if len(buffer) >= BLOCK:
                done += out.write(("\n".join(buffer) + "\n").encode())
                buffer.clear()
                if size is not None and done >= size:
                    break
        if buffer:
            out.write(("\n".join(buffer) + "\n").encode())
    part.rename(path)
    return path

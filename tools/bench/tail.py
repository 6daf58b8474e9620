"""Prints tail's own figures: `python -m tools.bench.tail [--quick] [--only latency|throughput|idle|memory]`.

Latency is taken from the write of a cause's last line to its event on standard output, through a real process and a
real file; the idle share of a core with the tests' NVML driver and a real `/metrics` server beside it. Machines are noisy:
run it on one that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path

import psutil

from tools.bench import logs

TESTS = Path(__file__).parent.parent.parent / "tests"
sys.path.insert(0, str(TESTS))

FRAMES = tuple(
    f'  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line {n}, in run_busy_loop'
    for n in range(700, 712)
)


def tail(*words: str, **options: object) -> subprocess.Popen[bytes]:
    """A tail in a process of its own."""
    env = {**os.environ, "CI": "1", "TZ": "UTC", **options.pop("env", {})}  # type: ignore[dict-item]
    return subprocess.Popen([sys.executable, "-m", "vlogdiag", "tail", *words], env=env, **options)  # type: ignore[call-overload,no-any-return]


def crash(number: int) -> str:
    """A start of its own, so that each is a finding of its own, and its death in a traceback."""
    stamp = time.strftime("%m-%d %H:%M:%S")
    head = f"(EngineCore_DP0 pid={100 + number}) ERROR {stamp} [core.py:700] "
    lines = ["EngineCore encountered a fatal error.", "Traceback (most recent call last):", *FRAMES]
    lines.append(f"TimeoutError: RPC call to execute_model_{number} timed out.")
    start = f"(APIServer pid=7) INFO {stamp} [api_server.py:1839] vLLM API server version 0.11.0\n"
    return start + "".join(head + line + "\n" for line in lines)


def latency(folder: Path, causes: int, rate: int) -> Iterator[str]:
    """Seconds from the cause's last byte to its event, at `rate` lines a second."""
    log = folder / "latency.log"
    log.write_text("".join(line + "\n" for line in islice(logs.mix(), 200)))
    process = tail(str(log), "--json", "--no-live", stdout=subprocess.PIPE)
    arrived: dict[int, float] = {}
    reading = threading.Thread(target=_read, args=(process, arrived), daemon=True)
    reading.start()
    time.sleep(3)
    written: dict[int, float] = {}
    noise = logs.mix()
    began = time.monotonic()
    lines = number = 0
    with log.open("ab", buffering=0) as file:
        while number < causes:
            due = int((time.monotonic() - began) * rate)
            if due > lines:
                file.write("".join(line + "\n" for line in islice(noise, due - lines)).encode())
                lines = due
            if lines > (number + 1) * rate * 0.4:
                number += 1
                file.write(crash(number).encode())
                written[number] = time.monotonic()
            time.sleep(0.002)
    time.sleep(2)
    process.terminate()
    process.wait()
    taken = sorted(arrived[n] - written[n] for n in written if n in arrived)
    yield (
        f"latency at {rate} lines/s, {len(taken)} of {causes} causes: median {statistics.median(taken) * 1000:.0f} ms, "
        f"p99 {taken[min(len(taken) - 1, int(len(taken) * 0.99))] * 1000:.0f} ms, longest {taken[-1] * 1000:.0f} ms"
    )


def _read(process: subprocess.Popen[bytes], arrived: dict[int, float]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        moment = time.monotonic()
        event = json.loads(line)
        if event["type"] == "finding.opened" and event["data"]["id"] == "rpc-timeout":
            arrived.setdefault(int(event["data"]["captures"]["method"].rpartition("_")[2]), moment)


def throughput(folder: Path, size: int) -> Iterator[str]:
    """MB/s of what is there already, up to the event of a cause at its end; what a small log takes is taken off."""
    small = logs.write(folder / "small.log", lambda: islice(logs.mix(), 1000), None)
    big = logs.write(folder / f"big-{size}.log", logs.mix, size)
    for path in (small, big):
        with path.open("a") as file:
            file.write(crash(1))
    for name in ("a pipe", "a file"):
        seconds = []
        for path in (small, big):
            began = time.monotonic()
            with path.open("rb") as file:
                pipe = name == "a pipe"
                words = ["-"] if pipe else [str(path), "--from-start"]
                process = tail(*words, "--json", "--no-live", stdin=file, stdout=subprocess.PIPE)
                assert process.stdout is not None
                for line in process.stdout:
                    if b"rpc-timeout" in line:
                        break
                seconds.append(time.monotonic() - began)
                process.kill()
                process.wait()
        rate = (big.stat().st_size - small.stat().st_size) / max(1e-9, seconds[1] - seconds[0]) / 1e6
        yield f"throughput from {name}: {rate:.0f} MB/s ({big.stat().st_size / 1e6:.0f} MB in {seconds[1]:.1f} s)"


class _Metrics(BaseHTTPRequestHandler):
    body = (TESTS / "data" / "metrics" / "vllm-0.32.0.txt").read_bytes()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.body if self.path == "/metrics" else b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


def idle(folder: Path, seconds: float) -> Iterator[str]:
    """Share of a core while the log is silent; the NVML worker counts."""
    from fake_nvml import Driver, build, healthy  # type: ignore[import-not-found]

    log = folder / "idle.log"
    log.write_text("".join(line + "\n" for line in islice(logs.mix(), 500)))
    library = folder / "nvml"
    library.mkdir(exist_ok=True)
    driver = Driver(build(library), folder / "scenario")
    driver.play(healthy(8))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    ways: list[tuple[str, list[str], bool]] = [
        ("the log alone", ["--no-live"], False),
        ("eight GPUs, /metrics and the host", ["--metrics", url], False),
        ("the same in a terminal of 140x40", ["--metrics", url], True),
    ]
    for name, words, terminal in ways:
        if terminal:
            master, slave = pty.openpty()
            env = {**driver.environment, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40"}
            process = tail(str(log), *words, stdout=slave, stderr=slave, stdin=slave, env=env)
            threading.Thread(target=_drain, args=(master,), daemon=True).start()
        else:
            process = tail(str(log), "--json", *words, stdout=subprocess.DEVNULL, env=driver.environment)
        time.sleep(5)
        seen = psutil.Process(process.pid)
        before, began = _cpu(seen), time.monotonic()
        time.sleep(seconds)
        share = {key: (value - before.get(key, 0.0)) / (time.monotonic() - began) for key, value in _cpu(seen).items()}
        memory = seen.memory_info().rss / 2**20
        process.terminate()
        process.wait()
        worker = f" and {share.get('worker', 0.0):.2%} in the NVML worker" if "worker" in share else ""
        yield f"idle with {name}: {share['tail']:.2%} of a core{worker}, {memory:.0f} MiB"
    server.shutdown()


def _drain(master: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(master, 65_536):
            pass


def _cpu(process: psutil.Process) -> dict[str, float]:
    found = {"tail": sum(process.cpu_times()[:2])}
    for child in process.children():
        found["worker"] = found.get("worker", 0.0) + sum(child.cpu_times()[:2])
    return found


def memory(folder: Path, lines: int, rotations: int, starts: int) -> Iterator[str]:
    """A week in one process: real files and rotations under a clock that a loop moves."""
    from vlogdiag.loading import load
    from vlogdiag.log.follow import Follower
    from vlogdiag.tail import Surroundings, Tail

    clock = [1000.0]
    log = folder / "week.log"
    for old in folder.glob("week.log*"):
        old.unlink()
    following = Tail(
        (Follower(str(log), clock=lambda: clock[0], from_start=True),), load(), Surroundings(lambda: clock[0])
    )
    noise = logs.mix()
    process = psutil.Process()
    began = time.monotonic()
    per_rotation = max(1, lines // rotations)
    every = max(1, rotations // starts)
    opened = 0
    for turn in range(rotations):
        text = "".join(line + "\n" for line in islice(noise, per_rotation))
        if turn % every == 0:
            text = crash(turn) + text
        with log.open("a") as file:
            file.write(text)
        for _ in range(4):
            clock[0] += 0.2
            opened += sum(event.type == "finding.opened" for event in following.step())
        log.rename(log.with_suffix(f".log.{turn}"))
        (log.with_suffix(f".log.{turn - 3}")).unlink(missing_ok=True)
        if turn % max(1, rotations // 10) == 0:
            yield (
                f"  after {turn:6} rotations, {following.counts.lines:9,} lines, {opened:4} findings: "
                f"{process.memory_info().rss / 2**20:.0f} MiB, {time.monotonic() - began:.0f} s"
            )
    for _ in range(50):
        clock[0] += 0.2
        following.step()
    yield (
        f"memory over {rotations:,} rotations, {following.counts.lines:,} lines, {opened:,} findings: "
        f"{process.memory_info().rss / 2**20:.0f} MiB at the end"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds for each figure")
    parser.add_argument("--only", choices=["latency", "throughput", "idle", "memory"])
    given = parser.parse_args()
    quick = given.quick
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        parts = {
            "latency": lambda: latency(folder, 25 if quick else 200, 1000),
            "throughput": lambda: throughput(folder, (100 if quick else 1000) * 10**6),
            "idle": lambda: idle(folder, 20 if quick else 60),
            "memory": lambda: memory(folder, *((200_000, 500, 100) if quick else (10_000_000, 10_000, 1_000))),
        }
        for name, part in parts.items():
            if given.only in (None, name):
                for line in part():
                    print(line, flush=True)


if __name__ == "__main__":
    main()

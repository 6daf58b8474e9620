"""`vlogdiag tail` as people start it: real processes, real files, real signals; each test takes a few seconds at most."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest
from ages import CORE, Printer
from fake_nvml import Driver, build, healthy
from live_log import server
from typer.testing import CliRunner

from vlogdiag.cli import app

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.64 GiB. GPU 0 has a total capacity of 39.38 GiB of "
    "which 1.02 GiB is free. Of the allocated memory 37.50 GiB is allocated by PyTorch, and 93.15 MiB is reserved by "
    "PyTorch but unallocated."
)
STUCK = "TimeoutError: RPC call to execute_model timed out."
PATIENCE = 30.0
"""Seconds until a test gives up; a loaded machine is slow to start Python."""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "vlogdiag", *words]


class Running:
    """A tail in a process of its own; its lines come through a queue."""

    def __init__(self, *words: str, env: dict[str, str] | None = None, stdin: int | None = subprocess.DEVNULL) -> None:
        self.process = subprocess.Popen(
            command("tail", *words),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TZ": "UTC", "CI": "1", **(env or {})},
        )
        self.lines: Queue[str] = Queue()
        self.seen: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def until(self, wanted: Callable[[str], bool]) -> str:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(Empty):
                line = self.lines.get(timeout=0.1)
                self.seen.append(line)
                if wanted(line):
                    return line
            if self.process.poll() is not None and self.lines.empty():
                break
        raise AssertionError(f"never came; {''.join(self.seen)[-2000:]!r}")

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Signal, then status and what stood on standard error."""
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        complaints = self.process.stderr.read()
        while not self.lines.empty():
            self.seen.append(self.lines.get())
        return status, complaints

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.seen]


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(*words: str, **options: Any) -> Running:
        started.append(Running(*words, **options))
        return started[-1]

    yield begin
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()
        for stream in (running.process.stdin, running.process.stdout, running.process.stderr):
            if stream is not None:
                stream.close()


def of_type(kind: str) -> Callable[[str], bool]:
    return lambda line: json.loads(line)["type"] == kind


def now(printer: Printer) -> Printer:
    printer.now = datetime.now(timezone.utc).replace(tzinfo=None)
    return printer


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n")


class Writer:
    """Appends to a log what a printer has printed since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.printer = now(server("0.11.0")).wait(-600)
        self.done = 0

    def write(self) -> Writer:
        with self.path.open("a") as file:
            file.writelines(line + "\n" for line in self.printer.out[self.done :])
        self.done = len(self.printer.out)
        return self


@pytest.fixture
def log(tmp_path: Path) -> Writer:
    writer = Writer(tmp_path / "vllm.log")
    writer.printer.start().access()
    return writer.write()


def test_ctrl_c_ends_cleanly_with_zero_while_all_is_well_and_says_what_it_cost(
    log: Writer, start: Callable[..., Running], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    tail = start(str(log.path), "--json", "--no-live", "--stats", "--state", str(state))
    while not state.exists():  # the first look is over
        time.sleep(0.02)
    status, complaints = tail.end()
    assert (status, tail.seen) == (0, [])
    assert complaints.startswith("vlogdiag: ")
    assert f"{lines_of(log.path)} lines" in complaints


def test_a_finding_is_printed_while_the_server_runs_and_decides_the_status(
    log: Writer, start: Callable[..., Running]
) -> None:
    tail = start(str(log.path), "--no-live")
    now(log.printer).error(CORE, "core.py:710", STUCK)
    log.write()
    tail.until(lambda line: "rpc-timeout" in line)  # beside the title, or below it where the title fills the line
    status, complaints = tail.end(signal.SIGTERM)
    assert (status, complaints) == (1, "")


def test_a_reader_that_has_gone_ends_it_quietly(log: Writer, start: Callable[..., Running]) -> None:
    now(log.printer).error(CORE, "core.py:710", STUCK)
    log.write()
    tail = subprocess.Popen(
        f"{' '.join(command('tail', str(log.path), '--json', '--no-live'))} | head -1",
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CI": "1"},
    )
    assert tail.stdout is not None
    assert json.loads(tail.stdout.readline())["type"] == "finding.opened"
    for _ in range(20):
        now(log.printer).error(CORE, "core.py:711", OOM)
        log.write()
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, complaints = tail.communicate(timeout=PATIENCE / 20)
            break
    assert tail.returncode == 0
    assert complaints == ""


def test_a_pipe_that_ends_ends_it_with_the_findings_of_scan(start: Callable[..., Running]) -> None:
    sample = Path("sample_logs/graph-capture-tp4.log").read_bytes()
    tail = start("-", "--json", stdin=subprocess.PIPE)
    assert tail.process.stdin is not None
    tail.process.stdin.buffer.write(sample)  # type: ignore[attr-defined]
    tail.process.stdin.close()
    assert tail.process.wait(PATIENCE) == 1
    tail.until(of_type("finding.closed"))
    closed = [event["data"] for event in tail.events() if event["type"] == "finding.closed"]
    scanned = CliRunner().invoke(app, ["scan", "sample_logs/graph-capture-tp4.log", "--json"])
    expected = json.loads(scanned.stdout)["findings"]
    assert json.loads(json.dumps(closed).replace('"-"', '"sample_logs/graph-capture-tp4.log"')) == expected


def test_a_resumed_tail_reads_every_line_once(log: Writer, start: Callable[..., Running], tmp_path: Path) -> None:
    state = tmp_path / "state"
    counts = []
    for error in (STUCK, OOM):
        now(log.printer).error(CORE, "core.py:710", error)
        log.write()
        tail = start(str(log.path), "--json", "--no-live", "--from-start", "--state", str(state), "--stats")
        tail.until(of_type("finding.opened"))
        status, complaints = tail.end()
        counts.append(int(complaints.split()[1]))
        assert status == 1
    assert sum(counts) == lines_of(log.path)
    assert counts[1] == 1
    (again,) = [event["data"] for event in tail.events() if event["type"] == "finding.opened"]
    assert again["id"] == "gpu-out-of-memory"
    assert again["first"]["line"] is None  # it began in the middle of the file
    assert again["first"]["offset"] == log.path.read_bytes().rindex(b"\x1b[1;36m(EngineCore")


def test_what_was_recorded_says_in_scan_to_the_letter_what_tail_said(
    log: Writer, start: Callable[..., Running], tmp_path: Path
) -> None:
    folder = tmp_path / "nvml"
    folder.mkdir()
    driver = Driver(build(folder), tmp_path / "scenario")
    driver.play(healthy(1, gpu__0__throttle="0x80", gpu__0__sm=345))
    recording = tmp_path / "readings"
    tail = start(str(log.path), "--json", "--from-start", "--record", str(recording), env=driver.environment)
    tail.until(lambda line: of_type("reading")(line) and bool(json.loads(line)["data"]["gpus"]))
    now(log.printer).access().info(CORE, "core.py:1", "a line that shows the log's clock")
    log.write()
    time.sleep(1.1)  # log times are whole seconds: the record must not seem to be older than the reading
    now(log.printer).error(CORE, "core.py:710", STUCK)
    log.write()
    tail.until(of_type("finding.opened"))
    assert tail.end()[0] == 1
    (told,) = [event["data"] for event in tail.events() if event["type"] == "finding.closed"]
    assert told["evidence"][-2]["text"].startswith("GPU 0 was slowed down (hw_power_brake_slowdown)")
    assert told["evidence"][-1]["kind"] == "reading"
    scanned = CliRunner().invoke(app, ["scan", str(log.path), "--readings", str(recording), "--json"])
    assert json.loads(scanned.stdout)["findings"] == [told]
    alone = CliRunner().invoke(app, ["scan", str(log.path), "--json"])
    (finding,) = json.loads(alone.stdout)["findings"]
    assert finding["evidence"] == told["evidence"][:-2]


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path, start: Callable[..., Running]) -> None:
    writer = Writer(tmp_path / "vllm.log")
    tail = start(str(writer.path), "--json", "--no-live")
    assert tail.process.stderr is not None
    assert tail.process.stderr.readline() == f"vlogdiag: {writer.path}: not there yet; waiting for it\n"
    writer.printer.start().error(CORE, "core.py:710", STUCK)
    writer.write()
    opened = json.loads(tail.until(of_type("finding.opened")))
    assert opened["data"]["first"]["line"] == lines_of(writer.path)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--exec", ""], 2, "--exec: no command"),
        (["--notify", "nosuch://x"], 2, "does not know this kind of URL"),
        (["--listen", "9108"], 2, "write HOST:PORT"),
        (["--metrics", "localhost:8000"], 2, "--metrics: expected http://HOST:PORT/metrics"),
        (["--record", "{nowhere}/file"], 3, "nowhere/file"),
        (["--rules", "{nowhere}"], 3, "no such rules folder"),
        (["--vllm-version", "99"], 2, "99"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_followed(
    tmp_path: Path, words: list[str], status: int, said: str
) -> None:
    log = tmp_path / "vllm.log"
    log.touch()
    nowhere = str(tmp_path / "nowhere")
    result = CliRunner().invoke(app, ["tail", str(log), *(word.replace("{nowhere}", nowhere) for word in words)])
    assert result.exit_code == status
    assert said in result.stderr


def test_a_damaged_state_file_is_no_reason_to_read_everything_again(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("{")
    result = CliRunner().invoke(app, ["tail", "vllm.log", "--state", str(state)])
    assert result.exit_code == 3
    assert "delete it to start anew" in result.stderr


def test_scan_says_on_request_who_holds_the_memory_now(log: Writer, tmp_path: Path) -> None:
    folder = tmp_path / "nvml"
    folder.mkdir()
    driver = Driver(build(folder), tmp_path / "scenario")
    driver.play(healthy(2))
    env = {**driver.environment, "CI": "1"}
    plain = subprocess.run(command("scan", str(log.path)), capture_output=True, text=True, env=env)
    assert "GPU 0" not in plain.stdout  # by default the driver is asked nothing
    live = subprocess.run(command("scan", str(log.path), "--live"), capture_output=True, text=True, env=env)
    assert live.stdout.startswith(plain.stdout.rstrip("\n"))
    now_lines = live.stdout[live.stdout.index("now (not at the time of the log):") :].splitlines()
    assert now_lines[1].startswith("  GPU 0: 20.0 of 24.0 GiB used")
    assert now_lines[2].startswith("  GPU 1: 20.0 of 24.0 GiB used")

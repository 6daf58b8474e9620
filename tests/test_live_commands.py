"""Command lines cut down to what a process is: no secrets, no control characters, no stranger with the same number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from vlogdiag.live.commands import looks_like_vllm, short_command
from vlogdiag.live.process_names import FIRST_PID_NAMESPACE, command_of, describe_process

SPAWN = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/usr/bin/python3", "train.py", "--token", "hf_secret"], "python3 train.py"),
        (["python", "-u", "-O", "train.py", "positional"], "python train.py"),
        (["python3.11", "-m", "torch.distributed.run", "--nproc", "2"], "python3.11 -m torch.distributed.run"),
        (["python", "-c", "import os; os.environ['HF_TOKEN']='hf_secret'"], "python -c …"),
        (["python"], "python"),
        (["sh", "-c", "HF_TOKEN=hf_secret exec python x.py"], "sh"),
        (
            ["/usr/bin/python3", "/usr/local/bin/vllm", "serve", "Qwen/Qwen3-VL-8B-Instruct", "--api-key", "sk-secret"],
            "python3 /usr/local/bin/vllm serve Qwen/Qwen3-VL-8B-Instruct",
        ),
        (["vllm", "serve", "--api-key", "sk-secret"], "vllm serve"),
        (
            ["python", "-m", "vllm.entrypoints.openai.api_server", "--api-key", "sk-secret"],
            "python -m vllm.entrypoints.openai.api_server",
        ),
        (["VLLM::EngineCore"], "VLLM::EngineCore"),
        (["python3 /app/train.py --api-key sk-secret"], "python3 /app/train.py"),
        (["/usr/lib/xorg/Xorg", ":0"], "Xorg"),
        (["evil\x1b[2Jname"], "evil�[2Jname"),
        (["python", "a" * 300 + ".py"], "python " + "a" * 112 + "…"),
        ([], None),
        ([""], None),
        (["", "\0", " "], "�"),
    ],
)
def test_a_command_says_what_runs_and_keeps_its_secrets(argv: list[str], expected: str | None) -> None:
    assert short_command(argv) == expected
    assert "secret" not in str(short_command(argv))


@pytest.mark.parametrize(
    ("command", "vllm"),
    [
        ("vllm serve Qwen/Qwen3-VL-8B-Instruct", True),
        ("python3 /usr/local/bin/vllm serve Qwen/Qwen3-VL-8B-Instruct", True),
        ("python -m vllm.entrypoints.openai.api_server", True),
        ("python -m vllm.entrypoints.openai.api_server (child)", True),
        ("VLLM::EngineCore", True),
        ("VLLM::Worker_TP1", True),
        ("ray::RayWorkerWrapper", True),
        ("python train.py", False),
        ("python3 /home/me/vllm/benchmarks/train.py", False),
        ("python -m sglang.launch_server", False),
        ("python /usr/bin/vlogdiag", False),
        ("ray::TrainWorker", False),
        ("llama-server", False),
    ],
)
def test_vllms_own_processes_are_told_from_others(command: str, vllm: bool) -> None:
    assert looks_like_vllm(command) is vllm


class Played(psutil.Process):
    """A process that this machine does not run."""

    def __init__(self, argv: list[str], parents: list[list[str]] = []) -> None:  # noqa: B006 (read only)
        self._argv = argv
        self._parents = parents

    def cmdline(self) -> list[str]:
        return self._argv

    def name(self) -> str:
        return "kernel-name"

    def parents(self) -> list[psutil.Process]:
        return [Played(argv) for argv in self._parents]


@pytest.mark.parametrize(
    ("argv", "parents", "expected"),
    [
        (["python3", "-c", SPAWN], [["vllm", "serve", "m"], ["bash"]], "vllm serve m (child)"),
        (["python3", "-c", SPAWN], [["python3", "-c", SPAWN], ["python", "train.py"]], "python train.py (child)"),
        (["python3", "-c", SPAWN], [["/sbin/init"]], None),
        (["python3", "-c", SPAWN], [], None),
        ([], [], "kernel-name"),
    ],
)
def test_a_spawned_child_is_named_after_its_parent_and_an_orphan_after_nobody(
    argv: list[str], parents: list[list[str]], expected: str | None
) -> None:
    assert describe_process(Played(argv, parents)) == expected


def namespace(root: Path, inode: str, holding: dict[int, str] = {}) -> Path:  # noqa: B006 (read only)
    (root / "self/ns").mkdir(parents=True)
    (root / "self/ns/pid").symlink_to(inode)
    for pid, device in holding.items():
        (root / f"{pid}/fd").mkdir(parents=True)
        (root / f"{pid}/fd/3").symlink_to(device)
    return root


def test_outside_a_container_a_process_is_named(tmp_path: Path) -> None:
    assert command_of(os.getpid(), proc=namespace(tmp_path, FIRST_PID_NAMESPACE)) is not None


def test_in_a_container_the_hosts_number_is_not_taken_for_ours(tmp_path: Path) -> None:
    assert command_of(os.getpid(), proc=namespace(tmp_path, "pid:[4026532999]")) is None


def test_in_a_container_a_process_that_holds_the_device_is_named(tmp_path: Path) -> None:
    held = {os.getpid(): "/dev/nvidia0", os.getppid(): "/dev/null"}
    proc = namespace(tmp_path, "pid:[4026532999]", held)
    assert command_of(os.getpid(), proc=proc) is not None
    assert command_of(os.getppid(), proc=proc) is None


def test_a_process_that_is_gone_is_unknown(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert command_of(child.pid, proc=namespace(tmp_path, FIRST_PID_NAMESPACE)) is None

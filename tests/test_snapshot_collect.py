"""Collectors against folders that play a machine: packages, model files, control groups, tools, processes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from vlogdiag.model import RunSummary
from vlogdiag.snapshot.collect import host, launch, model_folder, network, server, toolchain, versions
from vlogdiag.snapshot.collect.arguments import arguments_of
from vlogdiag.snapshot.collect.base import Context, ServerProcess
from vlogdiag.snapshot.collect.commands import Output, run_command
from vlogdiag.snapshot.collect.environment import allowed
from vlogdiag.snapshot.collect.safetensors import check_weights
from vlogdiag.snapshot.collect.site_packages import find_site_packages, folders_in


def put(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# --- arguments and environment ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("/v/bin/python /v/bin/vllm serve org/m --port 8001", {"model_tag": "org/m", "port": 8001}),
        ("vllm serve org/m -tp 2 --max_model_len=8192", {"model_tag": "org/m", "tensor_parallel_size": 2, "max_model_len": 8192}),
        (
            "python3 -m vllm.entrypoints.openai.api_server --model m --enforce-eager --host 10.0.0.7",
            {"model": "m", "enforce_eager": True, "host": "10.0.0.7"},
        ),
        ("vllm serve m --max-num-batched-tokens 8192 --api-key a b", {"model_tag": "m", "max_num_batched_tokens": 8192, "api_key": ["a", "b"]}),
        ("VLLM::EngineCore", None),
        ("python train.py serve", None),
    ],
)  # fmt: skip
def test_arguments_by_the_command_line(command: str, arguments: dict[str, object] | None) -> None:
    assert arguments_of(command.split()) == arguments


def test_only_what_decides_how_vllm_runs_leaves_the_environment() -> None:
    given = {
        "VLLM_USE_V1": "1", "NCCL_DEBUG": "INFO", "PYTORCH_ALLOC_CONF": "x", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "4", "PATH": "/bin",
        "HF_TOKEN": "t", "HF_HUB_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "t", "DATABASE_URL": "t", "SSH_AUTH_SOCK": "t", "MY_VLLM": "t",
    }  # fmt: skip
    assert list(allowed(given)) == [
        "HF_HUB_OFFLINE", "NCCL_DEBUG", "OMP_NUM_THREADS", "PATH", "PYTORCH_ALLOC_CONF", "VLLM_USE_V1"
    ]  # fmt: skip


def test_a_title_written_over_the_command_line_is_no_command() -> None:
    process = ServerProcess(5, ("VLLM::EngineCore",), "VLLM::EngineCore", environment={"VLLM_USE_V1": "1"})
    data = launch.collect(Context(processes=(process,), run=RunSummary(1, 1, 2, args={"port": 1}))).data
    assert data["command"] is None
    assert data["arguments_by_log"] == {"port": 1}
    assert data["environment"] == {"VLLM_USE_V1": "1"}


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A virtual environment's folders as pip leaves them."""
    packages = tmp_path / "venv/lib/python3.12/site-packages"
    for name, version in {
        "vllm": "0.11.0",
        "torch": "2.8.0+cu128",
        "nvidia_nccl_cu12": "2.27.3",
        "Left_Over": "1",
    }.items():
        put(
            packages / f"{name}-{version}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\ntext\nName: no\n",
        )
    put(packages / "torch-2.7.0.dist-info/METADATA", "Name: torch\nVersion: 2.7.0\n")
    put(
        packages / "vllm-0.11.0.dist-info/direct_url.json",
        json.dumps({"url": "file:///src", "dir_info": {"editable": True}}),
    )
    put(
        packages / "torch/version.py",
        "from typing import Optional\n__version__ = '2.8.0+cu128'\ncuda: Optional[str] = '12.8'\nhip = None\n",
    )
    put(packages / "vllm/_version.py", "__version__ = version = '0.11.0'\n__commit_id__ = 'gabc123'\n")
    put(packages / "broken-1.dist-info/RECORD", "")
    put(tmp_path / "venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.3\n")
    put(tmp_path / "venv/bin/vllm", f"#!{tmp_path}/venv/bin/python3\n").chmod(0o755)
    return tmp_path / "venv"


def test_versions_are_read_without_importing_anything(venv: Path) -> None:
    context = Context(site_packages=(str(venv / "lib/python3.12/site-packages"),), environment={"PATH": "/nowhere"})
    found = versions.collect(context)
    assert found.data["packages"] == ["nvidia-nccl-cu12==2.27.3", "torch==2.7.0", "torch==2.8.0+cu128", "vllm==0.11.0"]
    assert found.data["twice"] == {"torch": ["2.7.0", "2.8.0+cu128"]}
    assert found.data["editable"] == ["vllm"]
    assert found.data["torch"] == {"__version__": "2.8.0+cu128", "cuda": "12.8"}
    assert found.data["vllm"]["__commit_id__"] == "gabc123"
    assert found.data["python"] == "3.12.3"
    assert "left-over==1\n" in found.files["packages.txt"]


def test_the_interpreters_packages_are_found_from_the_process(venv: Path, tmp_path: Path) -> None:
    process = ServerProcess(77, (str(venv / "bin/python3"), str(venv / "bin/vllm"), "serve", "m"))
    maps = f"7f00-7f01 r-xp 00000000 fe:00 1 {venv}/lib/python3.12/site-packages/torch/lib/libtorch.so\n"
    put(tmp_path / "root/proc/77/maps", maps)
    context = Context(processes=(process,), root=tmp_path / "root", environment={"PATH": "/nowhere"})
    assert find_site_packages(context)[0] == venv / "lib/python3.12/site-packages"


def test_the_vllm_on_the_path_tells_where_its_packages_are(venv: Path) -> None:
    context = Context(environment={"PATH": str(venv / "bin")})
    assert find_site_packages(context)[0] == venv / "lib/python3.12/site-packages"


def test_tracebacks_tell_where_packages_are() -> None:
    text = '  File "/opt/venv/lib/python3.12/site-packages/vllm/x.py", line 1\n' * 3
    assert folders_in([text]) == ("/opt/venv/lib/python3.12/site-packages",)


def test_an_installation_without_vllm_is_said(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.12/site-packages"
    put(packages / "numpy-2.dist-info/METADATA", "Name: numpy\nVersion: 2\n")
    context = Context(site_packages=(str(packages),), environment={"PATH": "/nowhere"})
    assert [item.source for item in versions.collect(context).unavailable] == ["vllm"]


# --- model folder -----------------------------------------------------------------------------------------------------


def safetensors(tensors: dict[str, int]) -> bytes:
    at, header = 0, {}
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(at)


def test_weights_are_checked_by_their_headers(tmp_path: Path) -> None:
    good = safetensors({"a": 10, "b": 20})
    files = {
        "good.safetensors": good,
        "short.safetensors": good[:-5],
        "long.safetensors": good + b"x",
        "pointer.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n",
        "empty.safetensors": b"",
        "text.safetensors": b"<html>not found</html>",
        "header.safetensors": (50).to_bytes(8, "little") + b"{" * 50,
        "inside.safetensors": (5000).to_bytes(8, "little") + b"{}",
        "old.bin": b"PK",
    }
    for name, data in files.items():
        put(tmp_path / name, data)
    index = {"metadata": {"total_size": 30}, "weight_map": {"a": "good.safetensors", "b": "lost.safetensors"}}
    found = check_weights(tmp_path, {name: len(data) for name, data in files.items()}, index)
    assert found["missing_by_index"] == ["lost.safetensors"]
    assert "short.safetensors" in found["not_in_index"]
    assert found["index_total_size"] == 30
    assert found["problems"] == {
        "short.safetensors": f"cut off: {len(good) - 5} of {len(good)} bytes",
        "long.safetensors": f"longer than its header says: {len(good) + 1} instead of {len(good)} bytes",
        "pointer.safetensors": "a git-lfs pointer, not the file itself (git lfs pull)",
        "empty.safetensors": "empty file",
        "text.safetensors": "header too large: not a safetensors file, or cut off",
        "header.safetensors": "its header is not JSON",
        "inside.safetensors": "cut off inside its header",
    }


def test_the_model_folder_of_a_path(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "id2label": {"0": "secret"},
        "text_config": {"num_hidden_layers": 2, "unknown": 1},
        "layer_types": ["full"] * 40,
    }
    put(tmp_path / "m/config.json", json.dumps(config))
    put(tmp_path / "m/tokenizer_config.json", json.dumps({"tokenizer_class": "X", "chat_template": "{{ messages }}"}))
    put(tmp_path / "m/model.safetensors", safetensors({"a": 3}))
    put(tmp_path / "m/tokenizer.json", "{}")
    (tmp_path / "m/gone.bin").symlink_to(tmp_path / "nowhere")
    found = model_folder.collect(Context(arguments={"model_tag": str(tmp_path / "m")}))
    data = found.data
    assert data["config"]["text_config"] == {"num_hidden_layers": 2}
    assert "id2label" not in data["config"]
    assert data["config"]["layer_types"][-1] == "… 40 in all"
    assert data["weights"]["problems"] == {}
    assert data["broken_links"] == ["gone.bin"]
    assert data["tokenizer"] == {"files": ["tokenizer.json"], "class": "X", "processor": None}
    assert data["chat_template"]["in"] == "tokenizer_config.json"


def test_a_repository_is_found_in_the_servers_cache(tmp_path: Path) -> None:
    repository = tmp_path / "hf/hub/models--org--tiny"
    put(repository / "refs/main", "abc\n")
    put(repository / "snapshots/abc/config.json", "{}")
    put(repository / "blobs/x.incomplete", "")
    process = ServerProcess(5, environment={"HF_HOME": str(tmp_path / "hf")})
    found = model_folder.collect(Context(processes=(process,), arguments={"model": "org/tiny"}))
    assert found.data["folder"] == str(repository / "snapshots/abc")
    assert found.data["unfinished_downloads"] == ["x.incomplete"]


@pytest.mark.parametrize(
    ("content", "reason"), [("{", "not JSON: "), (None, "No such file or directory"), ("[" * 100_000, "not JSON: ")]
)
def test_a_config_that_cannot_be_read_is_said(content: str | None, reason: str, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    if content is not None:
        put(tmp_path / "m/config.json", content)
    found = model_folder.collect(Context(model_path=tmp_path / "m"))
    assert {item.source: item.reason for item in found.unavailable}["config.json"].startswith(reason)


# --- host, toolchain, network, server ---------------------------------------------------------------------------------


def test_the_servers_own_group_and_limits_are_read(tmp_path: Path) -> None:
    put(tmp_path / "proc/77/cgroup", "0::/pod/vllm\n")
    put(tmp_path / "sys/fs/cgroup/pod/vllm/memory.current", "5\n")
    put(tmp_path / "sys/fs/cgroup/pod/vllm/memory.max", "9223372036854771712\n")
    put(tmp_path / "sys/fs/cgroup/pod/vllm/memory.events", "oom 2\noom_kill 1\n")
    put(
        tmp_path / "proc/77/limits",
        f"{'Limit':26}{'Soft Limit':21}{'Hard Limit':21}Units\n{'Max open files':26}{'1024':21}{'4096':21}files\n",
    )
    put(tmp_path / "proc/vmstat", "oom_kill 3\n")
    put(tmp_path / ".dockerenv", "")
    put(tmp_path / "etc/os-release", 'NAME="x"\nPRETTY_NAME="Debian 12"\n')
    data = host.collect(Context(processes=(ServerProcess(77, environment={"A": "b"}),), root=tmp_path)).data
    assert data["cgroup"][f"{tmp_path}/sys/fs/cgroup/pod/vllm"] == {
        "memory.max": "max", "memory.current": "5", "memory.events": "oom 2\noom_kill 1"
    }  # fmt: skip
    assert data["limits"] == {"Max open files": "1024 / 4096"}
    assert data["oom_kills_since_start"] == 3
    assert "/.dockerenv" in data["container"]
    assert data["distribution"] == "Debian 12"
    assert data["disks"]["tmp"]["total"] > 0


def tool(path: Path, text: str) -> None:
    put(path, f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_tools_are_those_on_the_servers_path(tmp_path: Path) -> None:
    tool(
        tmp_path / "bin/nvcc",
        "printf 'nvcc: NVIDIA (R) Cuda compiler driver\\nCuda compilation tools, release 12.8, V12.8.93\\n'",
    )
    tool(tmp_path / "bin/gcc", "echo gcc 12.2")
    put(tmp_path / "cuda/version.json", '{"cuda": {"version": "12.8.1"}}')
    put(tmp_path / "root/proc/driver/nvidia/version", "NVRM version: 570.86\n")
    put(tmp_path / "root/proc/77/maps", "7f00-7f01 r-xp 0 0 0 /usr/lib/x86_64-linux-gnu/libcuda.so.570.86\n")
    environment = {"PATH": f"{tmp_path}/bin", "CUDA_HOME": f"{tmp_path}/cuda"}
    process = ServerProcess(77, environment=environment)
    found = toolchain.collect(Context(processes=(process,), root=tmp_path / "root"))
    assert found.data["tools"]["nvcc"]["version"] == "Cuda compilation tools, release 12.8, V12.8.93"
    assert found.data["tools"]["gcc"]["path"] == f"{tmp_path}/bin/gcc"
    assert found.data["CUDA_HOME_version"] == "12.8.1"
    assert found.data["driver"] == "NVRM version: 570.86"
    assert found.data["libraries_loaded"] == ["/usr/lib/x86_64-linux-gnu/libcuda.so.570.86"]
    assert "ninja" in {item.source for item in found.unavailable}


def test_a_host_name_that_does_not_resolve_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object) -> list[object]:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr(network.socket, "getaddrinfo", unknown)
    found = network.collect(Context())
    assert {item.source: item.reason for item in found.unavailable}["host name"] == "Name or service not known"
    assert found.data["interfaces"]


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        (Context(), "no running server, and no log that names one"),
        (Context(url="ftp://x"), "not a URL of a server: expected http://HOST:PORT"),
        (Context(run=RunSummary(1, 1, 2), arguments={"host": "192.0.2.77", "port": 8000}), "the server is not on this machine"),
    ],
)  # fmt: skip
def test_no_server_is_asked_where_none_is_known_here(context: Context, reason: str) -> None:
    assert server.collect(context).unavailable[0].reason == reason


# --- programs ---------------------------------------------------------------------------------------------------------


def test_a_program_without_end_of_output_is_stopped(tmp_path: Path) -> None:
    tool(tmp_path / "yes", "while :; do echo yes; done")
    answer = run_command(["yes"], limit=20, environment={"PATH": f"{tmp_path}:/bin"}, max_output=10_000)
    assert isinstance(answer, Output)
    assert (len(answer.text), answer.status) == (10_000, None)


def test_a_program_that_closes_its_output_and_stays_is_given_up(tmp_path: Path) -> None:
    tool(tmp_path / "stay", "exec >&- 2>&-; sleep 60")
    answer = run_command(["stay"], limit=0.3, environment={"PATH": f"{tmp_path}:/bin:/usr/bin"})
    assert not isinstance(answer, Output)
    assert answer.reason == "did not end within 0.3 s"


def test_a_program_that_is_no_program_is_said(tmp_path: Path) -> None:
    path = put(tmp_path / "nvcc", b"\x00\x01")
    path.chmod(0o755)
    answer = run_command(["nvcc"], limit=1, environment={"PATH": str(tmp_path)})
    assert not isinstance(answer, Output)
    assert "format" in answer.reason.lower()


def test_children_of_a_stopped_program_go_too(tmp_path: Path) -> None:
    tool(tmp_path / "parent", f"sleep 60 & echo $! > {tmp_path}/child; sleep 60")
    run_command(["parent"], limit=0.5, environment={"PATH": f"{tmp_path}:/bin:/usr/bin"})
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        try:
            state = Path(f"/proc/{child}/stat").read_text().split()[2]
        except OSError:
            break
        if state == "Z":
            break
        os.sched_yield()
    else:
        pytest.fail("the child is still running")

"""Compilers and CUDA as the server's process would find them: its CUDA_HOME, its PATH, the libraries it has loaded."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from vlogdiag.model import Unavailable
from vlogdiag.snapshot.collect.base import Collected, Context
from vlogdiag.snapshot.collect.commands import Output, run_command

NAME = "toolchain"
TOOLS = ("nvcc", "gcc", "g++", "ninja", "ld", "cmake", "ptxas")
LIMIT = 3.0
_LIBRARY = re.compile(r"(/\S*/lib(?:cuda|cudart|nccl|nvidia-ml|cudnn|cublas|amdhip64)(?:-[0-9a-f]+)?\.so[\w.]*)")
_LIBCUDA_PLACES = (
    "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib/wsl/lib", "usr/local/cuda/compat",
    "usr/local/nvidia/lib64",
)  # fmt: skip


def collect(context: Context) -> Collected:
    """Where each tool lies and what it calls itself; nothing is compiled."""
    environment = dict(context.seen_environment)
    path = environment.get("PATH")
    missing: list[Unavailable] = []
    found = {tool: shutil.which(tool, path=path) for tool in TOOLS}
    variables: dict[str, str] = {name: environment[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in environment}
    with ThreadPoolExecutor(len(TOOLS), thread_name_prefix="tool") as pool:
        jobs = {
            tool: pool.submit(run_command, (place, "--version"), limit=LIMIT, environment=variables)
            for tool, place in found.items()
            if place is not None
        }
        answers = {tool: job.result() for tool, job in jobs.items()}
    tools: dict[str, Any] = {}
    for tool, place in found.items():
        if place is None:
            missing.append(Unavailable(tool, "not on PATH"))
            continue
        answer = answers[tool]
        if isinstance(answer, Output):
            tools[tool] = {"path": place, "version": _version_line(answer.text)}
        else:
            tools[tool] = {"path": place, "version": None}
            missing.append(Unavailable(tool, answer.reason))
    home = environment.get("CUDA_HOME") or environment.get("CUDA_PATH")
    data: dict[str, Any] = {
        "of": "the server's environment" if context.seen is not None else "this program's environment",
        "PATH": path,
        "CUDA_HOME": home,
        "CUDA_HOME_version": _cuda_version(Path(home)) if home else None,
        "usr_local_cuda_version": _cuda_version(context.root / "usr/local/cuda"),
        "tools": tools,
        "libraries_loaded": _loaded(context),
        "libcuda": _libcuda(context.root),
        "driver": _driver(context.root),
    }
    if data["libcuda"] == [] and not any("libcuda.so" in name for name in data["libraries_loaded"]):
        missing.append(Unavailable("libcuda", "no libcuda.so in the usual places and none loaded by the server"))
    return Collected(NAME, data, unavailable=tuple(missing))


def _version_line(text: str) -> str | None:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    release = next((line for line in lines if "release" in line), None)  # nvcc says it in its fourth line
    return (release or (lines[0] if lines else None) or "")[:200] or None


def _cuda_version(home: Path) -> str | None:
    try:
        data = json.loads((home / "version.json").read_bytes()[: 1 << 20])
        return str(data["cuda"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        return (home / "version.txt").read_text(errors="replace")[:200].strip() or None
    except OSError:
        return None


def _loaded(context: Context) -> list[str]:
    """CUDA's libraries that the server's processes have mapped."""
    found: dict[str, None] = {}
    for process in context.processes[:4]:
        try:
            with (context.root / "proc" / str(process.pid) / "maps").open(errors="replace") as file:
                for match in _LIBRARY.finditer(file.read(8 << 20)):
                    found.setdefault(match[1])
        except OSError:
            continue  # another user's process, or gone
    return sorted(found)


def _libcuda(root: Path) -> list[str]:
    return sorted(str(path) for place in _LIBCUDA_PLACES for path in (root / place).glob("libcuda.so*"))


def _driver(root: Path) -> str | None:
    try:
        return (root / "proc/driver/nvidia/version").read_text(errors="replace")[:1000].strip()
    except OSError:
        return None

"""Versions of vLLM and what it stands on, read from the metadata that the server's Python would import from."""

from __future__ import annotations

import json
import re
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from vlogdiag.model import Unavailable
from vlogdiag.snapshot.collect.base import Collected, Context
from vlogdiag.snapshot.collect.site_packages import find_site_packages
from vlogdiag.snapshot.spans import words

NAME = "versions"

SHOWN = words("""
    vllm torch torchvision torchaudio transformers tokenizers triton xformers flashinfer-python flashinfer
    flashinfer-cubin flash-attn numpy ray pydantic fastapi uvicorn safetensors huggingface-hub accelerate
    compressed-tensors xgrammar outlines outlines-core llguidance lm-format-enforcer bitsandbytes autoawq
    gptqmodel peft mistral-common openai prometheus-client nvidia-nccl-cu12 nvidia-nccl-cu13 nvidia-cudnn-cu12
    nvidia-cudnn-cu13 nvidia-cublas-cu12 nvidia-cublas nvidia-cuda-runtime-cu12 nvidia-cuda-runtime
    nvidia-nvshmem-cu12 nvidia-ml-py pynvml cupy-cuda12x lmcache nixl deep-ep deep-gemm modelscope
    opencv-python-headless pillow qwen-vl-utils setproctitle pyzmq msgspec amd-aiter amdsmi
    """)
MAX_PACKAGES = 3000
MAX_METADATA = 64 << 10
_CONSTANT = re.compile(r"^(?P<name>\w+)\s*(?::[^=\n]{0,60})?=\s*['\"](?P<value>[^'\"\n]{1,100})['\"]", re.M)


def collect(context: Context) -> Collected:
    """Packages by their `*.dist-info/METADATA`, torch's CUDA by its `version.py`; nothing is imported."""
    folders = find_site_packages(context)
    with_vllm = [folder for folder in folders if (folder / "vllm").is_dir() or any(folder.glob("vllm-*.dist-info"))]
    chosen = tuple(with_vllm or folders[:1])
    if not chosen:
        return Collected(NAME, unavailable=(Unavailable(NAME, "no folder with Python packages was found"),))
    packages: dict[str, list[str]] = {}
    editable: list[str] = []
    for folder in chosen:
        for name, version, is_editable in _packages(folder):
            if version not in packages.setdefault(name, []):
                packages[name].append(version)
            if is_editable:
                editable.append(name)
    data: dict[str, Any] = {
        "site_packages": [str(folder) for folder in chosen],
        "python": _python(chosen[0]),
        "packages": [f"{name}=={version}" for name in sorted(SHOWN & packages.keys()) for version in packages[name]],
        "twice": {name: found for name, found in sorted(packages.items()) if len(found) > 1},
        "editable": sorted(set(editable)),
        "torch": _constants(chosen, "torch/version.py", ("__version__", "cuda", "hip", "git_version", "debug")),
        "vllm": _constants(chosen, "vllm/_version.py", ("__version__", "version", "commit_id", "__commit_id__")),
    }
    missing = []
    if "vllm" not in packages and not data["vllm"]:
        missing.append(Unavailable("vllm", "not installed in " + ", ".join(data["site_packages"])))
    listing = "".join(f"{name}=={version}\n" for name, found in sorted(packages.items()) for version in found)
    return Collected(NAME, data, {"packages.txt": listing}, tuple(missing))


def _packages(folder: Path) -> list[tuple[str, str, bool]]:
    found = []
    for entry in sorted(folder.glob("*.dist-info"))[:MAX_PACKAGES]:
        try:
            with (entry / "METADATA").open("rb") as file:
                head = HeaderParser().parsestr(file.read(MAX_METADATA).decode("utf-8", "replace"))
        except OSError:
            continue  # a leftover of a package that was removed
        name, version = head.get("Name"), head.get("Version")
        if name and version:
            found.append((re.sub(r"[-_.]+", "-", name).lower(), version, _is_editable(entry)))
    return found


def _is_editable(entry: Path) -> bool:
    try:
        direct = json.loads((entry / "direct_url.json").read_bytes()[:MAX_METADATA])
    except (OSError, ValueError):
        return False
    return isinstance(direct, dict) and bool((direct.get("dir_info") or {}).get("editable"))


def _constants(folders: tuple[Path, ...], name: str, wanted: tuple[str, ...]) -> dict[str, str]:
    for folder in folders:
        try:
            with (folder / name).open("rb") as file:
                text = file.read(MAX_METADATA).decode("utf-8", "replace")
        except OSError:
            continue
        return {match["name"]: match["value"] for match in _CONSTANT.finditer(text) if match["name"] in wanted}
    return {}


def _python(folder: Path) -> str | None:
    """`3.12` by the folder's name, and to the patch level where it is a virtual environment."""
    for parent in folder.parents:
        try:
            settings = (parent / "pyvenv.cfg").read_text(errors="replace")[:MAX_METADATA]
        except OSError:
            continue
        match = re.search(r"^version(?:_info)?\s*=\s*(\d+(?:\.\d+){1,3})", settings, re.M)
        if match:
            return match[1]
    named = re.search(r"/python(3\.\d+)/", f"{folder}/")
    return named[1] if named else None

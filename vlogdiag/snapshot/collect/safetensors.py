"""Says of every weight file whether it can be read: header, length against the header, against the index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_HEADER = 32 << 20
"""Real headers are below a few MiB; the format allows 100."""
LFS = b"version https://git-lfs"
MAX_WEIGHTS = 300


def check_weights(folder: Path, sizes: Mapping[str, int], index: Any) -> dict[str, Any]:
    """Totals, and a problem for each file that vLLM would stumble over."""
    wanted = _wanted(index)
    files = [name for name in sizes if name.endswith((".safetensors", ".bin", ".pt", ".pth", ".gguf"))]
    tensors: dict[str, int] = {}
    problems: dict[str, str] = {}
    for name in files[:MAX_WEIGHTS]:
        problem, count = _check(folder / name, sizes[name])
        if problem:
            problems[name] = problem
        if count is not None:
            tensors[name] = count
    absent = sorted(wanted - sizes.keys())
    declared = index.get("metadata", {}).get("total_size") if isinstance(index, Mapping) else None
    return {
        "files": len(files),
        "bytes": sum(sizes[name] for name in files),
        "index_total_size": declared if isinstance(declared, int) else None,
        "tensors": sum(tensors.values()),
        "missing_by_index": absent,
        "not_in_index": sorted(
            name for name in files if wanted and name.endswith(".safetensors") and name not in wanted
        ),
        "problems": problems,
    }


def _wanted(index: Any) -> set[str]:
    table = index.get("weight_map") if isinstance(index, Mapping) else None
    return {name for name in table.values() if isinstance(name, str)} if isinstance(table, Mapping) else set()


def _check(path: Path, size: int) -> tuple[str | None, int | None]:
    """(what is wrong, number of tensors); only the header is read."""
    if size == 0:
        return "empty file", None
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if head.startswith(LFS):
                return "a git-lfs pointer, not the file itself (git lfs pull)", None
            if path.suffix != ".safetensors":
                return None, None
            length = int.from_bytes(head[:8], "little")
            if len(head) < 8 or length > 100_000_000:
                return "header too large: not a safetensors file, or cut off", None
            if length > MAX_HEADER:
                return f"header of {length} bytes was not read", None
            if 8 + length > size:
                return "cut off inside its header", None
            file.seek(8)
            header = json.loads(file.read(length))
    except OSError as error:
        return error.strerror or str(error), None
    except (ValueError, RecursionError):
        return "its header is not JSON", None
    return _by_header(header, size, 8 + length)


def _by_header(header: Any, size: int, start: int) -> tuple[str | None, int | None]:
    if not isinstance(header, dict):
        return "its header is not a table of tensors", None
    ends = []
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        offsets = tensor.get("data_offsets") if isinstance(tensor, dict) else None
        if not isinstance(offsets, list) or len(offsets) != 2 or not isinstance(offsets[1], int):
            return "its header is not a table of tensors", None
        ends.append(offsets[1])
    expected = start + max(ends, default=0)
    if size < expected:
        return f"cut off: {size} of {expected} bytes", len(ends)
    if size > expected:
        return f"longer than its header says: {size} instead of {expected} bytes", len(ends)
    return None, len(ends)

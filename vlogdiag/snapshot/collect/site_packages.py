"""Finds the folders from which the server's Python loads its packages, without running that Python."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from vlogdiag.snapshot.collect.base import Context

_FOLDER = re.compile(r"(/[^\s\"']{1,500}/(?:site|dist)-packages)/")
MAX_FOLDERS = 6
MAX_MAPS = 8 << 20


def find_site_packages(context: Context) -> tuple[Path, ...]:
    """Folders, the likeliest first: where the process has libraries from, its interpreter's, those of the log."""
    found: dict[Path, None] = {}
    for folder in (*_of_process(context), *_of_log(context), *_of_path(context)):
        if len(found) < MAX_FOLDERS and folder.is_dir():
            found.setdefault(folder)
    return tuple(found)


def _of_process(context: Context) -> Iterator[Path]:
    for process in context.processes[:8]:
        process_folder = context.root / "proc" / str(process.pid)
        counts: dict[str, int] = {}
        for match in _FOLDER.finditer(_read(process_folder / "maps")):
            counts[match[1]] = counts.get(match[1], 0) + 1
        yield from (Path(folder) for folder in sorted(counts, key=lambda f: -counts[f]))
        if process.argv:
            yield from _beside(Path(process.argv[0]))
        try:
            yield from _beside((process_folder / "exe").readlink())
        except OSError:
            continue  # another user's process


def _of_log(context: Context) -> Iterator[Path]:
    yield from (Path(folder) for folder in context.site_packages)


def _of_path(context: Context) -> Iterator[Path]:
    """Where `vllm` would be started from now, and this program's own place."""
    script = shutil.which("vllm", path=context.seen_environment.get("PATH"))
    if script is not None:
        yield from _beside(Path(script))
        first = _read(Path(script), 200).partition("\n")[0]
        if first.startswith("#!"):
            yield from _beside(Path(first[2:].strip().split(" ")[0]))
    yield from _beside(Path(sys.executable))


def _beside(program: Path) -> Iterator[Path]:
    """`/venv/bin/python` to `/venv/lib/python3.12/site-packages`; a venv's Python is a link, so unresolved first."""
    for base in dict.fromkeys((program.parent.parent, _resolved(program).parent.parent)):
        for kind in ("site-packages", "dist-packages"):
            yield from sorted(base.glob(f"lib/python3*/{kind}"))
            yield from sorted(base.glob(f"local/lib/python3*/{kind}"))


def folders_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The package folders that tracebacks name."""
    found = {match[1]: None for text in texts for match in _FOLDER.finditer(text)}
    return tuple(found)[:MAX_FOLDERS]


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


def _read(path: Path, limit: int = MAX_MAPS) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""

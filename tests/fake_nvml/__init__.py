"""Builds the stand-in driver and writes what it shall play; gcc is required wherever the tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml.c")
SONAME = "libnvidia-ml.so.1"


def build(folder: Path, *, missing: tuple[str, ...] = ()) -> Path:
    """Compiles the library into `folder` without the functions in `missing`, as an old driver lacks them."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("gcc is needed: the NVML tests build a small driver and load it through the real binding")
    version_script = folder / "exports.map"
    hidden = "".join(f" {name};" for name in ("nothing_hidden", *missing))
    version_script.write_text(f"{{ local:{hidden} }};\n")
    library = folder / SONAME
    options = f"-Wall -Wextra -Werror -O1 -shared -fPIC -Wl,-soname,{SONAME} -Wl,--version-script".split()
    subprocess.run([compiler, *options, str(version_script), "-o", str(library), str(SOURCE)], check=True)
    return library


class Driver:
    """One library with one scenario that can be rewritten while a process uses it."""

    def __init__(self, library: Path, scenario: Path) -> None:
        self._library = library
        self._scenario = scenario
        self.lines: dict[str, object] = {}

    def play(self, lines: Mapping[str, object]) -> None:
        """Replaces the scenario, in one step: the library reads it at any moment."""
        self.lines = dict(lines)
        fresh = self._scenario.with_suffix(".new")
        fresh.write_text("".join(f"{key}={value}\n" for key, value in self.lines.items()))
        fresh.replace(self._scenario)

    def change(self, **changed: object) -> None:
        """Adds or (None) removes lines; `__` in a name stands for a dot."""
        lines = dict(self.lines)
        for name, value in changed.items():
            key = name.replace("__", ".")
            lines.pop(key, None)
            if value is not None:
                lines[key] = value
        self.play(lines)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find this driver instead of a real one."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self._library.parent), "FAKE_NVML": str(self._scenario)}


def healthy(gpus: int = 1, **more: object) -> dict[str, object]:
    """A scenario of busy 24 GiB cards; `more` as in `Driver.change`."""
    lines: dict[str, object] = {"count": gpus}
    for gpu in range(gpus):
        lines |= {
            f"gpu.{gpu}.{key}": value
            for key, value in {
                "name": "NVIDIA GeForce RTX 4090",
                "uuid": f"GPU-0000000{gpu}-1111-2222-3333-444444444444",
                "bus": f"00000000:{gpu + 1:02X}:00.0",
                "total": 24 * 2**30,
                "used": 20 * 2**30,
                "free": 3 * 2**30,
                "reserved": 2**30,
                "util": 97,
                "memutil": 60,
                "power": 288_500,
                "limit": 450_000,
                "sm": 2520,
                "smmax": 3105,
                "throttle": "0x4",
                "temp": 62,
                "pcie.gen": 4,
                "pcie.width": 16,
                "processes": f"{4000 + gpu}:{20 * 2**30}",
                "graphics": "",
            }.items()
        }
    for name, value in more.items():
        key = name.replace("__", ".")
        lines.pop(key, None)
        if value is not None:
            lines[key] = value
    return lines

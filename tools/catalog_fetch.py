"""Brings the Python files of one vLLM release from the package index into a folder, building and installing nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from packaging.version import InvalidVersion, Version

OLDEST = Version("0.4.0")

_BACKEND = """
import pathlib
def get_requires_for_build_wheel(config_settings=None): return []
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    lines = pathlib.Path("PKG-INFO").read_text(encoding="utf-8").splitlines()
    info = dict(line.split(": ", 1) for line in lines[:lines.index("")] if ": " in line)
    made = pathlib.Path(folder) / f"{info['Name']}-{info['Version']}.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {info['Name']}\\nVersion: {info['Version']}\\n")
    (made / "WHEEL").write_text("Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    return made.name
"""
"""pip asks even a mere download for its metadata; vLLM's own build backend would want torch and a compiler for that."""


class FetchError(Exception):
    """A release could not be had from the index, or its archive holds no `vllm/`."""


def known_releases() -> tuple[str, ...]:
    """All final and post releases on the index from 0.4.0 on, oldest first."""
    answer = _pip("index", "versions", "vllm")
    found = re.search(r"Available versions: (.*)", answer)
    if not found:
        raise FetchError(f"the index did not list vLLM's versions: {answer[-500:]}")
    versions = []
    for text in found[1].split(","):
        try:
            version = Version(text.strip())
        except InvalidVersion:
            continue
        if version >= OLDEST and not version.is_prerelease:
            versions.append((version, text.strip()))
    return tuple(text for _, text in sorted(versions))


def fetch(release: str, archives: Path) -> Path:
    """The release's archive in `archives`, downloaded unless it lies there: the sdist, or else the wheel."""
    for name in (f"vllm-{release}.tar.gz", f"vllm-{release}-*.whl"):
        found = sorted(archives.glob(name))
        if found:
            return found[0]
    archives.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as backend:
        (Path(backend) / "setuptools").mkdir()
        (Path(backend) / "setuptools/__init__.py").write_text("")
        (Path(backend) / "setuptools/build_meta.py").write_text(_BACKEND)
        target = ("--no-deps", "-d", str(archives), f"vllm=={release}")
        try:
            _pip("download", "--no-binary", ":all:", "--no-build-isolation", *target, path=backend)
        except FetchError as sdist:
            platforms = [f"--platform=manylinux{tag}_x86_64" for tag in ("1", "2014", "_2_31", "_2_35")]
            abis = ("--python-version=3.11", "--implementation=cp", "--abi=cp311", "--abi=abi3")
            try:
                _pip("download", "--only-binary", ":all:", *platforms, *abis, *target)
            except FetchError as wheel:
                raise FetchError(f"vLLM {release}: no sdist ({sdist}) and no wheel ({wheel})") from wheel
    return fetch(release, archives)


def unpack(archive: Path, folder: Path) -> None:
    """Write the archive's `vllm/**/*.py` under `folder`."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for member in wheel.namelist():
                _write(folder, member, lambda member=member: wheel.read(member))
    else:
        with tarfile.open(archive) as sdist:
            for item in sdist:
                inner = item.name.partition("/")[2]
                if item.isfile() and inner:
                    _write(folder, inner, lambda item=item: sdist.extractfile(item).read())  # type: ignore[union-attr]
    if not (folder / "vllm/engine/arg_utils.py").is_file():
        raise FetchError(f"{archive.name} holds no vllm/engine/arg_utils.py")


def _write(folder: Path, name: str, read: object) -> None:
    if name.startswith("vllm/") and name.endswith(".py") and ".." not in name:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(read())  # type: ignore[operator]


def _pip(*words: str, path: str | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": path} if path else None
    run = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        env=environment,
    )
    if run.returncode:
        raise FetchError((run.stderr.strip().splitlines() or ["pip failed"])[-1])
    return run.stdout

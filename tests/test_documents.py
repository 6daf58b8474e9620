"""What README and CONTRIBUTING say can be typed, and what a command writes of the documents is up to date."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vlogdiag.checking import check_examples
from vlogdiag.cli import application
from vlogdiag.loading import load

ROOT = Path(__file__).parent.parent
STORY = ROOT / "docs/story"
BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```", re.M | re.S)
ENDLESS = ("tail",)


def commands() -> list[str]:
    """Every line of every shell block that starts vlogdiag, comments taken off."""
    found = []
    for name in ("README.md", "CONTRIBUTING.md"):
        for block in BLOCK.finditer((ROOT / name).read_text()):
            for line in textwrap.dedent(block[2]).splitlines():
                text = line.split(" #")[0].strip()
                if text.startswith(("vlogdiag ", "kubectl ")):
                    found.append(text)
    return found


@pytest.mark.parametrize("text", commands())
def test_every_command_of_the_documents_runs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = None
    if text.startswith("kubectl "):
        text = text.partition("| ")[2]
        stdin = (STORY / "before.log").read_bytes()
    text = text.split(" > ")[0]
    words = shlex.split(text)[1:]
    names = {"vllm.log": "before.log", "old.log": "before.log", "before.log": "before.log", "after.log": "after.log"}
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for asked, real in names.items():
        (folder / asked).write_bytes((STORY / real).read_bytes())
    (folder / "start_all.sh").write_bytes((STORY / "start_all.sh").read_bytes())
    (folder / "docs").symlink_to(ROOT / "docs")
    words = [word.replace("vllm.log:1234", "vllm.log:16") for word in words]
    if words[0] == "rules" and words[1] in ("test", "new") and words[-1] != "test":
        # The rule that the documents speak of is begun from the story's own log.
        family = folder / "my-rules/startup"
        family.mkdir(parents=True)
        (folder / "rules/startup").mkdir(parents=True)
        if words[1] == "test":
            for place in (family, folder / "rules/startup"):
                (place / "my-rule.yaml").write_text(example_rule())
    if "--rules" in words:
        (folder / "my-rules/startup").mkdir(parents=True, exist_ok=True)
        (folder / "my-rules/startup/my-rule.yaml").write_text(example_rule())
    if words[0] in ENDLESS:
        words = [words[0], "--help"]
    if words[0] == "snapshot":
        words += ["-o", str(tmp_path / "bundle.tar.gz")]
    result = CliRunner().invoke(application(), words, input=stdin)
    assert result.exit_code in (0, 1), (result.output, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit)


def example_rule() -> str:
    """The rule that CONTRIBUTING shows."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.search(r"```yaml\n(.*?)```", text, re.S)
    assert found is not None
    return textwrap.dedent(found[1])


def test_the_rule_of_contributing_passes_its_own_examples(tmp_path: Path) -> None:
    place = tmp_path / "startup"
    place.mkdir()
    (place / "my-rule.yaml").write_text(example_rule())
    assert check_examples(load([tmp_path], examples=True), ["my-rule"]) == ()


def test_generated_documents_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/docs.py"), "--check"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_links_of_the_documents_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))):
        text = (ROOT / name).read_text()
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in link:
                assert ((ROOT / name).parent / link).exists(), f"{name}: {link}"

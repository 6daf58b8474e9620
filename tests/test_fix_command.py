"""`vlogdiag fix`: which fix, which file, what is said, what is written, with which exit status."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
import typer
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from vlogdiag.cli_fix import fix
from vlogdiag.launch.write import WriteRefused, replace_file
from vlogdiag.model import (
    Confidence,
    Finding,
    Fix,
    Outcome,
    Position,
    Report,
    RuleCount,
    RunSummary,
    Severity,
    SourceSummary,
)

SCRIPT = "#!/bin/bash\nvllm serve m \\\n  --max-model-len 32768 \\\n  --port 3001\n"


def finding(ident: str, *fixes: Fix) -> Finding:
    return Finding(
        ident,
        "oom",
        Severity.ERROR,
        Confidence.HIGH,
        Outcome.FATAL,
        "t",
        "c",
        "vllm.log",
        1,
        Position(1),
        Position(1),
        fixes=fixes,
    )


def report(*findings: Finding, version: str | None = "0.11.0") -> Report:
    runs = (RunSummary(1, 1, 9, vllm_version=version),)
    return Report("0", RuleCount(1, 0, ""), (SourceSummary("vllm.log", lines=9, runs=runs),), findings)


SHORTER = Fix(
    "Serve the longest context that fits", flags={"--max-model-len": "4096"}, trade_off="longer prompts are refused"
)
EAGER = Fix("Do without graphs", flags={"--enforce-eager": True})
PROXY = Fix("Make pictures smaller", script="resize_images")
CHECK = Fix(
    "Less memory", disposition="check", flags={"--gpu-memory-utilization": "0.8"}, question="who else holds the card?"
)


class Bench:
    """A folder with a launch file, and the command run in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.patch = monkeypatch
        self.script = folder / "start.sh"
        self.script.write_text(SCRIPT)
        monkeypatch.chdir(folder)
        self.app = typer.Typer()
        self.app.command()(fix)

    def run(self, found: Report, *options: str, script: str = "start.sh") -> Result:
        self.patch.setattr("vlogdiag.scan.diagnose_paths", lambda paths, version=None: found)
        return CliRunner().invoke(self.app, ["vllm.log", "--script", script, *options])


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_the_first_fix_is_printed_as_a_diff_and_nothing_is_written(bench: Bench) -> None:
    result = bench.run(report(finding("a", PROXY, SHORTER, EAGER)))
    assert result.exit_code == 0
    assert result.stdout == (
        "--- start.sh\n+++ start.sh\n@@ -1,4 +1,4 @@\n #!/bin/bash\n vllm serve m \\\n"
        "-  --max-model-len 32768 \\\n+  --max-model-len 4096 \\\n   --port 3001\n"
    )
    assert result.stderr == "vlogdiag: a: Serve the longest context that fits (longer prompts are refused)\n"
    assert bench.script.read_text() == SCRIPT


def test_the_diff_is_taken_by_patch(bench: Bench) -> None:
    result = bench.run(report(finding("a", SHORTER)))
    subprocess.run(["patch", "-p0", "-s"], input=result.stdout, text=True, check=True)
    assert bench.script.read_text() == SCRIPT.replace("32768", "4096")


def test_another_fix_by_number_as_scan_counts_them(bench: Bench) -> None:
    result = bench.run(report(finding("a", PROXY, SHORTER, EAGER)), "--fix", "3")
    assert "+  --enforce-eager\n" in result.stdout
    assert "-  --max" not in result.stdout


def test_a_finding_without_such_a_fix_is_passed_over(bench: Bench) -> None:
    result = bench.run(report(finding("a", PROXY), finding("b", EAGER)))
    assert (result.exit_code, result.stderr) == (0, "vlogdiag: b: Do without graphs\n")


def test_a_finding_by_name(bench: Bench) -> None:
    assert "enforce-eager" in bench.run(report(finding("a", SHORTER), finding("b", EAGER)), "--finding", "b").stdout


STATUSES = {
    "nothing found": ((), (), 1, "no finding in this log"),
    "no fix for a launch file": ((finding("a", PROXY),), (), 1, "no fix of it changes the launch command"),
    "chosen fix is a script": ((finding("a", PROXY, SHORTER),), ("--fix", "1"), 1, "script: resize_images"),
    "to be checked first": (
        (finding("a", CHECK),),
        (),
        1,
        "check first: who else holds the card?; then choose with --fix 1",
    ),
    "already there": ((finding("a", Fix("x", flags={"--port": "3001"})),), (), 1, "has it already"),
    "a number that the log lacks": (
        (finding("a", Fix("x", flags={"--max-model-len": "?"})),),
        (),
        1,
        "a value that the log does not give: --max-model-len",
    ),
    "a value that only its owner knows": (
        (finding("a", Fix("x", env={"A": "<layers>,…"})),),
        ("--fix", "1"),
        3,
        "does not give: A",
    ),
    "number too high": ((finding("a", SHORTER),), ("--fix", "2"), 2, "--fix 2: a has 1 fixes"),
    "no such finding": ((finding("a", SHORTER),), ("--finding", "b"), 2, "not in this log (found: a)"),
    "unknown version": ((finding("a", SHORTER),), ("--vllm-version", "9.9.9"), 2, "9.9.9"),
}


@pytest.mark.parametrize("case", STATUSES)
def test_status_and_reason(bench: Bench, case: str) -> None:
    findings, options, status, words = STATUSES[case]
    result = bench.run(report(*findings), *options)
    assert (result.exit_code, words in result.stderr) == (status, True), result.stderr


def test_a_fix_to_be_checked_can_be_chosen_by_number(bench: Bench) -> None:
    assert bench.run(report(finding("a", CHECK)), "--fix", "1").exit_code == 0


COULD_NOT = {
    "missing file": (None, "No such file"),
    "binary": (b"\0\1", "not a text file"),
    "no command": (b"echo\n", "no command that starts a vLLM server"),
    "two commands": (b"vllm serve a\nvllm serve b\n", "(lines 1, 2), not one"),
    "function": (b"f() { vllm serve a; }\nf\n", "built in the function f()"),
}


@pytest.mark.parametrize("case", COULD_NOT)
def test_what_could_not_be_done_is_status_3_with_the_reason(bench: Bench, case: str) -> None:
    content, words = COULD_NOT[case]
    bench.script.unlink()
    if content is not None:
        bench.script.write_bytes(content)
    result = bench.run(report(finding("a", SHORTER)))
    assert (result.exit_code, words in result.stderr, result.stdout) == (3, True, ""), result.stderr


def test_flags_that_the_version_refuses_or_ignores_go_in_the_same_diff_each_with_its_reason(bench: Bench) -> None:
    bench.script.write_text(
        "vllm serve m --swap-space 4 --request-timeout 60 --max-model-len 32768 --kv-cache-dtype fp8_e4m3fn\n"
    )
    result = bench.run(report(finding("a", SHORTER), version="0.20.0"))
    assert "+vllm serve m --max-model-len 4096 --kv-cache-dtype fp8" in result.stdout
    lines = result.stderr.splitlines()
    assert any(line.startswith("vlogdiag: removed --swap-space 4 (refused by vLLM 0.20.0): ") for line in lines)
    assert any(line.startswith("vlogdiag: removed --request-timeout 60 (refused by vLLM 0.20.0): ") for line in lines)
    assert any(" --kv-cache-dtype fp8_e4m3fn (refused" in line for line in lines)
    assert "ignored" in bench.run(report(finding("a", SHORTER)), "--vllm-version", "0.11.0").stderr


def test_what_only_a_part_of_the_possible_versions_refuses_is_left_and_said(bench: Bench) -> None:
    bench.script.write_text("vllm serve m --calculate-kv-scales\n")
    result = bench.run(report(finding("a", EAGER), version=None))
    assert "+vllm serve m --calculate-kv-scales --enforce-eager\n" in result.stdout
    assert "left --calculate-kv-scales (refused by vLLM " in result.stderr and "0.28.0 and newer)" in result.stderr
    assert "name yours with --vllm-version" in result.stderr


def test_a_file_that_is_not_the_logs_is_suspected(bench: Bench) -> None:
    found = report(finding("a", SHORTER))
    source = replace(found.sources[0], runs=(replace(found.sources[0].runs[0], args={"max_model_len": 65536}),))
    result = bench.run(replace(found, sources=(source,)))
    assert "is it the file of this log? --max-model-len is 32768 in the file, but was 65536 in the log" in result.stderr


def test_a_version_tag_of_the_file_that_is_not_the_logs_is_named(bench: Bench) -> None:
    bench.script.write_text("docker run vllm/vllm-openai:v0.9.0 --model m\n")
    result = bench.run(report(finding("a", EAGER), version="0.11.0"))
    assert "start.sh starts vLLM 0.9.0, but the log is of 0.11.0" in result.stderr


def test_secrets_do_not_appear_in_the_diff(bench: Bench) -> None:
    bench.script.write_text("export HF_TOKEN=tok12345\nvllm serve m --api-key s3cret --port 1\n")
    result = bench.run(report(finding("a", EAGER)))
    assert "s3cret" not in result.output and "tok12345" not in result.output
    assert "+vllm serve m --api-key *** --port 1 --enforce-eager\n" in result.stdout
    assert "secrets are shown as ***" in result.stderr
    assert bench.run(report(finding("a", EAGER)), "--write").exit_code == 0
    assert (
        bench.script.read_text() == "export HF_TOKEN=tok12345\nvllm serve m --api-key s3cret --port 1 --enforce-eager\n"
    )


def test_json_says_the_same(bench: Bench) -> None:
    bench.script.write_text("vllm serve m --swap-space 4\n")
    found = json.loads(bench.run(report(finding("a", EAGER), version="0.20.0"), "--json", "--write").stdout)
    diff = "--- start.sh\n+++ start.sh\n@@ -1 +1 @@\n-vllm serve m --swap-space 4\n+vllm serve m --enforce-eager\n"
    assert found["corrections"][0]["argument"] == "--swap-space"
    assert {key: found[key] for key in found if key != "corrections"} == {
        "format": "vlogdiag.fix/1",
        "script": "start.sh",
        "kind": "shell",
        "line": 1,
        "finding": "a",
        "fix": "Do without graphs",
        "changed": True,
        "diff": diff,
        "secrets_masked": False,
        "written": True,
        "backup": str(bench.folder / "start.sh.bak"),
    }


def test_writing_keeps_a_backup_and_the_permissions(bench: Bench) -> None:
    bench.script.chmod(0o751)
    assert bench.run(report(finding("a", SHORTER)), "--write").exit_code == 0
    assert bench.script.read_text() == SCRIPT.replace("32768", "4096")
    backup = bench.folder / "start.sh.bak"
    assert (backup.read_text(), stat.S_IMODE(backup.stat().st_mode)) == (SCRIPT, 0o751)
    assert stat.S_IMODE(bench.script.stat().st_mode) == 0o751
    assert sorted(path.name for path in bench.folder.iterdir()) == ["start.sh", "start.sh.bak"]


def test_an_older_backup_is_never_written_over(bench: Bench) -> None:
    for name in ("start.sh.bak", "start.sh.bak1"):
        (bench.folder / name).write_text("older")
    bench.run(report(finding("a", SHORTER)), "--write")
    assert (bench.folder / "start.sh.bak").read_text() == "older"
    assert (bench.folder / "start.sh.bak2").read_text() == SCRIPT


def test_a_link_stays_a_link(bench: Bench) -> None:
    real = bench.folder / "real"
    real.mkdir()
    bench.script.rename(real / "s.sh")
    bench.script.symlink_to("real/s.sh")
    assert bench.run(report(finding("a", SHORTER)), "--write").exit_code == 0
    assert bench.script.is_symlink()
    assert (real / "s.sh").read_text() == SCRIPT.replace("32768", "4096")
    assert (real / "s.sh.bak").read_text() == SCRIPT


def test_a_file_that_changed_meanwhile_is_left_alone(bench: Bench) -> None:
    with pytest.raises(WriteRefused, match="has changed since it was read"):
        replace_file(bench.script, b"what it was", b"new")
    assert [path.name for path in bench.folder.iterdir()] == ["start.sh"]


def test_a_failed_replacement_leaves_the_file_and_no_debris(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = bench.run(report(finding("a", SHORTER)), "--write")
    assert (result.exit_code, "No space left" in result.stderr) == (3, True)
    assert [(path.name, path.read_text()) for path in bench.folder.iterdir()] == [("start.sh", SCRIPT)]


def test_a_folder_is_no_file(bench: Bench) -> None:
    assert bench.run(report(finding("a", SHORTER)), script=".").exit_code == 3


def test_a_real_log_gives_a_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "start.sh").write_text(SCRIPT)
    (tmp_path / "vllm.log").write_text(
        "(APIServer pid=1) INFO 04-03 15:05:10 [api_server.py:1839] vLLM API server version 0.11.0\n"
        "(EngineCore_DP0 pid=229) ERROR 04-03 15:05:56 [core.py:708] EngineCore failed to start.\n"
        "(EngineCore_DP0 pid=229) ERROR 04-03 15:05:56 [core.py:708] ValueError: To serve at least one request with the models's max seq len (32768), "
        "(4.50 GiB KV cache is needed, which is larger than the available KV cache memory (1.22 GiB). Based on the available memory, the estimated maximum "
        "model length is 8880. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
    )
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(fix)
    result = CliRunner().invoke(app, ["vllm.log", "--script", "start.sh", "--finding", "kv-cache-too-small"])
    assert (result.exit_code, "-  --max-model-len 32768 \\\n+  --max-model-len 88" in result.stdout) == (0, True), (
        result.output
    )


@pytest.mark.parametrize(("content", "status"), [(b"", 3), (b"\0\1\2" * 50, 3), (b"hello\nworld\n", 3)])
def test_a_log_that_is_none_of_vllms_could_not_be_looked_at(bench: Bench, content: bytes, status: int) -> None:
    (bench.folder / "vllm.log").write_bytes(content)
    result = CliRunner().invoke(bench.app, ["vllm.log", "--script", "start.sh"])
    assert (result.exit_code, "nothing to change" in result.stderr) == (status, False)


def test_a_file_that_was_mended_by_this_very_fix_is_not_suspected(bench: Bench) -> None:
    found = report(finding("a", SHORTER))
    source = replace(found.sources[0], runs=(replace(found.sources[0].runs[0], args={"max_model_len": 32768}),))
    found = replace(found, sources=(source,))
    assert bench.run(found, "--write").exit_code == 0
    again = bench.run(found, "--write")
    assert (again.exit_code, "is it the file of this log?" in again.stderr) == (1, False)

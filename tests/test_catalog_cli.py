"""`vlogdiag flags`: exit statuses, what is printed where, and JSON that scripts can lean on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from vlogdiag.catalog import load, releases
from vlogdiag.catalog.ranges import DATA
from vlogdiag.cli_flags import flags_app


def flags(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(flags_app, list(words), input=stdin)


def check(release: str, command: str, *options: str) -> Result:
    return flags("check", "--vllm-version", release, *options, "--", *command.split())


def test_a_refused_option_is_listed_with_what_to_write_instead_and_status_1() -> None:
    result = check("0.18.0", "vllm serve m --swap-space 12 --port 8000")
    assert result.exit_code == 1
    assert result.stdout == (
        "refused: --swap-space 12\n"
        "  --swap-space was removed in 0.18.0 (last in 0.17.1) (it had no effect after 0.10.2)\n"
        "  instead: nothing equal; nearest is --kv-offloading-size (GiB in total)\n"
        "vLLM 0.18.0: 1 refused, 0 accepted but useless or deprecated.\n"
    )
    assert result.stderr == ""


def test_a_command_without_fault_has_status_0() -> None:
    result = check("0.11.0", "vllm serve m --port 8000")
    assert (result.exit_code, result.stdout) == (0, "vLLM 0.11.0 takes every option of this command.\n")


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--strict",), 1)])
def test_what_is_accepted_and_useless_is_a_warning_unless_strict(options: tuple[str, ...], status: int) -> None:
    result = check("0.11.0", "vllm serve m --disable-log-requests", *options)
    assert result.exit_code == status
    assert "ignored: --disable-log-requests" in result.stdout


def test_a_launch_script_is_read_and_its_line_named(tmp_path: Path) -> None:
    script = tmp_path / "start_all.sh"
    script.write_text("#!/bin/bash\nexport HF_HOME=/x\nvllm serve m \\\n  --swap-space 4 \\\n  --port $PORT &\n")
    result = flags("check", str(script), "--vllm-version", "0.18.0", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (report["format"], report["vllm_version"], report["line"]) == ("vlogdiag.flags-check/1", "0.18.0", 3)
    assert [p["argument"] for p in report["problems"]] == ["--swap-space"]
    assert report["summary"] == {"refused": 1, "warnings": 0}


def test_a_script_comes_from_standard_input_too() -> None:
    result = flags("check", "-", "--vllm-version", "0.18.0", stdin="vllm serve m --swap-space 4\n")
    assert result.exit_code == 1


BLIND = [
    ("echo hello\n", "no command that starts a vLLM server was found"),
    ("vllm serve a\nvllm serve b\n", "2 commands that start a vLLM server were found (lines 1, 2)"),
]


@pytest.mark.parametrize(("script", "reason"), BLIND)
def test_a_script_without_a_vllm_command_or_with_two_is_said_plainly_with_status_3(script: str, reason: str) -> None:
    result = flags("check", "-", "--vllm-version", "0.18.0", stdin=script)
    assert (result.exit_code, result.stdout) == (3, "")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("no-such-file.sh",), ("--", "python", "app.py")])
def test_what_is_no_file_and_no_vllm_command_has_status_3(words: tuple[str, ...]) -> None:
    result = flags("check", "--vllm-version", "0.18.0", *words)
    assert (result.exit_code, result.stdout) == (3, "")


@pytest.mark.parametrize(
    ("release", "nearest"), [("0.18.7", "0.18.1"), ("0.99", releases()[-1]), ("latest", releases()[-1])]
)
def test_an_unknown_version_has_status_2_and_the_nearest_known(release: str, nearest: str) -> None:
    for result in (check(release, "vllm serve m"), flags("diff", "0.11.0", release)):
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"nearest known: {nearest}" in result.stderr


@pytest.fixture
def broken_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copytree(DATA, tmp_path / "data")
    shutil.copy(DATA.with_name("notes.yaml"), tmp_path / "notes.yaml")
    (tmp_path / "data/flags.tsv").write_text("--port\t0.4.0..\tgadget\n")
    monkeypatch.setattr(load, "DATA", tmp_path / "data")
    load.catalogue.cache_clear()
    yield tmp_path / "data/flags.tsv"
    load.catalogue.cache_clear()


def test_a_catalogue_that_does_not_load_has_status_3_with_file_and_reason(broken_catalogue: Path) -> None:
    for result in (
        check("0.11.0", "vllm serve m --port 1"),
        flags("show", "--port"),
        flags("diff", "0.11.0", "0.12.0"),
    ):
        assert result.exit_code == 3
        assert f"{broken_catalogue}:1: unknown kind 'gadget'" in result.stderr


SHOWN = [
    ("--swap-space", ["--swap-space: 0.4.0 to 0.17.1", "0.5.5 to 0.17.1: float value, default 4", "without effect"]),
    ("-tp", ["-tp (of --tensor-parallel-size): every release", "default 1"]),
    ("--gpu-mem-util", ["--gpu-mem-util: never existed", "instead: --gpu-memory-utilization"]),
    ("--preemption_mode", ["--preemption_mode: 0.5.0 to 0.5.0.post1"]),
    ("--max_model_len", ["--max-model-len: every release"]),
    ("--disable-log-requests", ["0.4.0 to 0.16.0, 0.33.0"]),
    ("VLLM_USE_V1", ["VLLM_USE_V1: 0.6.4 to 0.11.0", "default true"]),
    ("PYTORCH_CUDA_ALLOC_CONF", ["not vLLM's own"]),
    ("vllm:gpu_cache_usage_perc", ["0.4.0 to 0.10.2", "gauge, hidden", "instead: vllm:kv_cache_usage_perc"]),
    ("/stats", ["/stats: never existed"]),
    ("/ping", ["/ping: 0.7.0 and newer"]),
]


@pytest.mark.parametrize(("name", "parts"), SHOWN)
def test_the_history_of_a_name_is_shown(name: str, parts: list[str]) -> None:
    result = flags("show", name)
    assert result.exit_code == 0
    for part in parts:
        assert part in result.stdout


def test_the_history_as_json_says_the_same() -> None:
    report = json.loads(flags("show", "--swap-space", "--json").stdout)
    assert (report["present"], report["since"], report["until"]) == ("<0.18.0", "0.4.0", "0.17.1")
    assert [shape["versions"] for shape in report["shapes"]] == ["<0.5.5", ">=0.5.5,<0.18.0"]
    assert {note["effective"] for note in report["notes"]} == {True, False}
    assert all(note["source"] for note in report["notes"])


def test_a_name_that_nobody_knows_has_status_2_and_the_nearest() -> None:
    result = flags("show", "--swap-spacee")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nearest: --swap-space" in result.stderr


def test_what_an_upgrade_changes_is_listed() -> None:
    result = flags("diff", "0.17.1", "0.18.0")
    assert result.exit_code == 0
    assert "  removed --swap-space (instead: nothing equal" in result.stdout
    report = json.loads(flags("diff", "0.19.1", "0.20.0", "--json").stdout)
    assert {"name": "--gpu-memory-utilization", "what": "default", "old": 0.9, "new": 0.92} in report["changed"]
    assert "nothing changed" in flags("diff", "0.20.0", "0.20.0").stdout


def test_a_nightly_build_is_checked_as_its_release_and_called_assumed() -> None:
    result = check("0.11.1rc1.dev5+g123", "vllm serve m --swap-space 4")
    assert "vLLM 0.11.1 (assumed): 0 refused, 1 accepted" in result.stdout


def test_credentials_and_control_characters_of_the_command_are_not_printed() -> None:
    words = ["--", "vllm", "serve", "m", "--port", "--api-keyy", "sk-secret-1234567890", "--a\x1b[31mb", "x\x07"]
    result = flags("check", "--vllm-version", "0.11.0", *words)
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout
    assert "sk-secret" not in result.stdout
    assert result.exit_code == 1


def test_a_command_of_one_word_is_no_file() -> None:
    alone = flags("check", "--vllm-version", "0.11.0", "--", "vllm")
    assert (alone.exit_code, "names no server" in alone.stderr, "No such file" in alone.stderr) == (3, True, False)
    quoted = flags("check", "--vllm-version", "0.18.0", "--", "vllm serve m --swap-space 12")
    assert (quoted.exit_code, quoted.stdout.splitlines()[0]) == (1, "refused: --swap-space 12")


@pytest.mark.parametrize(("old", "new"), [("0.23.0", "0.24.0"), ("0.10.0", "0.11.0")])
def test_a_metric_that_prometheus_prints_as_before_is_neither_removed_nor_added(old: str, new: str) -> None:
    found = json.loads(flags("diff", old, new, "--json").stdout)
    bare = [{name.removesuffix("_total") for name in found[part]} for part in ("removed", "added")]
    assert not bare[0] & bare[1]

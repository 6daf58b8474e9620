"""A snapshot's archive is scanned like the log that is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vlogdiag.cli import application

SAMPLES = Path(__file__).parent.parent / "sample_logs"
runner = CliRunner()


def run(*args: str) -> tuple[int, str, str]:
    done = runner.invoke(application(list(args)), list(args))
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["sampler-three-starts", "nccl-watchdog-tp4", "preemptions"])
def test_the_archive_gives_what_the_log_gives(name: str, tmp_path: Path) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    assert run("snapshot", str(SAMPLES / f"{name}.log"), "-o", str(archive))[0] == 0
    status, out, _ = run("scan", str(archive), "--json")
    status_of_log, out_of_log, _ = run("scan", str(SAMPLES / f"{name}.log"), "--json")
    found, expected = json.loads(out), json.loads(out_of_log)
    assert status == status_of_log
    assert found["findings"]

    def told(report: dict) -> list:
        return [
            (f["id"], f["count"], f["first"]["line"], [e["line"] for e in f["evidence"]]) for f in report["findings"]
        ]

    assert told(found) == told(expected)
    assert any("a snapshot" in notice for notice in found["notices"])


def test_a_damaged_archive_is_one_line_and_status_3(tmp_path: Path) -> None:
    archive = tmp_path / "snapshot.tar.gz"
    run("snapshot", str(SAMPLES / "preemptions.log"), "-o", str(archive))
    archive.write_bytes(archive.read_bytes()[:-1500])
    status, _, errors = run("scan", str(archive))
    assert status == 3
    assert errors.count("\n") == 1 and "damaged" in errors

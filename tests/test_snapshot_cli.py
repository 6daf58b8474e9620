"""`vlogdiag snapshot` and `vlogdiag redact` as they are typed."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import resource
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from vlogdiag import cli_snapshot
from vlogdiag.snapshot import take
from vlogdiag.snapshot.read_bundle import open_bundle

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(cli_snapshot.snapshot)
app.command()(cli_snapshot.redact)

LOG = (
    "(APIServer pid=1) INFO 12-01 10:00:00 [api_server.py:1839] vLLM API server version 0.11.0\n"
    "(APIServer pid=1) INFO 12-01 10:00:02 [logger.py:39] Received request c: prompt: 'a secret question', params: SamplingParams(n=1)\n"
    "(EngineCore_DP0 pid=9) ERROR 12-01 10:00:03 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    "see http://gpubox3:8000, --api-key s3cretKey99\n"
)
Run = Callable[..., object]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log in a folder of its own; collectors are tested elsewhere, and no server is looked for."""
    monkeypatch.chdir(tmp_path)
    quick = partial(take.take_snapshot, collectors=(), processes=lambda pid: ())
    monkeypatch.setattr(take, "take_snapshot", quick)
    path = tmp_path / "vllm.log"
    path.write_text(LOG)
    return path


def run(*words: str, stdin: str | bytes | None = None) -> typer.testing.Result:  # type: ignore[name-defined]
    return CliRunner().invoke(app, list(words), input=stdin)


def test_a_snapshot_writes_one_archive_and_says_what_it_did(log: Path, tmp_path: Path) -> None:
    result = run("snapshot", "vllm.log")
    assert result.exit_code == 0
    (archive,) = tmp_path.glob("vlogdiag-snapshot-*.tar.gz")
    assert archive.stat().st_mode & 0o777 == 0o600
    assert result.stdout == ""
    assert result.stderr.startswith(f"wrote {archive.name}\nreplaced: 1 host, 1 prompt, 1 token\n")
    found = open_bundle(archive)
    assert found is not None
    assert b"<prompt 17 chars" in found.data
    assert b"http://<host-1>:8000, --api-key <token-1>" in found.data


def test_the_page_is_printed_too(log: Path) -> None:
    result = run("snapshot", "vllm.log", "-o", "b.tar.gz", "--markdown")
    assert result.exit_code == 0
    assert result.stdout.startswith("### Your current environment\n")
    assert "`b.tar.gz`" in result.stdout


def test_the_archive_on_standard_output(log: Path, tmp_path: Path) -> None:
    result = run("snapshot", "vllm.log", "-o", "-")
    assert result.exit_code == 0
    with tarfile.open(fileobj=io.BytesIO(result.stdout_bytes), mode="r:gz") as archive:
        assert any(name.endswith("/vllm.log") for name in archive.getnames())
    assert [path.name for path in tmp_path.iterdir()] == ["vllm.log"]


def test_a_full_disk_is_one_line_and_status_3(log: Path) -> None:
    result = run("snapshot", "vllm.log", "-o", "/dev/full")
    assert result.exit_code == 3
    assert result.stderr == (
        "vlogdiag: /dev/full: no space left on that disk; write elsewhere with -o FILE, or to standard output with -o -\n"
    )


def test_a_file_that_is_there_is_not_overwritten(log: Path) -> None:
    result = run("snapshot", "vllm.log", "-o", "vllm.log")
    assert result.exit_code == 2
    assert result.stderr == "vlogdiag: vllm.log is there already; it is not overwritten\n"
    assert log.read_text() == LOG


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["-"], 2, "a snapshot reads the log twice: give it a file"),
        (["vllm.log", "-o", "-", "--markdown"], 2, "--markdown and -o - both want standard output"),
        (["vllm.log", "--model-path", "nowhere"], 2, "--model-path nowhere: no such folder"),
        (["vllm.log", "--url", "gpubox:8000"], 2, "--url: expected http://HOST:PORT"),
        (
            ["vllm.log", "--no-redact"],
            2,
            "--no-redact leaves keys, names, addresses and prompts in the archive: say --yes",
        ),
        (["vllm.log", "--keep-prompts"], 2, "--keep-prompts leaves the users' prompts and the model's outputs"),
        (["none.log"], 3, "not available: log: none.log"),
    ],
)
def test_mistakes_are_one_line(words: list[str], status: int, said: str, log: Path) -> None:
    result = run("snapshot", *words)
    assert result.exit_code == status
    assert said in result.stderr


def test_a_snapshot_of_a_log_that_cannot_be_read_holds_the_rest(log: Path, tmp_path: Path) -> None:
    assert run("snapshot", "none.log", "-o", "b.tar.gz").exit_code == 3
    found = open_bundle(tmp_path / "b.tar.gz")
    assert found is not None
    assert found.data == b""


def test_prompts_and_keys_stay_on_somebodys_word(log: Path, tmp_path: Path) -> None:
    assert run("snapshot", "vllm.log", "-o", "p.tar.gz", "--keep-prompts", "--yes").exit_code == 0
    assert run("snapshot", "vllm.log", "-o", "all.tar.gz", "--no-redact", "--yes").exit_code == 0
    prompts, everything = open_bundle(tmp_path / "p.tar.gz"), open_bundle(tmp_path / "all.tar.gz")
    assert prompts is not None and everything is not None
    assert b"a secret question" in prompts.data and b"s3cretKey99" not in prompts.data
    assert everything.data == LOG.encode()


def test_a_terminal_is_asked(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    asked = []

    def confirm(text: str, *, err: bool) -> bool:
        asked.append(text)
        return False

    monkeypatch.setattr(cli_snapshot.typer, "confirm", confirm)
    monkeypatch.setattr(cli_snapshot.sys, "stdin", Terminal())
    monkeypatch.setattr(cli_snapshot.sys, "stderr", Terminal())
    with pytest.raises(typer.Exit) as refused:
        cli_snapshot._consent(keep_prompts=True, no_redact=False, yes=False)
    assert refused.value.exit_code == 2
    assert asked == ["--keep-prompts leaves the users' prompts and the model's outputs in the archive. Go on?"]


def test_a_broken_off_archive_is_taken_as_far_as_it_goes(log: Path, tmp_path: Path) -> None:
    access = '(APIServer pid=1) INFO:     127.0.0.1:%d - "POST /v1/completions HTTP/1.1" 200 OK\n'
    whole = gzip.compress((LOG + "".join(access % port for port in range(10_000, 12_000))).encode())
    (tmp_path / "cut.log.gz").write_bytes(whole[: len(whole) * 2 // 3])
    result = run("snapshot", "cut.log.gz", "-o", "b.tar.gz")
    assert result.exit_code == 0
    found = open_bundle(tmp_path / "b.tar.gz")
    assert found is not None
    assert found.data.startswith(b"(APIServer pid=1) INFO 12-01 10:00:00")
    assert "not available: log" in result.stderr


# --- redact -----------------------------------------------------------------------------------------------------------


def test_redact_cleans_a_log(log: Path) -> None:
    result = run("redact", "vllm.log")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[3] == "see http://<host-1>:8000, --api-key <token-1>"
    assert len(lines) == 4
    assert result.stderr == "replaced: 1 host, 1 prompt, 1 token\n"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_redact_keeps_bytes_that_hide_nothing(end: bytes) -> None:
    data = b"one\r\n\xff\xfe\xe2\x80\xa8 two\r three" + end
    assert run("redact", "-", stdin=data).stdout_bytes == data


def test_redact_reads_compressed_logs(log: Path, tmp_path: Path) -> None:
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(LOG.encode()))
    assert "<token-1>" in run("redact", "x.log.gz").stdout


def test_redact_keeps_prompts_if_told(log: Path) -> None:
    result = run("redact", "vllm.log", "--keep-prompts")
    assert "a secret question" in result.stdout
    assert "s3cretKey99" not in result.stdout


def test_redact_says_what_is_missing(log: Path) -> None:
    result = run("redact", "none.log")
    assert result.exit_code == 3
    assert result.stderr.startswith("vlogdiag: none.log: ")


def test_a_secret_across_chunks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = [b"a --api-key s3cr", b"etKey99 b\nx\n--hf-to", b"ken abcdefgh12"]
    assert list(cli_snapshot._lines(iter(chunks))) == ["a --api-key s3cretKey99 b\n", "x\n", "--hf-token abcdefgh12"]


# --- two gigabytes ----------------------------------------------------------------------------------------------------

DRIVER = "import typer; from vlogdiag.cli_snapshot import snapshot; typer.run(snapshot)"


BETWEEN = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(usage.ru_maxrss)
sys.exit(process.returncode)
"""


def children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.long
def test_two_gigabytes_take_fifteen_seconds_and_200_mb(tmp_path: Path) -> None:
    """A server's log of weeks: statistics, access lines, an error in the middle, the end of it all."""
    statistics = (
        b"(APIServer pid=1) INFO 12-01 10:00:00 [loggers.py:127] Engine 000: Avg prompt throughput: 251.3 tokens/s, Avg generation "
        b"throughput: 18.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 7.7%, Prefix cache hit rate: 0.0%\n"
        b'(APIServer pid=1) INFO:     10.20.30.40:51022 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    ) * 2000
    path = tmp_path / "vllm.log"
    with path.open("wb") as file:
        file.write(LOG.encode())
        while file.tell() < 1 << 30:
            file.write(statistics)
        file.write(LOG.splitlines(keepends=True)[2].encode())
        while file.tell() < 2 << 30:
            file.write(statistics)
        file.write(LOG.splitlines(keepends=True)[2].encode())
    begin, used = time.monotonic(), children_cpu()
    done = subprocess.run(  # through a small process: a child inherits the peak of the one that starts it
        [
            sys.executable,
            "-I",
            "-c",
            BETWEEN,
            sys.executable,
            "-c",
            DRIVER,
            str(path),
            "-o",
            str(tmp_path / "b.tar.gz"),
            "--pid",
            str(os.getpid()),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    wall, cpu = time.monotonic() - begin, children_cpu() - used
    peak = int(done.stdout.split()[-1]) / 1024
    path.unlink()
    print(f"{wall:.1f} s ({cpu:.1f} s of CPU), {peak:.0f} MiB")
    assert done.returncode == 0, done.stderr
    found = open_bundle(tmp_path / "b.tar.gz")
    assert found is not None
    assert b"s3cretKey99" not in found.data
    assert found.data.count(b"CUDA out of memory") >= 2
    assert found.original_line(found.data.count(b"\n")) > 10_000_000
    assert min(wall, cpu) < 15  # where other work takes the cores, the wall's clock says nothing
    assert peak < 200


def test_a_terminal_gets_the_whole_of_a_redacted_line(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("INFO 01-24 10:22:37 [x.py:1] " + "word " * 600 + "\x1b[2J the end\n")
    ours, its = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "vlogdiag", "redact", str(log)], stdin=its, stdout=its, stderr=subprocess.DEVNULL
    )
    os.close(its)
    text = b""
    with contextlib.suppress(OSError):  # Linux says so where the other end has closed
        while part := os.read(ours, 65536):
            text += part
    os.close(ours)
    assert process.wait(timeout=60) == 0
    assert text.count(b"word ") == 600 and text.rstrip().endswith(b"the end") and b"\x1b[2J" not in text


def test_a_full_disk_behind_standard_output_is_not_advised_to_write_there(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_text("INFO 01-24 10:22:37 [x.py:1] up\n")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "vlogdiag", "snapshot", str(tmp_path / "vllm.log"), "-o", "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.returncode == 3 and done.stderr == "vlogdiag: standard output: No space left on device\n"

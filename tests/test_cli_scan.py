"""`vlogdiag scan` as a program: what bad input gets, exit statuses, what is printed where (DESIGN section 7)."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ages import BY_VERSION, CORE, Printer, traceback
from typer.testing import CliRunner, Result

from vlogdiag import loading
from vlogdiag.cli import app
from vlogdiag.loading import Rules, load

SAMPLES = Path(__file__).parent.parent / "sample_logs"
FAULTY = SAMPLES / "kv-cache-too-small.log"
WARNED = SAMPLES / "preemptions.log"
INFORMED = SAMPLES / "prompt-too-long.log"
HEALTHY = SAMPLES / "healthy" / "clients-that-hang-up-0.24.log"
ENV = {**os.environ, "CI": "1", "NO_COLOR": "1", "COLUMNS": "100", "LINES": "40"}


def scan(*args: object, **more: object) -> Result:
    return CliRunner().invoke(app, ["scan", *map(str, args)], env={"CI": "1", "COLUMNS": "100"}, **more)  # type: ignore[arg-type]


def program(*args: object, **more: object) -> subprocess.Popen[bytes]:
    """The real process, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "vlogdiag.cli", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENV,
        **more,
    )  # type: ignore[call-overload]


def ids(result: Result) -> list[str]:
    return [finding["id"] for finding in json.loads(result.stdout)["findings"]]


@pytest.fixture(autouse=True)
def _rules_are_read_once(monkeypatch: pytest.MonkeyPatch, shipped: Rules) -> None:
    """Reading 300 files for every call would be most of this file's time; own rules are read as ever."""
    monkeypatch.setattr(loading, "load", lambda extra=(), **more: load(extra, **more) if extra else shipped)


# --- exit statuses -----------------------------------------------------------------------------------------------------

STATUSES = [
    # log, options, status
    (HEALTHY, [], 0),
    (FAULTY, [], 1),
    (WARNED, [], 0),
    (INFORMED, [], 0),
    (WARNED, ["--fail-on", "warning"], 1),
    (INFORMED, ["--fail-on", "warning"], 0),
    (INFORMED, ["--fail-on", "info"], 1),
    (HEALTHY, ["--fail-on", "info"], 0),
    (FAULTY, ["--fail-on", "never"], 0),
    (FAULTY, ["--exit-zero"], 0),
    (FAULTY, ["--ignore", "kv-cache-too-small"], 0),
    (FAULTY, ["--json"], 1),
    (FAULTY, ["--markdown"], 1),
    (FAULTY, ["--run", "last"], 1),
]


@pytest.mark.parametrize(
    ("log", "options", "status"), STATUSES, ids=[f"{log.stem} {' '.join(o)}" for log, o, _ in STATUSES]
)
def test_exit_status(log, options, status):
    result = scan(log, *options)
    assert (result.exit_code, result.stderr) == (status, "")


USAGE = [
    ([], "Missing argument"),
    (["x.log", "--fail-on", "sometimes"], "Invalid value"),
    (["x.log", "--run", "first"], "--run takes a number, 'last' or 'all'"),
    (["x.log", "--run", "0"], "--run takes a number"),
    (["x.log", "--no-such-option"], "No such option"),
    ([FAULTY, "--ignore", "kv-cache-to-small"], "--ignore kv-cache-to-small: no such signature"),
    ([FAULTY, "--vllm-version", "yesterday"], "yesterday"),
]


@pytest.mark.parametrize(
    ("args", "words"), USAGE, ids=[" ".join(map(str, args))[-40:] or "nothing" for args, _ in USAGE]
)
def test_wrong_usage_is_2_without_a_report(args, words):
    result = scan(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


# --- bad input ---------------------------------------------------------------------------------------------------------


def bad_inputs(folder: Path) -> dict[str, tuple[str, Path]]:
    """Name: (words on stderr, path)."""
    (folder / "empty.log").write_bytes(b"")
    (folder / "diary.log").write_text("Dear diary,\ntoday nothing happened.\n")
    (folder / "nothing-here").mkdir()
    (folder / "broken.gz").write_bytes(b"this is no gzip at all, really not one")
    whole = gzip.compress(FAULTY.read_bytes())
    (folder / "cut.log.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "blank.log").write_text("\n\n\n")
    return {
        "a missing file": ("no such file", folder / "missing.log"),
        "a folder without logs": ("holds no file", folder / "nothing-here"),
        "an empty file": ("empty", folder / "empty.log"),
        "no vLLM log": ("nothing in it was recognised as vLLM's log", folder / "diary.log"),
        "blank lines": ("nothing in it was recognised", folder / "blank.log"),
        "no gzip at all": ("gz", folder / "broken.gz"),
        "a gzip that breaks off": ("", folder / "cut.log.gz"),
    }


BAD = ["a missing file", "a folder without logs", "an empty file", "no vLLM log", "blank lines", "no gzip at all", "a gzip that breaks off"]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_clear_line_and_status_3(tmp_path, name):
    words, path = bad_inputs(tmp_path)[name]
    result = scan(path)
    lines = result.stderr.strip().splitlines()
    assert (result.exit_code, len(lines)) == (3, 1)
    assert lines[0].startswith("vlogdiag: ")
    assert words.lower() in lines[0].lower()
    assert path.name in lines[0]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", BAD)
def test_the_other_files_are_still_read(tmp_path, name):
    """1 beats 3: a finding is what the caller came for."""
    _, path = bad_inputs(tmp_path)[name]
    result = scan(path, FAULTY, "--json")
    assert (result.exit_code, ids(result)) == (1, ["kv-cache-too-small"])
    assert scan(path, HEALTHY).exit_code == 3


@pytest.mark.parametrize("name", BAD)
def test_a_json_report_is_printed_whatever_could_not_be_read(tmp_path, name):
    _, path = bad_inputs(tmp_path)[name]
    report = json.loads(scan(path, "--json").stdout)
    assert (report["format"], report["findings"]) == ("vlogdiag.report/1", [])


def test_a_file_that_cannot_be_opened(tmp_path):
    """A loop of links: not even root reads it."""
    (tmp_path / "loop.log").symlink_to(tmp_path / "loop.log")
    result = scan(tmp_path / "loop.log", FAULTY, "--json")
    assert (result.exit_code, ids(result), len(result.stderr.splitlines())) == (1, ["kv-cache-too-small"], 1)


def test_a_gzip_that_breaks_off_is_diagnosed_as_far_as_it_was_read(tmp_path):
    """The failure stands in the first half; what follows is missing."""
    tail = b"".join(os.urandom(60).hex().encode() + b"\n" for _ in range(3000))
    (tmp_path / "cut.log.gz").write_bytes(gzip.compress(FAULTY.read_bytes() + tail)[:-2000])
    result = scan(tmp_path / "cut.log.gz", "--json")
    assert (result.exit_code, ids(result)) == (1, ["kv-cache-too-small"])
    assert json.loads(result.stdout)["sources"][0]["error"]


def test_a_whole_gzip_is_read(tmp_path):
    (tmp_path / "good.log.gz").write_bytes(gzip.compress(FAULTY.read_bytes()))
    assert scan(tmp_path / "good.log.gz").exit_code == 1


def test_a_folder_is_its_logs(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.log").write_bytes(FAULTY.read_bytes())
    (tmp_path / "notes.txt").write_text("not a log")
    report = json.loads(scan(tmp_path, "--json").stdout)
    assert [Path(source["path"]).name for source in report["sources"]] == ["0.log", "1.log", "2.log"]
    assert len(report["findings"]) == 3


def test_standard_input():
    result = CliRunner().invoke(app, ["scan", "-", "--json"], input=FAULTY.read_bytes(), env={"CI": "1"})
    assert (result.exit_code, ids(result)) == (1, ["kv-cache-too-small"])


def test_nothing_is_correlated_across_paths():
    """A file of consequences beside one that holds a cause: named as a candidate, no more."""
    result = scan(SAMPLES / "only-consequences.log", FAULTY, "--json")
    report = json.loads(result.stdout)
    assert [f["source"] for f in report["findings"]] == [str(FAULTY)]
    assert any("look for the cause in" in notice and FAULTY.name in notice for notice in report["notices"])


# --- rules of one's own ------------------------------------------------------------------------------------------------

OWN = """\
id: proxy-gave-up
title: The proxy gave up
severity: warning
match:
  line: "PROXY GIVES UP after {n:int} tries"
  level: [none, info, warning, error]
cause: "It tried {n} times."
fixes: [{title: Ask the proxy, run: systemctl status proxy}]
examples:
  fires: [{log: "PROXY GIVES UP after 3 tries"}]
  quiet: [{log: "INFO 04-03 15:05:56 [logger.py:43] Received request 1: prompt: 'PROXY GIVES UP after 3 tries', params: SamplingParams(n=1)"}]
"""


def test_own_rules_are_loaded_beside_the_shipped_ones(tmp_path):
    (tmp_path / "rules" / "hang").mkdir(parents=True)
    (tmp_path / "rules" / "hang" / "proxy-gave-up.yaml").write_text(OWN)
    log = tmp_path / "vllm.log"
    log.write_text(FAULTY.read_text() + "PROXY GIVES UP after 3 tries\n")
    report = json.loads(scan(log, "--rules", tmp_path / "rules", "--json").stdout)
    assert "proxy-gave-up" in {f["id"] for f in report["findings"]} | {
        c["id"] for f in report["findings"] for c in f["consequences"]
    }
    assert report["rules"]["user"] == 1


def test_all_faults_of_broken_rules_are_said_with_their_place_and_nothing_is_scanned(tmp_path):
    rules = tmp_path / "rules" / "hang"
    rules.mkdir(parents=True)
    (rules / "one.yaml").write_text(
        OWN.replace("severity: warning", "severity: terrible").replace("proxy-gave-up", "one")
    )
    (rules / "two.yaml").write_text("id: two\ntitle: [unclosed\n")
    (rules / "three.yaml").write_text(
        OWN.replace("proxy-gave-up", "other-name").replace("run: systemctl status proxy", "flags: {--no-such-flag: x}")
    )
    result = scan(FAULTY, "--rules", tmp_path / "rules")
    assert (result.exit_code, result.stdout) == (3, "")
    places = [line.removeprefix("vlogdiag: ") for line in result.stderr.splitlines()]
    assert all(place.split(":")[1].isdigit() and place.split(":")[2].isdigit() for place in places)
    assert {Path(place.split(":")[0]).name for place in places} == {"one.yaml", "two.yaml", "three.yaml"}
    assert "--no-such-flag" in result.stderr


def test_a_rules_folder_that_is_not_there(tmp_path):
    result = scan(FAULTY, "--rules", tmp_path / "none")
    assert (result.exit_code, "no such rules folder" in result.stderr) == (3, True)


# --- JSON --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "log", [FAULTY, WARNED, INFORMED, HEALTHY, SAMPLES / "only-consequences.log"], ids=lambda log: log.stem
)
def test_json_is_one_valid_report(log):
    report = json.loads(scan(log, "--json").stdout)
    assert report["format"] == "vlogdiag.report/1"
    assert sum(report["summary"].values()) == len(report["findings"])
    assert report["sources"][0]["lines"] == log.read_bytes().count(b"\n")


def test_runs_can_be_chosen():
    log = SAMPLES / "sampler-three-starts.log"

    def runs(*options: str) -> list[int]:
        return [f["run"] for f in json.loads(scan(log, "--json", *options).stdout)["findings"]]

    assert (runs(), runs("--run", "2"), runs("--run", "last"), runs("--run", "9")) == ([3, 2, 1], [2], [3], [])


def test_a_version_can_be_given():
    report = json.loads(scan(FAULTY, "--json", "--vllm-version", "0.22.0").stdout)
    assert report["sources"][0]["runs"][0]["vllm_version"] == "0.22.0"


# --- hostile text ------------------------------------------------------------------------------------------------------

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold red]markup[/bold red] [/] ::error file=x::boo %s {0} <script>alert(1)</script> \x00\x07\u202e"


def hostile_log(tmp_path: Path) -> Path:
    p = Printer(BY_VERSION["0.24.0"]).start()
    p.error(
        CORE,
        "core.py:700",
        f"{HOSTILE} EngineCore failed to start.\n" + traceback("a.py:1:f:g()", error=f"FancyError: {HOSTILE}"),
    )
    p.bare(
        "api", f"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {HOSTILE}"
    )
    p.loose("::error::at the beginning of a line")
    p.error(CORE, "core.py:701", "::warning::Unclaimed error of one's own")
    path = tmp_path / "[red]evil.log"
    path.write_text(p.text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "options", [[], ["--verbose"], ["--markdown"], ["--json"]], ids=lambda o: " ".join(o) or "text"
)
def test_hostile_text_is_printed_harmlessly(tmp_path, options):
    result = scan(hostile_log(tmp_path), *options)
    assert result.exit_code == 1
    assert not [c for c in result.stdout if (c < " " and c not in "\n") or c in "\x7f\u202e"]
    assert not [line for line in result.stdout.splitlines() if line.lstrip().startswith("::")]
    if options == ["--markdown"]:
        assert "<script>" not in re.sub(
            r"```.*?```|`[^`\n]*`", "", result.stdout, flags=re.DOTALL
        )  # in code it is text


def test_a_hostile_name_of_a_file_is_printed_harmlessly(tmp_path):
    result = scan(tmp_path / "\x1b[2J::error::x.log")
    assert (result.exit_code, "\x1b" in result.stderr) == (3, False)


# --- as a process ------------------------------------------------------------------------------------------------------


def test_a_closed_pipe_ends_quietly():
    process = program("scan", *[FAULTY] * 40, "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    assert (process.wait(timeout=60) in (0, 1), said) == (True, b"")


UNREAD = {
    "healthy": (("scan", HEALTHY), 0),
    "healthy json": (("scan", HEALTHY, "--json"), 0),
    "healthy markdown": (("scan", HEALTHY, "--markdown"), 0),
    "faulty": (("scan", FAULTY), 1),
    "faulty json": (("scan", FAULTY, "--json"), 1),
    "faulty timeline": (("scan", FAULTY, "--timeline"), 1),
    "nothing of vLLM's": (("scan", SAMPLES.parent / "LICENSE"), 3),
    "flags diff": (("flags", "diff", "0.10.0", "0.11.0"), 0),
    "redact": (("redact", FAULTY), 0),
    "rules list": (("rules", "list"), 0),
    "whatif": (("whatif", FAULTY), 1),
    "tail": (("tail", FAULTY, "--from-start", "--no-live"), 0),
    "help": (("--help",), 0),
}


@pytest.mark.parametrize("case", UNREAD)
def test_a_reader_that_has_gone_from_the_start_changes_no_status(case):
    """typer's own answer to a broken pipe is 1, which says that something was found."""
    words, status = UNREAD[case]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "vlogdiag.cli", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        env=ENV,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, b"Traceback" in done.stderr, b"rror" in done.stderr) == (status, False, False)


@pytest.mark.parametrize(("log", "status"), [(FAULTY, 1), (HEALTHY, 0)])
def test_closed_standard_output_changes_no_status(log, status):
    command = f'exec "{sys.executable}" -m vlogdiag.cli scan "{log}" >&-'
    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, env=ENV, timeout=60)
    assert (done.returncode, done.stderr) == (status, b"")


@pytest.mark.parametrize("target", ["1</dev/null", ">/dev/full"])
def test_standard_output_that_cannot_be_written_is_said(target):
    command = f'exec "{sys.executable}" -m vlogdiag.cli scan "{HEALTHY}" {target}'
    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, env=ENV, timeout=60)
    assert (done.returncode, done.stderr.startswith(b"vlogdiag: standard output: ")) == (3, True)


@pytest.mark.parametrize("words", ["rules list", "flags diff 0.10.0 0.11.0", "--help", "--version"])
def test_a_full_disk_is_said_by_every_command(words):
    command = f'exec "{sys.executable}" -m vlogdiag.cli {words} >/dev/full'
    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, env=ENV, timeout=60)
    assert (done.returncode, done.stderr) == (3, b"vlogdiag: standard output: No space left on device\n")


def test_ctrl_c_is_130(tmp_path):
    """A FIFO that nobody writes to the end: the scan waits, and is interrupted."""
    fifo = tmp_path / "vllm.log"
    os.mkfifo(fifo)
    process = program("scan", fifo)
    with open(fifo, "wb") as writer:  # opens when the scan has opened its end
        writer.write(FAULTY.read_bytes())
        writer.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, b"Traceback" in err, out) == (130, False, b"")


def test_a_fifo_is_read_to_its_end(tmp_path):
    """Once: whatever looks at a file before it is read must not look at a pipe."""
    fifo = tmp_path / "vllm.log"
    os.mkfifo(fifo)
    process = program("scan", fifo, "--json")
    with open(fifo, "wb") as writer:
        writer.write(FAULTY.read_bytes())
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"")
    assert [f["id"] for f in json.loads(out)["findings"]] == ["kv-cache-too-small"]


def test_piped_output_is_plain():
    out, _ = program("scan", FAULTY).communicate(timeout=60)
    assert b"\x1b" not in out


def test_an_ascii_terminal_gets_ascii_frames():
    env = {**ENV, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "vlogdiag.cli", "scan", str(FAULTY)], capture_output=True, env=env, timeout=60
    )
    assert (done.returncode, done.stdout.decode("ascii") != "") == (1, True)


def test_the_first_fix_is_on_the_first_screen():
    """24 rows of 80 columns."""
    result = CliRunner().invoke(app, ["scan", str(FAULTY)], env={"CI": "1", "COLUMNS": "80", "LINES": "24"})
    lines = result.stdout.splitlines()
    assert any("--max-model-len 20896" in line for line in lines[:24])
    assert max(map(len, lines)) <= 80


# --- files, numbers and combinations that cannot be meant ----------------------------------------------------------------


def test_no_output_is_written_over_what_is_read_or_over_another_output(tmp_path):
    log = tmp_path / "vllm.log"
    log.write_bytes(FAULTY.read_bytes())
    (tmp_path / "again.log").hardlink_to(log)
    (tmp_path / "link").symlink_to(log)
    for words in (
        ["--html", log],
        ["--timeline-csv", log],
        ["--html", tmp_path / "again.log"],
        ["--html", tmp_path / "link"],
        ["--html", tmp_path / "x", "--timeline-csv", tmp_path / "x"],
    ):
        result = scan(log, *words)
        assert (result.exit_code, result.stdout, "by this very command" in result.stderr) == (2, "", True)
    assert CliRunner().invoke(app, ["tail", str(log), "--record", str(log)]).exit_code == 2
    assert CliRunner().invoke(app, ["tail", str(log), "--state", str(log)]).exit_code == 2
    assert log.read_bytes() == FAULTY.read_bytes() and not (tmp_path / "x").exists()


def test_an_output_that_cannot_be_written_does_not_hide_the_findings(tmp_path):
    nowhere = tmp_path / "nowhere" / "x"
    for log, status in ((FAULTY, 1), (HEALTHY, 3)):
        result = scan(log, "--html", nowhere)
        assert (result.exit_code, str(nowhere) in result.stderr) == (status, True)


@pytest.mark.parametrize(
    "words",
    [
        [FAULTY, "--json", "--markdown"],
        [FAULTY, "--json", "--timeline"],
        [FAULTY, "--json", "--live"],
        [FAULTY, "--markdown", "--live"],
        [FAULTY, "--since", "1h", "--until", "2h"],
        [FAULTY, "--since", "2026-11-30T10:00", "--until", "2026-11-29T10:00"],
        [FAULTY, "--run", "²"],
        [FAULTY, "--run", "9" * 5000],
        ["-", "--timeline"],
        ["-", "--html", "x.html"],
    ],
    ids=str,
)
def test_what_contradicts_itself_is_said_before_anything_is_read(words):
    result = scan(*words, input="")
    assert (result.exit_code, result.stdout) == (2, "")


def test_what_was_left_out_on_purpose_is_not_an_unknown_cause():
    ignored = scan(FAULTY, "--ignore", "kv-cache-too-small")
    assert (ignored.exit_code, "left out as asked: kv-cache-too-small" in ignored.stdout) == (0, True)
    missing = scan(FAULTY, "--run", "9")
    assert (missing.exit_code, "no start 9" in missing.stderr) == (3, True)
    assert "not recognised" not in ignored.stdout + missing.stdout


def test_a_rules_folder_given_twice_is_read_once_and_an_empty_one_is_said(tmp_path):
    folder, empty = tmp_path / "mine" / "startup", tmp_path / "empty"
    folder.mkdir(parents=True)
    empty.mkdir()
    words = ["rules", "new", str(folder / "my-rule.yaml"), "--from", f"{FAULTY}:50"]
    assert CliRunner().invoke(app, words).exit_code == 0
    mine = tmp_path / "mine"
    result = scan(HEALTHY, "--rules", mine, "--rules", folder / ".." / "startup", "--rules", empty)
    assert (result.exit_code, "no rules in that folder" in result.stderr) == (0, True)
    tested = CliRunner().invoke(app, ["rules", "test", str(mine), "--rules", str(mine)])
    assert tested.exit_code == 1 and "still the words of `rules new`" in tested.stdout
    assert "\n1 rule, 2 examples: " in tested.stdout


@pytest.mark.parametrize(
    ("path", "origin", "status"),
    [
        ("startup/MyRule.yaml", f"{FAULTY}:50", 2),
        ("startup/ärger.yaml", f"{FAULTY}:50", 2),
        ("startup/x.yaml", f"{FAULTY}:²", 2),
        ("startup/x.yaml", f"{FAULTY}:{'9' * 5000}", 2),
        ("/proc/startup/d.yaml", f"{FAULTY}:50", 3),
        ("file/startup/d.yaml", f"{FAULTY}:50", 3),
    ],
)
def test_a_rule_that_cannot_be_begun(tmp_path, path, origin, status):
    (tmp_path / "file").touch()
    result = CliRunner().invoke(app, ["rules", "new", str(tmp_path / path), "--from", origin])
    assert (result.exit_code, result.stderr.count("\n"), "Traceback" in result.stderr) == (status, 1, False)


@pytest.mark.parametrize(
    "words",
    [
        ["tail", FAULTY, "--metrics", "http://[::1/"],
        ["tail", FAULTY, "--no-live", "--listen", "127.0.0.1:" + "9" * 5000],
        ["snapshot", "--url", "http://[::1/"],
        ["snapshot", "--pid", "-1"],
        ["whatif", FAULTY, "--model", "x"],
    ],
    ids=lambda words: words[0] + words[-2],
)
def test_addresses_and_numbers_that_do_not_exist(words):
    assert CliRunner().invoke(app, list(map(str, words))).exit_code == 2


def test_a_tail_of_an_empty_name():
    result = CliRunner().invoke(app, ["tail", ""])
    assert (result.exit_code, result.stderr) == (3, "vlogdiag: the path is empty\n")


def test_a_file_that_breaks_off_is_said_once(tmp_path):
    log = tmp_path / "vllm.log.gz"
    log.write_bytes(gzip.compress(os.urandom(50_000))[:20_000])
    result = scan(log)
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)

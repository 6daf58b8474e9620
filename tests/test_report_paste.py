"""What a fix tells its reader to type does what it says when it is pasted."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import UNHURRIED
from rich.cells import cell_len

from vlogdiag.model import Fix
from vlogdiag.report.paste import Paste, pastes, wrap_shell


@pytest.mark.parametrize(
    ("fix", "lines"),
    [
        (Fix("t", flags={"--max-model-len": "80512"}), ["--max-model-len 80512"]),
        (Fix("t", flags={"--enforce-eager": True, "--max-num-seqs": "8"}), ["--enforce-eager --max-num-seqs 8"]),
        (Fix("t", flags={"--limit-mm-per-prompt": '{"image": 1}'}), ["--limit-mm-per-prompt '{\"image\": 1}'"]),
        (Fix("t", flags={"--model": "a b; rm -rf ~ $(x)"}), ["--model 'a b; rm -rf ~ $(x)'"]),
        (Fix("t", env={"X": "1", "Y": "a b", "Z": ""}), ["export X=1", "export Y='a b'", "unset Z"]),
        (Fix("t", run="nvidia-smi\nfuser -k 8000/tcp"), ["nvidia-smi", "fuser -k 8000/tcp"]),
        (Fix("t", script="resize-images"), ["vlogdiag rules script resize-images"]),
        (Fix("t", upgrade=">=0.11.1"), ['pip install -U "vllm>=0.11.1"']),
        (Fix("t", upgrade="0.11.1"), ['pip install -U "vllm>=0.11.1"']),
        (Fix("t", upgrade="vllm>=0.11.1,<0.12"), ['pip install -U "vllm>=0.11.1,<0.12"']),
        (Fix("t", upgrade="vllm>=0.11 transformers>=4.57"), ['pip install -U "vllm>=0.11" "transformers>=4.57"']),
        (
            Fix("t", flags={"--a": "1"}, env={"B": "2"}, upgrade="0.12"),
            ['pip install -U "vllm>=0.12"', "export B=2", "--a 1"],
        ),
    ],
)
def test_each_kind_of_remedy_has_its_line(fix: Fix, lines: list[str]) -> None:
    assert [item.text for item in pastes(fix)] == lines
    assert all(item.shell and not item.label for item in pastes(fix))


@pytest.mark.parametrize(
    ("fix", "words"),
    [
        (Fix("t", remove_flags=("--swap-space", "--x")), Paste("--swap-space --x", shell=False, label="take out")),
        (Fix("t", flags={"--enable-x": False}), Paste("--enable-x", shell=False, label="take out")),
        (Fix("t", request="max_tokens=512"), Paste("max_tokens=512", shell=False, label="in the request")),
        (
            Fix("t", upgrade="the driver, to 570 or newer"),
            Paste("the driver, to 570 or newer", shell=False, label="upgrade"),
        ),
        (Fix("t", upgrade='vllm"; rm -rf ~'), Paste('vllm"; rm -rf ~', shell=False, label="upgrade")),
        (
            Fix("t", upgrade="vllm @ https://evil.example/x.whl"),
            Paste("vllm @ https://evil.example/x.whl", shell=False, label="upgrade"),
        ),
    ],
)
def test_what_no_shell_reads_is_said_in_words(fix: Fix, words: Paste) -> None:
    assert list(pastes(fix)) == [words]


def test_a_long_command_breaks_between_words_with_a_backslash() -> None:
    command = "vllm serve Qwen/Qwen3-VL-8B-Instruct --port 3001 --mm-processor-kwargs '{\"max_pixels\": 1003520}'"
    assert wrap_shell(command, 60, indent=5) == [
        "     vllm serve Qwen/Qwen3-VL-8B-Instruct --port 3001 \\",
        "       --mm-processor-kwargs '{\"max_pixels\": 1003520}'",
    ]


def test_a_comment_that_does_not_fit_is_never_run_as_a_command() -> None:
    assert wrap_shell("fuser -k 8000/tcp  # ends the process; rm -rf would be too much", 40) == [
        "# ends the process; rm -rf would be too",
        "# much",
        "fuser -k 8000/tcp",
    ]


WORD = st.text(alphabet="ab '\"\\$#;|&中{}:", min_size=1, max_size=50)


@pytest.mark.parametrize("width", [40, 41, 60])
def test_wrapped_commands_are_the_same_command_to_a_shell(width: int) -> None:
    """One shell reads all of them: what printf gets, word by word, is what was meant."""
    seen: list[list[str]] = []
    scripts: list[str] = []

    @UNHURRIED
    @given(st.lists(WORD, min_size=1, max_size=8), st.integers(0, 9))
    def collect(words: list[str], indent: int) -> None:
        rows = wrap_shell("printf '%s\\0' " + shlex.join(words), width, indent=indent)
        assert max(map(cell_len, rows)) <= width
        seen.append(words)
        scripts.append("\n".join(rows) + "\nprintf '\\1'")

    collect()
    printed = subprocess.run(["bash", "-c", "\n".join(scripts)], capture_output=True, check=True).stdout.decode()
    assert [part.split("\0")[:-1] for part in printed.split("\1")[:-1]] == seen


@pytest.mark.parametrize(
    "command", ['echo "a$(printf "%s" "b c")d" && echo e | cat', "echo a\\ b'c'\"d\"", 'x="1 2"; echo "${x}3"']
)
@pytest.mark.parametrize("width", [12, 13, 14, 15, 16, 17])
def test_operators_and_mixed_quotes_survive_too(command: str, width: int) -> None:
    wanted = subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout
    rows = wrap_shell(command, width)
    assert (len(rows) > 1) is (len(command) > width)
    assert subprocess.run(["bash", "-c", "\n".join(rows)], capture_output=True, check=True).stdout == wanted

"""A launch line is judged word by word as the release's own parser would, and every complaint says what to write instead."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from vlogdiag.catalog import NoCommandError, Versions, check_argv, explain_unrecognized, explain_value

SHARED = Path(__file__).resolve().parents[2] / "shared" / "vllm-logs"

# (arguments of `vllm serve m`, release, [(argument, value, verdict, a part of the reason, a part of instead)])
CASES = [
    ("--enforce-eager --port 8000", "0.11.0", []),
    ("--swap-space 12", "0.18.0", [("--swap-space", "12", "refused", "removed in 0.18.0", "--kv-offloading-size")]),
    ("--swap-space 12", "0.11.0", [("--swap-space", "12", "ignored", "V0 engine", "--kv-offloading-size")]),
    ("--swap-space 12", "0.10.2", []),
    ("--gpu-mem-util 0.9", "0.11.0", [("--gpu-mem-util", "0.9", "refused", "no vLLM release", "--gpu-memory-util")]),
    ("--gpu-mem 0.9", "0.11.0", []),
    ("--request-timeout 60", "0.11.0", [("--request-timeout", "60", "refused", "no vLLM release", None)]),
    (
        "--kv-cache-dtype fp8_e4m3fn",
        "0.11.0",
        [("--kv-cache-dtype", "fp8_e4m3fn", "refused", "allowed: auto, bfloat16, fp8", "--kv-cache-dtype fp8")],
    ),
    ("--kv-cache-dtype fp8_e4m3fn", "0.33.0", [("--kv-cache-dtype", "fp8_e4m3fn", "refused", "no value", "fp8")]),
    ("--disable-log-requests", "0.10.0", []),
    ("--disable-log-requests", "0.11.0", [("--disable-log-requests", None, "ignored", "does nothing", "nothing")]),
    ("--disable-log-requests", "0.20.0", [("--disable-log-requests", None, "refused", "back in 0.33.0", "--no-en")]),
    ("--disable-log-requests", "0.33.0", []),
    ("--async-scheduling", "0.9.2", [("--async-scheduling", None, "refused", "arrives in 0.10.0", None)]),
    ("--device cpu", "0.32.0", [("--device", "cpu", "refused", "ambiguous", None)]),
    ("--tensor-paralel-size 2", "0.11.0", [("--tensor-paralel-size", "2", "refused", "nearest", "--tensor-parallel")]),
    ("--enforce-eager true", "0.11.0", [("--enforce-eager", "true", "refused", "takes no value", "--enforce-eager")]),
    ("--enforce-eager false", "0.11.0", [("--enforce-eager", "false", "refused", "no value", "--no-enforce-eager")]),
    ("--enforce-eager=true", "0.11.0", [("--enforce-eager", "true", "refused", "takes no value", "--enforce-eager")]),
    ("--enforce-eager false", "0.8.5", [("--enforce-eager", "false", "refused", "no value", "leave out")]),
    ("--enable-chunked-prefill false", "0.8.4", []),
    (
        "--enable-chunked-prefill false",
        "0.8.5",
        [("--enable-chunked-prefill", "false", "refused", "no value", "--no-")],
    ),
    ("--port", "0.11.0", [("--port", None, "refused", "wants a value", None)]),
    ("--port --host h", "0.11.0", [("--port", None, "refused", "wants a value", None)]),
    ("--port http", "0.11.0", [("--port", "http", "refused", "whole number", None)]),
    ("stray", "0.11.0", [("stray", None, "refused", "no option takes this word", None)]),
    ("--max-model-len auto", "0.13.0", [("--max-model-len", "auto", "refused", "4096 or 4k", None)]),
    ("--limit-mm-per-prompt image=2", "0.11.0", [("--limit-mm-per-prompt", "image=2", "refused", "wants JSON", None)]),
    ("--limit-mm-per-prompt.image 2", "0.8.5", [("--limit-mm-per-prompt.image", "2", "refused", "0.9.0", None)]),
    ("--limit-mm-per-prompt.image 2 --max_model_len 4k", "0.11.0", []),
    ("--cuda-graph-sizes 1 2 4 --port 1", "0.11.0", []),
    ("--cuda-graph-sizes 1 2 x", "0.11.0", [("--cuda-graph-sizes", "1 2 x", "refused", "'x' is no value", None)]),
    ("--cuda-graph-sizes 8", "0.12.0", [("--cuda-graph-sizes", "8", "deprecated", "", "--cudagraph-capture-sizes")]),
    ("-tp 2 -tp=2 -O3", "0.11.0", []),
    ("-O3 -O 2 -cc.mode=3", "0.13.0", []),
    ("-O", "0.13.0", [("-O", None, "refused", "wants a value", None)]),
    ("-O.level=3", "0.13.0", [("-O.level", "3", "refused", "0.9.2 to 0.12.0", "-cc.level")]),
    ('--compilation-config {"level":3}', "0.18.0", [("--compilation-config", '{"level":3}', "refused", "", '"mode"')]),
    ("--model other", "0.11.0", [("--model", "other", "refused", "as a word", "vllm serve other")]),
    ("--model other", "0.33.0", [("--model", "other", "deprecated", "as a word", "vllm serve other")]),
    ("--temperature -1", "0.11.0", [("--temperature", "-1", "refused", "", None)]),
    ("-- --swap-space 4", "0.18.0", []),
]


def _seen(problems: tuple[object, ...]) -> list[tuple[object, ...]]:
    return [(p.argument, p.value, p.verdict) for p in problems]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("arguments", "release", "expected"), CASES)
def test_an_argument_is_judged_as_the_release_would(
    arguments: str, release: str, expected: list[tuple[str, str | None, str, str, str | None]]
) -> None:
    problems = check_argv(["vllm", "serve", "m", *arguments.split()], Versions.exact(release))
    assert _seen(problems) == [one[:3] for one in expected]
    for problem, (_, _, _, reason, instead) in zip(problems, expected, strict=True):
        assert reason in problem.reason
        assert (instead is None) or instead in (problem.instead or "")


def test_the_module_takes_its_model_as_an_option_and_no_word() -> None:
    start = "python3 -m vllm.entrypoints.openai.api_server"
    assert check_argv(f"{start} --model m --swap-space 4".split(), Versions.exact("0.10.2")) == ()
    assert check_argv(f"{start} --model m".split(), Versions.exact("0.9.0")) == ()
    (stray,) = check_argv(f"{start} m".split(), Versions.exact("0.10.2"))
    assert (stray.argument, stray.verdict) == ("m", "refused")


def test_an_option_that_only_vllm_serve_has_is_refused_by_the_module() -> None:
    start = "python3 -m vllm.entrypoints.openai.api_server --model m --headless"
    (problem,) = check_argv(start.split(), Versions.exact("0.9.0"))
    assert (problem.argument, problem.reason) == ("--headless", "only vllm serve takes --headless")
    assert check_argv(["vllm", "serve", "m", "--headless"], Versions.exact("0.9.0")) == ()


def test_vllm_serve_itself_arrives_in_0_5_2() -> None:
    (problem,) = check_argv(["vllm", "serve", "m"], Versions.exact("0.5.1"))
    assert (problem.argument, problem.verdict) == ("serve", "refused")
    assert "0.5.2" in problem.reason


@pytest.mark.parametrize("words", ["python app.py", "vllm bench serve", "serve m", "", "echo vllm"])
def test_words_that_start_no_server_are_said_to_start_none(words: str) -> None:
    with pytest.raises(NoCommandError):
        check_argv(words.split(), Versions.exact("0.11.0"))


@pytest.mark.parametrize("prefix", ["", "/usr/local/bin/", "exec ", "CUDA_VISIBLE_DEVICES=0 nohup "])
def test_what_stands_before_the_server_does_not_matter(prefix: str) -> None:
    problems = check_argv([*prefix.split(" ")[:-1], prefix.split(" ")[-1] + "vllm", "serve", "m", "-x"], Versions.all())
    assert [problem.argument for problem in problems] == ["-x"]


def test_a_problem_of_a_part_of_the_versions_names_that_part() -> None:
    (problem,) = check_argv(["vllm", "serve", "m", "--swap-space", "4"], Versions.of("0.17.0..0.18.1"))
    assert problem.versions is not None
    assert (problem.verdict, problem.versions.words()) == ("refused", "0.18.0 to 0.18.1")


UNRECOGNIZED = [
    ("--gpu-mem-util 0.9", "0.11.0", [("--gpu-mem-util", "0.9", "no vLLM release")]),
    (
        "--swap-space 4 --request-timeout 9",
        "0.18.0",
        [("--swap-space", "4", "removed in"), ("--request-timeout", "9", "no")],
    ),
    ("true", "0.11.0", [("true", None, "no option takes this word")]),
    ("--kv-offloading-size 3", "0.10.2", [("--kv-offloading-size", "3", "arrives in 0.11.1")]),
    ("--limit-mm-per-promt image=2", "0.11.0", [("--limit-mm-per-promt", "image=2", "nearest: --limit-mm-per-prompt")]),
    ("--port 80", "0.11.0", [("--port", "80", "0.11.0 knows this option")]),
    ("--qq=b c d", "0.11.0", [("--qq", "b c d", "does not know --qq")]),
]


@pytest.mark.parametrize(("arguments", "release", "expected"), UNRECOGNIZED)
def test_unrecognized_arguments_are_explained_one_by_one(
    arguments: str, release: str, expected: list[tuple[str, str | None, str]]
) -> None:
    problems = explain_unrecognized(arguments.split(), Versions.exact(release))
    assert [(p.argument, p.value) for p in problems] == [one[:2] for one in expected]
    for problem, (_, _, reason) in zip(problems, expected, strict=True):
        assert reason in problem.reason


def test_a_refused_choice_is_explained_with_the_choices_of_that_release() -> None:
    problem = explain_value("--block-size", "48", Versions.exact("0.10.2"))
    assert problem is not None
    assert problem.reason == "'48' is no value of --block-size in 0.10.2; allowed: 1, 8, 16, 32, 64, 128"
    assert explain_value("--block-size", "48", Versions.exact("0.18.0")) is None


def _real_commands() -> list[tuple[str, list[str], str, bool]]:
    """Name, words, release and whether the server's own parser refused them, of every real log beside the repository."""
    cases = []
    for label in sorted(SHARED.glob("*/label.json")):
        facts = json.loads(label.read_text(encoding="utf-8"))
        log = (label.parent / "log.txt").read_text(encoding="utf-8", errors="replace")
        refused = re.search(r"^vllm( serve)?: error:", log, re.MULTILINE) is not None
        cases.append((label.parent.name, shlex.split(facts["command"]), facts["vllm_version"], refused))
    return cases


@pytest.mark.skipif(not SHARED.is_dir(), reason="the logs of real servers lie beside the repository, not in it")
def test_what_real_servers_were_started_with_is_judged_as_they_judged_it() -> None:
    cases = _real_commands()
    assert len(cases) > 70
    judged = {
        name: any(problem.verdict == "refused" for problem in check_argv(words, Versions.exact(version)))
        for name, words, version, _ in cases
    }
    assert judged == {name: refused for name, _, _, refused in cases}

"""Faults that were found while rules were written, one test each, named after the hazard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vlogdiag.diagnosis.arguments import from_dict
from vlogdiag.loading import Rules, load
from vlogdiag.model import Finding
from vlogdiag.pipeline import Pipeline
from vlogdiag.scan import Look, scan_paths

SAMPLES = Path(__file__).parent.parent / "sample_logs"

HEAD = "(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1839] vLLM API server version 0.11.0\n"
CORE = "(EngineCore_DP0 pid=9) ERROR 11-30 10:00:05 [core.py:708] "


def findings(log: str, rules: Rules) -> tuple[Finding, ...]:
    pipeline = Pipeline(rules, source="x")
    pipeline.feed(log.encode())
    return pipeline.close().findings


def own(tmp_path: Path, text: str) -> Rules:
    place = tmp_path / "startup"
    place.mkdir()
    (place / "my-rule.yaml").write_text(text)
    return load([tmp_path])


RULE = """\
id: my-rule
title: A path is wrong
severity: error
match:
  line: "the folder {path:text} is not there"
cause: "{path} is missing."
fixes:
  - title: Look
    run: "ls -ld {path}"
  - title: Unset what this version ignores
    env: {VLLM_USE_V1: ""}
references: [https://docs.vllm.ai/]
examples:
  fires:
    - log: |
        (EngineCore_DP0 pid=9) ERROR 11-30 10:00:05 [core.py:708] ValueError: the folder /a is not there
  quiet:
    - name: quoted
      log: |
        (APIServer pid=1) INFO 11-30 10:00:05 [logger.py:43] Received request cmpl-1: prompt: 'the folder /a is not there', params: SamplingParams(n=1)
"""


def test_words_of_the_log_are_quoted_in_a_command(tmp_path: Path) -> None:
    (found,) = findings(f"{HEAD}{CORE}ValueError: the folder /a; rm -rf ~ $(id) is not there\n", own(tmp_path, RULE))
    assert found.fixes[0].run == "ls -ld '/a; rm -rf ~ $(id)'"


def test_a_variable_without_effect_can_still_be_unset(tmp_path: Path) -> None:
    log = f"{HEAD.replace('0.11.0', '0.12.0')}{CORE}ValueError: the folder /a is not there\n"
    (found,) = findings(log, own(tmp_path, RULE))
    assert found.fixes[1].env == {"VLLM_USE_V1": ""}


def test_the_exceptions_own_line_proves_more_than_the_source_line_that_raised_it(tmp_path: Path) -> None:
    log = (
        f"{HEAD}{CORE}EngineCore failed to start.\n{CORE}Traceback (most recent call last):\n"
        f'{CORE}  File "/srv/x.py", line 3, in load\n{CORE}    raise ValueError(f"the folder {{path}} is not there")\n'
        f"{CORE}ValueError: the folder /a is not there\n"
    )
    (found,) = findings(log, own(tmp_path, RULE))
    assert found.evidence[0].text == "ValueError: the folder /a is not there" and found.captures["path"] == "/a"


def test_a_refused_option_is_judged_by_the_releases_that_lack_it() -> None:
    log = "usage: vllm serve [model_tag] [options]\nvllm: error: unrecognized arguments: --preemption-mode swap\n"
    (found,) = findings(log, load())
    assert "removed in 0.11.0" in found.fixes[0].title


def test_posts_that_fail_say_that_the_server_serves() -> None:
    log = f'{HEAD}INFO:     10.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n'
    pipeline = Pipeline(load(), source="x")
    pipeline.feed(log.encode())
    (run,) = pipeline.close().summary.runs
    assert run.phase is not None and run.phase.value == "serving"


def test_life_between_two_errors_parts_them_and_life_after_both_does_not() -> None:
    oom = f"{CORE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process has 22.40 GiB memory in use. Of the allocated memory 21.90 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.\n"
    illegal = "(EngineCore_DP0 pid=9) ERROR 11-30 10:01:30 [core.py:800] RuntimeError: CUDA error: an illegal memory access was encountered\n"
    served = '(APIServer pid=1) INFO:     10.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    rules = load()
    apart = findings(HEAD + served + oom + served + illegal, rules)
    together = findings(HEAD + served + oom + illegal + served, rules)
    assert len(apart) == 2 and len(together) == 1
    assert len(together[0].consequences) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_disk_under_the_report_is_one_line_and_status_3() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "vlogdiag", "scan", str(SAMPLES / "port-in-use.log")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.startswith("vlogdiag: standard output: ") and done.stderr.count("\n") == 1


def test_a_start_that_the_log_does_not_have_is_said() -> None:
    done = scan_paths([str(SAMPLES / "sampler-three-starts.log")], load(), Look(run="9"))
    assert done.problems and "3 starts, no start 9" in done.problems[0]
    one = scan_paths([str(SAMPLES / "sampler-three-starts.log")], load(), Look(run="2"))
    assert [finding.run for finding in one.report.findings] == [2]


def test_a_pipe_in_a_folder_is_named_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.log")
    (tmp_path / "b.log").write_text(HEAD)
    done = scan_paths([str(tmp_path)], load())
    assert any("is a pipe" in problem for problem in done.problems)
    assert len(done.report.sources) == 2


def test_arguments_named_like_tokens_are_kept_and_tokens_are_not() -> None:
    found = from_dict("{'tokenizer': 'org/m', 'max_num_batched_tokens': 8192, 'hf_token': 'hf_abc', 'api_key': ['k']}")
    assert found == {"tokenizer": "org/m", "max_num_batched_tokens": 8192, "hf_token": "***", "api_key": "***"}

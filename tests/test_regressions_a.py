"""Failures of environment, start-up, shape and pictures as people reported them, and logs that must stay quiet.

Each file under `data/regressions` holds a short log in the form of its release, the rule that should explain it, the
line that is the cause, and the words of the accepted remedy, of which one is enough.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from vlogdiag.diagnosis.arguments import from_config
from vlogdiag.loading import load
from vlogdiag.model import Finding, Severity
from vlogdiag.pipeline import Pipeline, Result

RULES = load()
GATES = Pipeline(RULES, source="vllm.log").gates
CASES = sorted((Path(__file__).parent / "data/regressions").glob("*.yaml"))
TRACEBACK = "Traceback (most recent call last):\n"


def scan(log: str) -> Result:
    pipeline = Pipeline(RULES, source="vllm.log", gates=GATES)
    pipeline.feed(log.encode())
    return pipeline.close()


def alike(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().lower().replace("_", "-")


def told(finding: Finding) -> str:
    """What the first four fixes tell the reader to do."""
    return alike(
        " ".join(
            str(part)
            for fix in finding.fixes[:4]
            for part in (fix.title, *fix.flags, *fix.remove_flags, *fix.env, fix.run, fix.script, fix.request)
        )
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_cause_and_one_accepted_remedy_are_named(path: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(path.read_text())
    result = scan(case["log"])
    if case["id"] is None:
        assert not [f.id for f in result.findings if f.severity >= Severity.WARNING]
        assert result.summary.recognised
        return
    first = result.findings[0]
    assert first.id == case["id"]
    cited = [alike(e.text) for e in first.evidence if e.kind == "log"][:3]
    wanted = [alike(root) for root in case["root"]]
    assert any(root in line or (len(line) > len(root) // 2 and line in root) for line in cited for root in wanted)
    assert not any(
        alike(line) in cited[0] and not any(r in cited[0] for r in wanted) for line in case.get("misleading", [])
    )
    assert any(alike(word) in told(first) for word in case["fix"]), told(first)
    assert not [f.id for f in result.findings[1:] if f.severity >= Severity.ERROR]


INDENTED = ("aimv2-092", "fp8e4nv-qwen3-fp8-ampere-085", "prompt-quotes-errors-0101", "torchvision-nms")


@pytest.mark.parametrize("before", ["    ", "> ", "\t", ">     "])
@pytest.mark.parametrize("name", INDENTED)
def test_an_indented_or_quoted_paste_is_read_as_the_log_itself(name: str, before: str) -> None:
    case = yaml.safe_load((Path(__file__).parent / f"data/regressions/{name}.yaml").read_text())
    pasted = "".join(f"{before}{line}\n" for line in case["log"].splitlines())
    assert [f.id for f in scan(pasted).findings] == [f.id for f in scan(case["log"]).findings]


def test_a_traceback_after_another_programs_info_line_is_an_error_of_its_own() -> None:
    log = (
        "2025-08-07 03:25:03,945\tINFO worker.py:1660 -- Connecting to existing Ray cluster at address: 192.0.2.13:6379\n"
        + TRACEBACK
        + '  File "/srv/ray/_private/utils.py", line 1585, in check_version_info\n'
        "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.48.0\n"
    )
    assert [f.id for f in scan(log).findings] == ["ray-version-mismatch"]


@pytest.mark.parametrize(
    "line",
    [
        '(APIServer pid=1) INFO:     10.0.0.5:56671 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        'INFO:     10.0.0.5:56671 - "POST /v1/embeddings HTTP/1.1" 200 OK',
        "(EngineCore_DP0 pid=7) something a library printed",
    ],
)
def test_a_log_without_any_header_of_vllms_loggers_is_known_by_its_processes_and_requests(line: str) -> None:
    assert scan(line + "\n").summary.recognised


def test_another_programs_log_is_not_taken_for_vllms() -> None:
    assert not scan('INFO:     10.0.0.5:56671 - "GET /users HTTP/1.1" 200 OK\n').summary.recognised


def test_the_drafters_model_is_not_the_servers() -> None:
    config = (
        "Initializing a V1 LLM engine (v0.15.1) with config: model='Qwen/Qwen3-8B', "
        "speculative_config=SpeculativeConfig(method='eagle3', model='other/eagle', num_spec_tokens=2), seed=0"
    )
    assert from_config(config)["model"] == "Qwen/Qwen3-8B"


def unknown(*frames: str, raised: str) -> str:
    return (
        "(EngineCore_DP0 pid=9) INFO 02-16 10:00:00 [core.py:96] Initializing a V1 LLM engine (v0.15.1) with config: model='m'\n"
        + "".join(
            f"(EngineCore_DP0 pid=9) ERROR 02-16 10:05:00 [core.py:948] {line}\n"
            for line in ("EngineCore failed to start.", TRACEBACK.strip(), *frames, raised)
        )
    )


def test_a_bare_assertion_is_shown_with_its_statement() -> None:
    finding = scan(
        unknown('  File "/srv/vllm/x.py", line 5, in f', "    assert wanted == found", raised="AssertionError")
    ).findings[0]
    assert [e.text.strip() for e in finding.evidence] == ["assert wanted == found", "AssertionError"]


@pytest.mark.parametrize(
    ("frame", "raised", "word"),
    [
        (
            "/srv/vllm/v1/spec_decode/eagle.py",
            "AttributeError: 'X' object has no attribute 'y'",
            "--speculative-config",
        ),
        ("/srv/vllm/lora/models.py", "KeyError: 'base'", "LoRA"),
        ("/srv/transformers/configuration_utils.py", "AttributeError: no", "transformers"),
        ("/srv/vllm/model_executor/model_loader/default_loader.py", "KeyError: 'w'", "Re-download"),
        ("/srv/vllm/compilation/backends.py", "RuntimeError: no", "torch_compile_cache"),
        ("/srv/anything.py", "ImportError: no", "Reinstall"),
        ("/srv/anything.py", "RuntimeError: no", "Upgrade"),
    ],
)
def test_an_error_that_no_rule_knows_says_what_to_try_by_where_it_was_raised(
    frame: str, raised: str, word: str
) -> None:
    finding = scan(unknown(f'  File "{frame}", line 5, in f', "    do()", raised=raised)).findings[0]
    assert finding.id == "unexplained-failure"
    assert any(word in fix.title for fix in finding.fixes)
    assert all(fix.disposition == "check" for fix in finding.fixes)
    assert len(finding.fixes) <= 3


def test_the_newest_release_is_not_told_to_upgrade_to_itself() -> None:
    log = unknown('  File "/srv/x.py", line 5, in f', "    do()", raised="RuntimeError: no").replace("0.15.1", "0.33.0")
    assert scan(log).findings[0].fixes[-1].upgrade is None


def test_the_rest_of_a_traceback_whose_beginning_was_cut_off_is_an_error() -> None:
    log = (
        '  File "/opt/venv/bin/vllm", line 5, in <module>\n    from vllm.scripts import main\n'
        "AttributeError: module 'torch.library' has no attribute 'infer_schema'\n"
    )
    assert [f.id for f in scan(log).findings] == ["unexplained-failure"]


@pytest.mark.parametrize(
    ("said", "cited"),
    [
        ("terminate called after throwing an instance of 'c10::Error'\n  what():  a thing of tomorrow", "what():"),
        ("Fatal Python error: Aborted\n\nThread 0x00007f1 (most recent call first):", "Fatal Python error: Aborted"),
    ],
)
def test_a_crash_in_native_code_is_an_error_though_it_has_no_traceback(said: str, cited: str) -> None:
    (finding,) = scan(f"INFO 07-01 10:00:01 [core.py:70] Initializing a V1 LLM engine (v0.9.1)\n{said}\n").findings
    assert finding.id == "unexplained-failure"
    assert cited in (finding.evidence[0].text or "")


def test_a_crash_after_a_finished_shutdown_is_nobodys_concern() -> None:
    log = (
        "INFO 07-01 10:00:01 [core.py:70] Initializing a V1 LLM engine (v0.9.1)\n"
        "INFO:     Application startup complete.\n"
        "INFO:     Shutting down\n"
        "INFO:     Application shutdown complete.\n"
        "terminate called after throwing an instance of 'c10::Error'\n  what():  driver shutting down\n"
    )
    assert not [f for f in scan(log).findings if f.severity >= Severity.ERROR]


def test_what_the_parent_quotes_of_its_worker_is_the_cause_where_the_workers_lines_are_missing() -> None:
    log = (
        "(EngineCore_DP0 pid=9) INFO 11-19 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.11.2)\n"
        "(EngineCore_DP0 pid=9) ERROR 11-19 10:01:00 [core.py:842] EngineCore failed to start.\n"
        "(EngineCore_DP0 pid=9) ERROR 11-19 10:01:00 [core.py:842] Traceback (most recent call last):\n"
        "(EngineCore_DP0 pid=9) ERROR 11-19 10:01:00 [core.py:842] RuntimeError: Worker failed with error "
        "'a thing of tomorrow', please check the stack trace above for the root cause\n"
    )
    (finding,) = scan(log).findings
    assert "a thing of tomorrow" in finding.cause


@pytest.mark.parametrize(("ending", "severity"), [("", Severity.ERROR), ("served", Severity.WARNING)])
def test_what_did_not_keep_a_server_from_coming_up_is_no_error(ending: str, severity: Severity) -> None:
    log = (
        "2025-11-01 17:35:57,955 - agent - ERROR - The checkpoint you are trying to load has model type `qwen3_vl` but "
        "Transformers does not recognize this architecture.\n"
        "(APIServer pid=9) INFO 11-01 17:36:05 [api_server.py:1839] vLLM API server version 0.11.0\n"
    )
    if ending:
        log += (
            "(APIServer pid=9) INFO:     Application startup complete.\n"
            '(APIServer pid=9) INFO:     10.0.0.1:4000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
        )
    assert [f.severity for f in scan(log).findings] == [severity]

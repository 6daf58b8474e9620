"""The page for a bug report, as GitHub would render it."""

from __future__ import annotations

from typing import Any

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from vlogdiag.model import (
    Confidence,
    Evidence,
    Finding,
    Fix,
    Outcome,
    Position,
    Report,
    RuleCount,
    RunSummary,
    Severity,
    SourceSummary,
    Unavailable,
    Unexplained,
)
from vlogdiag.snapshot.assemble import CleanLog, CleanPart, Snapshot
from vlogdiag.snapshot.collect.base import Collected
from vlogdiag.snapshot.page import GITHUB_LIMIT, render_page
from vlogdiag.snapshot.traceback_of import root_traceback, shorten

LINES = (
    "(APIServer pid=1) INFO 12-01 10:00:00 [api_server.py:1839] vLLM API server version 0.11.0",
    "(EngineCore_DP0 pid=9) ERROR 12-01 10:00:03 [core.py:708] EngineCore failed to start.",
    "(EngineCore_DP0 pid=9) ERROR 12-01 10:00:03 [core.py:708] Traceback (most recent call last):",
    '(EngineCore_DP0 pid=9) ERROR 12-01 10:00:03 [core.py:708]   File "/v/vllm/v1/engine/core.py", line 699, in run',
    "(APIServer pid=1) INFO 12-01 10:00:03 [x.py:1] waiting",
    "(EngineCore_DP0 pid=9) ERROR 12-01 10:00:03 [core.py:708]     engine_core = EngineCoreProc(*args)",
    "(EngineCore_DP0 pid=9) ERROR 12-01 10:00:03 [core.py:708] torch.OutOfMemoryError: CUDA out of memory.",
    "(APIServer pid=1) RuntimeError: Engine core initialization failed.",
)
LOG = CleanLog("vllm.log", 900, 8, True, (CleanPart(1, LINES),))


def finding(**more: Any) -> Finding:
    given: dict[str, Any] = {
        "id": "oom-loading", "family": "oom", "severity": Severity.ERROR, "confidence": Confidence.HIGH, "outcome": Outcome.FATAL,
        "title": "The weights do not fit", "cause": "2.00 GiB more than there is.", "source": "vllm.log", "run": 1,
        "first": Position(7, 700, "12-01 10:00:03"), "last": Position(7, 700), "evidence": (Evidence("log", "x", "vllm.log", 7),),
        "fixes": (Fix("Use two cards", flags={"--tensor-parallel-size": "2"}),),
    }  # fmt: skip
    return Finding(**{**given, **more})


def snapshot(**more: Any) -> Snapshot:
    runs = (
        RunSummary(1, 1, 8, vllm_version="0.11.0", model="org/m", outcome="fatal", args={"model": "org/m", "port": 1}),
    )
    report = Report(
        "0.1.0",
        RuleCount(1, 0, "x"),
        (SourceSummary("vllm.log", 900, 8, recognised=True, runs=runs),),
        (finding(),),
        (Unexplained("vllm.log", 8, "RuntimeError: odd", 2),),
    )
    gpu = {
        "index": 0,
        "name": "NVIDIA H200",
        "used": 2**30,
        "total": 2**32,
        "processes": [{"pid": 7, "command": "a|b", "memory": 2**30}],
    }
    collected = {
        "launch": Collected(
            "launch",
            {"command": "vllm serve org/m", "environment_of": "process 5", "environment": {"VLLM_USE_V1": "1"}},
        ),
        "gpu": Collected(
            "gpu", {"reading": {"gpus": [gpu, {"index": 1, "lost": True}]}, "said": ["GPU 0: busy", "host: x"]}
        ),
        "versions": Collected("versions", {"packages": ["torch==2.8.0", "vllm==0.11.0"], "python": "3.12.3"}),
    }
    given: dict[str, Any] = {
        "version": "0.1.0", "created": "t", "collected": collected, "report": report, "log": LOG, "redacted": {"token": 2},
        "unavailable": (Unavailable("nvml", "the driver hangs"),), "alive": True,
    }  # fmt: skip
    return Snapshot(**{**given, **more})


def rendered(text: str) -> list[Any]:
    return MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)


def headings(text: str) -> list[str]:
    tokens = rendered(text)
    return [f"{t.tag} {tokens[at + 1].content}" for at, t in enumerate(tokens) if t.type == "heading_open"]


def fences(text: str) -> list[str]:
    return [token.content for token in rendered(text) if token.type == "fence"]


def test_the_page_is_shaped_like_vllms_form() -> None:
    text = render_page(snapshot(), bundle="vlogdiag-snapshot-1.tar.gz")
    assert headings(text) == [
        "h3 Your current environment",
        "h3 🐛 Describe the bug",
        "h4 How it was started",
        "h4 The root error (line 7 of the log)",
        "h4 What vlogdiag found",
        "h4 GPUs",
        "h3 Before submitting a new issue...",
    ]
    assert "`vlogdiag-snapshot-1.tar.gz`" in text
    assert "- [ ] " in text


def test_environment_command_traceback_and_fix_stand_in_fences() -> None:
    environment, command, traceback, fix, unexplained = fences(render_page(snapshot()))
    assert "Python: 3.12.3\ntorch==2.8.0\nvllm==0.11.0" in environment
    assert command == "VLLM_USE_V1=1\nvllm serve org/m\n"
    assert traceback == (
        "EngineCore failed to start.\nTraceback (most recent call last):\n"
        '  File "/v/vllm/v1/engine/core.py", line 699, in run\n    engine_core = EngineCoreProc(*args)\n'
        "torch.OutOfMemoryError: CUDA out of memory.\n"
    )
    assert fix == "--tensor-parallel-size 2\n"
    assert unexplained == "line 8 (×2): RuntimeError: odd\n"


def test_the_cards_stand_in_a_table() -> None:
    tokens = rendered(render_page(snapshot()))
    cells = [
        tokens[at + 1].children[0].content
        for at, t in enumerate(tokens)
        if t.type == "td_open" and tokens[at + 1].children
    ]
    assert cells[:3] == ["0", "NVIDIA H200", "1.0 of 4.0 GiB"]
    assert "a|b (pid 7) 1.0 GiB" in cells
    assert "lost to the driver" in cells


def test_without_a_server_the_logs_arguments_are_the_command() -> None:
    text = render_page(snapshot(collected={}))
    assert "By the arguments that the log prints:" in text
    assert "vllm serve org/m --port 1" in text


HOSTILE = (
    "```",
    "````text",
    "# heading",
    "</details><script>alert(1)</script>",
    "@everyone #1 [x](http://evil)",
    "| a | b |",
    "\x1b[31mred\x1b[0m",
    "::error::x",
    "~~~",
)


def test_log_text_cannot_leave_its_fence() -> None:
    log = CleanLog("vllm.log", 1, 9, True, (CleanPart(1, HOSTILE),))
    lead = finding(
        first=Position(1), evidence=(), title="`x` <b>", cause="@all <i> | # x", fixes=(Fix("a`b", run="echo '```'"),)
    )
    report = replace(snapshot().report or Report("", RuleCount(0, 0, "")), findings=(lead,))
    missing = (Unavailable("<b>", "</details> ``` @you"),)
    text = render_page(snapshot(log=log, report=report, unavailable=missing))
    assert headings(text) == headings(render_page(snapshot())) or "h1" not in "".join(headings(text))
    tokens = rendered(text)
    html = [t.content for t in tokens if t.type == "html_block"]
    inline = [c.content for t in tokens for c in t.children or () if c.type == "html_inline"]
    assert not any("script" in block or "</b>" in block for block in html)
    assert set(inline) <= {"<!-- -->", "<code>", "</code>"}
    assert "\x1b" not in text
    assert sum(block.count("<details>") for block in html) == sum(block.count("</details>") for block in html)


@pytest.mark.parametrize("budget", ["environment", "traceback", "findings", "missing", "command"])
def test_the_page_stays_within_githubs_limit(budget: str) -> None:
    long = "x`" * 50_000
    one = finding(cause=long, title=long[:900], fixes=(Fix(long[:500], run=long),))
    report = replace(
        snapshot().report or Report("", RuleCount(0, 0, "")),
        findings=tuple(replace(one, id=f"i{n}", cause=f"{n} {long}") for n in range(99)),
    )
    taken = {
        "environment": snapshot(
            collected={"versions": Collected("versions", {"packages": [long] * 9, "python": long})}
        ),
        "traceback": snapshot(log=CleanLog("l", 1, 9, True, (CleanPart(1, (long,) * 90),))),
        "findings": snapshot(report=report),
        "missing": snapshot(unavailable=tuple(Unavailable(f"s{n}", long) for n in range(500))),
        "command": snapshot(
            collected={
                "launch": Collected(
                    "launch", {"command": long, "environment_of": "process 1", "environment": {"A": long}}
                )
            }
        ),
    }[budget]
    text = render_page(taken, bundle="b")
    assert len(text) < GITHUB_LIMIT
    assert headings(text)[:2] == ["h3 Your current environment", "h3 🐛 Describe the bug"]
    assert headings(text)[-1] == "h3 Before submitting a new issue..." or text.endswith(
        "(cut here: the rest stands in the bundle)\n"
    )


def test_a_snapshot_of_nothing_has_a_page() -> None:
    text = render_page(Snapshot("0.1.0", "t"))
    assert headings(text)[0] == "h3 Your current environment"
    assert "What did you do" in text


# --- the traceback ----------------------------------------------------------------------------------------------------


def test_a_line_that_was_left_out_gives_no_traceback() -> None:
    assert root_traceback(CleanLog("l", 1, 9, False, (CleanPart(5, ("x",)),)), finding()) is None


def test_a_long_traceback_keeps_first_frame_last_frames_and_message() -> None:
    frames = [line for n in range(50) for line in (f'  File "/v/f{n}.py", line {n}, in g', f"    call{n}()")]
    text = shorten(["Traceback (most recent call last):", *frames, "ValueError: it", "advice"])
    assert text.splitlines()[:4] == [
        "Traceback (most recent call last):", '  File "/v/f0.py", line 0, in g', "    call0()", "  [… 41 frames]"
    ]  # fmt: skip
    assert text.endswith("    call49()\nValueError: it\nadvice")


def test_a_long_message_is_cut_in_its_middle() -> None:
    text = shorten([f"line {n}" for n in range(500)])
    assert len(text.splitlines()) <= 61
    assert text.startswith("line 0\n")
    assert text.endswith("line 499")

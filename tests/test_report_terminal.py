"""What a reader sees on a terminal: the whole page where it matters, and no surprise from any text."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from report_samples import (
    ALL,
    ATTACK,
    HEALTHY,
    KV,
    KV_FINDING,
    KV_RUN,
    OOM,
    SEVERAL,
    STARTS,
    SYMPTOMS,
    UNHURRIED,
    hostile,
    log,
)
from rich.cells import cell_len

from vlogdiag.model import Evidence, Fix, Report, Severity, SourceSummary, Unexplained
from vlogdiag.report.terminal import render

PAGES = [
    (
        KV,
        """\
vllm.log: died 15:05:58 while profiling memory: KV cache room, 2 changes to try
vLLM 0.11.0 · Qwen/Qwen3-VL-8B-Instruct · 90 lines

✗ The KV cache cannot hold one request of the configured length
  kv-cache-too-small · 04-03 15:05:56
  131072 tokens need 16.00 GiB of KV cache; 9.83 GiB is left.
  61 │ ValueError: …models's max seq len (131072), (16.00 GiB KV cache is
     │ needed, which is larger than the available KV cache memory (9.83 GiB).…
  40 │ Available KV cache memory: 9.83 GiB
   ~ │ assumed: --gpu-memory-utilization 0.9 (default of 0.11.0)
  then: engine core initialization failed, API server shut down; lines 88-90

  1. Serve the longest context that fits (longer prompts are refused)
     --max-model-len 80512
  2. Keep the KV cache in 8 bits (slightly different answers)
     --kv-cache-dtype fp8
  3. Give vLLM more of the GPU (less is left for other processes)
     check first: how much memory do other processes hold? (nvidia-smi)
     --gpu-memory-utilization 0.95
  see https://docs.vllm.ai/en/v0.11.0/configuration/conserving_memory.html
""",
    ),
    (
        STARTS,
        """\
vllm.log: served until 13:00:00, 2 warnings: KV cache room, start-up, 1 change
vLLM 0.10.2 · meta-llama/Llama-3.1-8B · 1,000 lines · 3 starts

! Requests are thrown out of the KV cache and computed again
  kv-preemption · confidence medium · in start 3 · 11-30 12:30:00
  120 preemptions while the KV cache was 97.2 % full.
  400 │ Sequence group cmpl-7 is preempted by PreemptionMode.RECOMPUTE mode
  seen 120 times, lines 400-900

  1. Work on fewer requests at a time
     --max-num-seqs 64

! The port is taken  port-in-use · recovered · in starts 1, 2 · 11-30 12:01:05
  Port 8000 was held by another process when the server tried to listen on it.
  120 │ OSError: [Errno 98] Address already in use

  1. See who holds it
     ss -ltnp 'sport = :8000'
  2. Listen on another port
     --port 8001
  3. Wait until the old server is gone (kills the process that holds it)
     fuser -k 8000/tcp
""",
    ),
    (
        SYMPTOMS,
        """\
api.log: died 15:05:58 while loading the model: the cause is not in this log
vLLM >=0.10.2,<0.18 · 88 lines

not explained: 1 error, twice
  80 │ RuntimeError: Engine core initialization failed. See root cause above… ×2

note: api.log begins inside a traceback: the cause stands in the lines before
  it, or in the engine's own log
""",
    ),
    (
        HEALTHY,
        """\
vllm.log: nothing found: served until 12:00:01
vLLM 0.19.0 · Qwen/Qwen3-8B · 812 lines
""",
    ),
    (
        SEVERAL,
        """\
5 logs: 2 with errors, 1 unreadable; logs/pod-2.log failed first, 13:02:11
  ✗ logs/pod-1.log  died 13:02:15 while serving: GPU memory, 5 changes to try
  ✗ logs/pod-2.log  died 13:02:11 while serving: GPU memory, 5 changes to try
  ✗ logs/pod-4.log  could not be read: Permission denied
  ! logs/pod-3.log  served until 12:00:01, 1 error unexplained
  ! logs/nginx.log  nothing in it is vLLM's
vLLM 0.11.0 · Qwen/Qwen3-VL-8B · 5 logs · 2,652 lines · 3 lines not looked at

✗ A picture needed more GPU memory than was left
  oom-vision-tower · in logs/pod-1.log, logs/pod-2.log · 01-24 13:02:15
  The vision tower asked for 2.10 GiB; 1.89 GiB of 23.69 GiB was free, and
  PyTorch held 21.02 GiB.
  logs/pod-1.log:900 │ torch.OutOfMemoryError: …Tried to allocate 2.10 GiB. GPU
                     │ 0 has a total capacity of 23.69 GiB of which 1.89…
  on ranks 0, 1, not on 2, 3
  then: engine died ×12; lines 902-990

  1. Bound the pixels of a picture (large pictures lose detail)
     --mm-processor-kwargs '{"max_pixels": 1003520}'
  2. Leave more memory outside the KV cache (fewer requests at a time)
     --gpu-memory-utilization 0.85 --max-num-seqs 32
  3. Let PyTorch grow its segments
     export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
     unset VLLM_USE_V1
     take out: --enable-sleep-mode
  to be sure: if nvidia-smi shows another process on GPU 0, that process took
    the memory
  known bug: pictures of one request are encoded in one batch
    (vllm-project/vllm#123), mended in 0.11.1
  see https://example.org/one
  +2 fixes with --verbose

not explained: 1 error, 3 times
  logs/pod-3.log:77 │ ERROR something that no rule knows ×3
""",
    ),
]


@pytest.mark.parametrize(("report", "page"), PAGES, ids=["kv", "starts", "symptoms", "healthy", "several"])
def test_the_page_in_a_pipe(report: Report, page: str) -> None:
    assert render(report, width=80, color=False) == page


@pytest.mark.parametrize("name", ["kv", "oom"])
def test_the_first_fix_is_on_the_first_screen(name: str) -> None:
    first_screen = render(ALL[name], width=80, color=False).splitlines()[:24]
    fix = ALL[name].findings[0].fixes[0]
    (flag,) = fix.flags
    assert any(flag in row for row in first_screen)


def test_a_flood_of_consequences_is_one_row() -> None:
    rows = render(OOM, width=80, color=False).splitlines()
    assert "  seen 4 times, lines 238-41322, on ranks 0, 1, not on 2, 3" in rows
    assert "  then: engine died ×93, API server shut down, +2 more; lines 240-41580" in rows
    wide = render(OOM, width=140, color=False).splitlines()
    assert (
        "  then: engine died ×93, API server shut down, NCCL communicator aborted ×4, a worker process died; lines 240-41580"
        in wide
    )


def test_verbose_hides_nothing() -> None:
    page = render(OOM, width=120, color=False, verbose=True)
    for item in OOM.findings[0].evidence[1:]:
        assert item.text in page
    assert "with --verbose" not in page
    assert 'pip install -U "vllm>=0.11.1"' in page
    assert "see https://example.org/two" in page
    assert "as your command:\n     vllm serve Qwen/Qwen3-VL-8B --mm-processor-kwargs" in page


def uncoloured(page: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", page)


def test_colour_changes_no_word() -> None:
    for report in ALL.values():
        coloured = render(report, width=100, color=True)
        assert uncoloured(coloured) == render(report, width=100, color=False)
        assert "\x1b[" in coloured
        # Nothing but colours and weights: no cursor, no title, no link.
        assert not re.search(r"\x1b(?!\[[0-9;]*m)", coloured)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    for report in ALL.values():
        page = render(report, width=80, color=False, unicode=False)
        assert page.isascii()
    assert "x The KV cache cannot hold" in render(KV, width=80, color=False, unicode=False)


@pytest.mark.parametrize("width", [-1, 10, 1000])
def test_width_is_kept_within_reason(width: int) -> None:
    rows = render(OOM, width=width, color=False).splitlines()
    assert max(map(len, rows)) <= (40 if width < 40 else 200)


def test_a_number_far_into_a_line_is_what_is_shown() -> None:
    line = f"args: {', '.join(f'a{n}={n}' for n in range(60))}, max_model_len=131072, {'b=1, ' * 40}"
    finding = replace(KV_FINDING, evidence=(log(7, "short"), log(9, line)))
    page = render(replace(KV, findings=(finding,)), width=80, color=False)
    (row,) = [row for row in page.splitlines() if row.startswith("  9 │")]
    assert row.startswith("  9 │ …")
    assert "max_model_len=131072" in row
    assert row.endswith("…")


def test_a_frame_keeps_the_end_of_its_path() -> None:
    frame = 'File "/opt/venv/lib/python3.12/site-packages/vllm/model_executor/models/qwen3_vl.py", line 512, in forward'
    page = render(
        replace(KV, findings=(replace(KV_FINDING, evidence=(log(1, "x"), log(8, frame))),)), width=60, color=False
    )
    assert '  8 │ File "…/models/qwen3_vl.py", line 512, in forward' in page.splitlines()


def test_a_line_of_unknown_number_and_a_line_of_another_log() -> None:
    evidence = (
        Evidence("log", "first", "vllm.log", None),
        log(3, "second", "proxy.log"),
        Evidence("reading", "third", time="13:02"),
    )
    page = render(replace(KV, findings=(replace(KV_FINDING, evidence=evidence),)), width=80, color=False)
    assert "            ? │ first\n  proxy.log:3 │ second\n         live │ 13:02  third\n" in page


def test_a_log_that_broke_off_says_so() -> None:
    source = SourceSummary(
        "vllm.log.gz", lines=90, error="unexpected end of compressed data", recognised=True, runs=(KV_RUN,)
    )
    finding = replace(KV_FINDING, source="vllm.log.gz", evidence=())
    page = render(replace(KV, sources=(source,), findings=(finding,)), width=80, color=False)
    assert page.splitlines()[:3] == [
        "vllm.log.gz: died 15:05:58 while profiling memory: KV cache room, 2 changes to",
        "  try",
        "vLLM 0.11.0 · Qwen/Qwen3-VL-8B-Instruct · 90 lines",
    ]
    assert "read only in part: unexpected end of compressed data" in page.splitlines()


def test_standard_input_has_a_name() -> None:
    report = replace(HEALTHY, sources=(replace(HEALTHY.sources[0], path="-"),))
    assert render(report, width=80, color=False).startswith("standard input: nothing found")


def test_a_long_page_says_at_its_end_where_to_begin() -> None:
    findings = tuple(replace(KV_FINDING, id=f"rule-{n}", title=f"Finding {n}") for n in range(12))
    rows = render(replace(KV, findings=findings), width=80, color=False).splitlines()
    assert rows[-1] == "✗ begin with the first of 12: Finding 0"
    assert "+2 more with --verbose: rule-10, rule-11" in rows


def test_later_findings_that_are_no_errors_are_short() -> None:
    many = tuple(Fix(f"fix {n}", flags={"--x": str(n)}) for n in range(6))
    first = replace(KV_FINDING, fixes=many)
    later = replace(KV_FINDING, id="later", severity=Severity.WARNING, fixes=many)
    page = render(replace(KV, findings=(first, later)), width=80, color=False)
    assert page.count("--x ") == 3 + 2
    assert page.count("+3 fixes with --verbose") == 1
    assert page.count("+4 fixes with --verbose") == 1


def test_unexplained_errors_are_listed_up_to_five() -> None:
    items = tuple(Unexplained("vllm.log", n, f"error {n}", n) for n in range(1, 9))
    rows = render(replace(HEALTHY, unexplained=items), width=80, color=False).splitlines()
    assert rows[3:] == [
        "not explained: 8 kinds of error, 36 times",
        "  1 │ error 1",
        "  2 │ error 2 ×2",
        "  3 │ error 3 ×3",
        "  4 │ error 4 ×4",
        "  5 │ error 5 ×5",
        "      +3 more with --verbose",
    ]


def test_a_command_too_long_to_show_is_not_cut_into_another() -> None:
    fix = Fix("t", run="echo " + "x" * 5000)
    page = render(replace(KV, findings=(replace(KV_FINDING, fixes=(fix,)),)), width=80, color=False)
    assert "xxx" not in page
    assert "(too long to show here: see --json)" in page


def test_nothing_at_all_is_an_empty_page() -> None:
    assert render(Report("0.1.0", KV.rules), width=80, color=False) == ""


HOSTILE_TEXT = st.text(alphabet=st.characters(), max_size=80) | st.lists(
    st.sampled_from(
        ["::error::", "##vso[x]", "[red]", "\x1b[2J", "中文", "word ", "\n", "'", "`", "12.5 GiB", "e\u0301", "👩‍👩‍👧"]
    ),
    max_size=40,
).map("".join)


@UNHURRIED
@given(HOSTILE_TEXT, st.integers(40, 200), st.booleans(), st.booleans())
@example(ATTACK, 40, True, True)
@example("x" * 400, 41, True, True)
@example("x" * 71 + "::error::boom", 80, False, True)
@example("中" * 300, 41, True, True)
@example(":" * 300, 80, True, True)
def test_no_text_in_any_field_breaks_the_page(text: str, width: int, verbose: bool, unicode: bool) -> None:
    page = render(hostile(text), width=width, color=False, verbose=verbose, unicode=unicode)
    bad = {c for c in page if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n"}
    assert not bad
    assert [row for row in page.splitlines() if cell_len(row) > width] == []
    assert not re.search(r"##\w*\[", page)
    assert [row for row in page.splitlines() if re.match(r"\s*::\w", row)] == []


@UNHURRIED
@given(HOSTILE_TEXT)
@example(ATTACK)
def test_no_text_brings_colour_codes_of_its_own(text: str) -> None:
    page = render(hostile(text), width=80, color=True)
    assert not re.search(r"\x1b(?!\[[0-9;]*m)", page)
    assert uncoloured(page) == render(hostile(text), width=80, color=False)

"""The one line that a reader sees first says what became of the server, and nothing that is not so."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_samples import (
    HEALTHY,
    HEALTHY_RUN,
    KV,
    KV_FINDING,
    KV_RUN,
    OOM,
    OOM_FINDING,
    PORT_FINDING,
    PREEMPTION_FINDING,
    SEVERAL,
    STARTS,
    SYMPTOMS,
    at,
)

from vlogdiag.model import Fix, Outcome, Phase, Report, Severity, SourceSummary, Unexplained
from vlogdiag.report.table import first_failure
from vlogdiag.report.verdict import verdicts
from vlogdiag.report.words import ranges


def said(report: Report) -> str:
    (verdict,) = verdicts(report)
    return f"{verdict.source.path}: {verdict.text}"


def of(*findings, runs=(KV_RUN,), unexplained=(), **source) -> Report:
    summary = SourceSummary("vllm.log", **{"lines": 90, "recognised": True, "runs": runs, **source})
    return replace(KV, sources=(summary,), findings=findings, unexplained=unexplained)


UNKNOWN = Unexplained("vllm.log", 5, "RuntimeError: never seen", 2)
SYMPTOM = replace(UNKNOWN, symptom="engine-dead")
DIED = replace(KV_RUN, phase=Phase.SERVING, ended=at(90, "2026-11-30T13:02:11.123Z"))
TWO_STARTS = (KV_RUN, replace(KV_RUN, run=2, ended=at(180, "04-03 15:07:00")))
SERVING = replace(HEALTHY_RUN, run=3)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (KV, "vllm.log: died 15:05:58 while profiling memory: KV cache room, 2 changes to try"),
        (OOM, "vllm.log: died 13:02:11 while serving: GPU memory, 5 changes to try"),
        (HEALTHY, "vllm.log: nothing found: served until 12:00:01"),
        (STARTS, "vllm.log: served until 13:00:00, 2 warnings: KV cache room, start-up, 1 change"),
        (SYMPTOMS, "api.log: died 15:05:58 while loading the model: the cause is not in this log"),
        (
            of(replace(OOM_FINDING, fixes=OOM_FINDING.fixes[:1]), runs=(DIED,)),
            "vllm.log: died 13:02:11 while serving: GPU memory, 1 change",
        ),
        (
            of(replace(OOM_FINDING, id="oom-host-killed", fixes=(), phase=None), runs=(DIED,)),
            "vllm.log: died 13:02:11: host memory",
        ),
        (
            of(replace(OOM_FINDING, family="hang", fixes=(Fix("x", "check"),)), runs=(replace(DIED, ended=None),)),
            "vllm.log: died 13:02:11 while serving: hang or time-out, 1 thing to check",
        ),
        (
            of(replace(KV_FINDING, first=at(61), fixes=()), runs=(replace(KV_RUN, ended=None),)),
            "vllm.log: died while profiling memory: KV cache room",
        ),
        (
            of(replace(KV_FINDING, run=2), KV_FINDING, runs=TWO_STARTS),
            "vllm.log: died twice, last 15:07:00 while profiling memory: KV cache room, 2 changes to try",
        ),
        (
            of(KV_FINDING, runs=(KV_RUN, replace(SERVING, run=2))),
            "vllm.log: start 1 of 2 died 15:05:58 while profiling memory: KV cache room, 2 changes to try",
        ),
        (
            of(replace(KV_FINDING, run=2), KV_FINDING, runs=(*TWO_STARTS, SERVING)),
            "vllm.log: starts 1, 2 of 3 died, last 15:07:00 while profiling memory: KV cache room, 2 changes to try",
        ),
        (
            of(replace(PREEMPTION_FINDING, severity=Severity.ERROR)),
            "vllm.log: in trouble since 12:30:00 while serving: KV cache room, 1 change",
        ),
        (
            of(replace(PORT_FINDING, fixes=()), runs=(KV_RUN, replace(SERVING, run=2))),
            "vllm.log: recovered: failed 12:01:05 while starting, then served: start-up",
        ),
        (
            of(PORT_FINDING, replace(PORT_FINDING, run=1), runs=(*TWO_STARTS, SERVING)),
            "vllm.log: recovered: failed twice, last 12:01:05 while starting, then served: start-up, 3 changes to try",
        ),
        (
            of(replace(PREEMPTION_FINDING, family="request", severity=Severity.INFO, fixes=()), runs=(SERVING,)),
            "vllm.log: served until 12:00:01, 1 note: one request",
        ),
        (
            of(replace(PREEMPTION_FINDING, fixes=()), runs=(replace(SERVING, outcome=None),)),
            "vllm.log: no failure, 1 warning: KV cache room",
        ),
        (
            of(runs=(DIED,), unexplained=(UNKNOWN, SYMPTOM)),
            "vllm.log: died 13:02:11 while serving: cause not recognised, 2 errors unexplained",
        ),
        (of(runs=(DIED,)), "vllm.log: died 13:02:11 while serving: cause not recognised"),
        (
            of(replace(PREEMPTION_FINDING, fixes=()), runs=(DIED,)),
            "vllm.log: died 13:02:11 while serving: cause not recognised, 1 warning",
        ),
        (of(runs=(SERVING,), unexplained=(UNKNOWN,)), "vllm.log: served until 12:00:01, 1 error unexplained"),
        (of(runs=(), unexplained=(UNKNOWN,)), "vllm.log: cause not recognised, 1 error unexplained"),
        (of(runs=(), unexplained=(SYMPTOM,)), "vllm.log: the cause is not in this log"),
        (of(runs=(replace(SERVING, outcome="stopped"),)), "vllm.log: nothing found: stopped as asked 12:00:01"),
        (of(runs=(replace(SERVING, ended=None),)), "vllm.log: nothing found: was serving at its end"),
        (of(runs=(), lines=0), "vllm.log: empty"),
        (of(runs=(), recognised=False), "vllm.log: nothing in it is vLLM's"),
        (of(runs=()), "vllm.log: nothing found"),
        (of(runs=(), lines=0, error="Permission denied"), "vllm.log: could not be read: Permission denied"),
    ],
)
def test_verdict(report: Report, line: str) -> None:
    assert said(report) == line


def test_an_error_of_an_earlier_start_outweighs_a_warning_of_the_last() -> None:
    report = of(replace(PREEMPTION_FINDING, run=2), KV_FINDING, runs=(KV_RUN, replace(SERVING, run=2)))
    assert said(report).startswith("vllm.log: start 1 of 2 died 15:05:58")


def test_the_log_that_failed_first_is_named_by_its_own_times() -> None:
    failed = [each for each in verdicts(SEVERAL) if each.failed]
    first = first_failure(failed)
    assert first is not None
    assert first.source.path == "logs/pod-2.log"


@pytest.mark.parametrize(
    "time", [None, "12:00:00", "01-24 13:02:15"], ids=["unknown", "another form", "the same moment"]
)
def test_no_log_failed_first_where_times_cannot_tell(time: str | None) -> None:
    failed = [each for each in verdicts(SEVERAL) if each.failed]
    other = replace(failed[1], failed=at(1, time))
    assert first_failure([failed[0], other]) is None


def test_an_outcome_that_is_fatal_in_one_log_does_not_colour_another() -> None:
    colours = {each.source.path: each.severity for each in verdicts(SEVERAL)}
    assert colours == {
        "logs/pod-1.log": Severity.ERROR,
        "logs/pod-2.log": Severity.ERROR,
        "logs/pod-3.log": Severity.WARNING,
        "logs/pod-4.log": Severity.ERROR,
        "logs/nginx.log": Severity.WARNING,
    }
    assert Outcome.FATAL in {finding.outcome for finding in SEVERAL.findings}


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((1,), "1"), ((1, 2), "1, 2"), ((3, 1, 2, 7), "1-3, 7"), ((), ""), ((1, 3, 5, 6, 7), "1, 3, 5-7")],
)
def test_ranges(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text

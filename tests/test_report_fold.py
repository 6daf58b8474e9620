"""One cause in seven starts is one finding for people."""

from __future__ import annotations

from msgspec.structs import replace
from report_samples import KV_FINDING, OOM_FINDING, POD_1_FINDING, POD_2_FINDING

from vlogdiag.model import Severity
from vlogdiag.report.fold import fold


def start(run: int, cause: str = "131072 tokens need 16.00 GiB of KV cache; 9.83 GiB is left.", **fields):
    return replace(KV_FINDING, run=run, cause=cause, **fields)


def groups(findings, **options):
    return [[each.run for each in folded.members] for folded in fold(findings, **options)]


def test_starts_that_fail_alike_are_one_though_the_last_digits_differ():
    near = "131072 tokens need 16.00 GiB of KV cache; 9.79 GiB is left."
    assert groups([start(3), start(2, near), start(1)]) == [[3, 2, 1]]


def test_another_setting_is_another_cause():
    other = "65536 tokens need 8.00 GiB of KV cache; 7.10 GiB is left."
    assert groups([start(3), start(2, other), start(1)]) == [[3, 1], [2]]


def test_other_words_are_another_cause():
    assert groups([start(2), start(1, "The KV cache is too small.")]) == [[2], [1]]


def test_numbers_just_across_a_round_figure_stay_together():
    assert groups([start(2, "9.94 GiB is left"), start(1, "9.96 GiB is left")]) == [[2, 1]]
    assert groups([start(2, "1,004 tokens"), start(1, "998 tokens")]) == [[2, 1]]


def test_a_number_that_is_missing_is_other_words():
    assert groups([start(2, "9 of 10"), start(1, "9 of unknown")]) == [[2], [1]]


def test_order_is_that_of_first_appearance():
    findings = [start(3), replace(OOM_FINDING, run=3), start(2)]
    assert [folded.lead.id for folded in fold(findings)] == ["kv-cache-too-small", "oom-vision-tower"]


def test_the_same_cause_in_another_log_is_kept_apart_unless_asked_for():
    findings = [POD_1_FINDING, POD_2_FINDING]
    assert [folded.sources for folded in fold(findings)] == [("logs/pod-1.log",), ("logs/pod-2.log",)]
    assert [folded.sources for folded in fold(findings, across_files=True)] == [("logs/pod-1.log", "logs/pod-2.log")]


def test_a_group_is_as_severe_as_its_worst_member():
    (folded,) = fold([start(2, severity=Severity.WARNING), start(1)])
    assert folded.severity is Severity.ERROR
    assert folded.lead.run == 2
    assert folded.runs == (1, 2)

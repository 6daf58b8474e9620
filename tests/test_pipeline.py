"""Bytes in, findings out: odd bytes, odd ends, several looks at one log."""

from __future__ import annotations

import pytest
from ages import API, BY_VERSION, CORE, Printer, traceback
from small_rules import diagnose, ids, rules_from

from vlogdiag.log.windows import MAX_LINE
from vlogdiag.model import Severity
from vlogdiag.pipeline import Pipeline, only_run, report_of

RULES = rules_from(
    """
id: memory
match: {line: "RuntimeError: no memory on card {number:int}"}
---
id: dead
role: symptom
family: noise
match: {line: "EngineDeadError: EngineCore encountered an issue."}
"""
)
LINE = "ERROR 04-03 15:05:56 [core.py:700] RuntimeError: no memory on card 0"


def broken_server() -> Printer:
    p = Printer(BY_VERSION["0.24.0"]).start().access()
    return p.error(CORE, "core.py:700", traceback("a.py:1:f:g()", error="RuntimeError: no memory on card 0"))


# --- bytes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("no line end at the end", LINE.encode()),
        ("CRLF", (LINE + "\r\n").encode()),
        ("broken UTF-8 before", b"\xff\xfe broken \xc3\n" + LINE.encode() + b"\n"),
        ("broken UTF-8 inside", LINE.encode() + b" \xff\xc3\n"),
        ("NUL bytes before", b"\x00" * 300 + b"\n" + LINE.encode() + b"\n"),
        ("NUL bytes inside", LINE.encode() + b"\x00\x00 tail\n"),
        ("a form feed, a vertical tab, a line separator", "a\x0cb\x0bc\u2028d\n".encode() + LINE.encode() + b"\n"),
        ("a thousand blank lines before", b"\n" * 1000 + LINE.encode() + b"\n"),
        ("colours", b"\x1b[31m" + LINE.encode() + b"\x1b[0m\n"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_odd_bytes_do_not_hide_a_failure(name, log):
    assert ids(diagnose(RULES, log)) == ["memory"]


def test_line_numbers_count_line_feeds_only():
    log = "a\x0cb\u2028c\rd\n" + LINE + "\n"
    assert diagnose(RULES, log).findings[0].first.line == 2


def test_offsets_are_those_of_the_bytes():
    before = "grüße aus dem protokoll\n"
    assert diagnose(RULES, before + LINE + "\n").findings[0].first.offset == len(before.encode())


def test_bytes_and_lines_are_counted_to_the_last():
    log = (LINE + "\nlast without end").encode()
    summary = diagnose(RULES, log).summary
    assert (summary.bytes, summary.lines) == (len(log), 2)


def test_a_line_of_megabytes_is_cut_counted_and_said():
    log = (
        b"INFO 04-03 15:05:55 [logger.py:43] Received request 1: prompt: '"
        + b"x" * (3 * MAX_LINE)
        + b"'\n"
        + LINE.encode()
        + b"\n"
    )
    result = diagnose(RULES, log)
    assert ids(result) == ["memory"]
    assert (result.findings[0].first.line, result.summary.omitted.lines) == (2, 1)
    assert result.summary.omitted.bytes > 2 * MAX_LINE
    assert "1 lines longer than 1 MiB were cut" in result.notices[0]
    assert result.summary.bytes == len(log)


def test_a_failure_at_the_end_of_a_cut_line_is_not_invented():
    log = b"x" * (2 * MAX_LINE) + LINE.encode() + b"\n"
    assert ids(diagnose(RULES, log)) == []


# --- recognising -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "known"),
    [
        ("", False),
        ("Dear diary,\ntoday nothing happened.\n", False),
        ("Apr  3 15:05:56 box sshd[1]: Accepted publickey\n", False),
        ('INFO:     10.0.0.1:1 - "GET / HTTP/1.1" 200 OK\n', False),
        ("INFO 04-03 15:05:56 [api_server.py:1] x\n", True),
        ("RuntimeError: no memory on card 0\n", True),
        ('{"log":"INFO 04-03 15:05:56 [api_server.py:1] x\\n","stream":"stdout"}\n', True),
    ],
)
def test_a_log_is_vllms_by_its_header_or_by_a_match(log, known):
    assert diagnose(RULES, log).summary.recognised is known


# --- looking several times ---------------------------------------------------------------------------------------------


def test_asking_for_the_result_changes_nothing():
    pipeline = Pipeline(RULES, source="vllm.log")
    text = broken_server().text.encode()
    for start in range(0, len(text), 1000):
        pipeline.feed(text[start : start + 1000])
        pipeline.result()
    assert pipeline.close() == diagnose(RULES, text)


def test_peeking_changes_nothing_and_sees_what_is_still_open():
    pipeline = Pipeline(RULES, source="vllm.log")
    text = broken_server().text.encode()
    pipeline.feed(text)
    assert [f.id for f in pipeline.peek().findings] == ["memory"]
    assert pipeline.close() == diagnose(RULES, text)


def test_peeking_does_not_close_an_open_record():
    pipeline = Pipeline(RULES, source="vllm.log")
    head, tail = b"ERROR 04-03 15:05:56 [core.py:700] EngineCore failed.\n", LINE.encode() + b"\n"
    pipeline.feed(head)
    pipeline.peek()
    pipeline.feed(tail)
    (finding,) = pipeline.close().findings
    assert finding.evidence[0].line == 2


def test_closing_twice_says_the_same():
    pipeline = Pipeline(RULES, source="vllm.log")
    pipeline.feed(broken_server().text.encode())
    assert pipeline.close() == pipeline.close()


def test_a_quiet_moment_completes_what_is_open():
    pipeline = Pipeline(RULES, source="vllm.log")
    pipeline.feed(broken_server().text.encode())
    pipeline.flush()
    assert [f.id for f in pipeline.findings()] == ["memory"]


def test_ticks_before_the_first_line_are_harmless():
    pipeline = Pipeline(RULES, source="vllm.log")
    pipeline.tick(60)
    pipeline.feed(LINE.encode())
    assert [f.id for f in pipeline.close().findings] == ["memory"]


def test_what_broke_off_is_diagnosed_as_far_as_it_was_read():
    pipeline = Pipeline(RULES, source="vllm.log")
    pipeline.feed(broken_server().text.encode())
    result = pipeline.close("gzip ends early")
    assert (ids(result), result.summary.error) == (["memory"], "gzip ends early")


def test_the_same_bytes_give_the_same_report():
    text = broken_server().text
    assert diagnose(RULES, text) == diagnose(RULES, text)


# --- choosing runs -----------------------------------------------------------------------------------------------------


def two_runs():
    p = broken_server()
    q = Printer(p.age, now=p.now, out=p.out, pids={API: 900, CORE: 901}).start().access()
    q.error(CORE, "core.py:700", "RuntimeError: no memory on card 1")
    return diagnose(RULES, q.text)


@pytest.mark.parametrize(("wanted", "found"), [("all", [2, 1]), ("last", [2]), ("1", [1]), ("2", [2]), ("3", [])])
def test_one_run_can_be_asked_for(wanted, found):
    assert [f.run for f in only_run(two_runs(), wanted).findings] == found


def test_runs_are_summed_up_whatever_was_asked_for():
    assert len(only_run(two_runs(), "1").summary.runs) == 2


def test_thousands_of_starts_keep_their_numbers():
    one = "INFO 04-03 08:59:00 [api_server.py:1] vLLM API server version 0.11.0\n" + LINE + "\n"
    result = diagnose(RULES, one * 1500)
    assert result.findings[0].run == 1500
    assert result.findings[0].first.line == 3000


# --- reports -----------------------------------------------------------------------------------------------------------


def test_a_report_holds_all_logs_in_order():
    first, second = diagnose(RULES, broken_server().text), diagnose(RULES, "nothing\n")
    report = report_of([first, second], RULES, "0.1.0", notices=["look"])
    assert ([s.recognised for s in report.sources], len(report.findings)) == ([True, False], 1)
    assert report.notices[0] == "look"


def test_heard_names_symptoms_too():
    pipeline = Pipeline(RULES, source="vllm.log")
    pipeline.feed(
        b"ERROR 04-03 15:05:56 [a.py:1] EngineDeadError: EngineCore encountered an issue.\n" + LINE.encode() + b"\n"
    )
    pipeline.close()
    assert pipeline.heard() == {"memory", "dead"}


def test_a_failure_is_an_error_only_once():
    """The symptom's own record is no second, unexplained error."""
    p = broken_server()
    p.error(
        API, "async_llm.py:480", "AsyncLLM output_handler failed.\nEngineDeadError: EngineCore encountered an issue."
    )
    result = diagnose(RULES, p.text)
    assert ([f.severity for f in result.findings], result.unexplained) == ([Severity.ERROR], ())


@pytest.mark.parametrize(
    "line",
    [
        "INFO 04-03 15:05:56 [logger.py:43] Received request cmpl-1: prompt: 'RuntimeError: no memory on card 0', params: SamplingParams(n=1), lora_request: None.",
        "DEBUG 04-03 15:05:56 [logger.py:43] Request cmpl-1 details: prompt: 'RuntimeError: no memory on card 0', prompt_token_ids: [1]",
        "INFO 04-03 15:05:56 [logger.py:90] Generated response cmpl-1: output: 'RuntimeError: no memory on card 0', output_token_ids: None, finish_reason: stop",
    ],
)
def test_a_prompt_or_an_answer_is_out_of_reach_even_of_rules_for_info_lines(line):
    rules = rules_from(
        "{id: memory, match: {line: 'RuntimeError: no memory on card {number:int}', level: [debug, info, error]}}"
    )
    assert ids(diagnose(rules, line + "\n")) == []
    assert ids(diagnose(rules, "INFO 04-03 15:05:56 [x.py:1] RuntimeError: no memory on card 0\n")) == ["memory"]

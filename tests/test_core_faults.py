"""What once went wrong between the bytes of a log and its findings: cut sources, clocks, windows of time, other words."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest
from small_rules import diagnose, rules_from

from vlogdiag.diagnosis.arguments import from_shell
from vlogdiag.loading import load
from vlogdiag.log.headers import Stamp
from vlogdiag.log.prefilter import Prefilter
from vlogdiag.log.records import LogClock
from vlogdiag.log.when import parse_moment
from vlogdiag.log.windows import CARRY, SMALL
from vlogdiag.pipeline import Pipeline, prefilter_of
from vlogdiag.scan import Look, Scan, scan_paths, whole_log
from vlogdiag.timeline import read_timeline

RULES = rules_from(
    """
id: memory
match: {line: "RuntimeError: no memory on card {number:int}"}
"""
)
BANNER = "(APIServer pid=7) INFO 04-03 10:00:00 [api_server.py:1839] vLLM API server version 0.11.0\n"
UP = "(APIServer pid=7) INFO:     Application startup complete.\n"
OK = '(APIServer pid=7) INFO:     10.0.0.9:4711 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
ERROR = "(EngineCore_DP0 pid=9) ERROR 04-03 {} [core.py:700] RuntimeError: no memory on card 0\n"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB. GPU 0 has a total capacity of 23.69 GiB of "
    "which 1.89 GiB is free."
)


def noise(count: int) -> str:
    return "".join(
        f"(APIServer pid=7) INFO 04-03 10:00:01 [quiet.py:1] nothing of note {n:09d}\n" for n in range(count)
    )


def scan(path: Path, rules: object = RULES, **look: object) -> Scan:
    return scan_paths([str(path)], rules, Look(**look))  # type: ignore[arg-type]


def lines_of(done: Scan) -> list[int | None]:
    return [finding.first.line for finding in done.report.findings]


# --- sources -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Prefilter.available(), reason="threads scan ahead only with Hyperscan")
def test_what_a_source_said_before_it_broke_off_is_judged(tmp_path: Path) -> None:
    text = BANNER + noise(60_000) + ERROR.format("10:00:02") + noise(5_000)
    whole = gzip.compress(text.encode())
    (tmp_path / "cut.log.gz").write_bytes(whole[:-2_000])
    done = scan(tmp_path / "cut.log.gz")
    assert lines_of(done) == [60_002]
    assert any("ends in the middle" in problem for problem in done.problems)


@pytest.mark.skipif(not Prefilter.available(), reason="threads scan ahead only with Hyperscan")
def test_a_line_of_three_megabytes_moves_no_line_number(tmp_path: Path) -> None:
    picture = '(APIServer pid=7) INFO 04-03 10:00:01 [logger.py:43] {"image": "' + "A" * 3_000_000 + '"}\n'
    text = BANNER + noise(40_000) + ERROR.format("10:00:02") + noise(10) + picture + noise(30_000)
    (tmp_path / "a.log").write_text(text)
    done = scan(tmp_path / "a.log")
    finding = done.report.findings[0]
    assert finding.first.line == 40_002
    assert finding.first.offset == text.index("(EngineCore_DP0")


def cut_once(text: str, at: int) -> list[int | None]:
    pipeline = Pipeline(RULES, source="a.log", prefilter=prefilter_of(RULES))
    data = text.encode()
    pipeline.feed(data[:at])
    pipeline.feed(data[at:])
    return [f.first.line for f in pipeline.close().findings]


@pytest.mark.parametrize("behind", [100, SMALL + 10, 3 * SMALL])
def test_a_logged_prompt_is_a_prompt_wherever_the_bytes_are_cut(behind: int) -> None:
    head = "INFO 04-03 10:00:01 [logger.py:43] Received request cmpl-1: prompt: 'Why does it say\n"
    prompt = head + "RuntimeError: no memory on card 0\nwhen I start it?', params: SamplingParams(n=1)\n"
    before = BANNER + noise(1_500)
    text = before + prompt + noise(behind // 70)
    found = {tuple(cut_once(text, len(before) + at)) for at in (0, 1, len(head), len(head) + 1, len(head) + 20)}
    assert found == {()}


def test_a_record_s_beginning_is_kept_for_a_hit_behind_long_lines() -> None:
    head = "INFO 04-03 10:00:01 [logger.py:43] Received request cmpl-1: prompt: 'Why does it say\n"
    prompt = head + "x" * (CARRY // 4) + "RuntimeError: no memory on card 0\nwhen?', params: SamplingParams(n=1)\n"
    before = BANNER + noise(1_500)
    text = before + prompt + noise(1_500)
    assert cut_once(text, len(before) + len(head)) == cut_once(text, len(before)) == []


@pytest.mark.parametrize("line", ["disk throughput: fine", '10.0.0.1 "POST x"'])
def test_marks_that_mean_nothing_are_looked_for_once(line: str) -> None:
    """Quadratic, this took half a minute; the quickest of three against a twin without the mark."""

    def seconds(text: str) -> float:
        data = (BANNER + noise(100) + text * (2_000_000 // len(text))).encode()
        took = []
        for _ in range(3):
            pipeline = Pipeline(RULES, source="a.log", prefilter=prefilter_of(RULES))
            begin = time.thread_time()
            pipeline.feed(data)
            took.append(time.thread_time() - begin)
        return min(took)

    one = f"INFO 04-03 10:00:00 [bench.py:1] {line}\n"
    assert seconds(one * 2) < 60 * (seconds(one) + 0.1)
    assert seconds(one) < 100 * (seconds(one.replace("throughput: ", "throughput ").replace('"POST ', '"SEND ')) + 0.05)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: f"2026-04-03T10:00:01.1Z stdout P {line}\n",
        lambda line: json.dumps({"log": line, "stream": "stderr", "time": "2026-04-03T10:00:01Z"}) + "\n",
    ],
    ids=["CRI", "docker"],
)
def test_a_line_whose_rest_never_came_is_read(wrap: object) -> None:
    log = wrap(ERROR.format("10:00:02").rstrip("\n"))  # type: ignore[operator]
    assert [f.first.line for f in diagnose(RULES, log).findings] == [1]


def test_the_parts_of_a_cut_line_are_joined_though_only_the_first_says_whose_it_is() -> None:
    head, rest = ERROR.format("10:00:02").rstrip("\n").split("no memory")
    log = f"2026-04-03T10:00:01.1Z stdout P {head}\n2026-04-03T10:00:01.2Z stdout F no memory{rest}\n"
    assert [f.id for f in diagnose(RULES, log).findings] == ["memory"]


# --- clocks ------------------------------------------------------------------------------------------------------------


def stamp(text: str, year: int | None = None) -> Stamp:
    day, clock = text.split(" ")
    hour, minute, second = (int(part) for part in clock.split(":"))
    return Stamp(int(day[:2]), int(day[3:]), hour * 3600 + minute * 60 + second, year, text)


@pytest.mark.parametrize("leap", [False, True])
def test_new_year_is_one_second_long(leap: bool) -> None:
    clock = LogClock()
    if leap:
        clock.time(stamp("02-29 10:00:00"))
    before = clock.time(stamp("12-31 23:59:59"))
    after = clock.time(stamp("01-01 00:00:00"))
    assert after - before == 1.0
    assert clock.time(stamp("12-31 23:59:58")) == before - 1.0 or leap
    assert clock.now == after


def test_the_year_goes_on_at_new_year() -> None:
    clock = LogClock()
    clock.time(stamp("12-31 23:59:59", 2025))
    clock.time(stamp("01-01 00:00:41"))
    assert clock.year == 2026


@pytest.mark.parametrize("before", [100, 300, 3_000])
def test_since_sees_what_came_late_among_many(tmp_path: Path, before: int) -> None:
    early = "".join(ERROR.format(f"10:{n // 60:02d}:{n % 60:02d}") for n in range(before))
    (tmp_path / "a.log").write_text(BANNER + UP + early + ERROR.format("12:00:00"))
    assert len(scan(tmp_path / "a.log", since=parse_moment("11:59")).report.findings) == 1
    assert len(scan(tmp_path / "a.log", since=parse_moment("12:30")).report.findings) == 0


def test_since_leaves_out_what_nobody_could_explain_before(tmp_path: Path) -> None:
    odd = "(EngineCore_DP0 pid=9) ERROR 04-03 10:00:10 [odd.py:700] frobnication of the gizmo went awry\n"
    late = "(APIServer pid=7) INFO 04-03 15:00:00 [odd.py:1] hello\n"
    (tmp_path / "a.log").write_text(BANNER + UP + odd + OK + late)
    assert len(scan(tmp_path / "a.log", since=parse_moment("09:00")).report.unexplained) == 1
    assert scan(tmp_path / "a.log", since=parse_moment("14:00")).report.unexplained == ()


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [("23:18", None, 1), ("23:55", None, 0), ("23:18", "23:40", 0), ("23:18", "23:55", 1), (None, "23:59", 1)],
)
def test_a_time_of_day_may_be_yesterday_s(tmp_path: Path, since: str | None, until: str | None, found: int) -> None:
    late = "(APIServer pid=7) INFO 04-04 00:05:00 [odd.py:1] hello\n"
    (tmp_path / "a.log").write_text(BANNER + UP + ERROR.format("23:50:00") + late)
    window = {"since": since and parse_moment(since), "until": until and parse_moment(until)}
    assert len(scan(tmp_path / "a.log", **window).report.findings) == found


def test_a_log_without_times_says_that_no_window_was_applied(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("Traceback (most recent call last):\nRuntimeError: no memory on card 0\n")
    done = scan(tmp_path / "a.log", since=parse_moment("23:18"))
    assert len(done.report.findings) == 1
    assert any("no line tells its time" in notice for notice in done.report.notices)


# --- numbers and limits --------------------------------------------------------------------------------------------------


def newest_first(tmp_path: Path) -> tuple[Path, Path]:
    text = [BANNER, *(f"(APIServer pid=7) INFO 04-03 10:{n:02d}:00 [odd.py:1] hello\n" for n in range(30))]
    text += [ERROR.format("10:31:00"), "(APIServer pid=7) INFO 04-03 10:32:00 [odd.py:1] hello\n"]
    (tmp_path / "old.log").write_text("".join(text))
    (tmp_path / "new.log").write_text("".join(reversed(text)))
    return tmp_path / "old.log", tmp_path / "new.log"


def test_newest_first_everything_is_numbered_as_the_file_is(tmp_path: Path) -> None:
    _, path = newest_first(tmp_path)
    finding = scan(path).report.findings[0]
    assert (finding.first.line, finding.first.offset) == (2, None)
    assert "LOG:32" not in (finding.ask or "")


def test_newest_first_the_timeline_goes_forward_too(tmp_path: Path) -> None:
    from vlogdiag.log.discover import discover

    old, new = (read_timeline(str(p), whole_log(discover([str(p)])[0][0]), RULES) for p in newest_first(tmp_path))
    assert [s.began for s in old.starts] == [s.began for s in new.starts]


def test_events_and_starts_beyond_the_limits_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlogdiag.pipeline.MAX_HITS", 3)
    monkeypatch.setattr("vlogdiag.pipeline.MAX_RUNS", 2)
    rules = rules_from('id: memory\nby: [number]\nmatch: {line: "RuntimeError: no memory on card {number:int}"}\n')
    many = "".join(ERROR.format("10:00:02").replace("card 0", f"card {n}") for n in range(5))
    result = diagnose(rules, BANNER + UP + many)
    assert sum(f.count for f in result.findings) == 3
    assert any("2 matches beyond the 3 events" in notice for notice in result.notices)
    result = diagnose(rules, (BANNER + ERROR.format("10:00:02")) * 5)
    assert any("3 earlier ones were not" in notice for notice in result.notices)


# --- whose words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "(APIServer pid=7) ERROR 04-03 10:01:00 [serving_chat.py:237] Error in preprocessing prompt inputs\n"
        "(APIServer pid=7) ERROR 04-03 10:01:00 [serving_chat.py:237] Traceback (most recent call last):\n"
        '(APIServer pid=7) ERROR 04-03 10:01:00 [serving_chat.py:237]   File "/a/vllm/inputs/registry.py", line 150, in f\n'
        "(APIServer pid=7) ERROR 04-03 10:01:00 [serving_chat.py:237] ValueError: Failed to apply P on "
        f"data={{'text': 'Why {OOM}', 'images': []}} with kwargs={{}}\n",
        "(APIServer pid=7) WARNING 04-03 10:01:00 [qwen3coder_tool_parser.py:150] Parsed value "
        f"'{OOM}' of parameter 'line' is not an integer in tool 'search', degenerating to string.\n",
        f"Prompt: 'What does this mean?'\nGenerated text: '{OOM} It means that the card is full.'\n",
        f"Prompt:    'What does this mean?'\nOutput:    \"{OOM} It means that the card is full.\"\n",
    ],
    ids=["request in an exception", "tool call", "script's answer", "script's output"],
)
def test_what_people_quote_is_no_failure(words: str) -> None:
    found = diagnose(load(), BANNER + UP + words + OK).findings
    assert [f.id for f in found if f.severity.word in ("warning", "error")] == []


def test_another_container_s_traceback_is_not_vllm_s() -> None:
    raised = ["Traceback (most recent call last):", '  File "/app/main.py", line 10, in <module>', OOM]
    log = "".join(f"vllm-1     | {line}" for line in (BANNER, UP))
    other = "".join(f"whisper-1  | {line}\n" for line in raised)
    own = "".join(f"vllm-2     | {line}\n" for line in raised).replace("/app/main.py", "/a/vllm/engine.py")
    assert [f.id for f in diagnose(load(), log + other + f"vllm-1     | {OK}").findings] == []
    assert len(diagnose(load(), log + own + f"vllm-1     | {OK}").findings) == 1


def test_any_program_s_json_lines_are_not_taken_for_vllm_s() -> None:
    pino = json.dumps({"level": 30, "time": 1_700_000_000_000, "name": "myapp", "msg": "listening"}) + "\n"
    own = json.dumps({"levelname": "INFO", "name": "vllm.engine.arg_utils", "message": "hello"}) + "\n"
    assert not diagnose(RULES, pino * 3).summary.recognised
    assert diagnose(RULES, own * 3).summary.recognised


def test_a_progress_bar_s_blanks_are_no_indentation() -> None:
    raised = (
        'Traceback (most recent call last):\n  File "/a/vllm/x.py", line 3, in f\n    g()\nGizmoError: it went awry\n'
    )
    for first in ("  0%|          | 0/4 [00:00<?, ?it/s]\n", "  INFO:     Started server process [7]\n"):
        finding = diagnose(load(), first + BANNER + raised).findings[0]
        assert "GizmoError" in finding.cause


def test_a_model_behind_an_option_with_a_value_is_the_model() -> None:
    found = from_shell("vllm serve --port 9000 Qwen/Qwen3-8B --max-model-len 4096")
    assert found is not None
    assert found[0] == {"port": 9000, "model": "Qwen/Qwen3-8B", "max_model_len": 4096}
    for words in ("--enforce-eager org/m", "--task embed org/m", "--limit-mm-per-prompt image=2 org/m", "-tp 2 org/m"):
        found = from_shell(f"vllm serve {words}")
        assert found is not None and found[0]["model"] == "org/m", words
    found = from_shell("vllm serve --enforce-eager true")
    assert found is not None and "model" not in found[0]
    found = from_shell("vllm serve --served-model-name a b")
    assert found is not None and found[0] == {"served_model_name": ["a", "b"]}


def test_a_fact_s_level_is_asked() -> None:
    quoted = "(APIServer pid=7) INFO 04-03 10:00:01 [odd.py:1] somebody wrote: GPU 3 has a total capacity of 8.00 GiB\n"
    result = diagnose(
        load(), BANNER + UP + "(EngineCore pid=9) ERROR 04-03 10:00:02 [core.py:1] " + OOM + "\n" + quoted
    )
    assert result.summary.runs[0].facts["card.total"] == pytest.approx(23.69 * 2**30, rel=1e-3)


def test_a_proxy_s_own_time_places_its_complaint_beside_the_cause() -> None:
    """The last line of vLLM with a time lies 40 seconds back: by that clock the complaint would be far from its cause."""
    rules = rules_from(
        'id: memory\nmatch: {line: "RuntimeError: no memory on card {number:int}"}\n---\n'
        'id: gateway\nfamily: hang\nmatch: {line: "upstream prematurely closed", level: [error]}\nyields_to: [oom]\n'
    )
    proxy = "2025/04/03 10:00:{} [error] 29#29: *1 upstream prematurely closed connection while reading response\n"
    for second, found in (("49", ["memory"]), ("48", ["memory"])):
        log = BANNER + UP + proxy.format(second) + ERROR.format("10:00:50")
        assert [f.id for f in diagnose(rules, log).findings] == found


def test_a_flood_of_ever_new_gates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it has ended stays ended."""
    rules = rules_from(
        'id: quiet-start\nfamily: hang\nsilence:\n  line: "begin of it"\n  level: [info]\n'
        '  until: ["ended one way", "ended other way"]\n  for: 60s\n'
    )
    monkeypatch.setattr("vlogdiag.diagnosis.time_rules.MAX_KEYS", 1)
    line = "(APIServer pid=7) {} 04-03 10:{}:00 [odd.py:{}] {}\n"
    log = BANNER + line.format("INFO", "01", 1, "begin of it")
    log += line.format("ERROR", "00", 2, "ended one way") + line.format("ERROR", "00", 3, "ended other way")
    log += line.format("ERROR", "00", 4, "ended one way and ended other way") + line.format("INFO", "30", 5, "hello")
    pipeline = Pipeline(rules, source="a.log")
    pipeline.feed(log.encode())
    assert pipeline.close().findings == ()
    assert len(pipeline._timed._floods) <= 1

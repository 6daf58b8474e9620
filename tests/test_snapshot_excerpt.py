"""What is taken of a log too long to go in whole: its start, the surroundings of causes and starts, its end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlogdiag.model import Confidence, Finding, Outcome, Position, RunSummary, Severity, SourceSummary
from vlogdiag.snapshot import excerpt
from vlogdiag.snapshot.excerpt import Excerpt, Window, take, windows


def chunked(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def finding(line: int, offset: int | None, last: tuple[int, int] | None = None) -> Finding:
    end = Position(*last) if last else Position(line, offset)
    return Finding(
        "x", "oom", Severity.ERROR, Confidence.HIGH, Outcome.FATAL, "t", "c", "log", 1, Position(line, offset), end
    )


def log_of(lines: int) -> tuple[bytes, list[int]]:
    """Lines of different lengths, and the offset of each."""
    texts = [f"line {number} " + "x" * (number % 57) + "\n" for number in range(1, lines + 1)]
    offsets = [0]
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    return "".join(texts).encode(), offsets


def check(taken: Excerpt, data: bytes) -> None:
    """Every part is whole lines of the log, at the place that it claims."""
    for segment in taken.segments:
        assert data[segment.offset : segment.offset + len(segment.data)] == segment.data
        assert data[: segment.offset].count(b"\n") + 1 == segment.line
        assert segment.offset == 0 or data[segment.offset - 1 : segment.offset] == b"\n"
        assert segment.data.endswith(b"\n") or segment.offset + len(segment.data) == len(data)
    ends = [segment.offset + len(segment.data) for segment in taken.segments]
    assert all(end <= following.offset for end, following in zip(ends, taken.segments[1:], strict=False))


def test_a_small_log_goes_in_whole() -> None:
    data, _ = log_of(500)
    summary = SourceSummary("log", bytes=len(data), lines=500)
    taken = take("log", chunked(data, 700), windows(summary, ()), summary)
    assert taken.whole
    assert [segment.data for segment in taken.segments] == [data]
    assert taken.segments[0].lines == 500


@pytest.mark.parametrize("size", [1, 13, 1000, 10**6])
def test_a_last_line_without_end_is_kept(size: int) -> None:
    data = b"one\ntwo\nthree"
    summary = SourceSummary("log", bytes=len(data), lines=3)
    taken = take("log", chunked(data, size), windows(summary, ()), summary)
    assert b"".join(segment.data for segment in taken.segments) == data
    assert taken.segments[-1].lines == 3


def test_an_empty_log_gives_an_empty_excerpt() -> None:
    summary = SourceSummary("log")
    assert take("log", [], windows(summary, ()), summary) == Excerpt("log", 0, 0, ())


def test_start_end_causes_and_starts_of_a_long_log(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WHOLE": 30_000, "BEGIN": 2_000, "END": 3_000, "BEFORE": 500, "AFTER": 900}.items():
        monkeypatch.setattr(excerpt, name, value)
    for name, value in {"AROUND_LAST": 300, "AFTER_START": 700}.items():
        monkeypatch.setattr(excerpt, name, value)
    data, offsets = log_of(6_000)
    summary = SourceSummary(
        "log", bytes=len(data), lines=6_000, runs=(RunSummary(1, 1, 2_000), RunSummary(2, 2_001, 6_000))
    )
    found = [finding(3_000, offsets[2_999], (4_000, offsets[3_999])), finding(5_000, None)]
    taken = take("log", chunked(data, 4_096), windows(summary, found), summary)
    check(taken, data)
    assert not taken.whole
    held = {number for segment in taken.segments for number in range(segment.line, segment.line + segment.lines)}
    assert {1, 2_001, 2_010, 2_995, 3_000, 3_010, 4_000, 5_000, 5_010, 5_990, 6_000} <= held
    assert not {1_500, 2_500, 3_500, 4_500} & held
    assert sum(len(segment.data) for segment in taken.segments) <= 30_000


def test_many_causes_do_not_exceed_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    data, offsets = log_of(50_000)
    monkeypatch.setattr(excerpt, "WHOLE", 500_000)
    monkeypatch.setattr(excerpt, "BEGIN", 50_000)
    monkeypatch.setattr(excerpt, "END", 50_000)
    summary = SourceSummary("log", bytes=len(data), lines=50_000)
    found = [finding(line, offsets[line - 1]) for line in range(1, 50_000, 100)]
    taken = take("log", chunked(data, 1 << 16), windows(summary, found), summary)
    check(taken, data)
    assert sum(len(segment.data) for segment in taken.segments) <= 500_000 + 100_000


def test_what_the_log_gained_meanwhile_is_left_out() -> None:
    data = b"one\ntwo\n"
    summary = SourceSummary("log", bytes=len(data), lines=2)
    taken = take("log", [data + b"three\n"], windows(summary, ()), summary)
    assert [segment.data for segment in taken.segments] == [data]


def test_a_line_that_never_ends_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpt, "WHOLE", 10_000)
    monkeypatch.setattr(excerpt, "LONGEST_END", 100)
    data = b"x" * 100_000
    summary = SourceSummary("log", bytes=len(data), lines=1)
    taken = take("log", chunked(data, 1_000), [Window(0, 5_000)], summary)
    assert sum(len(segment.data) for segment in taken.segments) <= 11_000


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b" ")), max_size=40),
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 300)), max_size=6),
    st.lists(st.tuples(st.integers(1, 45), st.integers(1, 200)), max_size=3),
    st.integers(1, 64),
    st.booleans(),
)
def test_windows_anywhere_give_whole_lines_in_order(
    lines: list[bytes], spans: list[tuple[int, int]], by_line: list[tuple[int, int]], size: int, ended: bool
) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    summary = SourceSummary("log", bytes=len(data), lines=len(lines))
    wanted = [Window(start, start + length) for start, length in spans]
    wanted += [Window(line=line, length=length) for line, length in by_line]
    taken = take("log", chunked(data, size), wanted, summary)
    check(taken, data)
    held = b"".join(segment.data for segment in taken.segments)
    for start, length in spans:
        # Whole lines inside a window are always there.
        for at, line in zip(offsets_of(lines), lines, strict=True):
            if start <= at and at + len(line) + 1 <= min(start + length, len(data)):
                assert line in held


def offsets_of(lines: list[bytes]) -> list[int]:
    at, out = 0, []
    for line in lines:
        out.append(at)
        at += len(line) + 1
    return out

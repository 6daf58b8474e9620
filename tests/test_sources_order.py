"""Which logs list their newest line first, and that turning them round loses nothing."""

import gzip
import io
import os
import random
import tracemalloc
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vlogdiag.log.discover import LogPath, SourceError
from vlogdiag.log.sources import SourceBroken, read_chunks
from vlogdiag.log.sources_order import newest_first, oldest_first, reversed_lines

START = datetime(2026, 11, 30, 23, 58, 30)
FORMATS: dict[str, Callable[[datetime, int], str]] = {
    "vllm": lambda at, i: f"(EngineCore_DP0 pid=7) INFO {at:%m-%d %H:%M:%S} [core.py:{i}] line {i}",
    "iso before vllm": lambda at, i: (
        f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06d}Z INFO 12-31 08:00:00 [core.py:{i}] line {i}"
    ),
    "json": lambda at, i: f'{{"timestamp": "{at:%Y-%m-%dT%H:%M:%S.%f}Z", "textPayload": "line {i}"}}',
    "csv": lambda at, i: f'"{at:%Y-%m-%d %H:%M:%S,%f}","line {i}"',
    "syslog": lambda at, i: f"{at:%b} {at.day:2d} {at:%H:%M:%S} node vllm[7]: line {i}",
}
by_format = pytest.mark.parametrize("name", FORMATS)


def lines(name: str, count: int = 400, step: float = 0.5, start: datetime = START) -> list[str]:
    return [FORMATS[name](start + timedelta(seconds=step * i), i) for i in range(count)]


def text(rows: list[str]) -> bytes:
    return "".join(row + "\n" for row in rows).encode()


@by_format
def test_an_export_that_lists_its_newest_line_first(name: str) -> None:
    assert newest_first(text(lines(name)[::-1]))


@by_format
def test_an_ordinary_log(name: str) -> None:
    assert not newest_first(text(lines(name)))


def test_new_year_without_a_year() -> None:
    rows = lines("vllm", start=datetime(2026, 12, 31, 23, 58, 30))
    assert newest_first(text(rows[::-1]))
    assert not newest_first(text(rows))


def test_a_leap_day_without_a_year() -> None:
    rows = lines("vllm", start=datetime(2028, 2, 28, 23, 58, 30))
    assert newest_first(text(rows[::-1]))


def test_a_crash_that_prints_everything_within_one_second() -> None:
    rows = lines("iso before vllm", step=0.001)
    assert newest_first(text(rows[::-1]))
    assert not newest_first(text(rows))


def test_many_lines_a_second_with_stamps_of_seconds() -> None:
    rows = lines("vllm", count=4000, step=0.004)
    assert newest_first(text(rows[::-1]))
    assert not newest_first(text(rows))


def test_two_processes_out_of_step_by_a_second() -> None:
    rows = lines("vllm", count=800, step=1.0)
    for i in range(0, 800, 25):
        rows[i], rows[i + 1] = rows[i + 1], rows[i]
    assert newest_first(text(rows[::-1]))
    assert not newest_first(text(rows))


def test_lines_without_stamps_do_not_matter() -> None:
    rows = [row for line in lines("vllm") for row in (line, "  File ...", "Loading shards: 50%")]
    assert newest_first(text(rows[::-1]))


@pytest.mark.parametrize(
    "rows",
    [
        [],
        ["no stamps at all"] * 50,
        lines("vllm", count=3)[::-1],
        lines("vllm", step=0.0),
        [f"INFO 13-45 99:{i:02d}:99 no such time" for i in range(59, 0, -1)],
        lines("vllm")[300:] + lines("vllm")[:300],
        [row for pair in zip(lines("vllm", step=2.0), lines("vllm", step=2.0)[::-1], strict=True) for row in pair],
    ],
    ids=["empty", "no stamps", "too short to tell", "one moment", "no such time", "appended out of order", "a quarrel"],
)
def test_what_does_not_descend(rows: list[str]) -> None:
    assert not newest_first(text(rows))


def turned(folder: Path, data: bytes, size: int = 1000) -> tuple[bytes, bool, int | None]:
    path = folder / "v.log"
    path.write_bytes(data)
    log = LogPath(str(path), (path,))
    ordered = oldest_first(log, read_chunks(log, size=size), size=size)
    return b"".join(ordered.chunks), ordered.newest_first, ordered.lines


STORED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "utf-16": lambda data: ("\ufeff" + data.decode()).encode("utf-16-le"),
    "utf-8 mark": lambda data: b"\xef\xbb\xbf" + data,
}


@pytest.mark.parametrize("stored", STORED)
def test_an_export_comes_out_in_the_order_of_writing(tmp_path: Path, stored: str) -> None:
    rows = lines("iso before vllm")
    data, was_newest_first, count = turned(tmp_path, STORED[stored](text(rows[::-1])))
    assert data == text(rows)
    assert was_newest_first
    assert count == len(rows)


def test_an_ordinary_log_passes_untouched(tmp_path: Path) -> None:
    data = text(lines("vllm"))
    assert turned(tmp_path, data) == (data, False, None)
    assert turned(tmp_path, b"") == (b"", False, None)


def test_the_last_line_without_newline_gets_one(tmp_path: Path) -> None:
    rows = lines("vllm")
    data, _, count = turned(tmp_path, text(rows[::-1])[:-1])
    assert data == text(rows)
    assert count == len(rows)


def test_standard_input() -> None:
    rows = lines("vllm")
    log = LogPath("-")
    ordered = oldest_first(log, read_chunks(log, stdin=io.BytesIO(text(rows[::-1]))))
    assert b"".join(ordered.chunks) == text(rows)


def test_rotated_parts_keep_their_order(tmp_path: Path) -> None:
    paths = []
    for number in (2, 1):
        paths.append(tmp_path / f"v.log.{number}")
        paths[-1].write_bytes(text(lines("vllm")[::-1]))
    log = LogPath("v.log", tuple(paths))
    ordered = oldest_first(log, read_chunks(log))
    assert not ordered.newest_first


def test_a_broken_export_is_turned_as_far_as_it_was_read(tmp_path: Path) -> None:
    rows = lines("vllm")
    path = tmp_path / "v.log"
    path.write_bytes(gzip.compress(text(rows[::-1])) + b"garbage")
    log = LogPath(str(path), (path,))
    chunks = oldest_first(log, read_chunks(log)).chunks
    kept = []
    with pytest.raises(SourceBroken, match="other bytes"):
        for chunk in chunks:
            kept.append(chunk)
    assert b"".join(kept) == text(rows)


def test_a_full_disk_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    log = LogPath("-")
    with pytest.raises(SourceError, match="newest first and cannot be turned round: cannot be read: no space left"):
        oldest_first(log, read_chunks(log, stdin=io.BytesIO(text(lines("vllm")[::-1]))))


def naive(data: bytes) -> bytes:
    rows = data.split(b"\n")
    if not rows[-1]:
        rows.pop()
    return b"".join(row + b"\n" for row in reversed(rows))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([b"\n", b"a", b"\r", b"long line of text", b"\0"]), max_size=60).map(b"".join),
    st.integers(1, 40),
)
@example(b"x" * 41 + b"\n" + b"y" * 40, 20)
@example(b"\n", 1)
def test_reversed_lines_agree_with_reading_everything(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "f"
    path.write_bytes(data)
    with path.open("rb") as file:
        assert b"".join(reversed_lines(file, len(data), size=size)) == naive(data)


def test_one_endless_line_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with path.open("wb") as file:
        file.write(b"first\n")
        for _ in range(100):
            file.write(random.Random(1).randbytes(1 << 20).replace(b"\n", b" "))
        file.write(b"\nlast\n")
    with path.open("rb") as file:
        tracemalloc.start()
        total = sum(len(chunk) for chunk in reversed_lines(file, path.stat().st_size, size=1 << 20))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert total == path.stat().st_size
    assert peak < 8 << 20


def test_a_file_that_shrinks_meanwhile_ends_quietly(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456\n" * 100)
    with path.open("rb") as file:
        chunks = reversed_lines(file, 800, size=80)
        next(chunks)
        os.truncate(path, 0)
        assert list(chunks) == []

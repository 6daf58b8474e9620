"""What a log may be stored in, and that all of it comes out: no more, no less, and in bounded memory."""

import bz2
import gzip
import io
import lzma
import os
import random
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from vlogdiag.log.discover import LogPath, SourceError
from vlogdiag.log.sources import HEAD, SourceBroken, head_fingerprint, read_chunks

TEXT = b"".join(
    b"INFO 12-01 13:%02d:%02d [core.py:%d] line %d\n" % (i // 60 % 60, i % 60, i, i * i) for i in range(5000)
)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstd,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
by_compressor = pytest.mark.parametrize("name", COMPRESSORS)


def store(folder: Path, data: bytes, name: str = "v.log") -> LogPath:
    path = folder / name
    path.write_bytes(data)
    return LogPath(str(path), (path,))


def read(log: LogPath, **options: object) -> bytes:
    return b"".join(read_chunks(log, **options))  # type: ignore[arg-type]


def read_broken(chunks: Iterator[bytes]) -> tuple[bytes, str]:
    """What came before the break, and the break's reason."""
    kept = []
    with pytest.raises(SourceBroken) as caught:
        for chunk in chunks:
            kept.append(chunk)
    return b"".join(kept), caught.value.reason


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"no newline at the end",
        b"a\r\nb\rc\n",
        b"\0\0NUL\0\n",
        b"\xff\xfebroken \xc3 \xed\xa0\x80\n"[2:],
        b"BZ",
        b"\x1f",
        TEXT,
    ],
    ids=["empty", "one byte", "unended", "cr", "nul", "broken utf-8", "half a magic", "half a gzip magic", "text"],
)
def test_plain_bytes_pass_as_they_are(tmp_path: Path, data: bytes) -> None:
    assert read(store(tmp_path, data)) == data


def test_chunks_have_the_size_asked_for(tmp_path: Path) -> None:
    sizes = [len(chunk) for chunk in read_chunks(store(tmp_path, TEXT), size=1 << 16)]
    assert set(sizes[:-1]) == {1 << 16}
    assert 0 < sizes[-1] <= 1 << 16


@by_compressor
def test_compression_is_undone_by_content_not_by_name(tmp_path: Path, name: str) -> None:
    assert read(store(tmp_path, COMPRESSORS[name](TEXT), "v.log")) == TEXT
    assert read(store(tmp_path, TEXT, "v.log.gz")) == TEXT


@by_compressor
def test_several_members_follow_one_another(tmp_path: Path, name: str) -> None:
    pack = COMPRESSORS[name]
    assert read(store(tmp_path, pack(TEXT) + pack(b"") + pack(b"second\n") + pack(TEXT))) == TEXT + b"second\n" + TEXT


@by_compressor
@pytest.mark.parametrize("size", [7, 1000])
def test_members_may_end_anywhere_in_a_block(tmp_path: Path, name: str, size: int) -> None:
    pack = COMPRESSORS[name]
    data = b"".join(pack(b"member %d\n" % number) for number in range(40))
    assert read(store(tmp_path, data), size=size) == b"".join(b"member %d\n" % number for number in range(40))


@by_compressor
def test_a_cut_file_gives_what_was_there_and_then_says_so(tmp_path: Path, name: str) -> None:
    packed = COMPRESSORS[name](os.urandom(250_000).hex().encode())
    kept, reason = read_broken(read_chunks(store(tmp_path, packed[: len(packed) // 2]), size=50_000))
    assert reason == f"its {name} data ends in the middle"
    if name != "bzip2":  # whose blocks are 900 kB of text each
        assert len(kept) > 100_000


@by_compressor
def test_a_file_cut_between_two_members_is_whole(tmp_path: Path, name: str) -> None:
    pack = COMPRESSORS[name]
    kept, reason = read_broken(read_chunks(store(tmp_path, pack(TEXT) + pack(TEXT)[:1])))
    assert kept == TEXT
    assert reason == f"its {name} data ends in the middle"


@by_compressor
def test_bytes_behind_the_last_member(tmp_path: Path, name: str) -> None:
    pack = COMPRESSORS[name]
    kept, reason = read_broken(read_chunks(store(tmp_path, pack(TEXT) + b"garbage")))
    assert kept == TEXT
    assert reason == f"has other bytes behind its {name} data"


@by_compressor
def test_padding_behind_the_last_member_is_ignored(tmp_path: Path, name: str) -> None:
    assert read(store(tmp_path, COMPRESSORS[name](TEXT) + b"\0" * 3000)) == TEXT


def test_a_damaged_gzip_gives_every_byte_before_the_damage(tmp_path: Path) -> None:
    text = os.urandom(200_000).hex().encode()
    packed = bytearray(gzip.compress(text))
    packed[-8] ^= 0xFF  # the checksum: all the text is good
    kept, reason = read_broken(read_chunks(store(tmp_path, bytes(packed))))
    assert kept == text
    assert reason == "its gzip data is damaged (incorrect data check)"


def test_a_gzip_whose_middle_is_overwritten(tmp_path: Path) -> None:
    text = os.urandom(200_000).hex().encode()
    packed = bytearray(gzip.compress(text))
    packed[100_000:100_400] = b"\xff" * 400
    kept, reason = read_broken(read_chunks(store(tmp_path, bytes(packed))))
    assert reason.startswith("its gzip data is damaged")
    readable = zlib.decompressobj(31).decompress(packed[:100_000])
    assert kept.startswith(readable)


def test_a_damaged_zstd(tmp_path: Path) -> None:
    packed = bytearray(zstd(random.Random(7).randbytes(300_000).hex().encode()))  # others may decode all the same
    packed[200_000:200_100] = b"\xff" * 100
    kept, reason = read_broken(read_chunks(store(tmp_path, bytes(packed))))
    assert len(kept) >= 128 << 10
    assert reason.startswith("its zstd data is damaged (")


def test_a_zstd_file_with_skippable_frames(tmp_path: Path) -> None:
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"12345"
    assert read(store(tmp_path, skippable + zstd(TEXT) + skippable + zstd(b"x\n"))) == TEXT + b"x\n"


def test_a_zip_archive_is_named(tmp_path: Path) -> None:
    kept, reason = read_broken(read_chunks(store(tmp_path, b"PK\x03\x04rest")))
    assert (kept, reason) == (b"", "is a zip archive: unpack it first")


BOMB = b"\0" * (300 << 20)


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_bomb_does_not_fill_the_memory(tmp_path: Path, name: str) -> None:
    log = store(tmp_path, {"gzip": lambda: gzip.compress(BOMB, 1), "zstd": lambda: zstd(BOMB)}[name]())
    tracemalloc.start()
    total = sum(len(chunk) for chunk in read_chunks(log))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == len(BOMB)
    assert peak < 80 << 20


def test_a_large_plain_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    log = store(tmp_path, b"")
    os.truncate(log.parts[0], 1 << 30)
    tracemalloc.start()
    assert sum(len(chunk) for chunk in read_chunks(log)) == 1 << 30
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1 << 20])
def test_a_powershell_redirect(tmp_path: Path, encoding: str, size: int) -> None:
    text = "\ufeffERROR größer als 猫 🐈\r\nnext\r\n"
    assert read(store(tmp_path, text.encode(encoding)), size=size) == text[1:].encode()


def test_utf_16_that_ends_in_half_a_character(tmp_path: Path) -> None:
    assert read(store(tmp_path, "\ufeffab".encode("utf-16-le") + b"c")) == "ab\ufffd".encode()


def test_a_utf_8_mark_is_dropped(tmp_path: Path) -> None:
    assert read(store(tmp_path, b"\xef\xbb\xbfINFO x\n")) == b"INFO x\n"
    assert read(store(tmp_path, b"\xef\xbb\xbf")) == b""


def test_a_compressed_powershell_redirect(tmp_path: Path) -> None:
    assert read(store(tmp_path, gzip.compress("\ufeffä\r\n".encode("utf-16-le"))), size=1) == "ä\r\n".encode()


def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(TEXT,))
    writer.start()
    chunks = list(read_chunks(LogPath(str(pipe), (pipe,)), size=100_000))
    writer.join()
    assert b"".join(chunks) == TEXT
    assert len(chunks) == -(-len(TEXT) // 100_000) or all(len(chunk) >= 100_000 for chunk in chunks[:-1])


def test_standard_input_from_a_pipe() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as sink:
        sink.write(gzip.compress(b"from a pipe\n"))
    with os.fdopen(reader, "rb") as stdin:
        assert read(LogPath("-"), stdin=stdin) == b"from a pipe\n"


def test_standard_input_from_a_file_stops_at_its_size(tmp_path: Path) -> None:
    path = tmp_path / "v.log"
    path.write_bytes(b"line 01\nline 02\n")
    with path.open("rb") as stdin, path.open("ab") as writer:
        chunks = read_chunks(LogPath("-"), stdin=stdin, size=8)
        assert next(chunks) == b"line 01\n"
        writer.write(b"line 03\n")
        writer.flush()
        assert list(chunks) == [b"line 02\n"]


def test_standard_input_from_memory() -> None:
    assert read(LogPath("-"), stdin=io.BytesIO(TEXT), size=100) == TEXT


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(SourceError, match="-: standard input is closed"):
        read(LogPath("-"))


def test_a_growing_file_is_read_up_to_the_size_it_was_opened_with(tmp_path: Path) -> None:
    log = store(tmp_path, b"0123456789" * 10)
    kept = b""
    for chunk in read_chunks(log, size=10):
        kept += chunk
        with log.parts[0].open("ab") as writer:
            writer.write(b"grown beyond what we read" * 2)
    assert kept == b"0123456789" * 10


def test_a_file_truncated_while_it_is_read_ends_with_a_notice(tmp_path: Path) -> None:
    log = store(tmp_path, b"0123456789" * 10)
    notices: list[str] = []
    chunks = read_chunks(log, size=10, notice=notices.append)
    assert next(chunks) == b"0123456789"
    os.truncate(log.parts[0], 0)
    assert list(chunks) == []
    assert notices == [f"{log.name} shrank while it was read: 10 of 100 bytes were there"]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no such file or folder") as caught:
        read(LogPath("gone.log", (tmp_path / "gone.log",)))
    assert not isinstance(caught.value, SourceBroken)


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a folder"):
        read(LogPath(str(tmp_path), (tmp_path,)))


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("vlogdiag.log.sources.FileIO", refuse)
    with pytest.raises(SourceError, match="no permission to read it"):
        read(store(tmp_path, b"x"))


def test_a_disk_that_fails_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = store(tmp_path, b"0123456789" * 10)
    real = os.read
    left = [3]

    def fail(descriptor: int, count: int) -> bytes:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(5, "Input/output error")
        return real(descriptor, count)

    monkeypatch.setattr(os, "read", fail)
    kept, reason = read_broken(read_chunks(log, size=10))
    assert kept == b"0123456789" * 3
    assert reason == "could not be read past byte 30: input/output error"


def parts(folder: Path, *contents: bytes) -> LogPath:
    return LogPath(
        "v.log", tuple(store(folder, data, f"v.log.{9 - number}").parts[0] for number, data in enumerate(contents))
    )


def test_rotated_parts_follow_one_another(tmp_path: Path) -> None:
    assert read(parts(tmp_path, gzip.compress(b"a\n"), zstd(b"b\n"), b"c\n")) == b"a\nb\nc\n"


def test_a_part_without_its_last_newline_does_not_swallow_the_next_line(tmp_path: Path) -> None:
    assert read(parts(tmp_path, b"", b"died here", b"", b"INFO new\n", b"end")) == b"died here\nINFO new\nend"


def test_a_broken_part_leaves_the_others(tmp_path: Path) -> None:
    log = parts(tmp_path, gzip.compress(b"a\n") + b"garbage", b"b\n")
    kept, reason = read_broken(read_chunks(log))
    assert kept == b"a\nb\n"
    assert reason == f"{log.parts[0]}: has other bytes behind its gzip data"


def test_a_missing_part_leaves_the_others(tmp_path: Path) -> None:
    log = parts(tmp_path, b"a\n", b"b\n", b"c\n")
    log.parts[1].unlink()
    kept, reason = read_broken(read_chunks(log))
    assert kept == b"a\nc\n"
    assert reason == f"{log.parts[1]}: there is no such file or folder"


def test_a_log_none_of_whose_parts_can_be_read(tmp_path: Path) -> None:
    log = parts(tmp_path, b"a\n", b"b\n")
    for part in log.parts:
        part.unlink()
    with pytest.raises(SourceError) as caught:
        read(log)
    assert not isinstance(caught.value, SourceBroken)


def test_progress_counts_bytes_on_disk_over_all_parts(tmp_path: Path) -> None:
    log = parts(tmp_path, gzip.compress(TEXT), TEXT)
    total = sum(part.stat().st_size for part in log.parts)
    seen: list[tuple[int, int | None]] = []
    read(log, size=100_000, progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)


def test_progress_of_a_pipe_has_no_end() -> None:
    seen: list[tuple[int, int | None]] = []
    read(LogPath("-"), stdin=io.BytesIO(b"abc"), progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (3, None)


def test_notices_of_the_search_are_passed_on(tmp_path: Path) -> None:
    notices: list[str] = []
    log = LogPath("v.log", store(tmp_path, b"x").parts, ("left out",))
    read(log, notice=notices.append)
    assert notices == ["left out"]


def test_files_are_closed_when_the_reader_stops_early(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    chunks = read_chunks(store(tmp_path, TEXT), size=10)
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_fingerprint_depends_on_the_head_alone() -> None:
    head = os.urandom(HEAD)
    assert head_fingerprint(head + b"tail") == head_fingerprint(head)
    assert head_fingerprint(head[:-1]) != head_fingerprint(head)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["plain", *COMPRESSORS]), st.binary(max_size=300)), min_size=1, max_size=4),
    st.integers(1, 400),
)
def test_any_bytes_come_back_whatever_they_are_stored_in(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, bytes]], size: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    stored = [
        COMPRESSORS[name](b"\n" + data + b"\n") if name in COMPRESSORS else b"\n" + data + b"\n"
        for name, data in members
    ]
    assert read(parts(folder, *stored), size=size) == b"".join(b"\n" + data + b"\n" for _, data in members)


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=2000),
    st.sampled_from(
        [b"", b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"BZh9", b"\xfd7zXZ\x00", b"\xff\xfe", b"\xfe\xff"]
    ),
)
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes, magic: bytes) -> None:
    try:
        read(store(tmp_path_factory.mktemp("any"), magic + data), size=100)
    except SourceBroken as error:
        assert "\n" not in str(error.reason)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["gzip", "zstd"]), st.integers(0, 3000), st.integers(0, 255))
def test_a_changed_byte_never_passes_unnoticed_or_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, value: int
) -> None:
    pack = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor(write_checksum=True).compress}[name]
    packed = bytearray(pack(TEXT[:20_000]))
    place %= len(packed)
    changed = packed[place] != value
    packed[place] = value
    try:
        text = read(store(tmp_path_factory.mktemp("any"), bytes(packed)), size=1000)
    except SourceBroken:
        assert changed
    else:
        assert text == TEXT[:20_000] or place < 10  # a header byte: time, name flags, or no compressed file any more


def test_zlib_output_that_fills_a_piece_exactly(tmp_path: Path) -> None:
    packed = gzip.compress(b"a" * 10_000)
    for size in range(9_990, 10_010):
        assert read(store(tmp_path, packed), size=size) == b"a" * 10_000
    assert zlib.crc32(b"a" * 10_000) == int.from_bytes(packed[-8:-4], "little")

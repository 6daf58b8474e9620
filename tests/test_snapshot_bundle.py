"""The archive: what is in it, that it can be read back anywhere, and that nobody else's archive is trusted."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from vlogdiag.model import Reading, Report, RuleCount, Unavailable
from vlogdiag.snapshot import bundle, output, read_bundle
from vlogdiag.snapshot.assemble import CleanLog, CleanPart, Snapshot, about, clean, entries
from vlogdiag.snapshot.bundle import Entry, build
from vlogdiag.snapshot.collect.base import Collected
from vlogdiag.snapshot.excerpt import Excerpt, Segment
from vlogdiag.snapshot.output import OutputError, OutputExists, save
from vlogdiag.snapshot.read_bundle import BundleError, BundleLog, open_bundle
from vlogdiag.snapshot.redact import Redactor

READING = '{"format":"vlogdiag.reading/1","time":null,"stamp":"2026-12-01T00:00:00Z"}\n'


def snapshot(**more: Any) -> Snapshot:
    parts = (CleanPart(1, ("first", "second")), CleanPart(10, ("tenth", "eleventh")), CleanPart(12, ("twelfth",)))
    given: dict[str, Any] = {
        "version": "0.1.0",
        "created": "2026-12-01T00:00:00Z",
        "collected": {"gpu": Collected("gpu", {"said": ["GPU 0"]}, {"readings.jsonl": READING})},
        "report": Report("0.1.0", RuleCount(1, 0, "x")),
        "log": CleanLog("vllm-3.log", 1000, 20, False, parts),
        "unavailable": (Unavailable("nvml", "no driver"),),
        "redacted": {"token": 2},
        "alive": True,
    }
    return Snapshot(**{**given, **more})


def archive(taken: Snapshot, mtime: int = 1_700_000_000) -> bytes:
    return build(list(entries(taken, "# page\n")), about(taken), folder="vlogdiag-snapshot-x", mtime=mtime)


def members(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as opened:
        return {info.name.partition("/")[2]: opened.extractfile(info).read() for info in opened}  # type: ignore[union-attr]


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(data)
    return path


# --- what is in it ----------------------------------------------------------------------------------------------------


def test_the_same_snapshot_gives_the_same_bytes() -> None:
    assert archive(snapshot()) == archive(snapshot())


def test_only_plain_files_of_nobody_in_one_folder() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(snapshot())), mode="r:gz") as opened:
        infos = list(opened)
    assert infos[0].name == "vlogdiag-snapshot-x/manifest.json"
    for info in infos:
        assert info.isreg()
        assert info.name.startswith("vlogdiag-snapshot-x/") and ".." not in info.name
        assert (info.uid, info.gid, info.uname, info.gname, info.mode) == (0, 0, "", "", 0o600)


def test_the_manifest_counts_every_file_and_says_what_is_missing() -> None:
    files = members(archive(snapshot()))
    manifest = json.loads(files["manifest.json"])
    assert manifest["format"] == "vlogdiag.snapshot/1"
    assert {f["name"]: f["bytes"] for f in manifest["files"]} == {
        name: len(data) for name, data in files.items() if name != "manifest.json"
    }
    assert manifest["unavailable"] == [{"source": "nvml", "reason": "no driver"}]
    assert manifest["redaction"] == {
        "on": True, "prompts_kept": False, "replaced": {"token": 2}, "different_values": {}
    }  # fmt: skip


def test_lines_left_out_of_the_log_are_counted_in_their_place() -> None:
    text = members(archive(snapshot()))["vllm.log"].decode()
    assert text == (
        "first\nsecond\n[vlogdiag: 7 lines were left out here]\ntenth\neleventh\ntwelfth\n"
        "[vlogdiag: 8 lines were left out here]\n"
    )


def test_a_file_beyond_the_limit_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_FILE", 200)
    data = build([Entry("a.txt", b"0123456789\n" * 50)], {}, folder="x", mtime=0)
    files = members(data)
    assert files["a.txt"].endswith(b"0123456789\n[vlogdiag: cut here, 550 bytes in all]\n")
    assert len(files["a.txt"]) <= 200
    assert json.loads(files["manifest.json"])["files"][0]["cut"]["of"] == 550


def test_the_whole_stays_within_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_TOTAL", 1000)
    monkeypatch.setattr(bundle, "MAX_FILE", 600)
    data = build([Entry(f"{n}.txt", b"x" * 99 + b"\n") for n in range(40)], {}, folder="x", mtime=0)
    files = members(data)
    assert sum(len(content) for name, content in files.items() if name != "manifest.json") <= 1000 + 40 * 60


def test_everything_is_cleaned_with_one_memory_before_it_is_put_in() -> None:
    segment = Segment(1, 0, b"Aug 20 21:07:15 gpubox3 vllm[1]: at 10.0.0.7\nkey s3cretKey99xx seen\n")
    collected = Collected(
        "launch",
        {"command": "vllm serve m --api-key s3cretKey99xx", "environment": {"HF_TOKEN": "abcdefgh1"}},
        {"x.txt": "http://gpubox3:1\n"},
        (Unavailable("x", "gpubox3 does not answer"),),
    )
    taken = clean(
        [collected], None, Excerpt("/home/alice/vllm.log", 80, 2, (segment,)), Redactor(), version="0", created="t"
    )
    data = archive(taken)
    whole = b"".join(members(data).values())
    for secret in (b"s3cretKey99xx", b"gpubox3", b"10.0.0.7", b"abcdefgh1", b"alice"):
        assert secret not in whole
    files = members(data)
    # The log comes first in the bundle, yet knows the key from the command line, where its flag gives it away.
    assert files["vllm.log"] == b"Aug 20 21:07:15 <host-1> vllm[1]: at <ip-1>\nkey <token-1> seen\n"
    assert files["launch/x.txt"] == b"http://<host-1>:1\n"
    assert json.loads(files["manifest.json"])["unavailable"] == [{"source": "x", "reason": "<host-1> does not answer"}]


def test_counts_are_those_of_what_is_in_the_bundle() -> None:
    segment = Segment(1, 0, b"10.0.0.7\n10.0.0.7\n")
    taken = clean([], None, Excerpt("vllm.log", 18, 2, (segment,)), Redactor(), version="0", created="t")
    assert taken.redacted == {"ip": 2}


def test_broken_bytes_and_carriage_returns_of_the_log_survive() -> None:
    raw = b"a\xff\xfe\r\n 10%|#\r 20%|##\n\xe2\x80\xa8x\n"
    taken = clean(
        [], None, Excerpt("vllm.log", len(raw), 3, (Segment(1, 0, raw),)), Redactor(), version="0", created="t"
    )
    assert members(archive(taken))["vllm.log"] == raw


# --- reading it back --------------------------------------------------------------------------------------------------


def test_the_log_comes_back_with_its_line_numbers(tmp_path: Path) -> None:
    found = open_bundle(written(tmp_path, archive(snapshot())))
    assert isinstance(found, BundleLog)
    assert found.data == b"first\nsecond\ntenth\neleventh\ntwelfth\n"
    assert [found.original_line(n) for n in range(1, 6)] == [1, 2, 10, 11, 12]
    assert (found.name, found.alive) == ("vllm-3.log", True)
    assert found.readings == (Reading(None, "2026-12-01T00:00:00Z"),)
    assert b"".join(found.chunks(7)) == found.data


def test_placeholders_in_columns_come_back_as_names(tmp_path: Path) -> None:
    lines = (
        "Aug 20 21:07:15 <host-1> vllm[8711]: (APIServer pid=1) INFO 08-20 21:07:15 [a.py:1] on <host-1>",
        "(RayWorkerWrapper pid=249, ip=<ip-2>) at <ip-2>",
        "<host-1>:46:46 [0] NCCL INFO x",
    )
    log = CleanLog("vllm.log", 100, 3, True, (CleanPart(1, lines),))
    found = open_bundle(written(tmp_path, archive(snapshot(log=log))))
    assert found is not None
    assert found.data.decode().splitlines() == [
        "Aug 20 21:07:15 host-1 vllm[8711]: (APIServer pid=1) INFO 08-20 21:07:15 [a.py:1] on <host-1>",
        "(RayWorkerWrapper pid=249, ip=ip.2) at <ip-2>",
        "host-1:46:46 [0] NCCL INFO x",
    ]


def test_a_snapshot_without_log_or_readings_can_be_opened(tmp_path: Path) -> None:
    found = open_bundle(written(tmp_path, archive(snapshot(log=None, collected={}))))
    assert found is not None
    assert (found.data, found.readings) == (b"", ())


def other_archives() -> dict[str, bytes]:
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w:gz") as made:
        made.addfile(tarfile.TarInfo("logs/vllm.log"))
    return {
        "a log": b"INFO 01-01 00:00:00 [a.py:1] x\n",
        "nothing": b"",
        "a compressed log": gzip.compress(b"INFO 01-01 00:00:00 [a.py:1] x\n" * 100),
        "somebody else's archive": tarred.getvalue(),
        "half a compressed log": gzip.compress(os.urandom(5000))[:3000],
    }


@pytest.mark.parametrize("name", sorted(other_archives()))
def test_what_is_no_snapshot_is_left_to_others(name: str, tmp_path: Path) -> None:
    assert open_bundle(written(tmp_path, other_archives()[name])) is None


def hostile(*files: tuple[str, bytes], kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as made:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(data), kind if "manifest" not in name else tarfile.REGTYPE, target
            made.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def manifest(**more: object) -> bytes:
    return json.dumps({"format": "vlogdiag.snapshot/1", "files": [], **more}).encode()


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    data = hostile(("x/manifest.json", manifest()), ("x/vllm.log", b""), kind=tarfile.SYMTYPE, target="/etc/passwd")
    found = open_bundle(written(tmp_path, data))
    assert found is not None
    assert found.data == b""


def test_paths_that_climb_are_no_names_of_ours(tmp_path: Path) -> None:
    data = hostile(("x/manifest.json", manifest()), ("../../vllm.log", b"evil\n"), ("/vllm.log", b"evil\n"))
    with pytest.raises(BundleError, match="not the file"):
        open_bundle(written(tmp_path, data))
    assert not (tmp_path.parent / "vllm.log").exists()


def test_a_log_that_is_not_the_manifests_is_refused(tmp_path: Path) -> None:
    data = hostile(
        ("x/manifest.json", manifest(files=[{"name": "vllm.log", "sha256": "0"}])), ("x/vllm.log", b"other\n")
    )
    with pytest.raises(BundleError, match=r"vllm\.log is not the file"):
        open_bundle(written(tmp_path, data))


def test_an_archive_that_unpacks_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_bundle, "MAX_UNPACKED", 1 << 20)
    data = hostile(("x/manifest.json", manifest()), ("x/zeros", bytes(8 << 20)))
    with pytest.raises(BundleError, match="unpacks to more"):
        open_bundle(written(tmp_path, data))


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    data = hostile(("x/manifest.json", manifest()), *((f"x/{n}", b"") for n in range(300)))
    with pytest.raises(BundleError, match="more files"):
        open_bundle(written(tmp_path, data))


@pytest.mark.parametrize(
    "segments", [[{}], [{"at": 0, "line": 1, "lines": 1}], ["x"], [{"at": 1, "line": "1", "lines": 1}]]
)
def test_parts_that_are_not_described_as_expected_are_refused(segments: list[object], tmp_path: Path) -> None:
    data = hostile(("x/manifest.json", manifest(log={"segments": segments})))
    with pytest.raises(BundleError, match="parts"):
        open_bundle(written(tmp_path, data))


def test_a_snapshot_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    long = CleanLog("vllm.log", 10**6, 10**4, True, (CleanPart(1, tuple(os.urandom(40).hex() for _ in range(10_000))),))
    data = archive(snapshot(log=long))
    with pytest.raises(BundleError, match="damaged"):
        open_bundle(written(tmp_path, data[: len(data) // 2]))


# --- where it is written ----------------------------------------------------------------------------------------------


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        save(b"data", tmp_path / "b.tar.gz")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "b.tar.gz").stat().st_mode) == 0o600
    assert (tmp_path / "b.tar.gz").read_bytes() == b"data"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(b"mine")
    with pytest.raises(OutputExists, match="not overwritten"):
        save(b"data", path)
    assert path.read_bytes() == b"mine"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"mine")
    (tmp_path / "b.tar.gz").symlink_to(tmp_path / "target")
    (tmp_path / "c.tar.gz").symlink_to(tmp_path / "nowhere")
    for name in ("b.tar.gz", "c.tar.gz"):
        with pytest.raises(OutputError):
            save(b"data", tmp_path / name)
    assert (tmp_path / "target").read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    calls = []

    def write(descriptor: int, data: memoryview) -> int:
        calls.append(len(data))
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:10])

    monkeypatch.setattr(output.os, "write", write)
    with pytest.raises(OutputError, match="no space left on that disk; write elsewhere"):
        save(bytes(1000), tmp_path / "b.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_says_only_at_the_end_that_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(output.os, "fsync", fsync)
    with pytest.raises(OutputError, match="no space left"):
        save(b"data", tmp_path / "b.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_a_full_device_says_so() -> None:
    """The device that every Linux has for this."""
    with pytest.raises(OutputError, match="no space left"):
        save(b"data", Path("/dev/full"))
    assert Path("/dev/full").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file"):
        save(b"data", tmp_path / "nowhere" / "b.tar.gz")

"""What somebody may type as a path, and which logs that means."""

import os
import socket
from pathlib import Path

import pytest

from vlogdiag.log.discover import LogPath, Rotation, discover, printable, rotation_of


def make(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
        os.utime(path, (number, number))


def found(*paths: str | Path) -> dict[str, list[str]]:
    """Log name to the names of its parts, paths cut to the last component."""
    logs, errors = discover([str(path) for path in paths])
    assert not errors
    return {Path(log.name).name: [part.name for part in log.parts] for log in logs}


def reasons(*paths: str | Path) -> list[str]:
    logs, errors = discover([str(path) for path in paths])
    assert not logs
    return [error.reason for error in errors]


ROTATED = [
    (
        "counts run backwards",
        ["v.log.2.gz", "v.log", "v.log.10", "v.log.1"],
        ["v.log.10", "v.log.2.gz", "v.log.1", "v.log"],
    ),
    (
        "logrotate dateext",
        ["v.log", "v.log-20261201", "v.log-20261130.gz"],
        ["v.log-20261130.gz", "v.log-20261201", "v.log"],
    ),
    (
        "timed handler",
        ["v.log", "v.log.2026-11-30", "v.log.2026-11-29"],
        ["v.log.2026-11-29", "v.log.2026-11-30", "v.log"],
    ),
    (
        "timed handler by the minute",
        ["v.log", "v.log.2026-11-30_12-05", "v.log.2026-11-30_09-10"],
        ["v.log.2026-11-30_09-10", "v.log.2026-11-30_12-05", "v.log"],
    ),
    (
        "kubelet",
        ["0.log", "0.log.20261130-120000.gz", "0.log.20261130-235900"],
        ["0.log.20261130-120000.gz", "0.log.20261130-235900", "0.log"],
    ),
    (
        "a date with a counter",
        ["v.log", "v.log-20261130.2", "v.log-20261130.1"],
        ["v.log-20261130.1", "v.log-20261130.2", "v.log"],
    ),
    ("the current file is gone", ["v.log.1", "v.log.2.zst"], ["v.log.2.zst", "v.log.1"]),
    (
        "the older naming's files are older",
        ["v.log.2", "v.log.1", "v.log-20261130", "v.log"],
        ["v.log.2", "v.log.1", "v.log-20261130", "v.log"],
    ),
    ("docker", ["c-json.log", "c-json.log.1"], ["c-json.log.1", "c-json.log"]),
]


@pytest.mark.parametrize(("names", "parts"), [case[1:] for case in ROTATED], ids=[case[0] for case in ROTATED])
@pytest.mark.parametrize("by", ["folder", "glob"])
def test_rotated_siblings_are_one_log_oldest_first(tmp_path: Path, names: list[str], parts: list[str], by: str) -> None:
    make(tmp_path, *names)
    logs = found(tmp_path if by == "folder" else tmp_path / "*")
    assert list(logs.values()) == [parts]


SEPARATE = [
    ("one log a start", ["vllm-20261130.log", "vllm-20261201.log"]),
    ("ranks counted from 0", ["worker.log.0", "worker.log.1", "worker.log.2"]),
    ("process ids", ["vllm.log.48213", "vllm.log.48377"]),
    ("runs counted", ["run.log.d/run.1.log", "run.log.d/run.2.log"]),
    ("a compressed log whose place is unknown", ["vllm.log", "vllm.log.gz"]),
    ("a number that is no month", ["vllm.log", "vllm.log-20261399"]),
]


@pytest.mark.parametrize("names", [case[1] for case in SEPARATE], ids=[case[0] for case in SEPARATE])
def test_names_that_only_look_rotated_stay_separate(tmp_path: Path, names: list[str]) -> None:
    make(tmp_path, *names)
    assert list(found(tmp_path).values()) == [[Path(name).name] for name in names]


def test_numbered_files_without_log_in_their_name_are_runs_unless_the_current_one_is_there(tmp_path: Path) -> None:
    make(tmp_path, "run.1", "run.2", "out", "out.1")
    assert list(found(tmp_path / "*").values()) == [["out.1", "out"], ["run.1"], ["run.2"]]


def test_named_files_stay_separate(tmp_path: Path) -> None:
    make(tmp_path, "v.log", "v.log.1")
    assert found(tmp_path / "v.log", tmp_path / "v.log.1") == {"v.log": ["v.log"], "v.log.1": ["v.log.1"]}


def test_a_log_is_named_after_its_current_file(tmp_path: Path) -> None:
    make(tmp_path, "v.log", "v.log.1")
    logs, _ = discover([str(tmp_path)])
    assert logs == [LogPath(str(tmp_path / "v.log"), (tmp_path / "v.log.1", tmp_path / "v.log"))]


def test_a_compressed_copy_beside_its_original_is_left_out_with_a_notice(tmp_path: Path) -> None:
    make(tmp_path, "v.log", "v.log.1", "v.log.1.gz")
    logs, _ = discover([str(tmp_path)])
    assert [part.name for part in logs[0].parts] == ["v.log.1", "v.log"]
    assert logs[0].notices == (f"{tmp_path}/v.log.1.gz was left out: its uncompressed original stands beside it",)


def test_a_folder_is_searched_deeply_but_not_in_hidden_places(tmp_path: Path) -> None:
    make(tmp_path, "a.log", "deep/er/b.LOG", "notes.txt", ".hidden.log", ".git/c.log", "deep/vllm.log.old")
    assert set(found(tmp_path)) == {"a.log", "b.LOG", "vllm.log.old"}


def test_the_same_name_in_two_folders_is_two_logs(tmp_path: Path) -> None:
    make(tmp_path, "a/v.log", "b/v.log", "a/v.log.1")
    logs, _ = discover([str(tmp_path)])
    assert [len(log.parts) for log in logs] == [2, 1]


def test_a_file_reached_twice_is_read_once(tmp_path: Path) -> None:
    make(tmp_path, "v.log")
    (tmp_path / "hard.log").hardlink_to(tmp_path / "v.log")
    logs, errors = discover([str(tmp_path / "v.log"), str(tmp_path), str(tmp_path / "*.log")])
    assert [log.name for log in logs] == [str(tmp_path / "v.log")]
    assert not errors


def test_a_link_to_a_sibling_is_the_same_log(tmp_path: Path) -> None:
    make(tmp_path, "vllm-20261201.log")
    (tmp_path / "current.log").symlink_to("vllm-20261201.log")
    assert found(tmp_path) == {"vllm-20261201.log": ["vllm-20261201.log"]}


def test_links_between_folders_do_not_loop(tmp_path: Path) -> None:
    make(tmp_path, "logs/v.log")
    (tmp_path / "logs" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert found(tmp_path) == {"v.log": ["v.log"]}


def test_a_glob_that_names_a_folder_searches_it(tmp_path: Path) -> None:
    make(tmp_path, "run-1/v.log", "run-1/notes.txt", "run-2/v.log")
    logs, errors = discover([str(tmp_path / "run-*")])
    assert [log.name for log in logs] == [str(tmp_path / "run-1/v.log"), str(tmp_path / "run-2/v.log")]
    assert not errors


def test_two_stars_search_deeply_and_count_no_file_twice(tmp_path: Path) -> None:
    make(tmp_path, "a.log", "x/b.log", "x/notes.txt")
    assert set(found(str(tmp_path / "**" / "*.log"))) == {"a.log", "b.log"}


def test_a_file_whose_name_is_a_glob_is_a_file(tmp_path: Path) -> None:
    make(tmp_path, "v[1].log", "v1.log")
    assert set(found(tmp_path / "v[1].log")) == {"v[1].log"}


def test_standard_input() -> None:
    logs, errors = discover(["-"])
    assert logs == [LogPath("-")]
    assert logs[0].is_stdin
    assert not errors


def test_standard_input_twice_is_a_mistake() -> None:
    logs, errors = discover(["-", "-"])
    assert len(logs) == 1
    assert [str(error) for error in errors] == ["-: standard input can be read only once"]


def test_a_pipe_is_a_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert found(tmp_path / "pipe") == {"pipe": ["pipe"]}


def test_a_missing_file(tmp_path: Path) -> None:
    assert reasons(tmp_path / "no.log") == ["there is no such file or folder"]


def test_an_empty_path() -> None:
    assert reasons("") == ["the path is empty"]


def test_a_link_to_nowhere(tmp_path: Path) -> None:
    (tmp_path / "v.log").symlink_to("gone.log")
    assert reasons(tmp_path / "v.log") == ["is a link to a file that does not exist"]


def test_a_folder_without_logs(tmp_path: Path) -> None:
    make(tmp_path, "notes.txt")
    assert reasons(tmp_path) == ["the folder holds no file named *.log*"]


def test_a_glob_without_match(tmp_path: Path) -> None:
    assert reasons(tmp_path / "*.log") == ["matches no file"]


def test_a_path_no_system_accepts() -> None:
    assert reasons("a\0b") == ["cannot be read: embedded null byte"]
    assert reasons("x" * 5000) == ["cannot be read: file name too long"]


def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.log")
        assert reasons("s.log") == ["is neither a file nor a pipe"]


def test_an_unreadable_part_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "v.log", "v.log.1", "v.log.2")
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith(".1"))
    logs, errors = discover([str(tmp_path)])
    assert [[part.name for part in log.parts] for log in logs] == [["v.log.2", "v.log"]]
    assert [str(error) for error in errors] == [f"{tmp_path}/v.log.1: no permission to read it"]


def test_an_unreadable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert reasons(tmp_path) == ["no permission to read it"]


def test_one_bad_path_leaves_the_others(tmp_path: Path) -> None:
    make(tmp_path, "v.log")
    logs, errors = discover([str(tmp_path / "no.log"), str(tmp_path / "v.log")])
    assert [Path(log.name).name for log in logs] == ["v.log"]
    assert len(errors) == 1


def test_a_name_with_broken_bytes_can_be_printed(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.log")
    Path(path).write_text("x")
    logs, _ = discover([path])
    assert logs[0].name.endswith("/\ufffd.log")
    assert logs[0].parts == (Path(path),)
    assert printable(path).encode()


@pytest.mark.parametrize(
    ("name", "rotation"),
    [
        ("v.log", Rotation("v.log", "current")),
        ("v.log.gz", Rotation("v.log", "current", (), True)),
        ("v.log.3.xz", Rotation("v.log", "count", (-3,), True)),
        ("v.log.1000", Rotation("v.log.1000", "current")),
        ("v.log-20261130-1764460800.gz", Rotation("v.log", "date", (20261130, 1764460800), True)),
        ("v.log.2026-11-30T12:00:01Z", Rotation("v.log", "date", (20261130, 12, 0, 1))),
        ("v.log-" + "1" * 240 + "x", Rotation("v.log-" + "1" * 240 + "x", "current")),
        ("v.log-20261130" + "1" * 240 + "x", Rotation("v.log-20261130" + "1" * 240 + "x", "current")),
    ],
)
def test_rotation_suffixes(name: str, rotation: Rotation) -> None:
    assert rotation_of(name) == rotation

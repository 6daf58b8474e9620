"""What may happen to a log while it is followed: each line comes once. A story per test; time is drawn by polls."""

import errno
import gzip
import io
import json
import os
from pathlib import Path

import pytest
from follow_fakes import MemoryFs, Tail

from vlogdiag.log.follow import (
    Appeared,
    Data,
    Ended,
    Follower,
    FollowState,
    Notice,
    Rotated,
    StateError,
    StreamFollower,
    Truncated,
    Vanished,
    load_states,
    save_states,
)
from vlogdiag.log.follow_fs import OsFileSystem
from vlogdiag.log.wakers import BUSY, IDLE, ManualWaker, PollingWaker

LONG = "".join(f"line {number:03} of a log that is long enough to be recognised\n" for number in range(20))
"""More than ENOUGH bytes."""
LONG_LINES = LONG.splitlines()


def stale() -> OSError:
    return OSError(errno.ESTALE, "Stale file handle")


def notices(tail: Tail) -> list[str]:
    return [event.text for event in tail.events if isinstance(event, Notice)]


# Where reading begins ---------------------------------------------------------------------------------------------


def test_bytes_are_handed_out_as_they_come() -> None:
    fs = MemoryFs()
    fs.append("/v.log", "old\n")
    tail = Tail(fs)
    assert tail.poll() == []
    fs.append("/v.log", "new\nha")
    assert tail.poll() == [Data("/v.log", 4, b"new\nha", 0)]
    fs.append("/v.log", "lf\n")
    assert tail.poll() == [Data("/v.log", 10, b"lf\n", 0)]


@pytest.mark.parametrize(
    ("text", "lines", "context"),
    [
        ("", 3, ""),
        ("a\nb\nc\n", 0, ""),
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc\n", 9, "a\nb\nc\n"),
        ("a\nb\nhalf", 0, "half"),
        ("a\nb\nhalf", 1, "b\nhalf"),
        ("half", 0, "half"),
        ("\n\n\n", 2, "\n\n"),
        ("x\n" + "y" * 200_000 + "\nz\n", 2, "y" * 200_000 + "\nz\n"),
    ],
)
def test_context_lines_never_begin_inside_a_line(text: str, lines: int, context: str) -> None:
    fs = MemoryFs()
    fs.append("/v.log", text)
    data = [event.data for event in Tail(fs, context_lines=lines).poll(3) if isinstance(event, Data)]
    assert b"".join(data) == context.encode()


def test_one_endless_line_gives_no_context() -> None:
    fs = MemoryFs()
    fs.append("/v.log", "x" * (9 << 20))
    tail = Tail(fs, context_lines=5)
    assert tail.poll() == []
    fs.append("/v.log", "\nnext\n")
    assert tail.settle() == ["", "next"]


def test_from_the_start() -> None:
    fs = MemoryFs()
    fs.append("/v.log", "a\nb\n")
    assert Tail(fs, from_start=True).settle() == ["a", "b"]


def test_a_file_that_does_not_exist_yet_is_read_from_its_beginning() -> None:
    fs = MemoryFs()
    tail = Tail(fs)
    assert tail.poll(3) == []
    fs.append("/v.log", "first\n")
    assert tail.poll() == [Appeared("/v.log"), Data("/v.log", 0, b"first\n", 0)]


def test_a_file_that_may_not_be_read_at_first_is_followed_from_its_end_when_it_may() -> None:
    fs = MemoryFs()
    fs.append("/v.log", "old\n")
    fs.faults["/v.log"] = PermissionError(errno.EACCES, "Permission denied")
    tail = Tail(fs)
    tail.poll(5)
    assert notices(tail) == ["/v.log cannot be read at the moment: permission denied"]
    fs.faults.clear()
    tail.poll()
    fs.append("/v.log", "new\n")
    assert tail.settle() == ["new"]


def test_a_half_line_is_handed_out_at_once_and_its_rest_later() -> None:
    fs = MemoryFs()
    tail = Tail(fs)
    fs.append("/v.log", '  File "/opt/vllm/engine')
    tail.poll(100)
    fs.append("/v.log", '/core.py", line 7\n')
    assert tail.settle() == ['  File "/opt/vllm/engine/core.py", line 7']


def test_a_large_backlog_comes_in_portions() -> None:
    fs = MemoryFs()
    fs.append("/v.log", LONG)
    tail = Tail(fs, from_start=True, per_file=100)
    events = tail.poll()
    assert [len(event.data) for event in events if isinstance(event, Data)] == [100]
    assert tail.follower.backlog
    assert tail.follower.lag == len(LONG) - 100
    assert tail.settle() == LONG_LINES
    assert not tail.follower.backlog
    assert tail.follower.lag == 0


# Rotation by renaming ---------------------------------------------------------------------------------------------


def test_rename_and_create() -> None:
    fs = MemoryFs()
    old = fs.append("/v.log", "a\n")
    tail = Tail(fs, from_start=True)
    tail.poll()
    fs.append_to(old, "b\n")
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "c\n")
    assert tail.settle() == ["a", "b", "c"]
    assert [event for event in tail.events if not isinstance(event, Data)] == [Rotated("/v.log", old.number)]


def test_late_writes_to_the_old_file_come_before_the_new_file() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "new\n")
    tail.poll()
    for number in range(5):
        fs.append_to(old, f"late {number}\n")
        tail.poll(2)
    assert tail.settle() == ["a", "late 0", "late 1", "late 2", "late 3", "late 4", "new"]


def test_late_writes_long_after_the_rotation_still_come() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "new\nha")
    tail.settle()
    fs.append_to(old, "RuntimeError: dying wor")
    tail.poll(5)
    fs.append_to(old, "ds\n")
    tail.poll(5)
    fs.append("/v.log", "lf\n")
    assert tail.settle() == ["a", "new", "RuntimeError: dying words", "half"]


def test_an_old_file_is_closed_a_minute_after_its_last_byte() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True, step=1.0)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "new\n")
    tail.poll(30)
    fs.append_to(old, "late, and then half a line")
    tail.poll(50)
    assert fs.opened == 2
    tail.poll(150)
    assert fs.opened == 1
    assert tail.settle() == ["a", "new", "late, and then half a line"]


def test_a_new_file_that_nobody_writes_to_does_not_end_the_old_one() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "")
    for number in range(3):
        tail.poll(5000)
        fs.append_to(old, f"still here {number}\n")
    assert tail.settle() == ["a", "still here 0", "still here 1", "still here 2"]


def test_an_old_file_that_never_falls_silent_does_not_hold_up_the_new_one() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "cause\n")
    for number in range(200):
        fs.append_to(old, f"old {number}\n")
        tail.poll()
    lines = tail.settle()
    assert 90 < lines.index("cause") < 110
    assert len(lines) == 202


def test_a_half_line_is_completed_in_the_renamed_file() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", "a\nhal")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "new\n")
    tail.poll(10)
    fs.append_to(old, "f\n")
    assert tail.settle() == ["a", "half", "new"]


def test_a_half_line_that_nobody_completes_is_not_joined_with_the_next_file() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "Fatal Python error: Segm")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "INFO next start\n")
    assert tail.settle() == ["Fatal Python error: Segm", "INFO next start"]
    assert Ended("/v.log", 0) in tail.events


def test_two_rotations_between_two_polls() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.append("/v.log", "b\n")
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "c\n")
    fs.rename("/v.log.1", "/v.log.2")
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "d\n")
    assert tail.settle() == ["a", "b", "c", "d"]


def test_rotations_faster_than_the_quiet_time() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    expected = []
    for number in range(30):
        fs.append("/v.log", f"{number}\n")
        expected.append(str(number))
        tail.poll()
        fs.rename("/v.log", f"/v.log.{30 - number}")
    fs.append("/v.log", "end\n")
    assert tail.settle() == [*expected, "end"]
    tail.poll(20_000)
    assert fs.opened == 1


def test_a_renamed_file_that_is_truncated_later_is_read_from_its_beginning() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", LONG)
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "new\n")
    tail.settle()
    fs.truncate("/v.log.1")
    fs.append_to(old, "late\n")
    assert tail.settle() == [*LONG_LINES, "new", "late"]


def test_thousands_of_rotations_leave_nothing_behind() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True, step=0.5)
    for number in range(1000):
        fs.append("/v.log", f"{number}\n")
        tail.poll(2)
        fs.rename("/v.log", f"/v.log.{number % 5 + 1}")
    tail.poll(300)
    assert tail.lines.whole["/v.log"] == [str(number) for number in range(1000)]
    assert fs.opened == 1
    state = tail.follower.state()
    assert len(state.files) == 1
    assert len(state.finished) <= 64


def test_siblings_older_than_the_log_are_not_read_as_missed() -> None:
    fs = MemoryFs()
    fs.append("/v.log.1", "last week\n")
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/v.log.2")  # by hand, past the siblings
    fs.append("/v.log", "b\n")
    assert tail.settle() == ["a", "b"]


# Truncation -------------------------------------------------------------------------------------------------------


def test_copytruncate() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\nb\n")
    tail.poll()
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    fs.append("/v.log", "c\n")
    assert tail.settle() == ["a", "b", "c"]
    assert tail.kinds() == ["Truncated"]


def test_copytruncate_of_lines_that_nobody_had_read_yet() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.append("/v.log", "b\n")
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    fs.append("/v.log", "c\n")
    assert tail.settle() == ["a", "b", "c"]
    assert Truncated("/v.log", recovered=True) in tail.events


def test_copytruncate_already_regrown_past_the_old_size() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    fs.append("/v.log", "".join(f"new {number}\n" for number in range(50)))
    assert tail.settle() == ["a", *(f"new {number}" for number in range(50))]


def test_regrown_to_exactly_the_old_size() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "line 1\n")
    tail.poll()
    fs.truncate("/v.log")
    fs.append("/v.log", "line 2\n")
    assert tail.settle() == ["line 1", "line 2"]


def test_regrown_with_the_same_head_but_another_body() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    banner = "=" * 2000 + "\n"
    fs.append("/v.log", banner + "a\n")
    tail.poll()
    fs.truncate("/v.log")
    fs.append("/v.log", banner + "b\nc\n")
    assert tail.settle() == ["=" * 2000, "a", "=" * 2000, "b", "c"]


def test_two_copytruncates_between_two_polls() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.append("/v.log", "b\n")
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    fs.append("/v.log", "c\n")
    fs.rename("/v.log.1", "/v.log.2")
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    fs.append("/v.log", "d\n")
    assert tail.settle() == ["a", "b", "c", "d"]


def test_a_line_cut_in_two_by_copytruncate_is_one_line() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\nha")
    tail.poll()
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    fs.append("/v.log", "lf\nb\n")
    assert tail.settle() == ["a", "half", "b"]


def test_a_half_line_cut_off_by_a_redirect_is_not_joined_with_the_next_start() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\nha")
    tail.poll()
    fs.truncate("/v.log")
    fs.append("/v.log", "INFO\n")
    assert tail.settle() == ["a", "ha", "INFO"]


def test_a_writer_without_append_leaves_a_hole() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    node = fs.append("/v.log", "a line of 20 bytes.\n")
    tail.poll()
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    tail.poll()
    node.hole = 20  # `vllm serve > v.log` goes on at its own offset
    fs.append_to(node, b"\0" * 20 + b"next\n")
    assert tail.settle() == ["a line of 20 bytes.", "next"]
    assert tail.events[-1] == Data("/v.log", 20, b"next\n", 0)


def test_a_hole_without_a_look_in_between() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    node = fs.append("/v.log", LONG)
    tail.poll()
    fs.truncate("/v.log")
    node.hole = len(LONG)
    fs.append_to(node, b"\0" * len(LONG) + b"next\n")
    assert tail.settle() == [*LONG_LINES, "next"]


def test_truncation_while_the_renamed_file_is_still_drained() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "b\n")
    tail.poll()
    fs.append_to(old, "late\n")
    fs.copy("/v.log", "/v.log.0")
    fs.truncate("/v.log")
    fs.append("/v.log", "c\n")
    assert tail.settle() == ["a", "late", "b", "c"]


# Deletion ---------------------------------------------------------------------------------------------------------


def test_deletion_and_late_creation() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.remove("/v.log")
    tail.poll(5000)
    fs.append("/v.log", "b\n")
    assert tail.settle() == ["a", "b"]
    assert tail.kinds() == ["Vanished", "Appeared"]


def test_a_deleted_file_that_is_still_written_to() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.remove("/v.log")
    tail.poll(10)
    fs.append_to(old, "b\n")
    tail.poll(10)
    fs.append("/v.log", "c\n")
    assert tail.settle() == ["a", "b", "c"]


def test_a_deleted_file_does_not_keep_its_disk_space() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True, step=1.0)
    fs.append("/v.log", "a\nhalf")
    tail.poll()
    fs.remove("/v.log")
    tail.poll(30)
    assert fs.opened == 1
    tail.poll(60)
    assert fs.opened == 0
    assert tail.events[-1] == Ended("/v.log", 0)


def test_a_renamed_file_without_successor_is_followed_on() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True, step=1.0)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/elsewhere")
    tail.poll(3600)
    fs.append_to(old, "b\n")
    tail.poll()
    assert tail.events[-2:] == [Vanished("/v.log"), Data("/v.log", 2, b"b\n", 0)]


def test_an_inode_number_that_is_used_again_at_once() -> None:
    fs = MemoryFs(reuse=True)
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", LONG)
    tail.poll()
    fs.remove("/v.log")
    fs.append_to(old, "late\n")
    new = fs.append("/v.log", "b\n")
    assert new.number == old.number
    assert tail.settle() == [*LONG_LINES, "late", "b"]


def test_an_inode_number_that_is_used_again_by_a_larger_file() -> None:
    fs = MemoryFs(reuse=True)
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.remove("/v.log")
    fs.append("/v.log", LONG)
    assert tail.settle() == ["a", *LONG_LINES]


# Links ------------------------------------------------------------------------------------------------------------


def test_a_link_that_is_switched() -> None:
    fs = MemoryFs()
    old = fs.append("/day1", "a\n")
    fs.link("/v.log", "/day1")
    tail = Tail(fs, from_start=True)
    tail.poll()
    fs.append("/day2", "b\n")
    fs.link("/v.log", "/day2")
    tail.poll()
    fs.append_to(old, "late\n")
    assert tail.settle() == ["a", "late", "b"]


@pytest.mark.parametrize("pause", [2, 40, 4000], ids=["at once", "after the drain", "after it was closed"])
def test_a_link_that_is_switched_back_reads_no_line_again(pause: int) -> None:
    fs = MemoryFs()
    fs.append("/day1", LONG)
    fs.append("/day2", "b\n")
    fs.link("/v.log", "/day1")
    tail = Tail(fs, from_start=True)
    tail.poll()
    fs.link("/v.log", "/day2")
    tail.poll(pause)
    fs.link("/v.log", "/day1")
    fs.append("/day1", "c\n")
    assert sorted(tail.settle()) == ["b", "c", *LONG_LINES]


def test_rotation_of_what_a_link_leads_to() -> None:
    fs = MemoryFs()
    fs.link("/v.log", "/pod/0.log")
    fs.append("/pod/0.log", "a\n")
    tail = Tail(fs, from_start=True)
    tail.poll()
    fs.append("/pod/0.log", "b\n")
    fs.rename("/pod/0.log", "/pod/0.log.20261201-120000")
    fs.append("/pod/0.log", "c\n")
    fs.rename("/pod/0.log", "/pod/0.log.20261201-130000")
    fs.append("/pod/0.log", "d\n")
    assert tail.settle() == ["a", "b", "c", "d"]


def test_truncated_after_a_copy_and_then_renamed_between_two_polls() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.append("/v.log", "b\n")
    fs.copy("/v.log", "/v.log.1")
    old = fs.truncate("/v.log")
    fs.append("/v.log", "c, longer than before\n")
    fs.rename("/v.log.1", "/v.log.2")
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "e\n")
    tail.poll(2)
    fs.append_to(old, "d\n")
    assert tail.settle() == ["a", "b", "c, longer than before", "d", "e"]
    assert tail.kinds() == ["Truncated", "Rotated"]


def test_truncated_after_a_copy_and_then_deleted_between_two_polls() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.append("/v.log", "b\n")
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    fs.append("/v.log", "c\n")
    fs.remove("/v.log")
    fs.append("/v.log", "d\n")
    assert tail.settle() == ["a", "b", "c", "d"]


def test_a_half_line_carried_over_by_a_copy_is_read_whole_after_a_resumption() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\nha")
    tail.poll()
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    fs.append("/v.log", "lf of a ")
    tail.poll(3)
    fs.copy("/v.log", "/v.log.0")
    fs.truncate("/v.log")
    tail.poll(3)
    fs.append("/v.log", "line\nb\n")
    assert tail.resumed().settle() == ["a", "half of a line", "b"]


def test_a_link_to_nowhere_and_later_to_a_file() -> None:
    fs = MemoryFs()
    fs.link("/v.log", "/day1")
    tail = Tail(fs)
    tail.poll(10)
    fs.append("/day1", "a\n")
    assert tail.settle() == ["a"]


# Network file systems ---------------------------------------------------------------------------------------------


def test_a_stale_handle_is_opened_again_where_reading_stood() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    node = fs.append("/v.log", LONG + "ha")
    tail.poll()
    node.stale = stale()
    tail.poll(20)
    assert notices(tail) == ["/v.log cannot be read at the moment: stale file handle"]
    node.stale = None
    fs.append_to(node, "lf\n")
    assert tail.settle() == [*LONG_LINES, "half"]


def test_a_handle_that_is_stale_although_the_path_is_well() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", LONG)
    tail.poll()
    fs.renumber("/v.log")  # the server came back with another file handle
    old.stale = stale()
    fs.append("/v.log", "next\n")
    assert tail.settle() == [*LONG_LINES, "next"]


def test_a_file_renamed_while_its_handle_was_stale() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    node = fs.append("/v.log", LONG)
    tail.poll()
    node.stale = stale()
    fs.append_to(node, "missed\n")
    tail.poll(5)
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "new\n")
    node.stale = None
    assert tail.settle() == [*LONG_LINES, "missed", "new"]


def test_a_file_gone_for_good_while_its_handle_was_stale() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    node = fs.append("/v.log", LONG + "half")
    tail.poll()
    node.stale = stale()
    tail.poll(5)
    fs.remove("/v.log")
    fs.append("/v.log", "new\n")
    assert tail.settle() == [*LONG_LINES, "half", "new"]
    assert notices(tail)[-1] == "/v.log: the file that was read is gone; its last bytes may be missing"


def test_a_path_that_cannot_be_looked_up_for_a_while() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.faults["/v.log"] = OSError(errno.EIO, "Input/output error")
    fs.append("/v.log", "b\n")  # the open handle still works
    tail.poll(10)
    fs.faults.clear()
    fs.append("/v.log", "c\n")
    assert tail.settle() == ["a", "b", "c"]
    assert notices(tail) == ["/v.log cannot be read at the moment: input/output error"]


def test_the_same_trouble_is_told_again_after_it_was_over() -> None:
    fs = MemoryFs()
    fs.append("/v.log", "a\n")
    tail = Tail(fs)
    for _ in range(2):
        fs.faults["/v.log"] = OSError(errno.EIO, "Input/output error")
        tail.poll(5)
        fs.faults.clear()
        tail.poll(5)
    assert len(notices(tail)) == 2


def test_a_file_system_that_numbers_its_files_anew() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", LONG)
    tail.poll()
    fs.renumber("/v.log")
    fs.append("/v.log", "next\n")
    assert tail.settle() == [*LONG_LINES, "next"]
    assert notices(tail) == ["/v.log: was replaced by a copy of itself; reading goes on at the same place"]


def test_descriptors_do_not_leak_while_everything_fails() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    node = fs.append("/v.log", LONG)
    tail.poll()
    for number in range(50):
        node.stale = stale() if number % 2 else None
        fs.append_to(node, f"{number}\n")
        tail.poll()
    node.stale = None
    assert tail.settle() == [*LONG_LINES, *map(str, range(50))]
    assert fs.opened == 1


# Globs ------------------------------------------------------------------------------------------------------------


def test_new_files_that_match_a_glob_are_read_from_their_beginning() -> None:
    fs = MemoryFs()
    fs.append("/logs/a.log", "old\n")
    tail = Tail(fs, "/logs/*.log")
    tail.poll()
    fs.append("/logs/b.log", "first\n")
    fs.append("/logs/a.log", "next\n")
    assert sorted(tail.settle()) == ["first", "next"]
    assert tail.kinds() == ["Appeared"]
    assert tail.follower.following == ("/logs/a.log", "/logs/b.log")


def test_a_glob_is_searched_every_two_seconds_only() -> None:
    fs = MemoryFs()
    fs.append("/logs/a.log", "")
    tail = Tail(fs, "/logs/*.log", step=0.1)
    tail.poll()
    fs.calls = 0
    tail.poll(19)
    assert fs.calls == 19
    tail.poll(2)
    assert fs.calls > 21


def test_an_idle_file_costs_one_call_a_poll() -> None:
    fs = MemoryFs()
    fs.append("/v.log", LONG)
    tail = Tail(fs)
    tail.poll()
    fs.calls = 0
    tail.poll(100)
    assert fs.calls == 100


@pytest.mark.parametrize("copied", [False, True], ids=["renamed", "copied"])
def test_a_rotated_file_that_matches_the_glob_is_not_read_again(copied: bool) -> None:
    fs = MemoryFs()
    fs.append("/logs/v.log.1", "last week\n")
    fs.append("/logs/v.log", "a\n")
    tail = Tail(fs, "/logs/v.log*", from_start=True)
    tail.poll()
    if copied:
        fs.copy("/logs/v.log", "/logs/v.log-20261201")
        fs.truncate("/logs/v.log")
    else:
        fs.rename("/logs/v.log", "/logs/v.log-20261201")
    fs.append("/logs/v.log", "b\n")
    fs.append("/logs/v.log.2.gz", gzip.compress(b"older"))
    assert tail.settle() == ["a", "b"]


def test_a_file_renamed_within_the_glob_is_not_read_again() -> None:
    fs = MemoryFs()
    fs.append("/logs/v.log", "a\n")
    tail = Tail(fs, "/logs/*", from_start=True)
    tail.poll()
    fs.rename("/logs/v.log", "/logs/v.bak")
    fs.append("/logs/v.log", "b\n")
    assert tail.settle() == ["a", "b"]
    tail.poll(5000)
    assert tail.resumed().settle() == ["a", "b"]


def test_a_link_to_a_followed_file_is_not_read_twice() -> None:
    fs = MemoryFs()
    fs.append("/logs/day1.log", "a\n")
    fs.link("/logs/current.log", "/logs/day1.log")
    tail = Tail(fs, "/logs/*.log", from_start=True)
    tail.poll(50)
    fs.append("/logs/day2.log", "b\n")
    fs.link("/logs/current.log", "/logs/day2.log")
    assert sorted(tail.settle()) == ["a", "b"]


def test_a_file_whose_name_is_a_glob() -> None:
    fs = MemoryFs()
    fs.append("/v[1].log", "a\n")
    fs.append("/v1.log", "other\n")
    assert Tail(fs, "/v[1].log", from_start=True).settle() == ["a"]


def test_one_unreadable_file_of_a_glob_leaves_the_others() -> None:
    fs = MemoryFs()
    for name in "abc":
        fs.append(f"/logs/{name}.log", f"{name}\n")
    fs.faults["/logs/a.log"] = PermissionError(errno.EACCES, "Permission denied")
    tail = Tail(fs, "/logs/*.log", from_start=True)
    assert sorted(tail.settle()) == ["b", "c"]
    assert notices(tail) == ["/logs/a.log cannot be read at the moment: permission denied"]


def test_an_inode_number_used_again_within_a_glob() -> None:
    fs = MemoryFs(reuse=True)
    tail = Tail(fs, "/logs/*.log", from_start=True, step=1.0)
    fs.append("/logs/a.log", LONG)
    tail.poll(5)
    fs.rename("/logs/a.log", "/logs/b.log")
    tail.poll(100)
    fs.append("/logs/a.log", "next\n")
    tail.poll(100)
    fs.remove("/logs/b.log")
    fs.append("/logs/b.log", "another file under the name and the number of the old one\n")
    tail.poll(5)
    assert tail.lines.whole["/logs/b.log"] == ["another file under the name and the number of the old one"]
    assert tail.lines.whole["/logs/a.log"] == [*LONG_LINES, "next"]


def test_a_flooded_file_leaves_the_others_their_turn() -> None:
    fs = MemoryFs()
    tail = Tail(fs, "/logs/*.log", from_start=True, per_file=1000, per_poll=1000)
    fs.append("/logs/flood.log", "x\n" * 100_000)
    fs.append("/logs/quiet.log", "cause\n")
    tail.poll(2)
    assert tail.lines.whole["/logs/quiet.log"] == ["cause"]
    assert tail.follower.backlog


def test_deleted_files_of_a_glob_are_forgotten() -> None:
    fs = MemoryFs()
    tail = Tail(fs, "/logs/*.log", step=10.0)
    for number in range(20):
        fs.append(f"/logs/{number}.log", "a\n")
        tail.poll(3)
        fs.remove(f"/logs/{number}.log")
        tail.poll(10)
    assert tail.follower.following == ()
    assert fs.opened == 0


def test_more_files_than_descriptors() -> None:
    fs = MemoryFs()
    for number in range(20):
        fs.append(f"/logs/{number}.log", f"old {number}\n")
    tail = Tail(fs, "/logs/*.log", most_open=5)
    tail.poll(3)
    assert fs.opened <= 5
    for number in range(20):
        fs.append(f"/logs/{number}.log", f"new {number}\n")
        tail.poll()
    assert sorted(tail.settle()) == sorted(f"new {number}" for number in range(20))
    assert fs.opened <= 5


def test_a_file_rotated_and_truncated_while_it_was_closed_for_lack_of_descriptors() -> None:
    fs = MemoryFs()
    for number in range(4):
        fs.append(f"/logs/{number}.log", LONG)
    tail = Tail(fs, "/logs/*.log", most_open=1)
    tail.poll(3)
    old = fs.append("/logs/0.log", "a\n")
    fs.rename("/logs/0.log", "/logs/0.log.1")
    fs.append_to(old, "b\n")
    fs.append("/logs/0.log", "c\n")
    fs.append("/logs/1.log", "d\n")
    fs.copy("/logs/1.log", "/logs/1.log.1")
    fs.truncate("/logs/1.log")
    fs.append("/logs/1.log", "e\n")
    assert sorted(tail.settle()) == ["a", "b", "c", "d", "e"]


# What is no log ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("folder", "/v.log is a folder: name a pattern such as '/v.log/*.log'"),
        ("stream", "/v.log is a pipe or a device: give it as standard input, `vlogdiag tail - < /v.log`"),
    ],
)
def test_what_cannot_be_followed_is_named_once(kind: str, text: str) -> None:
    fs = MemoryFs()
    fs.append("/v.log", "").kind = kind
    tail = Tail(fs)
    tail.poll(10)
    assert notices(tail) == [text]
    assert fs.opened == 0


@pytest.mark.parametrize("head", [gzip.compress(b"x"), "\ufeffINFO".encode("utf-16-le")], ids=["gzip", "utf-16"])
def test_what_is_no_text_is_named(head: bytes) -> None:
    fs = MemoryFs()
    fs.append("/v.log", head)
    tail = Tail(fs)
    tail.poll(5)
    assert notices(tail) == ["/v.log: is compressed or UTF-16; it can be scanned, but its new bytes are no text"]


# State ------------------------------------------------------------------------------------------------------------


def test_a_resumed_follower_reads_each_line_once() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\nb\n")
    tail.poll()
    fs.append("/v.log", "c\n")
    tail = tail.resumed()
    assert tail.settle() == ["a", "b", "c"]


def test_a_half_line_is_read_whole_after_the_resumption() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\nha")
    tail.poll()
    fs.append("/v.log", "lf\n")
    assert tail.resumed().settle() == ["a", "half"]


def test_everything_that_was_rotated_while_nobody_looked() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.append("/v.log", "b\n")
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "c\n")
    fs.rename("/v.log.1", "/v.log.2")
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "d\n")
    tail = tail.resumed()
    assert tail.settle() == ["a", "b", "c", "d"]
    assert notices(tail) == []


@pytest.mark.parametrize("head", ["a\n", LONG], ids=["too short to be recognised by content", "long"])
def test_truncated_after_a_copy_while_nobody_looked(head: str) -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", head)
    tail.poll()
    fs.append("/v.log", "b\nha")
    fs.copy("/v.log", "/v.log.1")
    fs.truncate("/v.log")
    fs.append("/v.log", "lf\nc\n")
    tail = tail.resumed()
    lines = tail.settle()
    if head == LONG:
        assert lines == [*LONG_LINES, "b", "half", "c"]
    else:
        assert lines == ["a", "lf", "c"]
        assert notices(tail) == ["/v.log: the file that was read before is gone; its last bytes may be missing"]


def test_resumed_in_the_middle_of_a_rotation() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "c\n")
    tail.poll()
    fs.append_to(old, "b\n")
    tail = tail.resumed()
    assert tail.settle() == ["a", "b", "c"]


def test_resumed_while_the_old_file_may_still_get_lines() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    old = fs.append("/v.log", "a\n")
    tail.poll()
    fs.rename("/v.log", "/v.log.1")
    fs.append("/v.log", "c\n")
    tail.settle()
    fs.append_to(old, "late\n")
    fs.append("/v.log", "d\n")
    assert tail.resumed().settle() == ["a", "c", "late", "d"]


def test_resumed_before_the_file_is_there() -> None:
    fs = MemoryFs()
    tail = Tail(fs)
    tail.poll()
    state = tail.follower.state()
    fs.append("/v.log", "a\n")
    tail = Tail(fs, state=state)
    assert tail.settle() == ["a"]


def test_resumed_while_the_file_is_away() -> None:
    fs = MemoryFs()
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    fs.append("/v.log", "b\n")
    fs.rename("/v.log", "/v.log.1")
    tail = tail.resumed()
    tail.poll(20)
    tail = tail.resumed()
    tail.poll(20)
    fs.append("/v.log", "c\n")
    assert tail.settle() == ["a", "b", "c"]


def test_resumed_with_a_link_that_was_switched_meanwhile() -> None:
    fs = MemoryFs()
    fs.append("/day1", "a\n")
    fs.link("/v.log", "/day1")
    tail = Tail(fs, from_start=True)
    tail.poll()
    fs.append("/day1", "b\n")
    fs.append("/day2", "c\n")
    fs.link("/v.log", "/day2")
    assert tail.resumed().settle() == ["a", "b", "c"]


def test_an_inode_number_used_again_while_nobody_looked() -> None:
    fs = MemoryFs(reuse=True)
    tail = Tail(fs, from_start=True)
    fs.append("/v.log", "a\n")
    tail.poll()
    tail.follower.close()
    fs.remove("/v.log")
    fs.append("/v.log", LONG)
    assert Tail(fs, state=tail.follower.state()).settle() == LONG_LINES


def test_a_glob_is_resumed_and_what_came_into_being_is_read_whole() -> None:
    fs = MemoryFs()
    fs.append("/logs/a.log", "old\n")
    tail = Tail(fs, "/logs/*.log")
    tail.poll()
    fs.append("/logs/a.log", "a\n")
    fs.append("/logs/b.log", "b\n")
    assert sorted(tail.resumed().settle()) == ["a", "b"]


def test_a_state_survives_its_file(tmp_path: Path) -> None:
    fs = MemoryFs()
    fs.append("/logs/a.log", LONG)
    tail = Tail(fs, "/logs/*.log")
    tail.poll()
    fs.rename("/logs/a.log", "/logs/a.log.1")
    fs.append("/logs/a.log", "x\n")
    fs.append("/logs/b\udcff猫.log", "y\n")
    tail.poll(100)
    states = [tail.follower.state(), FollowState("/other.log")]
    save_states(tmp_path / "state", states)
    assert load_states(tmp_path / "state") == {state.path: state for state in states}
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600


def test_no_state_file_yet(tmp_path: Path) -> None:
    assert load_states(tmp_path / "state") == {}


def test_a_state_file_behind_a_link_stays_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save_states(tmp_path / "link", [])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").is_file()


def good_state() -> str:
    mark = {
        "path": "/v", "place": "/v", "device": 1, "inode": 1, "offset": 1, "seen": 2, "head_size": 2, "head": "", "tail": "", "mtime_ns": 1,
    }  # fmt: skip
    state = {"path": "/v", "files": [mark], "finished": [], "skipped": []}
    return json.dumps({"format": "vlogdiag.state/1", "logs": [state]})


def test_the_good_state_is_good(tmp_path: Path) -> None:
    (tmp_path / "state").write_text(good_state())
    assert list(load_states(tmp_path / "state")) == ["/v"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is no state file of vlogdiag or is damaged"),
        ("INFO 12-01 a log given by mistake", "is no state file of vlogdiag or is damaged"),
        (good_state()[:-9], "is no state file of vlogdiag or is damaged"),
        ("[]", "is no state file of vlogdiag or is damaged"),
        ('{"logs": []}', "is no state file of vlogdiag or is damaged"),
        ("[" * 100_000, "is no state file of vlogdiag or is damaged"),
        ('{"format": "vlogdiag.state/2", "logs": 3}', "was written by another version of vlogdiag"),
        (good_state().replace('"inode": 1', '"inode": "1"'), "is no state file of vlogdiag or is damaged"),
        (good_state().replace('"offset": 1', '"offset": -1'), "is damaged (impossible numbers for /v)"),
        (good_state().replace('"head_size": 2', '"head_size": 2000'), "is damaged (impossible numbers for /v)"),
    ],
)
def test_a_state_file_that_cannot_be_used(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "state").write_text(text)
    with pytest.raises(StateError) as caught:
        load_states(tmp_path / "state")
    assert caught.value.reason.startswith(reason)
    assert caught.value.reason.endswith(": delete it to start anew")


def test_a_state_file_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="is a folder"):
        load_states(tmp_path)


def test_a_state_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_states(tmp_path / "state", [FollowState("/a")])

    def refuse(old: str, new: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(StateError, match="cannot be written: no space left on device"):
        save_states(tmp_path / "state", [FollowState("/b")])
    monkeypatch.undo()
    assert list(load_states(tmp_path / "state")) == ["/a"]
    assert len(list(tmp_path.iterdir())) == 1


# Standard input ---------------------------------------------------------------------------------------------------


def test_a_pipe_is_read_without_waiting() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream:
        follower = StreamFollower(stream)
        assert follower.poll() == []
        os.write(writer, b"a\nha")
        assert follower.poll() == [Data("-", 0, b"a\nha")]
        assert follower.poll() == []
        os.write(writer, b"lf\n")
        os.close(writer)
        assert follower.poll() == [Data("-", 4, b"lf\n"), Ended("-", 0)]
        assert follower.ended
        assert follower.poll() == []


def test_a_flooded_pipe_is_read_in_portions() -> None:
    follower = StreamFollower(io.BytesIO(b"x" * 250_000), per_poll=100_000)
    assert [len(event.data) for event in follower.poll() if isinstance(event, Data)] == [100_000]
    assert follower.backlog
    follower.poll()
    assert follower.poll()[-1] == Ended("-", 0)
    assert not follower.backlog


def test_a_pipe_that_breaks() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    stream = os.fdopen(reader, "rb")
    follower = StreamFollower(stream)
    replacement = os.open("/", os.O_RDONLY)
    os.dup2(replacement, reader)
    os.close(replacement)
    assert follower.poll() == [Notice("-", "standard input broke off: is a directory"), Ended("-", 0)]
    stream.close()


# The real file system ---------------------------------------------------------------------------------------------


def test_a_hole_of_the_real_file_system_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "v.log"
    path.write_bytes(b"old\n" * 1000)
    now = [0.0]
    follower = Follower(str(path), clock=lambda: now[0], per_file=1 << 16)
    follower.poll()
    os.truncate(path, 0)
    with path.open("r+b") as writer:
        writer.seek(1 << 30)
        writer.write(b"next\n")
    events = [*follower.poll(), *follower.poll()]
    assert Data(str(path), 1 << 30, b"next\n", 1) in events
    follower.close()


def test_real_files_have_kinds(tmp_path: Path) -> None:
    fs = OsFileSystem()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    assert [
        stat and stat.kind
        for stat in map(
            fs.stat, map(str, (tmp_path, tmp_path / "pipe", tmp_path / "file", tmp_path / "no", tmp_path / "file/x"))
        )
    ] == ["folder", "stream", "file", None, None]


def test_a_fifo_is_opened_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    OsFileSystem().open(str(tmp_path / "pipe")).close()


def test_a_file_without_hole_begins_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    handle = OsFileSystem().open(str(tmp_path / "file"))
    assert (handle.data_start(0), handle.data_start(4), handle.data_start(10)) == (0, 4, 10)
    handle.close()


# Waking -----------------------------------------------------------------------------------------------------------


def test_pauses_grow_while_nothing_happens() -> None:
    pauses: list[float] = []
    waker = PollingWaker(pause=pauses.append)
    for _ in range(12):
        waker.wait()
    assert pauses[0] == BUSY
    assert pauses == sorted(pauses)
    assert pauses[-1] == IDLE
    assert sum(pauses[:6]) < 1.0
    waker.active()
    waker.wait()
    assert pauses[-1] == BUSY


def test_a_timeout_shortens_a_pause() -> None:
    pauses: list[float] = []
    waker = PollingWaker(busy=1.0, idle=2.0, pause=pauses.append)
    for timeout in (0.5, 0.0, -1.0, 9.0):
        waker.wait(timeout)
    assert pauses == [0.5, 0.0, 0.0, 2.0]


def test_a_wait_can_be_ended_from_outside() -> None:
    waker = PollingWaker(busy=3600.0)
    waker.wake()
    waker.wait()


def test_a_script_plays_the_waits() -> None:
    done: list[str] = []
    waker = ManualWaker([lambda: done.append("first"), lambda: done.append("second")])
    waker.wait(1.0)
    waker.active()
    waker.wait()
    assert (done, waker.waits, waker.activity) == (["first", "second"], [1.0, None], 1)
    with pytest.raises(EOFError):
        waker.wait()

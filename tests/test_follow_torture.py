"""A writer that does to a real log whatever writers and rotation do, at random, while it is followed: each line once.

What nobody can know is left out by looking in time, and only that:

* a file is looked at between its creation and its deletion or, behind a link, the next switch of the link;
* a file that was empty at the last look is looked at before it is copied and truncated: nothing tells its copy;
* a file that begins with a hole (a writer without append, truncated) is read to its end before the next truncation;
* a file is looked at before it is renamed or truncated if the one that it came after was deleted, if a link was
  switched back to it, and after a restart;
* a deleted file is read to its end before the follower is restarted; a truncated one is looked at before;
* `> file` (a truncation that leaves no copy) happens to a file that was read to its end;
* the second half of a line comes within the second that a rotation waits for it;
* a file that was left is written to for at most ten seconds, and no more than eight are.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from follow_fakes import Lines

from vlogdiag.log.follow import Follower, load_states, save_states

KEPT = 6
"""Rotated files that are kept."""
LATE = 10.0
MOST_OLD = 8
HALF = 0.3


class Writer:
    """One open log file, as a server has it: `vllm serve >> log` or, without append, `vllm serve > log`."""

    def __init__(self, path: Path, number: int, *, append: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else 0)
        self.descriptor = os.open(path, flags, 0o644)
        self.number = number
        self.append = append
        self.holed = False
        self.rest = b""
        """Second half of a line that was begun."""
        self.half_since = 0.0
        self.left = 0.0
        """When the path went to another file."""

    def write(self, data: bytes) -> None:
        os.write(self.descriptor, data)


class Torture:
    """A log, its writers, its rotation and its follower; `now` is the follower's clock."""

    def __init__(self, folder: Path, seed: int, *, link: bool) -> None:
        self.folder = folder
        self.path = folder / "v.log"
        self.state_file = folder / "state"
        self.random = random.Random(seed)
        self.link = link
        self.now = 0.0
        self.written: list[str] = []
        self.lines = Lines()
        self.done: Counter[str] = Counter()
        self.trace: list[str] = []
        self.targets = 0
        self.files = 0
        self.unseen = 0
        """Files that the follower had no look at yet."""
        self.cut = False
        """Truncated since everything was last read."""
        self.blank = True
        """The file at the path was empty at the last look, or not there."""
        self.orphaned = False
        """A deleted file was written to since the last look."""
        self.old: list[Writer] = []
        self.follower = self.new_follower()
        self.writer = self.create()
        self.look()

    def new_follower(self) -> Follower:
        state = load_states(self.state_file).get(str(self.path))
        return Follower(
            str(self.path),
            clock=lambda: self.now,
            from_start=True,
            state=state,
            per_file=self.random.choice([5000, 1 << 20]),
        )

    @property
    def target(self) -> Path:
        """Where the bytes really stand."""
        return self.path.resolve() if self.link else self.path

    def create(self) -> Writer:
        """Open a new file at the path (behind the link, if there is one)."""
        path = self.path
        if self.link:
            path = self.folder / f"target-{self.targets}-x"
            self.targets += 1
            temporary = self.folder / "link"
            temporary.symlink_to(path)
            temporary.replace(self.path)
        return self.open(path)

    def open(self, path: Path) -> Writer:
        self.files += 1
        self.unseen += 1
        self.blank = True
        return Writer(path, self.files, append=self.random.random() < 0.7)

    # Writing

    def line(self) -> bytes:
        number = len(self.written)
        # No two places of a log are alike: only so can a place be recognised by what stands before it.
        text = f"{number} of file {self.writer.number} " + f"{number}x" * self.random.choice([0, 1, 10, 100, 700])
        self.written.append(text)
        return text.encode() + b"\n"

    def put(self, writer: Writer, data: bytes) -> None:
        writer.write(data)
        self.orphaned = self.orphaned or os.fstat(writer.descriptor).st_nlink == 0

    def complete(self, writer: Writer) -> None:
        if writer.rest:
            self.put(writer, writer.rest)
            writer.rest = b""

    def append(self) -> None:
        self.complete(self.writer)
        self.put(self.writer, b"".join(self.line() for _ in range(self.random.choice([1, 1, 2, 8]))))

    def half_line(self) -> None:
        self.complete(self.writer)
        line = self.line()
        # Where nothing but one byte was read of a file, another file that begins with that byte is the same.
        cut = self.random.randrange(min(12, len(line) - 1), len(line))
        self.put(self.writer, line[:cut])
        self.writer.rest = line[cut:]
        self.writer.half_since = self.now

    def late_write(self) -> None:
        if self.old:
            writer = self.random.choice(self.old)
            self.complete(writer)
            self.put(writer, self.line())

    # Rotation

    def leave(self) -> None:
        self.writer.left = self.now
        self.writer.half_since = self.now
        self.old.append(self.writer)
        if len(self.old) > MOST_OLD:
            writer = self.old.pop(0)
            self.complete(writer)
            os.close(writer.descriptor)

    def shift(self) -> None:
        """v.log.1 becomes v.log.2, and so on; the oldest goes."""
        base = str(self.target)
        for number in range(KEPT, 0, -1):
            part = Path(f"{base}.{number}")
            if part.exists() and number == KEPT:
                self.orphaned = True  # it may be one that is still written to
                part.unlink()
            elif part.exists():
                part.rename(f"{base}.{number + 1}")

    def rotate(self) -> None:
        if self.unseen > 1:
            self.look()
        base = self.target
        self.shift()
        base.rename(f"{base}.1")
        self.leave()
        if self.random.random() < 0.5:
            self.put(self.old[-1], (self.old[-1].rest or b"") + self.line())
            self.old[-1].rest = b""
        self.writer = self.open(base)
        self.append()

    def copytruncate(self) -> None:
        if self.unseen > 1 or self.blank:
            self.look()
        if self.writer.holed:
            self.drain()
        self.writer.holed = not self.writer.append
        base = str(self.target)
        self.shift()
        shutil.copyfile(base, f"{base}.1")
        os.truncate(base, 0)
        self.cut = True

    def regrow(self) -> None:
        size = self.target.stat().st_size
        self.copytruncate()
        while self.target.stat().st_size <= size:
            self.append()

    def redirect(self) -> None:
        """`> v.log` of a start script, with a new server."""
        self.drain()
        self.leave()
        self.old.pop()
        self.put(self.writer, self.writer.rest)
        self.drain()
        os.close(self.writer.descriptor)
        os.truncate(self.target, 0)
        self.writer = Writer(self.target, self.writer.number, append=True)
        self.cut = self.blank = True
        self.append()

    def delete(self) -> None:
        self.drain()
        self.target.unlink()
        if self.link:
            self.path.unlink()
        self.leave()
        if self.random.random() < 0.5:
            self.look()
            self.late_write()
            self.look()
        self.writer = self.create()
        self.unseen = 2  # the file that it comes after is gone: nothing tells it once it is renamed

    def switch(self) -> None:
        if not self.link:
            return
        self.drain()
        self.leave()
        self.writer = self.create()
        self.append()

    def switch_back(self) -> None:
        """The link leads to an earlier file again, whose writer goes on."""
        self.drain()
        candidates = [writer for writer in self.old if os.fstat(writer.descriptor).st_nlink]
        if not self.link or not candidates:
            return
        back = self.random.choice(candidates)
        path = Path(f"/proc/self/fd/{back.descriptor}").readlink()
        if path.name.endswith("-x"):
            temporary = self.folder / "link"
            temporary.symlink_to(path)
            temporary.replace(self.path)
            self.old.remove(back)
            self.leave()
            self.unseen = 2
            self.writer = back
            self.append()

    # Following

    def look(self) -> None:
        for _ in range(self.random.choice([1, 1, 2, 4])):
            self.now += self.random.uniform(0.005, 0.08)
            self.lines.feed(self.follower.poll())
        self.unseen = 0
        self.blank = not self.target.exists() or self.target.stat().st_size == 0
        if not self.follower.backlog and self.follower.lag == 0:
            self.cut = False
        self.orphaned = False
        for writer in list(self.old):
            if writer.rest and self.now - writer.half_since > HALF:
                self.complete(writer)
            if self.now - writer.left > LATE:
                self.complete(writer)
                self.old.remove(writer)
                os.close(writer.descriptor)

    def drain(self) -> None:
        """Look until everything is read, old files included."""
        for writer in self.old:
            self.complete(writer)
        for _ in range(2000):
            self.now += 0.05
            self.lines.feed(self.follower.poll())
            if not self.follower.backlog and self.follower.lag == 0:
                break
        self.look()

    def restart(self) -> None:
        """The follower's process ends and another one goes on; late writers of deleted files end before."""
        for writer in list(self.old):
            self.complete(writer)
            if os.fstat(writer.descriptor).st_nlink == 0:
                self.old.remove(writer)
                os.close(writer.descriptor)
                self.orphaned = True
        if self.cut or self.orphaned or self.unseen:
            self.drain()
        save_states(self.state_file, [self.follower.state()])
        self.follower.close()
        self.lines.half.clear()
        self.random.choice([self.append, self.half_line, self.late_write, lambda: None])()
        self.follower = self.new_follower()
        self.unseen = 2  # a sibling that is deleted now was not seen by this process

    def step(self) -> None:
        weights = {
            self.append: 30,
            self.look: 30,
            self.half_line: 12,
            self.late_write: 10,
            self.rotate: 6,
            self.copytruncate: 5,
            self.regrow: 5,
            self.switch: 4,
            self.switch_back: 3,
            self.delete: 3,
            self.restart: 3,
            self.redirect: 2,
        }
        operation = self.random.choices(list(weights), list(weights.values()))[0]
        self.done[operation.__name__] += 1
        self.trace.append(operation.__name__)
        operation()
        if self.random.random() < 0.6:
            self.look()

    def finish(self) -> list[str]:
        for writer in (*self.old, self.writer):
            self.complete(writer)
        self.drain()
        self.append()  # whatever was cut to exactly its old size in the same tick of the clock shows now
        for _ in range(300):
            self.now += 0.3
            self.lines.feed(self.follower.poll())
        for writer in (*self.old, self.writer):
            os.close(writer.descriptor)
        self.follower.close()
        return self.lines.whole.get(str(self.path), [])


def torture(
    folder: Path, seed: int, operations: int, *, link: bool, look: Callable[[Torture], None] = lambda run: None
) -> Torture:
    run = Torture(folder, seed, link=link)
    for number in range(operations):
        run.step()
        if number % 50 == 49:
            look(run)
    read = Counter(run.finish())
    written = Counter(run.written)
    lost = written - read
    extra = read - written
    context = f"seed {seed}, link {link}, {run.done}; last operations: {run.trace[-30:]}"
    assert not lost, f"lost {[text[:40] for text in lost]}; {context}"
    assert not extra, f"too much {[text[:60] for text in extra]}; {context}"
    assert not run.lines.half
    return run


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("link", [False, True], ids=["a file", "a link"])
@pytest.mark.parametrize("seed", range(6))
def test_no_line_is_lost_or_doubled(tmp_path: Path, seed: int, link: bool) -> None:
    torture(tmp_path, seed, 100, link=link)


@pytest.mark.long
@pytest.mark.parametrize("link", [False, True], ids=["a file", "a link"])
def test_no_line_is_lost_or_doubled_in_ten_thousand_operations(tmp_path: Path, link: bool) -> None:
    before = descriptors()
    held: list[int] = []
    run = torture(tmp_path, 2026, 10_000, link=link, look=lambda run: held.append(descriptors()))
    assert all(run.done[name] > 100 for name in ("rotate", "copytruncate", "regrow", "delete", "restart", "half_line"))
    assert max(held) < before + 400  # late writers and the files they write to, none of them for ever
    assert descriptors() == before

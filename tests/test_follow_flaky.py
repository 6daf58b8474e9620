"""A network file system that fails at random while logs rotate: nothing is lost or doubled, no descriptor leaks."""

from __future__ import annotations

import errno
import random
from collections import Counter
from pathlib import Path

import pytest
from follow_fakes import Lines

from vlogdiag.log.follow import Follower
from vlogdiag.log.follow_fs import FileStat, Handle, OsFileSystem


class Flaky:
    """The real file system, whose every call fails with probability `rate`; a handle that failed once stays stale."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rate = 0.0
        self.opened = 0
        self._real = OsFileSystem()

    def fail(self) -> None:
        if self.random.random() < self.rate:
            raise OSError(errno.ESTALE, "Stale file handle")

    def stat(self, path: str) -> FileStat | None:
        self.fail()
        return self._real.stat(path)

    def open(self, path: str) -> Handle:
        self.fail()
        handle = FlakyHandle(self, self._real.open(path))
        self.opened += 1
        return handle

    def glob(self, pattern: str) -> list[str]:
        self.fail()
        return self._real.glob(pattern)

    def real(self, path: str) -> str:
        self.fail()
        return self._real.real(path)


class FlakyHandle:
    def __init__(self, fs: Flaky, real: Handle) -> None:
        self._fs = fs
        self._real = real
        self._stale = False

    def _check(self) -> None:
        if self._stale:
            raise OSError(errno.ESTALE, "Stale file handle")
        try:
            self._fs.fail()
        except OSError:
            self._stale = True
            raise

    def stat(self) -> FileStat:
        self._check()
        return self._real.stat()

    def read(self, offset: int, size: int) -> bytes:
        self._check()
        return self._real.read(offset, size)

    def data_start(self, offset: int) -> int:
        self._check()
        return self._real.data_start(offset)

    def close(self) -> None:
        self._fs.opened -= 1
        self._real.close()


@pytest.mark.parametrize("seed", range(12))
def test_a_flaky_file_system_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    fs = Flaky(seed)
    path = tmp_path / "v.log"
    clock = [0.0]
    follower = Follower(str(path), fs=fs, clock=lambda: clock[0], from_start=True)
    lines = Lines()
    written: list[str] = []

    def look(times: int) -> None:
        for _ in range(times):
            clock[0] += 0.05
            lines.feed(follower.poll())

    def append() -> None:
        with path.open("ab") as log:
            for _ in range(chance.choice([1, 5])):
                written.append(f"{len(written)} " + f"{len(written)}y" * chance.choice([1, 100]))
                log.write(written[-1].encode() + b"\n")

    append()
    look(3)
    for step in range(60):
        fs.rate = chance.choice([0.0, 0.02, 0.2])
        for _ in range(chance.choice([1, 1, 2])):
            chance.choice([append, append, append, lambda: look(chance.choice([1, 5]))])()
        if chance.random() < 0.2:
            path.rename(tmp_path / f"v.log-2026{step // 28 + 1:02}{step % 28 + 1:02}")
            append()
        look(1)
    fs.rate = 0.0
    append()
    look(1500)
    read = lines.whole[str(path)]
    assert Counter(read) == Counter(written)
    assert fs.opened == 1
    follower.close()
    assert fs.opened == 0

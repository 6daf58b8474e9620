"""A file system in memory with every fault a real one has, and a reader that joins events to lines."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from vlogdiag.log.follow import Data, Ended, Follower, FollowEvent, FollowState
from vlogdiag.log.follow_fs import FileStat

PAGE = 16
"""A hole of this file system begins and ends at multiples of this."""


@dataclass
class Node:
    """An inode; `hole` is how many of its first bytes were never written."""

    number: int
    data: bytearray = field(default_factory=bytearray)
    mtime: int = 0
    links: int = 1
    hole: int = 0
    kind: str = "file"
    stale: OSError | None = None

    def stat(self) -> FileStat:
        return FileStat(1, self.number, len(self.data), self.mtime, self.links, self.kind)


class MemoryHandle:
    """An open file; several may be open at once."""

    def __init__(self, fs: MemoryFs, node: Node) -> None:
        self._fs = fs
        self.node = node
        self.open = True

    def _check(self) -> None:
        assert self.open, "used after it was closed"
        if self.node.stale is not None:
            raise self.node.stale

    def stat(self) -> FileStat:
        self._check()
        self._fs.calls += 1
        return self.node.stat()

    def read(self, offset: int, size: int) -> bytes:
        self._check()
        assert offset >= 0
        assert size >= 0
        return bytes(self.node.data[offset : offset + size])

    def data_start(self, offset: int) -> int:
        self._check()
        return max(offset, self.node.hole // PAGE * PAGE)

    def close(self) -> None:
        assert self.open, "closed twice"
        self.open = False
        self._fs.opened -= 1


class MemoryFs:
    """Paths, links and inodes. `reuse` gives a freed inode number to the next file, as ext4 does."""

    def __init__(self, *, reuse: bool = False) -> None:
        self.nodes: dict[str, Node] = {}
        self.links: dict[str, str] = {}
        self.faults: dict[str, OSError] = {}
        self.opened = 0
        self.calls = 0
        self._reuse = reuse
        self._free: list[int] = []
        self._number = 100
        self._time = 1000

    # What a follower sees

    def stat(self, path: str) -> FileStat | None:
        self.calls += 1
        if path in self.faults:
            raise self.faults[path]
        node = self.nodes.get(self.real(path))
        if node is not None and node.stale is not None:
            raise node.stale
        return node.stat() if node else None

    def open(self, path: str) -> MemoryHandle:
        self.calls += 1
        if path in self.faults:
            raise self.faults[path]
        node = self.nodes.get(self.real(path))
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if node.stale is not None:
            raise node.stale
        self.opened += 1
        return MemoryHandle(self, node)

    def glob(self, pattern: str) -> list[str]:
        self.calls += 1
        return [path for path in (*self.nodes, *self.links) if fnmatchcase(path, pattern)]

    def real(self, path: str) -> str:
        return self.links.get(path, path)

    # What a writer does

    def append(self, path: str, text: str | bytes) -> Node:
        node = self.nodes.get(self.real(path))
        if node is None:
            number = self._free.pop() if self._reuse and self._free else self._number
            self._number += 1
            node = self.nodes[self.real(path)] = Node(number)
        return self.append_to(node, text)

    def append_to(self, node: Node, text: str | bytes) -> Node:
        """Write through a descriptor that is open, whatever the file is named now."""
        node.data += text.encode() if isinstance(text, str) else text
        node.mtime = self._tick()
        return node

    def rename(self, old: str, new: str) -> Node:
        self._drop(new)
        self.nodes[new] = self.nodes.pop(old)
        return self.nodes[new]

    def remove(self, path: str) -> Node:
        return self._drop(path)

    def truncate(self, path: str) -> Node:
        node = self.nodes[path]
        node.data.clear()
        node.mtime = self._tick()
        return node

    def copy(self, old: str, new: str) -> Node:
        return self.append(new, bytes(self.nodes[old].data))

    def link(self, path: str, target: str) -> None:
        self.links[path] = target

    def renumber(self, path: str) -> None:
        """Give the same file another inode, as FUSE file systems do after they forgot it."""
        old = self.nodes[path]
        self.nodes[path] = Node(self._number, bytearray(old.data), old.mtime)
        self._number += 1

    def _drop(self, path: str) -> Node:
        node = self.nodes.pop(path, Node(0))
        node.links = 0
        if node.number:
            self._free.append(node.number)
        return node

    def _tick(self) -> int:
        self._time += 1
        return self._time


class Lines:
    """Joins Data to lines the way a reader of events must: half lines by (path, file), given up at Ended."""

    def __init__(self) -> None:
        self.whole: dict[str, list[str]] = {}
        self.half: dict[tuple[str, int], bytes] = {}

    def feed(self, events: Iterable[FollowEvent]) -> None:
        for event in events:
            if isinstance(event, Data):
                *lines, rest = (self.half.pop((event.path, event.file), b"") + event.data).split(b"\n")
                self.whole.setdefault(event.path, []).extend(line.decode("utf-8", "replace") for line in lines)
                if rest:
                    self.half[event.path, event.file] = rest
            elif isinstance(event, Ended):
                self.whole.setdefault(event.path, []).append(self.half.pop((event.path, event.file)).decode())


class Tail:
    """A follower on a file system in memory, with a clock that moves by `step` seconds a poll."""

    def __init__(self, fs: MemoryFs, path: str = "/v.log", *, step: float = 0.05, **options: object) -> None:
        self.fs = fs
        self.now = 0.0
        self.step = step
        self.lines = Lines()
        self.events: list[FollowEvent] = []
        self.follower = Follower(path, fs=fs, clock=lambda: self.now, **options)  # type: ignore[arg-type]

    def poll(self, times: int = 1) -> list[FollowEvent]:
        """Poll so often; the events of all polls."""
        events = []
        for _ in range(times):
            self.now += self.step
            events += self.follower.poll()
        self.events += events
        self.lines.feed(events)
        return events

    def settle(self) -> list[str]:
        """Poll long enough for every rotation to be over; all whole lines of all paths so far."""
        self.poll(40)
        return [line for lines in self.lines.whole.values() for line in lines]

    def kinds(self) -> list[str]:
        """Names of the events so far, Data left out."""
        return [type(event).__name__ for event in self.events if not isinstance(event, Data)]

    def resumed(self, **options: object) -> Tail:
        """A new process that goes on where this one stands; half lines in memory are lost with the old process."""
        state: FollowState = self.follower.state()
        self.follower.close()
        tail = Tail(self.fs, self.follower.path, state=state, step=self.step, **options)
        tail.lines.whole = self.lines.whole
        tail.now = self.now
        return tail

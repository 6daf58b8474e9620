"""The host: control groups of both versions from a tree in a folder, vLLM's processes from a list."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from vlogdiag.live.cgroup import GroupMemory, find_group, machine_oom_kills, read_group
from vlogdiag.live.processes import RESCAN, HostProbe

GIB = 2**30
V1_UNLIMITED = 9223372036854771712


def tree(root: Path, files: Mapping[str, object]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def v2(path: str, **numbers: object) -> dict[str, object]:
    base = f"sys/fs/cgroup{path}"
    return {
        f"{base}/memory.current": numbers.get("current", 5 * GIB),
        f"{base}/memory.max": numbers.get("max", "max"),
        f"{base}/memory.stat": f"anon 1\nactive_file {numbers.get('cache', 0)}\ninactive_file 0",
        f"{base}/memory.events": f"low 0\nhigh 0\nmax 9\noom 2\noom_kill {numbers.get('kills', 0)}\noom_group_kill 0",
    }


def v1(path: str, **numbers: object) -> dict[str, object]:
    base = f"sys/fs/cgroup/memory{path}"
    return {
        f"{base}/memory.usage_in_bytes": numbers.get("current", 5 * GIB),
        f"{base}/memory.limit_in_bytes": numbers.get("max", V1_UNLIMITED),
        f"{base}/memory.stat": f"cache 7\ntotal_active_file 0\ntotal_inactive_file {numbers.get('cache', 0)}",
        f"{base}/memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {numbers.get('kills', 0)}",
    }


V1_LINES = "12:pids:/docker/abc\n11:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc"


@pytest.mark.parametrize(
    ("why", "files", "expected"),
    [
        (
            "v2 with a limit of its own",
            {"proc/7/cgroup": "0::/pod/box", **v2("/pod/box", max=8 * GIB, kills=1), **v2("/pod"), **v2("")},
            GroupMemory(8 * GIB, 5 * GIB, 1),
        ),
        (
            "v2 where the pod's limit is the tight one: its use and its kills count",
            {
                "proc/7/cgroup": "0::/pod/box",
                **v2("/pod/box", max=64 * GIB, kills=0),
                **v2("/pod", max=16 * GIB, current=15 * GIB, kills=2),
            },
            GroupMemory(16 * GIB, 15 * GIB, 2),
        ),
        (
            "v2 without any limit",
            {"proc/7/cgroup": "0::/user.slice", **v2("/user.slice", kills=3)},
            GroupMemory(None, 5 * GIB, 3),
        ),
        (
            "v2 inside a container: the path is the host's, the mount is the group",
            {"proc/7/cgroup": "0::/../../kubepods/pod1", **v2("", max=8 * GIB)},
            GroupMemory(8 * GIB, 5 * GIB, 0),
        ),
        (
            "v2: weights in the file cache are given back before anything is killed",
            {"proc/7/cgroup": "0::/box", **v2("/box", max=8 * GIB, current=8 * GIB, cache=6 * GIB)},
            GroupMemory(8 * GIB, 2 * GIB, 0),
        ),
        (
            "v1 with a limit",
            {"proc/7/cgroup": V1_LINES, **v1("/docker/abc", max=8 * GIB, kills=2, cache=GIB), **v1("")},
            GroupMemory(8 * GIB, 4 * GIB, 2),
        ),
        (
            "v1 without a limit",
            {"proc/7/cgroup": V1_LINES, **v1("/docker/abc")},
            GroupMemory(None, 5 * GIB, 0),
        ),
        (
            "hybrid: v1 has the memory although a v2 line is there",
            {"proc/7/cgroup": V1_LINES, **v1("", max=4 * GIB), "sys/fs/cgroup/unified/cgroup.procs": ""},
            GroupMemory(4 * GIB, 5 * GIB, 0),
        ),
        (
            "files that hold no numbers",
            {"proc/7/cgroup": "0::/box", **v2("/box", max="garbage", current="", kills="x")},
            GroupMemory(None, None, None),
        ),
    ],
)
def test_memory_of_a_control_group(tmp_path: Path, why: str, files: dict[str, object], expected: GroupMemory) -> None:
    group = find_group(7, tree(tmp_path, files))
    assert group is not None
    assert read_group(group) == expected, why


def test_a_kernel_without_control_groups(tmp_path: Path) -> None:
    assert find_group(7, tree(tmp_path, {"proc/7/cgroup": "0::/box"})) is None
    assert find_group(8, tmp_path) is None
    assert machine_oom_kills(tmp_path) is None


class Played(psutil.Process):
    """A process with a state that the test sets."""

    def __init__(self, pid: int, argv: list[str], status: str = "sleeping", rss: int = GIB) -> None:
        self._pid = pid
        self.argv = argv
        self.state = status
        self.rss = rss
        self.gone = False

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def _check(self) -> None:
        if self.gone:
            raise psutil.NoSuchProcess(self._pid)

    def oneshot(self):  # type: ignore[no-untyped-def]
        from contextlib import nullcontext

        return nullcontext()

    def name(self) -> str:
        self._check()
        return self.argv[0].rsplit("/", 1)[-1][:15]

    def cmdline(self) -> list[str]:
        self._check()
        if self.state == "zombie":
            raise psutil.ZombieProcess(self._pid)
        return self.argv

    def status(self) -> str:
        self._check()
        return self.state

    def memory_info(self):  # type: ignore[no-untyped-def]
        from types import SimpleNamespace

        self._check()
        return SimpleNamespace(rss=self.rss)


def server(pid: int = 100, **more: object) -> Played:
    return Played(pid, ["python3", "/usr/local/bin/vllm", "serve", "m"], **more)  # type: ignore[arg-type]


def engine(pid: int = 101, **more: object) -> Played:
    return Played(pid, ["VLLM::EngineCore"], **more)  # type: ignore[arg-type]


class Table:
    """The process table, and how often it was read."""

    def __init__(self, *processes: Played) -> None:
        self.processes = list(processes)
        self.reads = 0

    def __call__(self) -> list[psutil.Process]:
        self.reads += 1
        return [process for process in self.processes if not process.gone]


class Host:
    """A probe with a clock and a tree of its own."""

    def __init__(self, root: Path, *processes: Played) -> None:
        self.now = 0.0
        self.root = root
        self.table = Table(*processes)
        self.probe = HostProbe(root=root, listing=self.table, monotonic=lambda: self.now)


def test_vllms_processes_with_state_and_memory(tmp_path: Path) -> None:
    others = [Played(5, ["/usr/bin/python3", "train.py"]), Played(6, ["bash"]), Played(os.getpid(), ["VLLM::self"])]
    host = Host(tmp_path, server(), engine(rss=3 * GIB), *others)
    assert host.probe.sample().processes == (
        (100, "python3 /usr/local/bin/vllm serve m", "sleeping", GIB),
        (101, "VLLM::EngineCore", "sleeping", 3 * GIB),
    )


@pytest.mark.parametrize("state", ["disk-sleep", "stopped", "zombie"])
def test_an_engine_that_froze_keeps_its_name(tmp_path: Path, state: str) -> None:
    core = engine()
    host = Host(tmp_path, server(), core)
    host.probe.sample()
    core.state = state
    host.now += RESCAN
    assert host.probe.sample().processes[1] == (101, "VLLM::EngineCore", state, GIB)


def test_the_whole_table_is_not_read_with_every_sample(tmp_path: Path) -> None:
    host = Host(tmp_path, server())
    for _ in range(5):
        host.probe.sample()
        host.now += RESCAN / 6
    assert host.table.reads == 1


def test_a_dead_worker_is_dropped_and_its_successor_found(tmp_path: Path) -> None:
    first = engine(101)
    host = Host(tmp_path, server(), first)
    host.probe.sample()
    first.gone = True
    host.table.processes.append(engine(202))
    assert [row[0] for row in host.probe.sample().processes] == [100]
    assert [row[0] for row in host.probe.sample().processes] == [100, 202]


def test_the_group_of_a_killed_server_is_still_read(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/100/cgroup": "0::/box", "proc/self/cgroup": "0::/me", **v2("/me", kills=0)})
    tree(tmp_path, v2("/box", max=8 * GIB, current=7 * GIB, kills=0))
    victim = server()
    host = Host(tmp_path, victim)
    assert host.probe.sample().oom_kills == 0
    victim.gone = True
    (tmp_path / "proc/100/cgroup").unlink()
    tree(tmp_path, v2("/box", max=8 * GIB, current=GIB, kills=1))
    state = host.probe.sample()
    assert (state.oom_kills, state.cgroup_limit, state.cgroup_used, state.processes) == (1, 8 * GIB, GIB, ())


def test_without_vllm_the_own_group_counts(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/self/cgroup": "0::/me", **v2("/me", max=2 * GIB, current=GIB)})
    state = Host(tmp_path).probe.sample()
    assert (state.cgroup_limit, state.cgroup_used) == (2 * GIB, GIB)


def test_without_control_groups_the_machine_counts_its_kills(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/vmstat": "nr_free_pages 5\noom_kill 4"})
    assert Host(tmp_path).probe.sample().oom_kills == 4


def test_shared_memory_is_the_containers(tmp_path: Path) -> None:
    (tmp_path / "proc/100/root/dev/shm").mkdir(parents=True)
    state = Host(tmp_path, server()).probe.sample()
    assert state.shm_total is not None and state.shm_free is not None
    assert 0 < state.shm_free <= state.shm_total


def test_shared_memory_that_cannot_be_seen_is_unavailable(tmp_path: Path) -> None:
    state = Host(tmp_path, server()).probe.sample()
    assert (state.shm_total, state.shm_free) == (None, None)
    assert [item.source for item in state.unavailable] == ["host: /dev/shm"]


def test_this_machine_has_memory() -> None:
    state = HostProbe(listing=tuple).sample()
    assert state.memory_total and state.memory_available
    assert 0 < state.memory_available <= state.memory_total


def test_a_process_that_may_not_be_asked_costs_its_memory_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Played) -> None:
        raise psutil.AccessDenied(self._pid)

    monkeypatch.setattr(Played, "memory_info", refuse)
    assert Host(tmp_path, engine()).probe.sample().processes == ((101, "VLLM::EngineCore", "sleeping", None),)

"""The timer over the probes: never late, never blocked, nothing told twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from vlogdiag.live.metrics import ServerMetrics
from vlogdiag.live.nvml import NvmlProbe, NvmlSample
from vlogdiag.live.probes import REOPEN_AFTER, GpuProbe, probes_for
from vlogdiag.live.sampler import Sampler, in_thread, take
from vlogdiag.model import Gpu, Reading, Unavailable, Xid


class Played:
    """A probe that answers what it is told."""

    def __init__(self, name: str, every: float, *parts: Reading) -> None:
        self.name = name
        self.every = every
        self.parts = list(parts)
        self.asked = 0
        self.closed = False

    def sample(self) -> Reading:
        self.asked += 1
        return self.parts.pop(0) if len(self.parts) > 1 else self.parts[0]

    def close(self) -> None:
        self.closed = True


class Broken(Played):
    def sample(self) -> Reading:
        raise ZeroDivisionError("a fault of ours")


class Jobs:
    """Runs jobs when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, job: Callable[[], None]) -> None:
        self.waiting.append(job)

    def run(self) -> None:
        for job in self.waiting:
            job()
        self.waiting.clear()


def at_once(job: Callable[[], None]) -> None:
    job()


def gpu(index: int = 0) -> Reading:
    return Reading(None, gpus=(Gpu(index),))


def metrics(running: float) -> Reading:
    return Reading(None, metrics=ServerMetrics(running=running))


def test_one_reading_an_interval_with_the_logs_time() -> None:
    now = [0.0]
    sampler = Sampler([Played("nvml", 2, gpu())], lambda: now[0], 2.0, start=at_once, stamp=lambda: "04-03 15:05:56")
    seen = []
    for tenth in range(61):
        now[0] = tenth / 10
        reading = sampler.poll(1000 + now[0])
        if reading is not None:
            seen.append(reading)
    assert [reading.time for reading in seen] == [1000.0, 1002.0, 1004.0, 1006.0]
    assert {reading.stamp for reading in seen} == {"04-03 15:05:56"}


def test_a_slow_probe_is_not_asked_as_often_and_its_last_answer_counts() -> None:
    now = [0.0]
    server = Played("metrics", 10, metrics(1), metrics(2))
    sampler = Sampler([Played("nvml", 2, gpu()), server], lambda: now[0], 2.0, start=at_once)
    running = []
    for second in range(0, 14, 2):
        now[0] = second
        reading = sampler.poll(None)
        assert reading is not None and reading.metrics is not None
        running.append(reading.metrics.running)
    assert running == [1, 1, 1, 1, 1, 2, 2]
    assert server.asked == 2


def test_an_event_is_told_once() -> None:
    now = [0.0]
    seldom = Played("nvml", 10, Reading(None, xids=(Xid(0, 79),)))
    sampler = Sampler([Played("host", 2, gpu()), seldom], lambda: now[0], 2.0, start=at_once)
    told = []
    for second in (0, 2, 4):
        now[0] = second
        reading = sampler.poll(None)
        assert reading is not None
        told.append(reading.xids)
    assert told == [(Xid(0, 79),), (), ()]


def test_a_round_waits_for_its_probes_without_blocking() -> None:
    now, jobs = [0.0], Jobs()
    sampler = Sampler([Played("nvml", 2, gpu())], lambda: now[0], 2.0, start=jobs)
    assert sampler.poll(1.0) is None
    now[0] = 0.5
    assert sampler.poll(1.5) is None
    jobs.run()
    reading = sampler.poll(2.0)
    assert reading is not None
    assert (reading.time, reading.gpus) == (1.0, (Gpu(0),))


def test_a_probe_that_hangs_is_missing_and_the_others_are_there() -> None:
    now, jobs = [0.0], Jobs()
    starts = iter([at_once, jobs])
    probes = [Played("nvml", 2, gpu()), Played("metrics", 2, metrics(1))]
    sampler = Sampler(probes, lambda: now[0], 2.0, limit=1.5, start=lambda job: next(starts)(job))
    assert sampler.poll(None) is None
    now[0] = 1.5
    reading = sampler.poll(None)
    assert reading is not None
    assert reading.gpus == (Gpu(0),)
    assert reading.unavailable == (Unavailable("metrics", "no answer within 1.5 s"),)


def test_a_probe_that_still_hangs_is_neither_asked_again_nor_waited_for() -> None:
    now, jobs = [0.0], Jobs()
    starts = iter([at_once, jobs, at_once])
    hanging = Played("metrics", 2, metrics(1))
    sampler = Sampler([Played("nvml", 2, gpu()), hanging], lambda: now[0], 2.0, start=lambda job: next(starts)(job))
    sampler.poll(None)
    now[0] = 1.5
    sampler.poll(None)
    now[0] = 2.0
    reading = sampler.poll(None)
    assert reading is not None
    assert reading.gpus == (Gpu(0),)
    assert [item.source for item in reading.unavailable] == ["metrics"]
    assert len(jobs.waiting) == 1


def test_a_probe_that_comes_back_is_heard_again() -> None:
    now, jobs = [0.0], Jobs()
    sampler = Sampler([Played("metrics", 2, metrics(1))], lambda: now[0], 2.0, limit=1.0, start=jobs)
    sampler.poll(None)
    now[0] = 1.0
    reading = sampler.poll(None)
    assert reading is not None and reading.metrics is None
    jobs.run()
    now[0] = 2.0
    sampler.poll(None)
    jobs.run()
    reading = sampler.poll(None)
    assert reading is not None and reading.metrics == ServerMetrics(running=1)


def test_a_fault_of_a_probe_costs_its_part_only() -> None:
    probes = [Broken("host", 2, gpu()), Played("nvml", 2, gpu())]
    reading = Sampler(probes, lambda: 0.0, 2.0, start=at_once).poll(None)
    assert reading is not None
    assert reading.gpus == (Gpu(0),)
    assert reading.unavailable == (Unavailable("host", "ZeroDivisionError: a fault of ours"),)


def test_after_a_pause_of_the_machine_there_is_one_reading_not_many() -> None:
    now = [0.0]
    sampler = Sampler([Played("nvml", 2, gpu())], lambda: now[0], 2.0, start=at_once)
    sampler.poll(None)
    now[0] = 3600.0
    assert sampler.poll(None) is not None
    assert sampler.poll(None) is None


def test_closing_closes_the_probes() -> None:
    probe = Played("nvml", 2, gpu())
    Sampler([probe], lambda: 0.0).close()
    assert probe.closed


def test_poll_returns_at_once_while_a_real_thread_hangs() -> None:
    release = threading.Event()

    class Hanging(Played):
        def sample(self) -> Reading:
            release.wait(10)
            return gpu()

    sampler = Sampler([Hanging("nvml", 2, gpu())], limit=0.05)
    began = time.perf_counter()
    polls = 0
    reading = None
    while reading is None:
        reading = sampler.poll(None)
        polls += 1
    assert reading.unavailable == (Unavailable("nvml", "no answer within 0.05 s"),)
    assert time.perf_counter() - began < 1
    assert polls > 10
    release.set()


def test_one_reading_now_waits_for_all_probes() -> None:
    probes = [Played("nvml", 2, gpu()), Played("metrics", 10, metrics(3))]
    reading = take(probes, limit=5, stamp="now")
    assert reading == Reading(None, "now", gpus=(Gpu(0),), metrics=ServerMetrics(running=3))
    assert all(probe.closed for probe in probes)


def test_one_reading_now_does_not_wait_for_ever() -> None:
    release = threading.Event()

    class Hanging(Played):
        def sample(self) -> Reading:
            release.wait(10)
            return gpu()

    reading = take([Hanging("nvml", 2, gpu()), Played("metrics", 10, metrics(3))], limit=0.1, stamp="now")
    assert reading.metrics == ServerMetrics(running=3)
    assert reading.unavailable == (Unavailable("nvml", "no answer within 0.1 s"),)
    release.set()


def test_a_job_does_not_keep_the_process_alive() -> None:
    release = threading.Event()
    in_thread(lambda: bool(release.wait(10)))
    started = [thread for thread in threading.enumerate() if thread.name == "vlogdiag-probe"]
    assert started and all(thread.daemon for thread in started)
    release.set()


class Driver(NvmlProbe):
    """An open driver; only what GpuProbe calls."""

    def __init__(self) -> None:
        self.dead_ = False
        self.closed = False

    @property
    def dead(self) -> bool:
        return self.dead_

    def sample(self, *, limit: float = 1.0) -> NvmlSample:
        return NvmlSample(gpus=(Gpu(0),))

    def close(self) -> None:
        self.closed = True


def test_a_machine_without_driver_says_so_with_every_reading_and_tries_seldom() -> None:
    now, tries = [0.0], []

    def fail() -> Unavailable:
        tries.append(now[0])
        return Unavailable("nvml", "no NVIDIA driver library")

    probe = GpuProbe(open_driver=fail, monotonic=lambda: now[0])
    for second in range(0, int(REOPEN_AFTER) + 4, 2):
        now[0] = second
        assert probe.sample().unavailable == (Unavailable("nvml", "no NVIDIA driver library"),)
    assert tries == [0.0, REOPEN_AFTER]


def test_a_worker_that_died_is_replaced_after_a_while() -> None:
    now, opened = [0.0], []

    def start() -> Driver:
        opened.append(Driver())
        return opened[-1]

    probe = GpuProbe(open_driver=start, monotonic=lambda: now[0])
    probe.sample()
    opened[0].dead_ = True
    now[0] = 2.0
    probe.sample()
    assert len(opened) == 1
    now[0] = REOPEN_AFTER
    assert probe.sample().gpus == (Gpu(0),)
    assert len(opened) == 2 and opened[0].closed
    probe.close()
    assert opened[1].closed


def test_a_driver_that_opens_after_the_probe_was_closed_is_closed_too() -> None:
    late = Driver()

    def slow() -> Driver:
        probe.close()  # the user pressed Ctrl-C while the driver was being opened
        return late

    probe = GpuProbe(open_driver=slow, monotonic=lambda: 0.0)
    assert probe.sample() == Reading(None)
    assert late.closed


def test_the_server_is_asked_only_where_its_address_is_known() -> None:
    assert [probe.name for probe in probes_for(None)] == ["nvml", "host"]
    assert [probe.name for probe in probes_for("http://127.0.0.1:8000/metrics")] == ["nvml", "metrics", "host"]

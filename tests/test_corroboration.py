"""What the machine said just before: recorded scenarios through the whole pipeline, and that readings decide nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from scenarios import Scenario, scenarios

from vlogdiag.corroboration import AFTER_S, KEPT, STALE_S, Readings
from vlogdiag.live.readings import read_lines, to_line
from vlogdiag.loading import Rules
from vlogdiag.model import Finding, Gpu, HostState, Reading, Xid
from vlogdiag.pipeline import Pipeline, Result

ALL = scenarios()


def run(rules: Rules, log: str, readings: Sequence[Reading] = (), *, cut: int | None = None) -> Result:
    """The log with its readings; `cut` observes each when the log has come that far, as tail does."""
    pipeline = Pipeline(rules, source="vllm.log")
    if cut is None:
        pipeline.replay(readings)
        pipeline.feed(log.encode())
        return pipeline.close()
    waiting = sorted(readings, key=lambda r: r.time or 0.0)
    for line in log.splitlines(keepends=True):
        pipeline.feed(line.encode())
        pipeline.arrived(0.0)
        while waiting and (pipeline.clock.now or 0.0) >= (waiting[0].time or 0.0):
            pipeline.observe(waiting.pop(0))
        if cut:
            pipeline.peek()
    for reading in waiting:
        pipeline.observe(reading)
    return pipeline.close()


def said(finding: Finding) -> str:
    return "\n".join(e.text for e in finding.evidence if e.kind == "reading")


def ids(result: Result) -> list[tuple[str, int, str]]:
    return [(f.id, f.count, f.severity.word) for f in result.findings]


def test_there_are_enough() -> None:
    assert len(ALL) >= 15


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_scenario(shipped: Rules, scenario: Scenario) -> None:
    expect = scenario.expect
    result = run(shipped, scenario.log, scenario.readings)
    assert [f.id for f in result.findings] == [expect["id"]]
    (finding,) = result.findings
    for fragment in expect["says"]:
        assert fragment in said(finding)
    for fragment in expect.get("never", ()):
        assert fragment not in said(finding)
    assert {e.time for e in finding.evidence if e.kind == "reading"} <= {r.stamp for r in scenario.readings}
    if "confidence" in expect:
        assert finding.confidence.word == expect["confidence"]
    first = finding.fixes[0]
    if "fix" in expect:
        assert first.title == expect["fix"]
    if "flags" in expect:
        assert dict(first.flags) == expect["flags"]
    if "env" in expect:
        assert dict(first.env) == expect["env"]


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_it_matters(shipped: Rules, scenario: Scenario) -> None:
    """Without its readings the same finding says less: else the scenario would test nothing."""
    (alone,) = run(shipped, scenario.log).findings
    (beside,) = run(shipped, scenario.log, scenario.readings).findings
    assert said(alone) == ""
    assert said(beside) != ""
    assert alone == replace(
        beside,
        evidence=alone.evidence,
        confidence=alone.confidence,
        fixes=alone.fixes,
    )


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_a_recording_says_to_the_letter_what_was_said_live(shipped: Rules, scenario: Scenario) -> None:
    recorded = tuple(read_lines([to_line(r) for r in scenario.readings]))
    assert recorded == scenario.readings
    live = run(shipped, scenario.log, scenario.readings, cut=1)
    assert run(shipped, scenario.log, recorded).findings == live.findings


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
def test_readings_never_decide_whether_a_finding_exists(shipped: Rules, scenario: Scenario) -> None:
    """The readings of all other scenarios, moved to this one's time: other words, the same findings."""
    alone = ids(run(shipped, scenario.log))
    moment = max(r.time or 0.0 for r in scenario.readings)
    for other in ALL:
        moved = tuple(replace(r, time=moment - 0.5 * n) for n, r in enumerate(reversed(other.readings)))
        assert ids(run(shipped, scenario.log, sorted(moved, key=lambda r: r.time or 0.0))) == alone


@pytest.mark.parametrize("scenario", ALL, ids=lambda s: s.name)
@pytest.mark.parametrize("shift", [-3 * STALE_S - 660, 3600.0], ids=["long before", "after"])
def test_readings_of_another_time_say_nothing(shipped: Rules, scenario: Scenario, shift: float) -> None:
    moved = [replace(r, time=(r.time or 0.0) + shift) for r in scenario.readings]
    assert run(shipped, scenario.log, moved, cut=0).findings == run(shipped, scenario.log).findings


# --- which reading


def gpu_reading(time: float | None, used: int = 1, **more: object) -> Reading:
    return Reading(time, gpus=(Gpu(0, used=used),), **more)  # type: ignore[arg-type]


def kept(*readings: Reading) -> Readings:
    found = Readings()
    for reading in readings:
        found.add(reading)
    return found


def test_the_nearest_before_counts_and_never_one_after() -> None:
    found = kept(gpu_reading(10, 1), gpu_reading(12, 2), gpu_reading(14, 3))
    assert [r and r.gpus[0].used for r in (found.at(9.9), found.at(12), found.at(13.9), found.at(100))] == [
        None,
        2,
        2,
        3,
    ]


def test_an_old_reading_says_nothing() -> None:
    assert kept(gpu_reading(10)).at(10 + STALE_S) is not None
    assert kept(gpu_reading(10)).at(11 + STALE_S) is None


def test_a_reading_without_a_time_counts_for_everything() -> None:
    assert kept(gpu_reading(None, 7)).at(5.0) == kept(gpu_reading(None, 7)).at(None) == gpu_reading(None, 7)


def test_what_was_looked_up_once_stays_though_newer_readings_push_it_out() -> None:
    found = kept(gpu_reading(10, 1))
    before = found.at(11)
    for second in range(2 * KEPT):
        found.add(gpu_reading(12.0 + second, 2))
    assert found.at(11) == before


def test_a_reading_that_comes_late_but_was_made_before_counts() -> None:
    found = kept(gpu_reading(10, 1))
    found.at(20)
    revision = found.revision
    found.add(gpu_reading(19, 2))
    looked = found.at(20)
    assert looked is not None
    assert looked.gpus[0].used == 2
    assert found.revision > revision


def test_xids_a_lost_card_and_the_kernels_kills_show_a_moment_later() -> None:
    later = Reading(20 + AFTER_S - 1, gpus=(Gpu(0, lost=True),), host=HostState(oom_kills=2), xids=(Xid(0, 79),))
    for found in (
        kept(gpu_reading(19, 5, host=HostState(oom_kills=1)), later),
        kept(gpu_reading(19, 5, host=HostState(oom_kills=1))),
    ):
        found.at(20)
        found.add(later)
        looked = found.at(20)
        assert looked is not None
        assert looked.gpus[0].lost
        assert looked.gpus[0].used == 5  # its memory is that of before
        assert looked.xids == (Xid(0, 79),)
        assert looked.host == HostState(oom_kills=2)


def test_an_xid_of_minutes_before_is_remembered_and_one_of_hours_before_is_not() -> None:
    readings = [gpu_reading(0.0, xids=(Xid(0, 13),)), gpu_reading(7000.0, xids=(Xid(0, 74),))]
    readings += [gpu_reading(7000.0 + 2 * n) for n in range(1, 300)]
    looked = kept(*readings).at(7600)
    assert looked is not None
    assert looked.xids == (Xid(0, 74),)


def test_a_recording_is_read_no_further_than_the_log_has_come() -> None:
    read: list[float] = []

    def recording() -> object:
        for second in range(1000):
            read.append(second)
            yield gpu_reading(float(second), second)

    found = Readings()
    found.replay(recording())  # type: ignore[arg-type]
    looked = found.at(100.5)
    assert looked is not None
    assert looked.gpus[0].used == 100
    assert len(read) <= 100.5 + AFTER_S + 2
    assert found.last() == 999.0


def test_a_recording_of_several_logs_is_taken_by_the_log_it_names(shipped: Rules) -> None:
    scenario = next(s for s in ALL if s.name == "oom-foreign-process")
    for name, heard in (("elsewhere/vllm.log", True), ("other.log", False)):
        readings = [replace(r, log=name) for r in scenario.readings]
        (finding,) = run(shipped, scenario.log, readings).findings
        assert ("pid 4711" in said(finding)) is heard


def test_a_number_that_only_the_driver_knew_is_cited(shipped: Rules) -> None:
    log = (
        "(APIServer pid=1) INFO 04-03 15:05:01 [utils.py:233] non-default args: {'model': 'm', 'gpu_memory_utilization': 0.9}\n"
        "(EngineCore_DP0 pid=229) ERROR 04-03 15:05:56 [core.py:700] ValueError: To serve at least one request with the "
        "models's max seq len (131072), (11.00 GiB KV cache is needed, which is larger than the available KV cache memory "
        "(9.83 GiB). Based on the available memory, the estimated maximum model length is 80512.\n"
    )
    card = Gpu(0, total=80 * 2**30, used=70 * 2**30)
    (alone,) = run(shipped, log).findings
    (beside,) = run(shipped, log, [Reading(None, stamp="x", gpus=(card,))]).findings
    more = {"--gpu-memory-utilization": "0.92"}
    assert more not in [dict(f.flags) for f in alone.fixes]
    assert more in [dict(f.flags) for f in beside.fixes]
    assert said(beside) == "GPU 0: 70.0 of 80.0 GiB used"

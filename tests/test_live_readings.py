"""Recordings: what is written is read back, what is wrong is named with its line."""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlogdiag.live.readings import FORMAT, ReadingError, decode, encode, read_lines, to_line
from vlogdiag.model import Gpu, HostState, Process, Reading, ServerMetrics, Unavailable, Xid

GIB = 2**30

FULL = Reading(
    time=1234.5,
    stamp="04-03 15:05:56",
    gpus=(
        Gpu(
            0,
            name="NVIDIA L4",
            uuid="GPU-1",
            bus_id="00000000:01:00.0",
            total=24 * GIB,
            used=20 * GIB,
            free=4 * GIB,
            reserved=GIB,
            utilization=0.97,
            memory_utilization=0.5,
            power=70.5,
            power_limit=72.0,
            sm_clock=1500,
            sm_clock_max=2040,
            throttle=("sw_power_cap",),
            temperature=80,
            ecc_volatile=0,
            ecc_aggregate=1,
            remapped_rows=0,
            remap_failed=False,
            nvlinks_down=0,
            pcie_generation=4,
            pcie_width=16,
            mig=False,
            mig_devices=(("MIG-1", 10, None),),
            processes=(Process(4711, 8 * GIB, "python train.py"), Process(5)),
            lost=False,
            unavailable=(Unavailable("nvml: GPU 0 power", "no permission"),),
        ),
        Gpu(1, throttle=(), processes=(), lost=True),
    ),
    metrics=ServerMetrics(
        running=1.0,
        waiting=2.0,
        kv_usage=0.5,
        preemptions=3.0,
        generation_tokens=4.0,
        prompt_tokens=5.0,
        requests_finished=6.0,
        e2e_latency_mean=0.1,
        ttft_mean=0.2,
        queue_time_mean=0.3,
        inter_token_latency_mean=0.4,
        healthy=True,
        unavailable=(Unavailable("health", "HTTP 404"),),
    ),
    host=HostState(
        memory_total=64 * GIB,
        memory_available=GIB,
        cgroup_limit=32 * GIB,
        cgroup_used=31 * GIB,
        oom_kills=1,
        shm_total=64 * 2**20,
        shm_free=0,
        processes=((101, "VLLM::EngineCore", "disk-sleep", None),),
        unavailable=(Unavailable("host: memory", "no"),),
    ),
    xids=(Xid(0, 79),),
    unavailable=(Unavailable("metrics", "no answer within 1.5 s"),),
)
# The format is a contract with recordings on other people's disks: this text is written by hand and changes with a number.
WRITTEN = {
    "format": "vlogdiag.reading/1",
    "time": 1234.5,
    "stamp": "04-03 15:05:56",
    "gpus": [
        {
            "index": 0,
            "name": "NVIDIA L4",
            "uuid": "GPU-1",
            "bus_id": "00000000:01:00.0",
            "total": 25769803776,
            "used": 21474836480,
            "free": 4294967296,
            "reserved": 1073741824,
            "utilization": 0.97,
            "memory_utilization": 0.5,
            "power": 70.5,
            "power_limit": 72.0,
            "sm_clock": 1500,
            "sm_clock_max": 2040,
            "throttle": ["sw_power_cap"],
            "temperature": 80,
            "ecc_volatile": 0,
            "ecc_aggregate": 1,
            "remapped_rows": 0,
            "remap_failed": False,
            "nvlinks_down": 0,
            "pcie_generation": 4,
            "pcie_width": 16,
            "mig": False,
            "mig_devices": [["MIG-1", 10, None]],
            "processes": [{"pid": 4711, "memory": 8589934592, "command": "python train.py"}, {"pid": 5}],
            "lost": False,
            "unavailable": [{"source": "nvml: GPU 0 power", "reason": "no permission"}],
        },
        {"index": 1, "throttle": [], "mig_devices": [], "processes": [], "lost": True, "unavailable": []},
    ],
    "metrics": {
        "running": 1.0,
        "waiting": 2.0,
        "kv_usage": 0.5,
        "preemptions": 3.0,
        "generation_tokens": 4.0,
        "prompt_tokens": 5.0,
        "requests_finished": 6.0,
        "e2e_latency_mean": 0.1,
        "ttft_mean": 0.2,
        "queue_time_mean": 0.3,
        "inter_token_latency_mean": 0.4,
        "healthy": True,
        "unavailable": [{"source": "health", "reason": "HTTP 404"}],
    },
    "host": {
        "memory_total": 68719476736,
        "memory_available": 1073741824,
        "cgroup_limit": 34359738368,
        "cgroup_used": 33285996544,
        "oom_kills": 1,
        "shm_total": 67108864,
        "shm_free": 0,
        "processes": [[101, "VLLM::EngineCore", "disk-sleep", None]],
        "unavailable": [{"source": "host: memory", "reason": "no"}],
    },
    "xids": [{"gpu": 0, "code": 79}],
    "unavailable": [{"source": "metrics", "reason": "no answer within 1.5 s"}],
}

SIMPLE = {
    bool: st.booleans(),
    int: st.integers(0, 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=8),
    type(None): st.none(),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that stands in the model; lists are short, for the sake of time."""
    if hint in SIMPLE:
        return SIMPLE[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint)
        return st.builds(hint, **{name: values(kind) for name, kind in hints.items()})
    parts = get_args(hint)
    if get_origin(hint) is not tuple:
        return st.one_of(*map(values, parts))
    return st.lists(values(parts[0]), max_size=2).map(tuple) if parts[-1] is ... else st.tuples(*map(values, parts))


readings = values(Reading)
few = settings(max_examples=40)


def test_the_written_form_is_pinned() -> None:
    assert encode(FULL) == WRITTEN


def test_a_recording_is_read_back() -> None:
    assert decode(WRITTEN) == FULL


@few
@given(readings)
def test_what_is_written_is_read_back(reading: Reading) -> None:
    assert decode(encode(reading)) == reading
    assert list(read_lines([to_line(reading)])) == [reading]


@few
@given(st.lists(readings, max_size=3))
def test_a_recording_is_one_line_a_reading(taken: list[Reading]) -> None:
    text = "".join(map(to_line, taken))
    assert text.count("\n") == len(taken)
    assert list(read_lines(text.splitlines(keepends=True))) == taken


@few
@given(readings)
def test_unknown_keys_of_a_newer_version_are_ignored(reading: Reading) -> None:
    newer = encode(reading) | {"new": [1, {"deep": None}]}
    newer["gpus"] = [gpu | {"fan": 0.5} for gpu in newer.get("gpus", [])]
    assert decode(newer) == reading


def test_unknown_and_none_are_kept_apart() -> None:
    unknown, none = Gpu(0), Gpu(0, throttle=(), processes=())
    assert decode(encode(Reading(None, gpus=(unknown, none)))).gpus == (unknown, none)


def test_a_number_that_json_cannot_hold_is_unknown() -> None:
    assert decode(encode(Reading(None, gpus=(Gpu(0, power=float("nan")),)))).gpus == (Gpu(0),)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"format": "vlogdiag.reading/2"}, "expected format 'vlogdiag.reading/1', got 'vlogdiag.reading/2'"),
        ({"format": None}, "expected format 'vlogdiag.reading/1', got None"),
        ({"time": "now"}, "Expected `float | null`, got `str` - at `$.time`"),
        ({"gpus": [{"index": "0"}]}, "Expected `int`, got `str` - at `$.gpus[0].index`"),
        ({"gpus": [{"total": 5}]}, "Object missing required field `index` - at `$.gpus[0]`"),
        ({"gpus": [{"index": 0, "lost": 1}]}, "Expected `bool`, got `int` - at `$.gpus[0].lost`"),
        ({"gpus": {}}, "Expected `array`, got `object` - at `$.gpus`"),
        ({"host": {"processes": [[1, "a"]]}}, "Expected `array` of length 4, got 2 - at `$.host.processes[0]`"),
        ({"metrics": 5}, "Expected `object | null`, got `int` - at `$.metrics`"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(changed: dict[str, object], reason: str) -> None:
    with pytest.raises(ReadingError) as caught:
        decode({"format": FORMAT, "time": None} | changed, line=7)
    assert (caught.value.line, caught.value.reason) == (7, reason)
    assert str(caught.value) == f"line 7: {reason}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{broken", "not JSON"),
        ('{"format": "vlogdiag.reading/1", "time": 1', "not JSON"),
        ("[1, 2]", "expected an object"),
        ("5", "expected an object"),
        ("04-03 15:05:56 INFO not a recording at all", "not JSON"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_a_line_that_is_no_reading_is_named(text: str | bytes, reason: str) -> None:
    good = to_line(Reading(1.0))
    with pytest.raises(ReadingError, match=reason) as caught:
        list(read_lines([good.encode(), b"\n", text]))
    assert caught.value.line == 3


def test_time_is_written_though_unknown() -> None:
    assert json.loads(to_line(Reading(None)))["time"] is None

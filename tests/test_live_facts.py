"""Readings as rules see them: what is known, what is not, and which card is meant."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from vlogdiag.live.describe import describe, describe_gpu, describe_missing
from vlogdiag.live.facts import foreign_processes, reading_values
from vlogdiag.model import Gpu, HostState, Process, Reading, ServerMetrics, Unavailable, Xid
from vlogdiag.signatures.names import LIVE_ROOTS, NAMES
from vlogdiag.values import Kind

GIB = 2**30
OWN = frozenset((229,))

ENGINE = Process(229, 14 * GIB, "VLLM::EngineCore")
TRAINING = Process(4711, 8 * GIB, "python train.py")
DESKTOP = Process(900, GIB // 2, "Xorg")
HIDDEN = Process(77, 3 * GIB, None)
OTHER_SERVER = Process(88, 3 * GIB, "vllm serve other")

CARD = Gpu(
    0,
    name="NVIDIA GeForce RTX 4090",
    total=24 * GIB,
    used=22 * GIB,
    free=2 * GIB,
    utilization=0.31,
    power=90.0,
    power_limit=300.0,
    temperature=62,
    throttle=(),
    ecc_volatile=0,
    remap_failed=False,
    processes=(ENGINE, TRAINING),
)


def values(reading: Reading, gpu: int | None = 0, own: frozenset[int] = OWN) -> dict[str, object]:
    return {name: value for name, (value, _) in reading_values(reading, gpu, own).items()}


def of(*gpus: Gpu, **more: object) -> Reading:
    return Reading(10.0, gpus=gpus, **more)  # type: ignore[arg-type]


def cards(*utilization: float | None, **more: object) -> tuple[Gpu, ...]:
    process = Process(229, GIB, "VLLM::Worker")
    return tuple(
        replace(Gpu(index, utilization=share, processes=(process,)), **more) for index, share in enumerate(utilization)
    )


def test_every_live_name_has_a_value_or_is_unknown() -> None:
    live = {name for name in NAMES if name.split(".")[0] in LIVE_ROOTS}
    assert set(reading_values(of(CARD), 0, OWN)) == live
    assert set(reading_values(Reading(None), None, OWN)) == live


def test_an_empty_reading_knows_nothing() -> None:
    assert set(values(Reading(None), None).values()) == {None}


def test_kinds_are_those_of_the_table() -> None:
    told = reading_values(of(CARD), 0, OWN)
    assert told["gpu.used"] == (22 * GIB, Kind.SIZE)
    assert told["gpu.utilization"] == (0.31, Kind.PERCENT)
    assert told["gpu.throttle"] == ("", Kind.TEXT)
    assert told["gpu.power_share"] == (0.3, Kind.PERCENT)


@pytest.mark.parametrize(
    ("why", "processes", "own", "expected"),
    [
        ("a training run", (ENGINE, TRAINING), OWN, (1, 8 * GIB, 4711, "python train.py")),
        (
            "two strangers: the larger is named, the sum is told",
            (TRAINING, DESKTOP),
            OWN,
            (2, 8.5 * GIB, 4711, "python train.py"),
        ),
        ("nobody else", (ENGINE,), OWN, (0, 0, None, None)),
        ("an empty card", (), OWN, (0, 0, None, None)),
        (
            "own by number, though its command says nothing",
            (Process(229, GIB, "python -c …"),),
            OWN,
            (0, 0, None, None),
        ),
        ("another vLLM may be a worker of ours", (ENGINE, OTHER_SERVER), OWN, (0, 0, None, None)),
        ("a hidden command may be ours", (ENGINE, HIDDEN), OWN, (None, None, None, None)),
        (
            "a stranger beside a hidden one is still a stranger",
            (HIDDEN, TRAINING),
            OWN,
            (1, 8 * GIB, 4711, "python train.py"),
        ),
        ("no process ids from the log", (ENGINE, TRAINING), frozenset(), (1, 8 * GIB, 4711, "python train.py")),
        ("the driver shows no processes", None, OWN, (None, None, None, None)),
        ("a stranger of unknown size", (Process(5, None, "Xorg"),), OWN, (1, None, 5, "Xorg")),
    ],
)
def test_who_else_is_on_the_card(
    why: str, processes: tuple[Process, ...] | None, own: frozenset[int], expected: tuple[object, ...]
) -> None:
    told = values(of(replace(CARD, processes=processes)), 0, own)
    names = ("foreign_count", "foreign_memory", "foreign_pid", "foreign_command")
    assert tuple(told[f"gpu.{name}"] for name in names) == expected, why


@pytest.mark.parametrize(
    ("why", "gpus", "index", "expected"),
    [
        ("the one the log names", (CARD, replace(CARD, index=1, used=GIB)), 1, 1),
        ("one that NVML does not show", (CARD,), 5, None),
        ("the only one there is", (replace(CARD, index=3, processes=None),), None, 3),
        ("the one on which vLLM runs", (replace(CARD, processes=(TRAINING,)), replace(CARD, index=1)), None, 1),
        (
            "the fullest on which vLLM runs",
            (replace(CARD, used=20 * GIB), replace(CARD, index=1, used=21 * GIB)),
            None,
            1,
        ),
        (
            "not a full one that is somebody else's",
            (replace(CARD, used=5 * GIB), replace(CARD, index=1, used=24 * GIB, processes=(TRAINING,))),
            None,
            0,
        ),
        ("vLLM is seen nowhere: unknown", cards(0.5, 0.5, processes=None), None, None),
    ],
)
def test_which_card_is_meant(why: str, gpus: tuple[Gpu, ...], index: int | None, expected: int | None) -> None:
    assert values(of(*gpus), index)["gpu.index"] == expected, why


@pytest.mark.parametrize(
    ("utilization", "expected"),
    [
        ((1.0, 1.0), {"all_busy": True, "all_idle": False, "one_idle": False, "straggler": None}),
        ((0.0, 0.02), {"all_busy": False, "all_idle": True, "one_idle": False, "straggler": None}),
        ((1.0, 0.0, 1.0, 1.0), {"all_busy": False, "all_idle": False, "one_idle": True, "straggler": 1}),
        ((1.0, 0.0), {"all_busy": False, "all_idle": False, "one_idle": True, "straggler": 1}),
        ((0.0, 0.0, 1.0), {"all_busy": False, "all_idle": False, "one_idle": False, "straggler": 2}),
        ((1.0, 0.0, 0.0, 1.0), {"all_busy": False, "all_idle": False, "one_idle": False, "straggler": None}),
        ((0.5, 0.5), {"all_busy": False, "all_idle": False, "one_idle": False, "straggler": None}),
        ((1.0, 0.5, 0.0), {"all_busy": False, "all_idle": False, "one_idle": False, "straggler": None}),
        ((1.0,), {"all_busy": True, "all_idle": False, "one_idle": False, "straggler": None}),
        ((0.95, 0.951), {"all_busy": True}),
        ((0.94, 1.0), {"all_busy": False}),
        ((1.0, None), {"all_busy": None, "all_idle": False, "one_idle": None, "straggler": None}),
        ((0.5, None), {"all_busy": False, "all_idle": False, "one_idle": None}),
    ],
)
def test_busy_idle_and_the_odd_one(utilization: tuple[float | None, ...], expected: dict[str, object]) -> None:
    told = values(of(*cards(*utilization)), None)
    assert {name: told[f"gpu.{name}"] for name in expected} == expected


def test_cards_that_the_run_does_not_use_do_not_count() -> None:
    idle = tuple(Gpu(index, utilization=0.0, processes=()) for index in range(4, 8))
    told = values(of(*cards(1.0, 1.0, 1.0, 0.0), *idle), None)
    assert (told["gpu.straggler"], told["gpu.one_idle"], told["gpu.all_idle"]) == (3, True, False)


def test_where_vllm_is_seen_nowhere_all_cards_count() -> None:
    assert values(of(*cards(1.0, 1.0, processes=None)), None)["gpu.all_busy"] is True


@pytest.mark.parametrize(
    ("throttle", "expected"),
    [
        (("hw_power_brake_slowdown",), True),
        (("hw_thermal_slowdown", "sw_power_cap"), True),
        (("sw_thermal_slowdown",), True),
        (("sw_power_cap",), False),
        (("gpu_idle",), False),
        ((), False),
        (None, None),
    ],
)
def test_a_card_at_its_power_limit_is_not_throttled(throttle: tuple[str, ...] | None, expected: bool | None) -> None:
    assert values(of(*cards(0.9, throttle=throttle)))["gpu.any_throttled"] is expected


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (replace(CARD, ecc_volatile=1), True),
        (replace(CARD, remap_failed=True), True),
        (replace(CARD, ecc_volatile=None, remap_failed=True), True),
        (replace(CARD, ecc_aggregate=9), False),
        (replace(CARD, ecc_volatile=None, remap_failed=None), None),
    ],
)
def test_ecc_errors_of_an_earlier_life_prove_nothing(gpu: Gpu, expected: bool | None) -> None:
    assert values(of(gpu))["gpu.any_ecc"] is expected


def test_the_last_xid_is_told() -> None:
    told = values(of(CARD, xids=(Xid(0, 31), Xid(0, 79))))
    assert (told["gpu.any_xid"], told["gpu.xid"]) == (True, 79)


def test_no_xid_and_no_ears_are_kept_apart() -> None:
    assert values(of(CARD))["gpu.any_xid"] is False
    deaf = replace(CARD, unavailable=(Unavailable("nvml: GPU 0 Xid events", "not supported by this GPU"),))
    assert values(of(deaf))["gpu.any_xid"] is None


def test_with_mig_the_instance_counts_not_the_card() -> None:
    split = replace(CARD, total=80 * GIB, used=60 * GIB, mig=True, mig_devices=(("MIG-1", 10 * GIB, 6 * GIB),))
    told = values(of(split))
    assert (told["gpu.total"], told["gpu.used"], told["gpu.free"]) == (10 * GIB, 6 * GIB, 4 * GIB)
    assert told["gpu.foreign_count"] is None


def test_with_several_mig_instances_memory_is_unknown() -> None:
    split = replace(CARD, mig=True, mig_devices=(("MIG-1", 10 * GIB, GIB), ("MIG-2", 10 * GIB, GIB)))
    told = values(of(split))
    assert (told["gpu.total"], told["gpu.used"], told["gpu.free"]) == (None, None, None)


def test_a_card_without_power_limit_has_no_share() -> None:
    assert values(of(replace(CARD, power_limit=None)))["gpu.power_share"] is None
    assert values(of(replace(CARD, power_limit=0.0)))["gpu.power_share"] is None


def test_server_and_host_are_told_as_they_stand() -> None:
    reading = of(metrics=ServerMetrics(waiting=12.0, healthy=False), host=HostState(oom_kills=2, shm_free=0))
    told = values(reading)
    assert (told["metrics.waiting"], told["metrics.healthy"], told["metrics.running"]) == (12.0, False, None)
    assert (told["host.oom_kills"], told["host.shm_free"], told["host.cgroup_limit"]) == (2, 0, None)


def test_strangers_are_listed_by_size() -> None:
    listed = foreign_processes(replace(CARD, processes=(DESKTOP, ENGINE, TRAINING)), OWN)
    assert listed == (TRAINING, DESKTOP)


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (
            replace(CARD, total=int(23.7 * GIB), used=int(22.1 * GIB), processes=(TRAINING,), power=88.0),
            "GPU 0: 22.1 of 23.7 GiB used; pid 4711 (python train.py) holds 8.0 GiB; 31 % busy, 62 °C, 88 of 300 W",
        ),
        (
            Gpu(1, used=GIB, processes=(Process(7, None, None), Process(8, 5 * 2**20, "Xorg"))),
            "GPU 1: 1.0 GiB used; pid 8 (Xorg) holds 5.00 MiB; pid 7 holds an unknown amount",
        ),
        (
            Gpu(2, utilization=1.0, power=60.0, throttle=("sw_power_cap", "hw_thermal_slowdown"), ecc_volatile=3),
            "GPU 2: 100 % busy, 60 W; slowed down by hw_thermal_slowdown, 3 uncorrected ECC errors",
        ),
        (
            Gpu(2, nvlinks_down=1, remap_failed=True),
            "GPU 2: a memory row could not be remapped, 1 NVLink down",
        ),
        (Gpu(3, lost=True), "GPU 3: lost to the driver"),
        (Gpu(4), "GPU 4: nothing known"),
    ],
)
def test_a_card_in_one_line(gpu: Gpu, expected: str) -> None:
    assert describe_gpu(gpu) == expected


def test_a_whole_reading_in_lines() -> None:
    reading = Reading(
        1.0,
        gpus=(replace(CARD, processes=()),),
        metrics=ServerMetrics(running=4.0, waiting=12.0, kv_usage=0.97, preemptions=409.0, healthy=True),
        host=HostState(
            memory_total=64 * GIB,
            memory_available=2 * GIB,
            cgroup_limit=32 * GIB,
            cgroup_used=31 * GIB,
            oom_kills=1,
            shm_total=GIB,
            shm_free=GIB // 2,
            processes=((101, "VLLM::EngineCore", "stopped", GIB), (100, "vllm serve m", "sleeping", GIB)),
        ),
        xids=(Xid(0, 79),),
    )
    assert describe(reading) == (
        "GPU 0: 22.0 of 24.0 GiB used; 31 % busy, 62 °C, 90 of 300 W",
        "server: 4 running, 12 waiting, 409 preemptions; KV cache 97 % used; /health answers 200",
        "host: 2.0 of 64.0 GiB available; container uses 31.0 of 32.0 GiB; 1 OOM kill; "
        "/dev/shm 0.5 of 1.0 GiB free; pid 101 (VLLM::EngineCore) is stopped",
        "GPU 0: Xid 79",
    )


def test_nothing_known_is_nothing_said() -> None:
    assert describe(Reading(None, metrics=ServerMetrics(), host=HostState())) == ()


def test_what_is_missing_is_told_once_each() -> None:
    missing = Unavailable("nvml", "no NVIDIA driver library (libnvidia-ml.so.1) on this machine")
    reading = Reading(
        None,
        gpus=(Gpu(0, unavailable=(Unavailable("nvml: GPU 0 power", "no permission"),)),),
        metrics=ServerMetrics(unavailable=(missing,)),
        unavailable=(missing,),
    )
    assert describe_missing(reading) == (
        "nvml: no NVIDIA driver library (libnvidia-ml.so.1) on this machine",
        "nvml: GPU 0 power: no permission",
    )

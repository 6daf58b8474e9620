"""NVML through the real binding, against a small driver that the test builds; gcc is required."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from fake_nvml import Driver, build, healthy

from vlogdiag.live.nvml import NvmlProbe, NvmlSample
from vlogdiag.live.sampler import INTERVAL
from vlogdiag.model import Gpu, Process, Unavailable, Xid

GIB = 2**30
SHORT = 0.15
"""Seconds that a test lets a hanging call hang."""

COMMANDS = {4000: "VLLM::EngineCore", 4001: "VLLM::Worker_TP1", 4711: "python train.py"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(library: Path, tmp_path: Path) -> Driver:
    return Driver(library, tmp_path / "scenario")


Open = Callable[..., NvmlProbe]


@pytest.fixture
def open_probe() -> Iterator[Open]:
    opened: list[NvmlProbe] = []

    def start(driver: Driver, **options: object) -> NvmlProbe:
        probe = NvmlProbe.open(environment=driver.environment, command=COMMANDS.get, **options)
        assert isinstance(probe, NvmlProbe), probe
        opened.append(probe)
        return probe

    yield start
    for probe in opened:
        probe.close()


def missing(gpu: Gpu) -> dict[str, str]:
    return {item.source.removeprefix(f"nvml: GPU {gpu.index} "): item.reason for item in gpu.unavailable}


def only(sample: NvmlSample) -> Gpu:
    assert len(sample.gpus) == 1, sample
    return sample.gpus[0]


def test_gcc_is_there_or_the_suite_says_so() -> None:
    assert shutil.which("gcc"), (
        "gcc is needed: the NVML tests build a small driver and load it through the real binding"
    )


def test_everything_of_a_healthy_card_is_read(driver: Driver, open_probe: Open) -> None:
    driver.play(
        healthy(
            gpu__0__name="NVIDIA H100 80GB HBM3",
            gpu__0__ecc__volatile=0,
            gpu__0__ecc__aggregate=3,
            gpu__0__rows="1,2,0,0",
            gpu__0__nvlinks="111111111111111111",
            gpu__0__mig=0,
            gpu__0__throttle="0",
        )
    )
    assert open_probe(driver).sample() == NvmlSample(
        gpus=(
            Gpu(
                index=0,
                name="NVIDIA H100 80GB HBM3",
                uuid="GPU-00000000-1111-2222-3333-444444444444",
                bus_id="00000000:01:00.0",
                total=24 * GIB,
                used=20 * GIB,
                free=3 * GIB,
                reserved=GIB,
                utilization=0.97,
                memory_utilization=0.6,
                power=288.5,
                power_limit=450.0,
                sm_clock=2520,
                sm_clock_max=3105,
                throttle=(),
                temperature=62,
                ecc_volatile=0,
                ecc_aggregate=3,
                remapped_rows=3,
                remap_failed=False,
                nvlinks_down=0,
                pcie_generation=4,
                pcie_width=16,
                mig=False,
                processes=(Process(4000, 20 * GIB, "VLLM::EngineCore"),),
            ),
        )
    )


def test_a_gaming_card_lacks_ecc_rows_links_and_mig(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy())
    gpu = only(open_probe(driver).sample())
    wanted = ("MIG mode", "volatile ECC errors", "aggregate ECC errors", "remapped rows", "NVLink states")
    assert missing(gpu) == dict.fromkeys(wanted, "not supported by this GPU")
    assert (gpu.ecc_volatile, gpu.remap_failed, gpu.nvlinks_down, gpu.mig) == (None, None, None, None)
    assert gpu.used == 20 * GIB


def test_several_cards_keep_their_numbers_apart(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(8, gpu__5__util=0, gpu__5__power=70_000))
    gpus = open_probe(driver).sample().gpus
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert [gpu.utilization for gpu in gpus] == [0.97] * 5 + [0.0] + [0.97] * 2
    assert gpus[5].power == 70.0
    assert len({gpu.uuid for gpu in gpus}) == len({gpu.bus_id for gpu in gpus}) == 8


def test_a_foreign_process_is_named_with_its_memory(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(gpu__0__processes=f"4711:{8 * GIB},4000:{12 * GIB}"))
    assert only(open_probe(driver).sample()).processes == (
        Process(4000, 12 * GIB, "VLLM::EngineCore"),
        Process(4711, 8 * GIB, "python train.py"),
    )


def test_a_process_that_computes_and_draws_counts_once(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(gpu__0__processes=f"4711:{8 * GIB}", gpu__0__graphics=f"4711:{8 * GIB},99:{GIB}"))
    assert only(open_probe(driver).sample()).processes == (
        Process(99, GIB, None),
        Process(4711, 8 * GIB, "python train.py"),
    )


def test_a_process_whose_memory_the_driver_does_not_know_is_kept(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(gpu__0__processes="4711"))
    assert only(open_probe(driver).sample()).processes == (Process(4711, None, "python train.py"),)


def test_an_empty_list_on_a_full_card_means_hidden_processes(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(gpu__0__processes=""))
    gpu = only(open_probe(driver).sample())
    assert gpu.processes is None
    assert "no process is visible" in missing(gpu)["processes"]


def test_an_empty_list_on_an_idle_card_is_believed(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(gpu__0__processes="", gpu__0__used=300 * 2**20))
    assert only(open_probe(driver).sample()).processes == ()


def test_throttle_reasons_have_names(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(gpu__0__throttle=hex(0x8 | 0x40 | 0x80)))
    assert only(open_probe(driver).sample()).throttle == (
        "hw_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
    )


def test_ecc_errors_and_a_failed_remap(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(gpu__0__ecc__volatile=2, gpu__0__ecc__aggregate=7, gpu__0__rows="0,5,1,1"))
    gpu = only(open_probe(driver).sample())
    assert (gpu.ecc_volatile, gpu.ecc_aggregate, gpu.remapped_rows, gpu.remap_failed) == (2, 7, 5, True)


def test_a_link_that_is_down_is_counted(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(gpu__0__nvlinks="110111"))
    assert only(open_probe(driver).sample()).nvlinks_down == 1


def test_mig_instances_have_their_own_sizes(driver: Driver, open_probe: Open) -> None:
    instances = {
        "gpu.0.mig.1.uuid": "MIG-aaaaaaaa-0000-1111-2222-333333333333",
        "gpu.0.mig.1.total": 10 * GIB,
        "gpu.0.mig.1.free": 4 * GIB,
        "gpu.0.mig.1.used": 6 * GIB,
        "gpu.0.mig.4.uuid": "MIG-bbbbbbbb-0000-1111-2222-333333333333",
        "gpu.0.mig.4.total": 20 * GIB,
        "gpu.0.mig.4.free": 20 * GIB,
        "gpu.0.mig.4.used": 0,
    }
    driver.play({**healthy(gpu__0__mig=1, gpu__0__util=None), **instances})
    gpu = only(open_probe(driver).sample())
    assert gpu.mig is True
    assert gpu.mig_devices == (
        ("MIG-aaaaaaaa-0000-1111-2222-333333333333", 10 * GIB, 6 * GIB),
        ("MIG-bbbbbbbb-0000-1111-2222-333333333333", 20 * GIB, 0),
    )
    assert gpu.utilization is None
    assert missing(gpu)["utilisation"] == "not supported by this GPU"


def test_an_xid_is_delivered_once_with_its_card(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(2))
    probe = open_probe(driver)
    assert probe.sample().xids == ()
    driver.change(xids="1:48,0:31")
    assert probe.sample().xids == (Xid(1, 48), Xid(0, 31))
    assert probe.sample().xids == ()


def test_a_card_that_throws_xids_without_end_does_not_hold_up_the_sample(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(xids=",".join(["0:31"] * 200)))
    probe = open_probe(driver)
    assert [len(probe.sample().xids) for _ in range(4)] == [64, 64, 64, 8]


def test_xid_events_that_may_not_be_registered_are_missing(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(error__nvmlDeviceRegisterEvents=3, xids="0:79"))
    sample = open_probe(driver).sample()
    assert sample.xids == ()
    assert missing(sample.gpus[0])["Xid events"] == "not supported by this GPU"


def test_a_gpu_lost_while_we_watch(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(2))
    probe = open_probe(driver)
    assert [gpu.lost for gpu in probe.sample().gpus] == [False, False]
    driver.change(lost__1=1, xids="1:79")
    first, second = probe.sample().gpus
    assert (first.lost, first.used) == (False, 20 * GIB)
    assert (second.lost, second.used, second.processes) == (True, None, None)
    assert second.name == "NVIDIA GeForce RTX 4090"
    assert ("nvml: GPU 1", "the GPU is lost") in {(item.source, item.reason) for item in second.unavailable}


def test_the_xid_of_a_lost_gpu_still_names_its_card(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(2))
    probe = open_probe(driver)
    driver.change(lost__1=1, xids="1:79")
    assert probe.sample().xids == (Xid(1, 79),)


def test_a_gpu_lost_before_we_came(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(2, lost__0=1))
    first, second = open_probe(driver).sample().gpus
    assert (first.lost, second.lost) == (True, False)


CALLS = {
    "memory": ("nvmlDeviceGetMemoryInfo_v2", ("total", "used", "free", "reserved")),
    "utilisation": ("nvmlDeviceGetUtilizationRates", ("utilization", "memory_utilization")),
    "power": ("nvmlDeviceGetPowerUsage", ("power",)),
    "power limit": ("nvmlDeviceGetEnforcedPowerLimit", ("power_limit",)),
    "clock": ("nvmlDeviceGetClockInfo", ("sm_clock",)),
    "maximum clock": ("nvmlDeviceGetMaxClockInfo", ("sm_clock_max",)),
    "throttle reasons": ("nvmlDeviceGetCurrentClocksEventReasons", ("throttle",)),
    "temperature": ("nvmlDeviceGetTemperatureV", ("temperature",)),
    "volatile ECC errors": ("nvmlDeviceGetTotalEccErrors", ("ecc_volatile", "ecc_aggregate")),
    "remapped rows": ("nvmlDeviceGetRemappedRows", ("remapped_rows", "remap_failed")),
    "NVLink states": ("nvmlDeviceGetNvLinkState", ("nvlinks_down",)),
    "PCIe generation": ("nvmlDeviceGetCurrPcieLinkGeneration", ("pcie_generation",)),
    "PCIe width": ("nvmlDeviceGetCurrPcieLinkWidth", ("pcie_width",)),
    "MIG mode": ("nvmlDeviceGetMigMode", ("mig",)),
    "processes": ("nvmlDeviceGetComputeRunningProcesses_v3", ("processes",)),
    "name": ("nvmlDeviceGetName", ("name",)),
    "UUID": ("nvmlDeviceGetUUID", ("uuid",)),
    "bus id": ("nvmlDeviceGetPciInfo_v3", ("bus_id",)),
}
COMPLETE = {
    "gpu__0__ecc__volatile": 0,
    "gpu__0__ecc__aggregate": 0,
    "gpu__0__rows": "0,0,0,0",
    "gpu__0__nvlinks": "1111",
    "gpu__0__mig": 0,
}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (3, "not supported by this GPU"),
        (4, "no permission"),
        (16, "the GPU needs a reset"),
        (999, "unknown driver error"),
    ],
)
def test_a_driver_that_refuses_everything_still_gives_a_sample(
    driver: Driver, open_probe: Open, code: int, reason: str
) -> None:
    driver.play(healthy(**COMPLETE, **{f"error__{function}": code for function, _ in CALLS.values()}))
    gpu = only(open_probe(driver).sample())
    assert missing(gpu) == dict.fromkeys([*CALLS, "aggregate ECC errors"], reason)
    assert {getattr(gpu, field) for _, fields in CALLS.values() for field in fields} == {None}


def test_a_refused_call_costs_its_own_fields_only(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(**COMPLETE))
    whole = only(open_probe(driver).sample())
    assert whole.unavailable == ()
    for what, (function, fields) in CALLS.items():
        driver.play(healthy(**COMPLETE, **{f"error__{function}": 4}))
        probe = open_probe(driver)
        gpu = only(probe.sample())
        probe.close()
        assert missing(gpu)[what] == "no permission"
        assert {name for name in Gpu.__slots__ if getattr(gpu, name) != getattr(whole, name)} == {
            *fields,
            "unavailable",
        }


def test_an_error_that_only_the_driver_knows_is_quoted(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(error__nvmlDeviceGetPowerUsage=1234))
    assert missing(only(open_probe(driver).sample()))["power"].endswith("an error that only the driver knows")


def test_a_name_that_is_no_utf8_is_missing(driver: Driver, open_probe: Open, tmp_path: Path) -> None:
    driver.play(healthy(gpu__0__name="GARBAGE"))
    scenario = tmp_path / "scenario"
    scenario.write_bytes(scenario.read_bytes().replace(b"GARBAGE", b"\xff\xfe\xff"))
    gpu = only(open_probe(driver).sample())
    assert gpu.name is None
    assert missing(gpu)["name"].startswith("UnicodeDecodeError")


OLD = {
    "nvmlDeviceGetMemoryInfo_v2": {"used": 21 * GIB, "reserved": None},
    "nvmlDeviceGetTemperatureV": {},
    "nvmlDeviceGetCurrentClocksEventReasons": {},
    "nvmlDeviceGetComputeRunningProcesses_v3": {},
    "nvmlDeviceGetGraphicsRunningProcesses_v3": {},
}


def test_an_old_driver_is_asked_in_the_old_way(tmp_path: Path, driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(**COMPLETE))
    new = only(open_probe(driver).sample())
    old_driver = Driver(build(tmp_path, missing=tuple(OLD)), tmp_path / "scenario")
    old = only(open_probe(old_driver).sample())
    assert (old.used, old.reserved) == (21 * GIB, None)
    assert old.unavailable == ()
    same = [name for name in Gpu.__slots__ if name not in ("used", "reserved")]
    assert [getattr(old, name) for name in same] == [getattr(new, name) for name in same]


def test_a_very_old_driver_lacks_calls_and_says_so(tmp_path: Path, open_probe: Open) -> None:
    absent = {
        "nvmlDeviceGetRemappedRows": "remapped rows",
        "nvmlDeviceGetMigMode": "MIG mode",
        "nvmlDeviceGetEnforcedPowerLimit": "power limit",
        "nvmlDeviceGetComputeRunningProcesses_v3": "processes",
        "nvmlDeviceGetComputeRunningProcesses_v2": "processes",
        "nvmlEventSetCreate": "Xid events",
    }
    driver = Driver(build(tmp_path, missing=tuple(absent)), tmp_path / "scenario")
    driver.play(healthy(**COMPLETE))
    gpu = only(open_probe(driver).sample())
    assert missing(gpu) == dict.fromkeys(absent.values(), "this driver does not have the call")
    assert gpu.processes is None
    assert gpu.used == 20 * GIB


def test_a_library_without_even_a_start_is_unavailable(tmp_path: Path) -> None:
    driver = Driver(build(tmp_path, missing=("nvmlInitWithFlags",)), tmp_path / "scenario")
    driver.play(healthy())
    assert NvmlProbe.open(environment=driver.environment) == Unavailable("nvml", "this driver does not have the call")


def test_no_driver_at_all_is_unavailable(tmp_path: Path) -> None:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")  # hides a real driver, if the machine has one
    answer = NvmlProbe.open(environment=environment)
    assert answer == Unavailable("nvml", "no NVIDIA driver library (libnvidia-ml.so.1) on this machine")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ({"init": 9}, "the NVIDIA driver is not loaded"),
        ({"init": 4}, "no permission"),
        ({"init": 18}, "driver and library versions differ (updated without a restart)"),
        ({"error.nvmlDeviceGetCount_v2": 999}, "unknown driver error"),
        ({"count": 0}, "the driver sees no GPU"),
    ],
)
def test_a_driver_that_does_not_start_is_unavailable(driver: Driver, lines: dict[str, object], reason: str) -> None:
    driver.play({**healthy(), **lines})
    assert NvmlProbe.open(environment=driver.environment) == Unavailable("nvml", reason)


def test_a_driver_that_hangs_at_start_is_given_up_on(driver: Driver) -> None:
    driver.play(healthy(hang__nvmlInitWithFlags=1))
    answer = NvmlProbe.open(environment=driver.environment, limit=SHORT)
    assert answer in (
        Unavailable("nvml", f"start did not answer within {SHORT} s"),  # the worker may not have said more yet
    )


@pytest.mark.parametrize("function", sorted({function for function, _ in CALLS.values()} - {"nvmlDeviceGetName"}))
def test_any_hanging_call_is_named_and_the_rest_kept(driver: Driver, open_probe: Open, function: str) -> None:
    driver.play(healthy(2, gpu__1__mig=0))
    probe = open_probe(driver)
    driver.change(**{f"hang__1__{function}": 1})
    began = time.monotonic()
    if function in ("nvmlDeviceGetMigMode", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3"):
        probe = NvmlProbe.open(environment=driver.environment, limit=SHORT)  # asked once, at the start
        assert isinstance(probe, Unavailable) and "did not answer" in probe.reason
        return
    first, second = probe.sample(limit=SHORT).gpus
    assert time.monotonic() - began < 5
    what = next(what for what, (name, _) in CALLS.items() if name == function)
    assert missing(second)[what] == f"did not answer within {SHORT} s"
    assert (first.used, second.name) == (20 * GIB, "NVIDIA GeForce RTX 4090")
    assert probe.hung


def test_while_the_driver_hangs_samples_answer_at_once(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(hang__nvmlDeviceGetPowerUsage=1))
    now = [0.0]
    probe = NvmlProbe.open(environment=driver.environment)
    assert isinstance(probe, NvmlProbe)
    probe.sample(limit=SHORT)
    probe._monotonic = lambda: now[0]
    now[0] = probe._asked_at + 12
    began = time.perf_counter()
    assert probe.sample() == NvmlSample(
        unavailable=(Unavailable("nvml", "the driver hangs: GPU 0 power has not answered for 12 s"),)
    )
    assert time.perf_counter() - began < SHORT
    probe.close()


def test_a_driver_that_comes_back_is_used_again(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(hang__nvmlDeviceGetPowerUsage=1))
    probe = open_probe(driver)
    assert missing(only(probe.sample(limit=SHORT)))["power"] == f"did not answer within {SHORT} s"
    driver.change(hang__nvmlDeviceGetPowerUsage=None, xids="0:45")
    assert wait_until(lambda: not probe.sample(limit=SHORT).unavailable)
    assert not probe.hung
    assert only(probe.sample()).power == 288.5


def test_an_xid_in_an_answer_that_came_too_late_is_not_lost(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(hang__nvmlDeviceGetPowerUsage=1))
    probe = open_probe(driver)
    probe.sample(limit=SHORT)
    driver.change(hang__nvmlDeviceGetPowerUsage=None, xids="0:45")
    seen: list[Xid] = []
    assert wait_until(lambda: seen.extend(probe.sample(limit=SHORT).xids) or bool(seen))
    assert seen == [Xid(0, 45)]


def test_a_hanging_driver_does_not_hold_up_close(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(hang__nvmlDeviceGetPowerUsage=1))
    probe = open_probe(driver)
    probe.sample(limit=SHORT)
    began = time.monotonic()
    probe.close()
    assert time.monotonic() - began < 5


def test_a_driver_that_kills_its_caller_kills_the_worker_only(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(2))
    probe = open_probe(driver)
    driver.change(crash__1__nvmlDeviceGetTemperatureV=1)
    first, second = probe.sample().gpus
    assert first.temperature == 62
    assert missing(second)["temperature"] == "the probe process was killed by signal 6 in GPU 1 temperature"
    assert probe.dead
    assert probe.sample().unavailable[0].reason == "the probe process was killed by signal 6 in GPU 1 temperature"


def test_the_worker_ends_with_its_parent(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy())
    probe = open_probe(driver)
    worker = psutil.Process(probe._worker.pid)
    probe._requests.close()  # what the kernel does for a parent that is killed
    assert worker.wait(timeout=5) == 0


def test_a_json_module_in_the_users_folder_is_not_imported(
    driver: Driver, open_probe: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the folder the user stands in')")
    monkeypatch.chdir(tmp_path)
    driver.play(healthy())
    assert only(open_probe(driver).sample()).used == 20 * GIB


def test_what_a_library_prints_does_not_garble_the_answers(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(print__nvmlDeviceGetPowerUsage=1))
    assert only(open_probe(driver).sample()).power == 288.5


def test_limits_and_counters_are_not_asked_with_every_sample(driver: Driver, open_probe: Open) -> None:
    driver.play(healthy(gpu__0__ecc__volatile=0, gpu__0__ecc__aggregate=0))
    probe = open_probe(driver)
    probe.sample()
    driver.change(gpu__0__ecc__volatile=1, gpu__0__util=11)
    seen = [(only(probe.sample()).utilization, only(probe.sample()).ecc_volatile) for _ in range(2)]
    assert seen == [(0.11, 0), (0.11, 0)]
    assert only(probe.sample()).ecc_volatile == 1


PROGRAM = """
from vlogdiag.live.nvml import NvmlProbe
from vlogdiag.live.probes import GpuProbe
from vlogdiag.live.sampler import Sampler

sampler = Sampler([GpuProbe(open_driver=lambda: NvmlProbe.open(limit=60))], limit=0.3)
reading = None
while reading is None:
    reading = sampler.poll(None)
print(reading.unavailable[0].reason)
"""


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
def test_a_hanging_driver_does_not_keep_the_process_from_ending(driver: Driver, function: str) -> None:
    driver.play(healthy(**{f"hang__{function}": 1}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=driver.environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "no answer within 0.3 s\n", "")
    assert wait_until(lambda: not workers_of(driver)), "a worker outlived the process that started it"


def workers_of(driver: Driver) -> list[psutil.Process]:
    """The processes that the driver's scenario is played to."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("FAKE_NVML") == driver.environment["FAKE_NVML"]:
                found.append(process)
    return found


def test_eight_cards_cost_less_than_a_hundredth_of_a_core(driver: Driver, open_probe: Open) -> None:
    links = {f"gpu__{gpu}__nvlinks": "1" * 18 for gpu in range(8)}
    driver.play(healthy(8, **links))
    probe = open_probe(driver)
    worker = psutil.Process(probe._worker.pid)

    def seconds() -> float:
        times = worker.cpu_times()
        return time.process_time() + times.user + times.system

    began = seconds()
    for _ in range(20):
        probe.sample()
    assert (seconds() - began) / 20 < 0.01 * INTERVAL


def wait_until(done: Callable[[], bool], limit: float = 5.0) -> bool:
    """Asks again until it holds; the driver's process needs a moment to notice that it may go on."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if done():
            return True
        os.sched_yield()
    return False

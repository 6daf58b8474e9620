"""Snapshots of a stand-in server, and of a host where hardly anything can be had."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_nvml import Driver, build, healthy
from snapshot_standin import HF_TOKEN, KEY, StandIn, running

from vlogdiag.cli_snapshot import _diagnose, _render_text
from vlogdiag.live.nvml import NvmlProbe
from vlogdiag.live.probes import GpuProbe
from vlogdiag.live.sampler import take
from vlogdiag.model import Report
from vlogdiag.scan import diagnose_paths
from vlogdiag.snapshot.assemble import Snapshot, about, entries
from vlogdiag.snapshot.bundle import build as build_bundle
from vlogdiag.snapshot.collect import gpu, kernel_log
from vlogdiag.snapshot.collect.base import Collected, Context, collect_all
from vlogdiag.snapshot.collect.processes import NoSuchProcess, find_processes
from vlogdiag.snapshot.page import render_page
from vlogdiag.snapshot.read_bundle import open_bundle
from vlogdiag.snapshot.take import COLLECTORS, Wanted, take_snapshot

SHAPES = sorted((Path(__file__).parent / "data" / "redact" / "shapes").glob("*.log"))


def snap(wanted: Wanted, environment: dict[str, str], **more: Any) -> Snapshot:
    return take_snapshot(
        wanted,
        diagnose=_diagnose,
        render_text=_render_text,
        environment=environment,
        created="2026-12-01T00:00:00Z",
        **more,
    )


def files_of(taken: Snapshot) -> dict[str, str]:
    return {entry.name: entry.data.decode() for entry in entries(taken, render_page(taken, bundle="b.tar.gz"))}


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with running(tmp_path_factory.mktemp("server")) as one:
        yield one


@pytest.fixture(scope="module")
def taken(standin: StandIn) -> Snapshot:
    return snap(Wanted(pid=standin.pid), {"PATH": "/nowhere", "HOME": "/root"})


# --- a server that runs -----------------------------------------------------------------------------------------------


def test_the_command_and_its_processes_are_there(taken: Snapshot, standin: StandIn) -> None:
    data = taken.data("launch")
    assert data["command"].endswith(
        f"/vllm serve org/tiny --port {standin.port} --api-key <token-1> --max-num-batched-tokens 8192"
    )
    assert data["arguments"]["max_num_batched_tokens"] == 8192
    titles = {process["pid"]: process["title"] for process in data["processes"]}
    assert titles[standin.pid].endswith("vllm serve org/tiny")
    assert "VLLM::EngineCore" in titles.values()
    assert all(process["status"] and process["started"] for process in data["processes"])


def test_the_environment_is_taken_by_an_allow_list(taken: Snapshot, standin: StandIn) -> None:
    data = taken.data("launch")
    assert data["environment_of"] == f"process {standin.pid}"
    variables = data["environment"]
    assert variables["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert variables["CUDA_VISIBLE_DEVICES"] == "0"
    assert variables["VLLM_API_KEY"] == "<token-1>"
    assert not {"HF_TOKEN", "MY_DATABASE"} & variables.keys()
    assert data["environment_left_out"] >= 2


def test_the_log_is_the_file_that_the_server_prints_into(taken: Snapshot) -> None:
    assert taken.log is not None
    assert (taken.log.name, taken.log.whole) == ("server.log", True)
    assert taken.alive
    assert taken.report is not None
    assert taken.report.findings


def test_the_server_is_asked_and_its_port_seen(taken: Snapshot, standin: StandIn) -> None:
    data = taken.data("server")
    assert (data["health_status"], data["version"]) == (200, "0.11.0")
    assert "vllm:num_requests_running" in taken.collected["server"].files["metrics.txt"]
    assert {"pid": standin.pid, "address": "127.0.0.1", "port": standin.port} in taken.data("network")["listening"]
    assert taken.data("gpu")["reading"]["metrics"]["running"] == 3


def test_no_secret_is_in_any_file(taken: Snapshot) -> None:
    files = files_of(taken)
    data = build_bundle(list(entries(taken, files["page.md"])), about(taken), folder="x", mtime=0)
    assert data
    whole = "\n".join(files.values()) + json.dumps(about(taken))
    for secret in (KEY, HF_TOKEN, "my private question", "pa55w0rdX", "db.internal"):
        assert secret not in whole
    assert "--max-num-batched-tokens 8192" in files["page.md"]


def test_the_page_tells_command_error_and_finding(taken: Snapshot) -> None:
    page = files_of(taken)["page.md"]
    assert "Tried to allocate 2.00 GiB" in page
    assert "VLLM_LOGGING_LEVEL=DEBUG" in page
    assert "process " in page


def test_without_redaction_everything_is_there(standin: StandIn) -> None:
    taken = snap(Wanted(pid=standin.pid, redaction=False), {"PATH": "/nowhere"}, collectors=COLLECTORS[:1])
    whole = "\n".join(files_of(taken).values())
    assert KEY in whole
    assert "my private question" in whole
    assert "Nothing was redacted." in whole
    assert not about(taken)["redaction"]["on"]


def test_kept_prompts_are_kept_and_keys_are_not(standin: StandIn) -> None:
    taken = snap(Wanted(pid=standin.pid, keep_prompts=True), {"PATH": "/nowhere"}, collectors=COLLECTORS[:1])
    whole = "\n".join(files_of(taken).values())
    assert "my private question" in whole
    assert KEY not in whole


def test_a_process_that_is_not_there_is_named() -> None:
    with pytest.raises(NoSuchProcess, match="no process 4194999"):
        snap(Wanted(pid=4194999), {})


def test_the_server_is_found_among_other_processes(standin: StandIn) -> None:
    mine = [psutil.Process(), psutil.Process(standin.pid), *psutil.Process(standin.pid).children()]
    found = find_processes(listing=lambda: mine)
    assert found[0].pid == standin.pid
    assert os.getpid() not in [process.pid for process in found]


def test_a_log_of_another_server_is_not_taken_for_the_running_ones(standin: StandIn, tmp_path: Path) -> None:
    log = tmp_path / "old.log"
    log.write_text("(APIServer pid=1) INFO 12-01 10:00:00 [api_server.py:1839] vLLM API server version 0.9.2\n")
    taken = snap(Wanted(log=str(log), pid=standin.pid), {"PATH": "/nowhere"}, collectors=())
    assert not taken.alive
    assert "the log's server" in {item.source for item in taken.unavailable}


# --- a host where hardly anything can be had --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """No vLLM, no GPU, no tools, nobody to ask."""
    log = tmp_path_factory.mktemp("poor") / "vllm.log"
    log.write_text(
        "(APIServer pid=300) INFO 11-28 23:18:15 [utils.py:233] non-default args: {'model_tag': 'org/none', 'port': 1}\n"
        "(EngineCore pid=340) ERROR 11-28 23:18:40 [core.py:1197] EngineCore failed to start.\n"
    )
    return snap(Wanted(log=str(log)), {"PATH": "/nowhere"}, processes=lambda pid: ())


def test_a_poor_host_gives_a_snapshot_all_the_same(poor: Snapshot) -> None:
    missing = {item.source: item.reason for item in poor.unavailable}
    assert missing["launch"].startswith("no vLLM process is running")
    assert missing["nvidia-smi-q"] == "not installed, or not on PATH"
    assert "nvml" in missing
    assert missing["kernel log"].startswith("dmesg: not installed")
    assert missing["model folder"].startswith("org/none: neither a folder here")
    assert "/health" in missing
    assert poor.log is not None


def test_what_could_not_be_had_stands_on_the_page(poor: Snapshot) -> None:
    page = render_page(poor)
    assert "What could not be collected" in page
    assert "no vLLM process is running" in page


def test_a_log_that_is_not_there_is_written_down(tmp_path: Path) -> None:
    taken = snap(Wanted(log=str(tmp_path / "none.log")), {}, processes=lambda pid: (), collectors=())
    assert taken.log is None
    assert any(item.source == "log" for item in taken.unavailable)


def test_without_a_log_the_reason_is_given() -> None:
    taken = snap(Wanted(), {}, processes=lambda pid: (), collectors=())
    assert [item.source for item in taken.unavailable] == ["log"]


def test_broken_rules_cost_the_findings_and_not_the_log(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("INFO 01-24 10:22:37 [x.py:1] hello\n")

    def diagnose(path: str) -> tuple[Report, tuple[str, ...]]:
        raise ValueError("rules/x.yaml:3: no such key")

    taken = take_snapshot(
        Wanted(log=str(log)), diagnose=diagnose, render_text=_render_text, environment={}, created="t", collectors=(),
        processes=lambda pid: (),
    )  # fmt: skip
    assert {item.source: item.reason for item in taken.unavailable} == {
        "findings": "ValueError: rules/x.yaml:3: no such key"
    }
    assert taken.log is not None
    assert taken.log.parts[0].lines == ("INFO 01-24 10:22:37 [x.py:1] hello",)


# --- collectors that fail, hang, are refused --------------------------------------------------------------------------


def test_a_collector_that_fails_costs_only_itself() -> None:
    def broken(context: Context) -> Collected:
        raise RuntimeError("boom")

    found = collect_all(Context(), [("bad", broken), ("good", lambda context: Collected("good", {"x": 1}))])
    assert found[0].unavailable[0].reason == "RuntimeError: boom"
    assert found[1].data == {"x": 1}


def test_a_collector_that_hangs_is_left_behind() -> None:
    import threading

    gate = threading.Event()
    found = collect_all(
        Context(),
        [
            ("hung", lambda context: Collected("hung") if gate.wait(30) else Collected("late")),
            ("good", lambda c: Collected("good")),
        ],
        limit=0.1,
    )
    gate.set()
    assert found[0].unavailable[0].reason == "no answer within 0.1 s"
    assert found[1] == Collected("good")


def tool(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_hung_nvidia_smi_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "nvidia-smi", "exec sleep 60")
    monkeypatch.setattr(gpu, "LIMIT", 0.3)
    begin = time.monotonic()
    found = gpu.collect(
        Context(environment={"PATH": f"{tmp_path}:/bin:/usr/bin"}), reading=lambda context: take((), limit=0, stamp="")
    )
    assert time.monotonic() - begin < 5
    assert {item.source: item.reason for item in found.unavailable} == {
        "nvidia-smi-q": "no answer within 0.3 s",
        "nvidia-smi-topo": "no answer within 0.3 s",
    }


def test_a_driver_that_nvidia_smi_cannot_reach_is_its_own_words(tmp_path: Path) -> None:
    tool(
        tmp_path,
        "nvidia-smi",
        'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9',
    )
    found = gpu.collect(
        Context(environment={"PATH": f"{tmp_path}:/bin"}), reading=lambda context: take((), limit=0, stamp="")
    )
    assert found.unavailable[0].reason.startswith("NVIDIA-SMI has failed")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


def nvml_collector(driver: Driver, limit: float) -> Any:
    probe = GpuProbe(open_driver=lambda: NvmlProbe.open(limit=limit, environment=driver.environment))
    return lambda context: gpu.collect(context, reading=lambda c: take((probe,), limit=limit, stamp="12:00"))


def test_the_cards_stand_in_a_table(library: Path, tmp_path: Path) -> None:
    driver = Driver(library, tmp_path / "scenario")
    driver.play(healthy(2))
    taken = snap(
        Wanted(), {"PATH": "/nowhere"}, processes=lambda pid: (), collectors=(("gpu", nvml_collector(driver, 10.0)),)
    )
    page = render_page(taken)
    rows = [line.replace("\\", "") for line in page.splitlines() if "NVIDIA GeForce RTX 4090" in line]
    assert [row.split(" | ")[:6] for row in rows] == [
        [f"| {n}", "NVIDIA GeForce RTX 4090", "20.0 of 24.0 GiB", "97 %", "288 of 450 W", "62 °C"] for n in (0, 1)
    ]


def test_a_driver_that_hangs_at_start_costs_the_gpus_and_no_more(library: Path, tmp_path: Path) -> None:
    driver = Driver(library, tmp_path / "scenario")
    driver.play(healthy(1, hang__nvmlInitWithFlags=1))
    begin = time.monotonic()
    found = nvml_collector(driver, 0.7)(Context(environment={"PATH": "/nowhere"}))
    assert time.monotonic() - begin < 10
    reasons = {item.source: item.reason for item in found.unavailable}
    assert "within 0.7 s" in reasons["nvml"]
    assert reasons["nvidia-smi-q"] == "not installed, or not on PATH"


def test_a_call_that_hangs_costs_only_its_value(library: Path, tmp_path: Path) -> None:
    driver = Driver(library, tmp_path / "scenario")
    driver.play(healthy(1, hang__nvmlDeviceGetPowerUsage=1))
    found = nvml_collector(driver, 8.0)(Context(environment={"PATH": "/nowhere"}))
    assert any("did not answer within" in item.reason for item in found.unavailable)
    assert found.data["reading"]["gpus"][0]["used"] == 20 * 2**30


@pytest.mark.parametrize(
    ("dmesg", "expected"),
    [
        ("echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1", "dmesg: not permitted"),
        ("exit 3", "dmesg: ended with status 3"),
    ],
)
def test_a_kernel_log_that_may_not_be_read(dmesg: str, expected: str, tmp_path: Path) -> None:
    tool(tmp_path, "dmesg", dmesg)
    found = kernel_log.collect(Context(environment={"PATH": f"{tmp_path}"}))
    assert found.unavailable[0].reason == f"{expected}; journalctl: not installed, or not on PATH"


def test_the_kernels_lines_that_matter_are_kept(tmp_path: Path) -> None:
    tool(
        tmp_path,
        "dmesg",
        "echo 'usb 1-1: new device'; echo 'NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.';"
        "echo 'Out of memory: Killed process 42 (vllm)'; echo 'pcieport 0000:00:01.0: AER: Corrected error received'",
    )
    found = kernel_log.collect(Context(environment={"PATH": f"{tmp_path}:/bin"}))
    assert found.files["kernel.txt"].count("\n") == 3
    assert "usb" not in found.files["kernel.txt"]


def test_an_environment_that_may_not_be_read_is_said(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: psutil.Process) -> dict[str, str]:
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "environ", refused)
    taken = snap(Wanted(pid=standin.pid), {"PATH": "/nowhere", "VLLM_X": "1"}, collectors=COLLECTORS[:1])
    assert f"environment of process {standin.pid}" in {item.source for item in taken.unavailable}
    assert taken.data("launch")["environment_of"] == "this program, not the server"


def test_collecting_changes_nothing_on_the_host(standin: StandIn) -> None:
    before = {path: path.stat().st_mtime_ns for path in standin.folder.rglob("*")}
    snap(Wanted(pid=standin.pid), {"PATH": os.environ["PATH"]})
    assert {path: path.stat().st_mtime_ns for path in standin.folder.rglob("*")} == before


# --- a scan of the bundle ---------------------------------------------------------------------------------------------


def outline(report: Report) -> object:
    """What a diagnosis comes to; byte offsets and the log's name aside."""
    return (
        [
            (
                f.id,
                f.severity,
                f.confidence,
                f.outcome,
                f.run,
                f.first.line,
                f.last.line,
                f.count,
                len(f.fixes),
                tuple(e.line for e in f.evidence),
            )
            for f in report.findings
        ],
        [(u.line, u.count) for u in report.unexplained],
        [
            (run.first_line, run.outcome, run.vllm_version, run.versions_possible)
            for s in report.sources
            for run in s.runs
        ],
    )


def check_scan_of_bundle(log: Path, folder: Path) -> None:
    taken = snap(Wanted(log=str(log)), {"PATH": "/nowhere"}, processes=lambda pid: (), collectors=())
    data = build_bundle(list(entries(taken, render_page(taken))), about(taken), folder="x", mtime=0)
    bundle = folder / "b.tar.gz"
    bundle.write_bytes(data)
    found = open_bundle(bundle)
    assert found is not None
    copy = folder / "copy.log"
    copy.write_bytes(found.data)
    assert outline(diagnose_paths([str(copy)])) == outline(diagnose_paths([str(log)]))


@pytest.mark.parametrize("log", SHAPES, ids=lambda path: path.stem)
def test_a_scan_of_the_bundle_equals_the_scan_of_the_log(log: Path, tmp_path: Path) -> None:
    check_scan_of_bundle(log, tmp_path)


SHARED = Path(__file__).parents[2] / "shared"


@pytest.mark.long
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared collection of real logs is not beside this checkout")
def test_a_scan_of_the_bundle_equals_the_scan_of_every_collected_log(tmp_path: Path) -> None:
    for log in sorted([*SHARED.glob("vllm-logs/*/log.txt"), *SHARED.glob("corpus/dev/*/log.txt")]):
        check_scan_of_bundle(log, tmp_path)

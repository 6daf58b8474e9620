"""Bursts of the GPU driver, starts after them, accelerators of other makers, and answers that break alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from regression_logs import report

START = """\
(APIServer pid=3310) INFO 04-29 02:03:10 [api_server.py:1805] vLLM API server version 0.19.1
(APIServer pid=3310) INFO 04-29 02:03:10 [utils.py:233] non-default args: {'model': 'm', 'tensor_parallel_size': 2}
(APIServer pid=3310) INFO:     Application startup complete.
(APIServer pid=3310) INFO:     10.0.0.7:41486 - "POST /v1/chat/completions HTTP/1.1" 200 OK
"""
AGAIN = """\
(APIServer pid=9120) INFO 04-29 02:12:45 [api_server.py:1805] vLLM API server version 0.19.1
"""
HEADS = {
    "journald": "Apr 29 02:07:27 node1 kernel: ",
    "journald, with the kernel's clock": "Apr 29 02:07:27 node1 kernel: [93926.349115] ",
    "dmesg": "[93926.349115] ",
    "dmesg -T": "[Wed Apr 29 02:07:27 2026] ",
    "plain": "",
}
XID = "NVRM: Xid (PCI:0000:66:00): "
PROCESS = "pid=3458, name=VLLM::Worker_TP, "
LINES = {
    32: PROCESS + "Channel ID 00000008 intr 00040000",
    48: PROCESS + "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 5.",
    62: "00002740 00002b08 00001126 0000117a",
    64: "pid='<unknown>', name=<unknown>, Row Remapper: Failed to record row",
    74: PROCESS + "NVLink: fatal error detected on link 4(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    94: PROCESS + "Contained: CE User Channel (0x9). RST: No, D-RST: No",
    95: PROCESS + "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    109: PROCESS + "Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x1c002",
    110: PROCESS + "Security fault",
    119: PROCESS + "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL)",
    143: "GPU initialization error",
    146: "TLW_TX_PIPE1 Fatal XC0 i0 Link 11 (0x0409a0c2 0x00000004 0x00000000)",
    158: "GPU fatal timeout",
    172: "GSP-RISCV, Uncorrectable SRAM error",
}
LEADS = {
    32: "xid-stopped",
    48: "xid-ecc-uncorrected",
    62: "xid-stopped",
    64: "xid-row-remap-failed",
    74: "xid-nvlink",
    79: "xid-gpu-lost",
    94: "xid-ecc-contained",
    95: "xid-ecc-uncorrected",
    109: "xid-stopped",
    110: "xid-stopped",
    119: "xid-gsp",
    143: "xid-stopped",
    146: "xid-nvlink-stopped",
    158: "xid-stopped",
    172: "xid-ecc-uncorrected",
}
ECHOES = (
    XID + "45, " + PROCESS + "Ch 00000008",
    XID + "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
)


def raised(time: str, message: str) -> str:
    """A fatal error of the engine."""
    head = f"(EngineCore pid=3447) ERROR 04-29 {time} [core.py:1117] "
    lines = ("EngineCore encountered a fatal error.", "Traceback (most recent call last):", message)
    return "".join(f"{head}{line}\n" for line in lines)


TIMEOUT = raised("02:12:25", "TimeoutError: RPC call to sample_tokens timed out.")
LAUNCH = raised("02:07:28", "torch.AcceleratorError: CUDA error: unspecified launch failure")


def lead(log: str, folder: Path) -> dict[str, object]:
    """The finding that leads."""
    found: dict[str, object] = report(log, folder)["findings"][0]
    return found


@pytest.mark.parametrize("sequel", [TIMEOUT, LAUNCH], ids=["time-out", "launch failure"])
@pytest.mark.parametrize("code", LINES)
def test_the_drivers_word_before_the_first_error_is_the_cause(code: int, sequel: str, tmp_path: Path) -> None:
    for head in HEADS.values():
        burst = "".join(f"{head}{line}\n" for line in (f"{XID}{code}, {LINES[code]}", *ECHOES))
        assert lead(START + burst + sequel, tmp_path)["id"] == LEADS[code], head


@pytest.mark.parametrize("code", LINES)
def test_a_burst_is_told_by_its_weightiest_code_not_by_its_first(code: int, tmp_path: Path) -> None:
    """A row put aside, a channel cleared, a code that no catalogue lists may be printed first."""
    first = (
        XID + "63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu to activate.",
        XID + "175, " + PROCESS + "Ch 00000009, intr 00000040",
        XID + "45, " + PROCESS + "Ch 00000008",
    )
    for head in HEADS.values():
        burst = "".join(f"{head}{line}\n" for line in (*first, f"{XID}{code}, {LINES[code]}"))
        found = lead(START + burst + TIMEOUT, tmp_path)
        assert found["id"] == LEADS[code], head
        assert f"): {code}, " in found["evidence"][0]["text"]  # type: ignore[index]


@pytest.mark.parametrize("code", [121, 122, 106, 162])
def test_a_notice_of_the_driver_explains_nothing(code: int, tmp_path: Path) -> None:
    log = START + f"{HEADS['journald']}{XID}{code}, pid='<unknown>', name=<unknown>, event\n"
    assert lead(log + TIMEOUT, tmp_path)["id"] == "rpc-timeout"
    assert [f["severity"] for f in report(log, tmp_path)["findings"]] == ["info"]


def test_a_nonfatal_link_error_that_is_followed_by_a_hang_is_the_cause(tmp_path: Path) -> None:
    nonfatal = HEADS["journald"] + XID + "147, TREX Nonfatal XC0 i0 Link 11 (0x1 0x1)\n"
    assert lead(START + nonfatal + TIMEOUT, tmp_path)["id"] == "xid-nvlink-stopped"
    answered = '(APIServer pid=3310) INFO:     10.0.0.7:41487 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    assert lead(START + nonfatal + answered, tmp_path)["severity"] == "warning"


def test_a_program_that_was_cut_off_is_the_cause_of_its_peers_waiting(tmp_path: Path) -> None:
    fault = HEADS["dmesg -T"] + XID + "31, " + PROCESS + "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS\n"
    assert lead(START + fault + TIMEOUT, tmp_path)["id"] == "xid-application-fault-fatal"
    assert lead(START + fault + LAUNCH, tmp_path)["id"] == "xid-application-fault-fatal"
    own = raised("02:07:28", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
    assert lead(START + fault + own, tmp_path)["id"] == "cuda-illegal-access"


@pytest.mark.parametrize(
    ("second", "alone"),
    [
        ("(Worker_TP0 pid=9301) INFO 04-29 02:13:58 [pynccl.py:111] vLLM is using nccl==2.28.9\n", "nccl-init-silent"),
        ("(APIServer pid=9120) RuntimeError: Failed to infer device type\n", "device-not-found"),
    ],
)
def test_the_next_start_on_the_same_gpus_does_not_hide_their_xid(second: str, alone: str, tmp_path: Path) -> None:
    burst = HEADS["journald"] + XID + "79, " + LINES[79] + "\n"
    assert lead(START + burst + TIMEOUT + AGAIN + second, tmp_path)["id"] == "xid-gpu-lost"
    assert lead(AGAIN + second, tmp_path)["id"] == alone


SPACES = {
    "hbm": "accelerator-out-of-memory",
    "smem": "accelerator-scalar-memory",
    "vmem": "accelerator-vector-memory",
}


@pytest.mark.parametrize("prefix", ["Bad StatusOr access: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. ", ""])
@pytest.mark.parametrize("space", SPACES)
def test_each_memory_of_a_tpu_has_remedies_of_its_own(space: str, prefix: str, tmp_path: Path) -> None:
    told = f"{prefix}Ran out of memory in memory space {space}. Used 32.42M of 16.00M {space}."
    log = (
        "INFO 11-02 10:00:00 [api_server.py:1034] vLLM API server version 0.9.1\n"
        "INFO 11-02 10:00:00 [cli_args.py:309] non-default args: {'model': 'm', 'max_model_len': 16384}\n"
        f"ERROR 11-02 10:01:00 [core.py:500] RuntimeError: {told} Exceeded {space} capacity by 16.42M.\n"
    )
    found = lead(log, tmp_path)
    assert found["id"] == SPACES[space]
    share = any("--gpu-memory-utilization" in fix["flags"] for fix in found["fixes"])  # type: ignore[attr-defined]
    assert share == (space == "hbm")


@pytest.mark.parametrize(
    "told",
    [
        "RuntimeError: aclnnGroupedMatmulV4 or aclnnGroupedMatmulV4GetWorkspaceSize not in libopapi.so, or libopapi.sonot found.",
        "AttributeError: module 'torch_npu' has no attribute 'npu_mrope'",
        "AttributeError: '_OpNamespace' 'npu' object has no attribute 'npu_moe_init_routing_v2'",
        "OSError: /usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_1/lib/libtbe_adapter.so: undefined symbol: _ZN3Mki2DlC1ERKS0",
    ],
)
def test_parts_of_ascend_that_are_no_set_are_told_so(told: str, tmp_path: Path) -> None:
    found = lead(
        "INFO 12-16 01:50:00 [__init__.py:207] Platform plugin ascend is activated\n" + raised("01:53:33", told),
        tmp_path,
    )
    assert found["id"] == "ascend-version-mismatch"


MESSAGES = [
    ("chat_completion/serving.py:1261", "Error in chat completion stream generator.", "KeyError: 'name'"),
    ("completion/serving.py:448", "Error in completion stream generator.", "AssertionError"),
    ("serving.py:782", "Error in message stream converter.", "TypeError: 'NoneType' object is not subscriptable"),
    ("speech_to_text.py:684", "Error in transcribe stream generator.", "ValueError: too short"),
]


@pytest.mark.parametrize(("place", "message", "error"), MESSAGES)
def test_an_answer_that_breaks_in_a_parser_is_a_warning(place: str, message: str, error: str, tmp_path: Path) -> None:
    head = f"(APIServer pid=3310) ERROR 04-29 02:07:28 [{place}] "
    log = START + "".join(f"{head}{line}\n" for line in (message, "Traceback (most recent call last):", error))
    log += '(APIServer pid=3310) INFO:     10.0.0.7:41487 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    (found,) = report(log, tmp_path)["findings"]
    assert (found["id"], found["severity"]) == ("stream-generator-failed", "warning")
    assert error in found["cause"]


def test_a_dead_engine_is_no_parsers_fault(tmp_path: Path) -> None:
    head = "(APIServer pid=3310) ERROR 04-29 02:12:26 [serving.py:1261] "
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
    lines = ("Error in chat completion stream generator.", "Traceback (most recent call last):", dead)
    found = report(START + TIMEOUT + "".join(f"{head}{line}\n" for line in lines), tmp_path)["findings"]
    assert [f["id"] for f in found] == ["rpc-timeout"]

"""Whole logs that once got a wrong cause, a wrong severity or a remedy that makes it worse; one test each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import pytest
from msgspec.structs import replace

from vlogdiag.checking import findings_of
from vlogdiag.loading import Rules, load
from vlogdiag.model import Finding, Severity
from vlogdiag.pipeline import Pipeline, Result
from vlogdiag.signatures.types import Example
from vlogdiag.values import Kind, Quantity

API = "(APIServer pid=1) INFO 11-02 10:00:00 [api_server.py:1839] vLLM API server version {version}\n"
ARGS = "(APIServer pid=1) INFO 11-02 10:00:00 [utils.py:233] non-default args: {args}\n"
LOADING = "(EngineCore_DP0 pid=9) INFO 11-02 10:00:20 [gpu_model_runner.py:2602] Starting to load model m...\n"
UP = "(APIServer pid=1) INFO:     Application startup complete.\n"
ANSWERED = '(APIServer pid=1) INFO:     10.0.0.1:4000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
CORE = "(EngineCore_DP0 pid=9) ERROR 11-02 10:01:00 [core.py:708] "
TRACEBACK = f"{CORE}EngineCore failed to start.\n{CORE}Traceback (most recent call last):\n"
SITE = "/usr/local/lib/python3.12/dist-packages"


@cache
def rules() -> Rules:
    return load(examples=True)


def scan(log: str) -> Result:
    pipeline = Pipeline(rules(), source="vllm.log")
    pipeline.feed(log.encode())
    return pipeline.close()


def start(version: str = "0.11.0", args: Mapping[str, object] | None = None) -> str:
    return API.format(version=version) + (ARGS.format(args=dict(args)) if args else "")


def healthy(*lines: str, version: str = "0.11.0") -> str:
    """A server that comes up and answers, and what it printed on the way."""
    return start(version) + "".join(f"{line}\n" for line in lines) + UP + ANSWERED


def failed(raised: str, *, frame: str = "vllm/v1/worker/gpu_worker.py", version: str = "0.11.0", **args: object) -> str:
    """A start that ends in one exception."""
    place = f'{CORE}  File "{SITE}/{frame}", line 168, in run\n'
    return start(version, args) + TRACEBACK + place + "".join(f"{CORE}{line}\n" for line in raised.split("\n"))


def refused(raised: str, frame: str = "vllm/multimodal/utils.py") -> str:
    """One client's request fails, and the next one is answered."""
    error = "(APIServer pid=1) ERROR 11-02 10:01:00 [serving_chat.py:237] "
    return (
        start()
        + UP
        + f"{error}Error in preprocessing prompt inputs\n{error}Traceback (most recent call last):\n"
        + f'{error}  File "{SITE}/{frame}", line 150, in load\n{error}{raised}\n'
        + ANSWERED.replace("200 OK", "400 Bad Request")
        + ANSWERED
    )


def grave(result: Result) -> list[str]:
    return [f.id for f in result.findings if f.severity >= Severity.WARNING]


def settings(finding: Finding) -> dict[str, str]:
    """All flags and variables that are offered."""
    return {name: str(value) for fix in finding.fixes for name, value in (*fix.flags.items(), *fix.env.items())}


AUTOTUNING = "(EngineCore_DP0 pid=9) [rank0]:E1102 10:00:30.123000 9 torch/_inductor/select_algorithm.py:2100] [8/0] "

HARMLESS = {
    "triton-kernels-of-another-release": (
        "(EngineCore_DP0 pid=9) ERROR 11-02 10:00:30 [gpt_oss_triton_kernels_moe.py:34] Failed to import Triton kernels. Please make sure your triton version is compatible. Error: No module named 'triton_kernels.routing'",
    ),
    "triton-kernels-without-a-name": (
        "(EngineCore_DP0 pid=9) ERROR 11-02 10:00:30 [gpt_oss_triton_kernels_moe.py:34] Failed to import Triton kernels. Please make sure your triton version is compatible. Error: cannot import name 'SparseMatrix' from 'triton_kernels.tensor' (/x/tensor.py)",
    ),
    "one-candidate-of-an-autotuning": (
        f"{AUTOTUNING}Runtime error during autotuning:",
        f"{AUTOTUNING}out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help..",
        f"{AUTOTUNING}Ignoring this choice.",
    ),
    "one-candidate-without-header": (
        "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
        "AUTOTUNE mm(16x4096, 4096x6144)",
    ),
    "read-only-model-folder": (
        "(APIServer pid=1) Could not cache non-existence of file. Will ignore error and continue. Error: [Errno 30] Read-only file system: '/models/hub/.no_exist/abc/adapter_config.json'",
        "(APIServer pid=1) Ignored error while writing commit hash to /models/hub/refs/main: [Errno 30] Read-only file system: '/models/hub/refs/main'.",
    ),
    "full-model-folder": (
        "(APIServer pid=1) Could not cache non-existence of file. Will ignore error and continue. Error: [Errno 28] No space left on device: '/models/hub/.no_exist/abc/adapter_config.json'",
    ),
    "torchvision-without-libjpeg": (
        f"{SITE}/torchvision/io/image.py:13: UserWarning: Failed to load image Python extension: 'libjpeg.so.8: cannot open shared object file: No such file or directory'If you don't plan on using image functionality from `torchvision.io`, you can ignore this warning.",
    ),
    "torchvision-of-another-torch": (
        f"{SITE}/torchvision/io/image.py:14: UserWarning: Failed to load image Python extension: '{SITE}/torchvision/image.so: undefined symbol: _ZN3c1017RegisterOperatorsD1Ev'If you don't plan on using image functionality from `torchvision.io`, you can ignore this warning.",
    ),
    "tensorflow-looks-for-tensorrt": (
        "2025-11-02 10:00:25.123456: W tensorflow/compiler/xla/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file: No such file or directory",
    ),
    "numpy-2-warning": (
        "A module that was compiled using NumPy 1.x cannot be run in",
        "NumPy 2.0.1 as it may crash. To support both 1.x and 2.x",
        "versions of NumPy, modules must be compiled with NumPy 2.0.",
    ),
    "nixl-is-not-asked-for": (
        "(EngineCore_DP0 pid=9) WARNING 11-02 10:00:30 [nixl_connector.py:60] NIXL is not available",
    ),
    "start-up-probes-before-the-port": (
        LOADING.strip(),
        'Warning  Unhealthy  2m (x12 over 5m)  kubelet  Startup probe failed: Get "http://10.0.0.5:8000/health": dial tcp 10.0.0.5:8000: connect: connection refused',
    ),
    "aws-plugin-without-efa": (
        "node1:128:128 [0] ofi_init:1304 NCCL WARN NET/OFI Only EFA provider is supported",
        "node1:128:128 [0] init_network:77 NCCL WARN NET/OFI aws-ofi-nccl initialization failed",
    ),
    "ray-head-reached-at-the-second-try": (
        "(pid=300) [2025-11-02 10:00:05,123 W 300 300] gcs_rpc_client.h:151: Failed to connect to GCS at address 10.0.0.1:6379 within 5 seconds.",
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_a_healthy_server_prints_on_its_way_is_no_failure(name: str) -> None:
    result = scan(healthy(*HARMLESS[name]))
    assert grave(result) == [] and result.unexplained == ()


AFTERWARDS = {
    "the-gid-table-of-infiniband": "node1:128:301 [0] transport/net_ib.cc:182 NCCL WARN NET/IB : mlx5_0:1 Got async event : GID table change",
    "one-missed-health-check": 'Warning  Unhealthy  12m (x1 over 3h)  kubelet  Liveness probe failed: Get "http://10.0.0.5:8000/health": context deadline exceeded',
    "a-fetch-tried-again": "(APIServer pid=1) WARNING 11-02 10:01:00 [connections.py:120] HTTP fetch failed for https://img.example.com/a.jpg (attempt 1/3, timeout=5.000s): TimeoutError -- retrying in 1.000s",
    "a-collector-that-does-not-listen": (
        "(APIServer pid=1) Exception while exporting Span batch.\n(APIServer pid=1) Traceback (most recent call last):\n"
        f'(APIServer pid=1)   File "{SITE}/opentelemetry/sdk/trace/export/__init__.py", line 368, in _export_batch\n'
        "(APIServer pid=1)     self.span_exporter.export(self.spans_list[:idx])\n"
        "(APIServer pid=1) requests.exceptions.ConnectionError: HTTPConnectionPool(host='otel-collector', port=4318): Max retries exceeded with url: /v1/traces (Caused by NewConnectionError('<x>: Failed to establish a new connection: [Errno 111] Connection refused'))"
    ),
}


@pytest.mark.parametrize("name", AFTERWARDS)
def test_what_a_server_in_service_survives_is_no_failure(name: str) -> None:
    result = scan(healthy() + AFTERWARDS[name] + "\n" + ANSWERED)
    assert grave(result) == [] and result.unexplained == ()


def test_a_crash_in_the_last_moment_of_an_ordered_end_is_no_failure() -> None:
    end = "".join(
        f"(APIServer pid=1) INFO:     {line}\n"
        for line in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete.")
    )
    assert grave(scan(healthy() + end + "double free or corruption (!prev)\nAborted (core dumped)\n")) == []
    assert grave(scan(healthy() + "double free or corruption (!prev)\nAborted (core dumped)\n")) == [
        "segmentation-fault"
    ]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("Container vllm failed startup probe, will be restarted", "start-probe-failed"),
        ("Container vllm failed liveness probe, will be restarted", "live-probe-failed"),
    ],
)
def test_a_probe_that_ended_the_container_is_a_failure(line: str, cause: str) -> None:
    probe = "Startup" if cause.startswith("start") else "Liveness"
    log = start() + LOADING + f"Warning  Unhealthy  2m (x9 over 9m)  kubelet  {probe} probe failed: refused\n"
    result = scan(f"{log}Normal   Killing  30s  kubelet  {line}\n")
    assert grave(result) == [cause] and result.findings[0].severity is Severity.ERROR


TOO_SMALL = (
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.83 GiB). Based on the available memory, the estimated maximum "
    "model length is 80528. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`"
)
PLACES = "ValueError: Attempted to assign 1280 = 1280 multimodal tokens to 1279 placeholders"
ECHOES = {
    "gloo-peer-gone": f"{CORE.replace('DP0 pid=9', 'DP1 pid=10')}RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:32103",
    "nccl-remote-error": f"{CORE.replace('DP0 pid=9', 'DP1 pid=10')}ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    "start-probe-waiting": 'Warning  Unhealthy  2m (x12 over 5m)  kubelet  Startup probe failed: Get "http://10.0.0.5:8000/health": connection refused',
    "connection-refused": "curl: (7) Failed to connect to localhost port 8000 after 0 ms: Connection refused",
    "segmentation-fault": "free(): invalid pointer",
}


@pytest.mark.parametrize("raised", [TOO_SMALL, PLACES], ids=["kv-cache", "pictures"])
@pytest.mark.parametrize(
    ("echo", "first"), [(e, f) for e in ECHOES for f in (False, True) if (e, f) != ("segmentation-fault", True)]
)
def test_a_consequence_never_stands_before_its_cause(raised: str, echo: str, first: bool) -> None:
    head, _, rest = failed(raised).partition("\n")
    log = f"{head}\n{ECHOES[echo]}\n{rest}" if first else f"{head}\n{rest}{ECHOES[echo]}\n"
    wanted = "kv-cache-too-small" if raised == TOO_SMALL else "placeholder-count"
    assert scan(log).findings[0].id == wanted
    assert [f.id for f in scan(log).findings if f.severity >= Severity.ERROR] == [wanted]


OF_ITS_OWN = {
    "cuda-driver-out-of-memory": "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuda-nvlink-error": "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution",
    "compute-capability": "RuntimeError: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas /tmp/t.ptx, line 103; error   : Feature '.bf16' requires .target sm_80 or higher",
    "ptx-feature-missing": "RuntimeError: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas /tmp/t.ptx, line 103; error   : Feature 'cvt.e4m3x2.f32' requires .target sm_89 or higher",
    "cuda-invalid-device": "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 101: invalid device ordinal",
    "driver-libraries-mixed": "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 34: CUDA driver is a stub library",
    "cuda-unknown-error": "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 999: unknown error",
    "device-not-found": "RuntimeError: CUDA error: no CUDA-capable device is detected",
    "nvml-cannot-answer": "vllm.third_party.pynvml.NVMLError_InvalidArgument: Invalid Argument",
    "visible-devices-not-numbers": "ValueError: invalid literal for int() with base 10: 'GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc'",
    "no-kernel-image": "NotImplementedError: No compiled cutlass_scaled_mm for a compute capability less than CUDA device capability: 121",
    "vllm-module-of-other-release": "ModuleNotFoundError: No module named 'vllm.model_executor.guided_decoding'",
    "vllm-extension-missing": "ModuleNotFoundError: No module named 'vllm._moe_C'",
}


@pytest.mark.parametrize("cause", OF_ITS_OWN)
def test_an_error_has_the_cause_that_it_names(cause: str) -> None:
    assert grave(scan(failed(OF_ITS_OWN[cause]))) == [cause]


def test_an_error_is_told_by_where_it_was_raised() -> None:
    cudart = failed("RuntimeError: CUDART error: out of memory", frame="vllm/init_worker_distributed_environment.py")
    assert grave(scan(cudart)) == ["gpu-full-at-start"]
    semaphore = failed(
        "    sl = self._semlock = _multiprocessing.SemLock(\nOSError: [Errno 28] No space left on device",
        frame="multiprocessing/synchronize.py",
    )
    assert grave(scan(semaphore)) == ["shm-too-small"]
    keys = failed(
        "TypeError: unsupported operand type(s) for |: 'list' and 'set'", frame="transformers/modeling_rope_utils.py"
    )
    assert grave(scan(keys)) == ["rope-keys-list"]
    busy = failed(
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 2: out of memory",
        frame="torch/cuda/_lazy_init.py",
    )
    assert grave(scan(busy)) == ["gpu-full-at-start"]


def test_a_plugin_of_another_release_leaves_the_server_alive() -> None:
    error = "(APIServer pid=1) ERROR 11-02 10:00:01 [__init__.py:47] "
    log = healthy(
        f"{error}Failed to load plugin my_plugin",
        f"{error}Traceback (most recent call last):",
        f"{error}    func = plugin.load()",
        f"{error}ModuleNotFoundError: No module named 'vllm.worker'",
    )
    (found,) = scan(log).findings
    assert (found.id, found.severity) == ("vllm-module-of-other-release", Severity.WARNING)


def test_blocks_that_did_not_come_over_and_were_computed_again_are_no_failure_of_the_connector() -> None:
    error = "(Worker pid=200) ERROR 11-02 10:05:00 [nixl_connector.py:1600] "
    log = (
        healthy(version="0.16.0")
        + f"{error}NIXL transfer failed: transfer_setup_failed | Context: {{'request_id': 'cmpl-1'}}\n"
        + f"{error}Traceback (most recent call last):\n{error}nixl._bindings.nixlRemoteDisconnectError: NIXL_ERR_REMOTE_DISCONNECT\n"
        + "(EngineCore_DP0 pid=9) WARNING 11-02 10:05:00 [scheduler.py:1500] Recovered from KV load failure: 1 request(s) rescheduled (32 tokens affected).\n"
        + ANSWERED
    )
    (found,) = scan(log).findings
    assert (found.id, found.severity) == ("kv-transfer-failed", Severity.WARNING)


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("flashinfer", "flashinfer-python"),
        ("zmq", "pyzmq"),
        ("fla.ops", "flash-linear-attention"),
        ("mooncake.engine", "mooncake-transfer-engine"),
        ("pynvml", "nvidia-ml-py"),
        ("timm", "timm"),
    ],
)
def test_a_missing_module_is_installed_under_the_name_of_its_package(module: str, package: str) -> None:
    (found,) = scan(failed(f"ModuleNotFoundError: No module named '{module}'")).findings
    assert (found.fixes[0].run or "").endswith(f"pip install {package}")


ONE_REQUEST = {
    "picture-not-readable": "binascii.Error: Non-base64 digit found",
    "media-url-refused": "NotImplementedError: Only base64 data URLs are supported for now.",
    "media-certificate": "aiohttp.client_exceptions.ClientConnectorCertificateError: Cannot connect to host img.corp:443 ssl:True [SSLCertVerificationError: (1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed')]",
    "picture-tokens-cut-off-request": "ValueError: Mismatch in `image` token count between text and `input_ids`. Got ids=[1176] and text=[3496]. Likely due to `truncation='max_length'`.",
    "sound-not-readable": "soundfile.LibsndfileError: Error opening <_io.BytesIO object at 0x7f>: Format not recognised.",
    "too-many-items": "ValueError: At most 1 video(s) may be provided in one prompt.",
    "encoder-cache-too-small": "ValueError: The decoder prompt contains a(n) audio item with length 3750, which exceeds the pre-allocated encoder cache size 2048. Please reduce the input size",
}


@pytest.mark.parametrize("cause", ONE_REQUEST)
def test_one_clients_picture_or_sound_is_told_and_no_failure(cause: str) -> None:
    result = scan(refused(ONE_REQUEST[cause], frame="vllm/connections.py"))
    assert [(f.id, f.severity) for f in result.findings] == [(cause, Severity.INFO)] and result.unexplained == ()


def test_a_name_that_nobody_knows_is_not_cured_by_waiting() -> None:
    raised = "aiohttp.client_exceptions.ClientConnectorDNSError: Cannot connect to host img.example.com:443 ssl:default [Name or service not known]"
    (found,) = scan(refused(raised, frame="vllm/connections.py")).findings
    assert found.id == "media-fetch-timeout" and "VLLM_IMAGE_FETCH_TIMEOUT" not in settings(found)


def test_the_kind_that_is_too_many_is_the_kind_that_is_allowed_more_of() -> None:
    (found,) = scan(refused(ONE_REQUEST["too-many-items"])).findings
    assert settings(found)["--limit-mm-per-prompt"] == '{"video": 2}'
    (found,) = scan(refused(ONE_REQUEST["encoder-cache-too-small"])).findings
    assert "--limit-mm-per-prompt" not in settings(found)


def test_numbers_that_help_nobody_are_not_given() -> None:
    (small,) = scan(
        failed(TOO_SMALL.replace("9.83 GiB", "0.02 GB").partition(" Based on")[0], version="0.8.4")
    ).findings
    assert "--max-model-len" not in settings(small)
    raised = "ValueError: Available memory on node 0 (1.5/31.2 GiB) on startup is less than desired CPU memory utilization (0.92, 28.7 GiB). Decrease --gpu-memory-utilization"
    (host,) = scan(failed(raised, version="0.20.0")).findings
    assert settings(host) == {}


def test_the_share_of_the_card_does_not_count_beside_a_size_given_by_hand() -> None:
    raised = "ValueError: To serve at least one request with the models's max seq len (40960), (5.0 GiB KV cache is needed, which is larger than the available KV cache memory (4.0 GiB). Based on the available memory, the estimated maximum model length is 32768."
    (found,) = scan(failed(raised, version="0.20.0", model="m", kv_cache_memory_bytes=4 << 30)).findings
    assert settings(found)["--kv-cache-memory-bytes"] == str(5 << 30)
    assert "--gpu-memory-utilization" not in settings(found)
    room = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
    (none,) = scan(failed(room, version="0.20.0", model="m", kv_cache_memory_bytes=4 << 30)).findings
    assert "--gpu-memory-utilization" not in settings(none)


def test_a_backend_that_the_card_refuses_is_not_offered() -> None:
    triton = "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536. Reducing block sizes or `num_stages` may help."
    (turing,) = scan(
        failed(triton, frame="vllm/v1/attention/ops/triton_unified_attention.py", version="0.14.0")
    ).findings
    assert settings(turing)["--attention-backend"] == "FLASHINFER"
    (ampere,) = scan(failed(triton.replace("65536", "101376"), version="0.14.0")).findings
    assert settings(ampere)["--attention-backend"] == "FLASH_ATTN"


@pytest.mark.parametrize(
    ("raised", "dtype"),
    [
        (
            "ValueError: FP8 KV cache is not supported by the Triton attention backend on NVIDIA A10 (compute capability 8.6); native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16.",
            "bfloat16",
        ),
        (
            "ValueError: bfloat16 KV cache is not supported on Tesla T4 (compute capability 7.5); bfloat16 requires SM80+. Re-run with --kv-cache-dtype float16.",
            "float16",
        ),
    ],
)
def test_the_type_of_the_kv_cache_is_changed_as_the_message_says(raised: str, dtype: str) -> None:
    (found,) = scan(failed(raised, version="0.24.0", model="m", dtype="half")).findings
    assert settings(found) == {"--kv-cache-dtype": dtype}


def test_json_that_the_user_gave_is_not_replaced_by_one_key() -> None:
    lease = "(EngineCore pid=9) WARNING 11-02 10:10:{:02} [nixl_connector.py:2000] Releasing expired KV blocks for request cmpl-{} which were retrieved by 0 remote worker(s) before lease expired.\n"
    (found,) = scan(healthy(version="0.22.0") + lease.format(0, 1) + lease.format(20, 2)).findings
    assert found.id == "kv-lease-expired" and "--kv-transfer-config" not in settings(found)


SMALL: Mapping[str, float] = {
    "--max-num-seqs": 4,
    "--max-num-batched-tokens": 512,
    "--max-model-len": 512,
    "--max-cudagraph-capture-size": 8,
    "--gpu-memory-utilization": 0.3,
    "--kv-cache-memory-bytes": 1 << 30,
    "--block-size": 16,
    "--tensor-parallel-size": 2,
    "--swap-space": 1,
}
LOWERS = re.compile(r"\b(?:smaller|fewer|shorter|lower|less|head-room|bound|take a smaller)\b", re.IGNORECASE)
SAYS_MORE_THAN_IT_WAS_TOLD = {
    # The message itself prints a number that these small arguments contradict.
    ("batched-tokens-below-max-model-len", "--max-model-len"),
    ("kv-cache-too-small", "--max-model-len"),
    ("cpu-backend-memory", "--kv-cache-memory-bytes"),
    ("kv-preemption-v1", "--max-num-seqs"),
    ("batched-tokens-below-max-num-seqs", "--max-num-seqs"),
    ("max-model-len-beyond-model", "--max-model-len"),
    ("negative-graph-estimate", "--kv-cache-memory-bytes"),
    ("sampler-warm-up-oom", "--max-num-seqs"),
    ("tp-above-experts", "--tensor-parallel-size"),
    ("unified-memory-page-cache", "--gpu-memory-utilization"),
}


def with_small_arguments(example: Example) -> Example:
    facts = dict(example.facts)
    for flag, value in SMALL.items():
        name = flag[2:].replace("-", "_")
        quantity = Quantity(value, Kind.FLOAT if isinstance(value, float) else Kind.INT)
        facts[f"args.{name}"] = quantity
        if f"log.{name}" in facts or name == "max_model_len":
            facts[f"log.{name}"] = quantity
    return replace(example, facts=facts)


def test_a_remedy_that_means_to_lower_never_raises() -> None:
    wrong = []
    for signature in rules().book.signatures:
        for example in signature.examples:
            if example.kind == "quiet":
                continue
            findings, _ = findings_of(rules(), with_small_arguments(example))
            for finding in findings:
                wrong += [
                    f"{finding.id}: {fix.title}: {flag} {value} for {SMALL[flag]}"
                    for fix in finding.fixes
                    if LOWERS.search(fix.title)
                    for flag, value in fix.flags.items()
                    if flag in SMALL
                    and (finding.id, flag) not in SAYS_MORE_THAN_IT_WAS_TOLD
                    and re.fullmatch(r"\d+(?:\.\d+)?", str(value))
                    and float(value) > SMALL[flag]
                ]
    assert sorted(set(wrong)) == []


def test_small_arguments_are_made_smaller_and_not_larger() -> None:
    nvml = 'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1131, please report a bug to PyTorch.'
    (found,) = scan(failed(nvml, model="m", max_num_seqs=4, max_num_batched_tokens=1024)).findings
    assert settings(found)["--max-num-seqs"] == "2" and settings(found)["--max-num-batched-tokens"] == "512"
    room = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
    log = failed(room, model="m", max_num_seqs=4, max_num_batched_tokens=512, gpu_memory_utilization=0.95)
    (none,) = scan(log).findings
    assert set(settings(none)) == {"--tensor-parallel-size"}

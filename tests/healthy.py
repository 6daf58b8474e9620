"""Writes logs of healthy servers, by the megabyte: every age, every wrapper, everything that shouts and means nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from ages import AGES, API, CORE, WRAPPERS, Age, Printer, traceback

MODELS = (
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen3-VL-8B-Instruct",
    "/models/llama-3.1-70b-awq",
    "google/gemma-3-12b-it",
    "mistralai/Mistral-Small-3.2-24B",
)
ULIMIT = "Found ulimit of 20000 and failed to automatically increase with error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n"
WARNINGS = (
    (API, "system_utils.py:255", ULIMIT),
    (API, "config.py:1252", "Default sampling parameters have been overridden by the model's Hugging Face generation config recommended from the model creator. If this is not intended, please relaunch vLLM instance with `--generation-config vllm`."),
    (API, "utils.py:2382", "We must use the `spawn` multiprocessing start method. Overriding VLLM_WORKER_MULTIPROC_METHOD to 'spawn'. See https://docs.vllm.ai/en/latest/usage/troubleshooting.html#python-multiprocessing for more information. Reasons: CUDA is initialized"),
    (CORE, "multiproc_executor.py:1006", "Reducing Torch parallelism from 48 threads to 1 to avoid unnecessary CPU contention. Set OMP_NUM_THREADS in the external environment to tune this value as needed."),
    (CORE, "custom_all_reduce.py:154", "Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed. To silence this warning, specify disable_custom_all_reduce=True explicitly."),
    (CORE, "custom_all_reduce.py:133", "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this warning, specify disable_custom_all_reduce=True explicitly."),
    (CORE, "marlin_utils_fp8.py:81", "Your GPU does not have native support for FP8 computation but FP8 quantization is being used. Weight-only FP8 compression will be used leveraging the Marlin kernel. This may degrade performance for compute-heavy workloads."),
    (CORE, "fused_moe.py:888", "Using default MoE config. Performance might be sub-optimal! Config file not found at ['/usr/local/lib/python3.12/dist-packages/vllm/model_executor/layers/fused_moe/configs/E=128,N=768,device_name=NVIDIA_L40S.json']"),
    (CORE, "decorators.py:333", "[backbone] Compiling model again due to a load failure from /root/.cache/vllm/torch_compile_cache/torch_aot_compile/8c5f/rank_0_0/model, reason: 'function' object has no attribute 'finalize_loading'"),
    (CORE, "cudagraph_dispatcher.py:106", "cudagraph dispatching keys are not initialized. No cudagraph will be used."),
    (CORE, "jit_monitor.py:103", "Triton kernel JIT compilation during inference: _zero_kv_blocks_kernel. This causes a latency spike; consider extending warmup to cover this shape/config."),
    (API, "interface.py:811", "Unknown vLLM environment variable detected: VLLM_REQUEST_TIMEOUT"),
    (API, "protocol.py:71", "The following fields were present in the request but ignored: {'error_level', 'timeout'}"),
    (API, "tokenizer.py:295", "No tokenizer found in /adapters/one, using base model tokenizer instead. (Exception: /adapters/one does not appear to have a file named config.json.)"),
)  # fmt: skip
COMPILING = "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging or doing some time-consuming work (e.g. compilation)."
IDENTS = (
    "chatcmpl-oom-77",
    "cmpl-ecc-0079",
    "chatcmpl-Xid-13",
    "cmpl-nccl-timeout-1",
    "chatcmpl-CUDA-error",
    "cmpl-sigkill-9",
)
"""Request ids that spell what failures are called."""
WORDS = (
    "Summarise",
    "the",
    "quarterly",
    "report",
    "of",
    "a",
    "bakery",
    "in",
    "three",
    "sentences",
    "please",
    "CUDA",
    "memory",
    "timeout",
    "error",
    "hang",
    "shape",
)


def quoted_logs() -> tuple[str, ...]:
    """What people paste into a chat: whole failures."""
    return (
        "ERROR 10-21 18:03:11 [core.py:700] EngineCore failed to start.\n" + traceback("vllm/v1/worker/gpu_worker.py:1:load_model:self.model_runner.load_model()", error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.12 GiB is free."),
        traceback("vllm/v1/core/kv_cache_utils.py:1:f:raise ValueError(", error="ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."),
        "[rank0]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600081 milliseconds before timing out.",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\nwhat does that mean?",
        "vllm: error: unrecognized arguments: --request-timeout 60\nvLLM API server version 0.6.0",
        "OSError: [Errno 98] Address already in use; RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "Memory pool size: 12.1 GiB (total), 9.8 GiB (usable)\nFRAGMENTATION ALERT: free_blocks=100/12800 (0.8%)",
    )  # fmt: skip


class Life:
    """One server from its start to its end, in one age."""

    def __init__(self, age: Age, rng: random.Random, quotes: Sequence[str]) -> None:
        begin = datetime(2026, rng.randrange(1, 13), rng.randrange(1, 28), rng.randrange(24), rng.randrange(60))
        self.rng = rng
        self.quotes = itertools.cycle(rng.sample(list(quotes), len(quotes)))
        self.p = Printer(age, now=begin, model=rng.choice(MODELS), tensor_parallel=rng.choice((1, 1, 2, 4)), rng=rng)
        self.logs_requests = age.engine == "V0" or age.version in ("0.8.5.post1", "0.9.2") or rng.random() < 0.2
        """By default up to 0.10.0, with `--enable-log-requests` later."""

    def start(self) -> None:
        """A start, perhaps with a download, a long compilation, warnings."""
        p, rng = self.p, self.rng
        length = rng.choice((4096, 16384, 32768))
        if rng.random() < 0.4:
            p.loose(
                "Fetching 14 files:   0%|          | 0/14 [00:00<?, ?it/s]\rFetching 14 files: 100%|██████████| 14/14 [01:37<00:00,  6.97s/it]"
            )
        p.arguments(max_model_len=length)
        self.warn(rng.randrange(4))
        p.configured(length).loading(rng.choice((2, 4, 17)), seconds=rng.choice((1.0, 5.0))).loaded(rng.uniform(4, 40))
        if p.age.engine == "V1" and rng.random() < 0.5:
            for _ in range(rng.randrange(1, 4)):
                p.wait(60).info(CORE, "shm_broadcast.py:466", COMPILING)
        p.compiled(rng.uniform(10, 200)).kv_cache(rng.uniform(8, 60), length).captured()
        self.warn(rng.randrange(2))
        p.serving()

    def warn(self, count: int) -> None:
        for who, source, text in self.rng.sample(WARNINGS, count):
            self.p.warning(who, source, text)

    def serve(self, events: int) -> None:
        """Requests, statistics and everything between them."""
        rng = self.rng
        kinds: list[tuple[float, Callable[[], object]]] = [
            (50, self.answered),
            (12, self.statistics),
            (6, self.health),
            (2, self.refused),
            (1.5, self.aborted),
            (0.5, self.scanner),
            (0.5, lambda: self.warn(1)),
            (0.3, self.idle),
            (20 if self.logs_requests else 0, self.request),
            (6 if self.logs_requests else 0, self.quoting),
        ]
        for act in rng.choices([act for _, act in kinds], [weight for weight, _ in kinds], k=events):
            act()

    def answered(self) -> None:
        self.p.wait(self.rng.random() * 3).access(
            self.rng.choice(("/v1/chat/completions", "/v1/completions", "/v1/embeddings"))
        )

    def statistics(self) -> None:
        rng = self.rng
        self.p.wait(rng.uniform(5, 11)).statistics(
            rng.randrange(1, 9), 0, rng.uniform(0.5, 80), rng.uniform(10, 4000), rng.uniform(20, 900)
        )

    def health(self) -> None:
        self.p.wait(1).access(self.rng.choice(("/health", "/metrics", "/v1/models", "/ping")), method="GET")

    def refused(self) -> None:
        """Clients' own mistakes: 400, 401, 404, 422."""
        status = self.rng.choice(("400 Bad Request", "404 Not Found", "422 Unprocessable Entity", "401 Unauthorized"))
        self.p.wait(1).access(self.rng.choice(("/v1/chat/completions", "/v1/complete", "/v1/models/oom")), status)

    def aborted(self) -> None:
        ident = self.rng.choice(IDENTS)
        text = f"Aborted request {ident}." if self.p.age.engine == "V0" else f"Request {ident} aborted."
        self.p.wait(1).info(API, "async_llm.py:601", text)

    def scanner(self) -> None:
        self.p.bare(API, "WARNING:  Invalid HTTP request received.")
        for path in ("/.env", "/cgi-bin/luci", "/SIGTERM", "/?q=CUDA%20out%20of%20memory"):
            self.p.access(path, "404 Not Found", method="GET")

    def idle(self) -> None:
        """V1 prints one line of zeros, then nothing until somebody comes."""
        self.p.wait(10).statistics(0, 0, 0.0, 0.0, 0.0)
        self.p.wait(self.rng.uniform(600, 9 * 3600)).access()

    def request(self) -> None:
        self.p.wait(self.rng.random()).request(" ".join(self.rng.choices(WORDS, k=self.rng.randrange(5, 120))))

    def quoting(self) -> None:
        self.p.wait(1).request("Here is my log, what is wrong?\n\n" + next(self.quotes))

    def stop(self) -> None:
        """The log ends anywhere, or with a shutdown that was asked for."""
        p, rng = self.p, self.rng
        if rng.random() < 0.4:
            return
        p.wait(5)
        if p.age.version in ("0.32.0", "0.33.0"):
            p.info(API, "launcher.py:254", "[shutdown] API server: shutdown triggered")
            p.info(API, "utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore")
            p.warning(API, "utils.py:648", "[shutdown] Process manager: force killing remaining processes count=1")
            p.bare(
                API,
                "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.",
            )
            p.loose(
                'nanobind: leaked 3 instances!\n - leaked type "triton._C.libtriton.ir.builder"\n - ... skipped remainder\nnanobind: this is likely caused by a reference counting issue in the binding code.'
            )
        else:
            p.stopping()
        p.loose(
            f"[rank0]:[W{p.now:%-m%d %H:%M:%S}.503117242 ProcessGroupNCCL.cpp:1524] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources. For more info, please see https://pytorch.org/docs/stable/distributed.html#shutdown (function operator())"
        )
        p.loose(
            "/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown\n  warnings.warn('resource_tracker: There appear to be %d '"
        )


def healthy_log(age: Age, seed: int, size: int, quotes: Sequence[str] = ()) -> bytes:
    """About `size` bytes of one healthy server's log; every third one comes through a wrapper."""
    rng = random.Random(f"{age.version} {seed}")
    life = Life(age, rng, (*quoted_logs(), *quotes))
    life.start()
    written, measured = 0, 0
    while written < size:
        life.serve(400)
        written += sum(len(line) for line in life.p.out[measured:])
        measured = len(life.p.out)
    life.stop()
    lines: Iterable[str] = life.p.out
    wrapper = rng.choice((None, None, *WRAPPERS.values()))
    if wrapper is not None:
        lines = wrapper(lines)
    return "".join(line + "\n" for line in lines).encode()


def healthy_logs(total: int, seed: int = 0, quotes: Sequence[str] = ()) -> Iterable[tuple[str, bytes]]:
    """Logs of all ages in turn, `total` bytes together: (name, bytes)."""
    size = max(40_000, total // len(AGES)) if total < 30_000_000 else 4_000_000
    made = number = 0
    while made < total:
        age = AGES[number % len(AGES)]
        log = healthy_log(age, seed + number, size, quotes)
        made += len(log)
        number += 1
        yield f"{age.version}-{number}", log

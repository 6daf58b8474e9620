"""How each age of vLLM prints: headers, process names, start-up, statistics, requests; logs in tests are written with it.

Sources: `logger.py`, `logging_utils/formatter.py`, `v1/metrics/loggers.py`, `entrypoints/*` of the releases named below.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

CYAN = {"old": "\x1b[1;36m", "new": "\x1b[0;36m"}
RESET = "\x1b[0;0m"


@dataclass(frozen=True)
class Age:
    """One release's way to print."""

    version: str
    bracket: bool
    """`[file:line]` rather than `file:line]` (0.8.0 and later)."""
    engine: str
    """'V0' or 'V1'."""
    api: str | None = None
    core: str | None = None
    worker: str = ""
    """Name of a tensor-parallel worker; `{rank}` is filled in."""
    everywhere: bool = True
    """The prefix stands before every line of the process (up to 0.30.0), not only before log records."""
    colour: str | None = None
    """Prefixes are coloured, also in files (up to 0.15.1)."""
    banner: bool = False
    dict_args: bool = True
    """`non-default args: {…}` (0.9.0 and later) rather than `args: Namespace(…)`."""


AGES: tuple[Age, ...] = (
    Age("0.4.2", False, "V0", worker="VllmWorkerProcess", dict_args=False),
    Age("0.6.3.post1", False, "V0", worker="VllmWorkerProcess", dict_args=False),
    Age("0.7.3", False, "V0", worker="VllmWorkerProcess", dict_args=False),
    Age("0.8.5.post1", True, "V1", worker="VllmWorker rank={rank}", dict_args=False),
    Age("0.9.2", True, "V1", worker="VllmWorker rank={rank}"),
    Age("0.10.1.1", True, "V1", "APIServer", "EngineCore_0", "VllmWorker TP{rank}", colour="old"),
    Age("0.11.0", True, "V1", "APIServer", "EngineCore_DP0", "Worker_TP{rank}", colour="old"),
    Age("0.13.0", True, "V1", "APIServer", "EngineCore_DP0", "Worker_TP{rank}", colour="new"),
    Age("0.16.0", True, "V1", "APIServer", "EngineCore_DP0", "Worker_TP{rank}", banner=True),
    Age("0.19.1", True, "V1", "APIServer", "EngineCore", "Worker_TP{rank}", banner=True),
    Age("0.24.0", True, "V1", "APIServer", "EngineCore", "Worker_TP{rank}", banner=True),
    Age("0.32.0", True, "V1", "APIServer", "EngineCore", "Worker_TP{rank}", everywhere=False, banner=True),
    Age("0.33.0", True, "V1", "APIServer", "EngineCore", "Worker_TP{rank}", everywhere=False, banner=True),
)
BY_VERSION = {age.version: age for age in AGES}

API, CORE = "api", "core"
Process = str | int
"""'api', 'core', or the rank of a worker."""


@dataclass
class Printer:
    """Writes one log, line by line, with a clock that only goes forward."""

    age: Age
    now: datetime = datetime(2026, 4, 3, 9, 12, 30)
    pids: dict[Process, int] = field(default_factory=dict)
    model: str = "Qwen/Qwen2.5-7B-Instruct"
    tensor_parallel: int = 1
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    out: list[str] = field(default_factory=list)
    number: int = 4711

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in self.out)

    def pid(self, who: Process) -> int:
        if who not in self.pids:
            self.pids[who] = 100 + 37 * len(self.pids)
        return self.pids[who]

    def prefix(self, who: Process) -> str:
        """`(EngineCore_DP0 pid=137) `, or nothing where the age has no name for that process."""
        age = self.age
        name = age.api if who == API else age.core if who == CORE else age.worker.format(rank=who)
        if not name:
            return ""
        plain = f"({name} pid={self.pid(who)})"
        return f"{CYAN[age.colour]}{plain}{RESET} " if age.colour else f"{plain} "

    def wait(self, seconds: float) -> Printer:
        self.now += timedelta(seconds=seconds)
        return self

    def log(self, who: Process, level: str, source: str, text: str) -> Printer:
        """A record of vLLM's own logger; further lines repeat the header, and `\\r` stands before each line end."""
        place = f"[{source}]" if self.age.bracket else f"{source}]"
        head = f"{self.prefix(who)}{level} {self.now:%m-%d %H:%M:%S} {place} "
        lines = text.split("\n")
        self.out.extend(
            head + line + ("\r" if position < len(lines) - 1 else "") for position, line in enumerate(lines)
        )
        return self

    def info(self, who: Process, source: str, text: str) -> Printer:
        return self.log(who, "INFO", source, text)

    def warning(self, who: Process, source: str, text: str) -> Printer:
        return self.log(who, "WARNING", source, text)

    def error(self, who: Process, source: str, text: str) -> Printer:
        return self.log(who, "ERROR", source, text)

    def bare(self, who: Process, text: str) -> Printer:
        """What the process prints without its logger: a traceback, a progress bar, uvicorn."""
        prefix = self.prefix(who) if self.age.everywhere else ""
        self.out.extend(prefix + line for line in text.split("\n"))
        return self

    def loose(self, text: str) -> Printer:
        """What is printed past every prefix: C++ libraries, the shell, another program."""
        self.out.extend(text.split("\n"))
        return self

    # --- a server's life ---

    def workers(self) -> tuple[Process, ...]:
        """The processes that hold the model."""
        return tuple(range(self.tensor_parallel)) if self.tensor_parallel > 1 else (CORE,)

    def arguments(self, **args: object) -> Printer:
        """Version and arguments, as the API server says them."""
        age, api = self.age, API
        self.loose(
            f"INFO {self.now:%m-%d %H:%M:%S} [__init__.py:216] Automatically detected platform cuda."
        ) if age.bracket else None
        if age.banner:
            self.info(api, "utils.py:325", "")
            art = (
                "       █     █     █▄   ▄█\n ▄▄ ▄█ █     █     █ ▀▄▀ █  version {0}\n"
                "  █▄█▀ █     █     █     █  model   {1}\n   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀\n"
            )
            self.info(api, "utils.py:325", art.format(age.version, self.model))
        else:
            self.info(api, "api_server.py:1839", f"vLLM API server version {age.version}")
        given = {"model": self.model, **args}
        if self.tensor_parallel > 1:
            given["tensor_parallel_size"] = self.tensor_parallel
        if age.dict_args:
            self.info(api, "utils.py:233", f"non-default args: {given!r}")
        else:
            known = {
                "host": None,
                "port": 8000,
                "model": None,
                "max_model_len": None,
                "gpu_memory_utilization": 0.9,
                "tensor_parallel_size": 1,
            }
            self.info(
                api,
                "api_server.py:529",
                f"args: Namespace({', '.join(f'{k}={v!r}' for k, v in {**known, **given}.items())})",
            )
        return self.wait(9)

    def configured(self, length: int = 32768) -> Printer:
        """What the configuration resolves to, and the engine's first line."""
        age = self.age
        if age.engine == "V1":
            self.info(API, "model.py:547", "Resolved architecture: Qwen2ForCausalLM")
            self.info(API, "model.py:1510", f"Using max model len {length}")
            self.info(API, "scheduler.py:205", "Chunked prefill is enabled with max_num_batched_tokens=8192.")
        self.wait(6)
        named = {"0.4.2": "an", "0.6.3.post1": "an"}.get(age.version)
        what = "Initializing an LLM engine" if named else f"Initializing a {age.engine} LLM engine"
        self.info(
            CORE,
            "core.py:77",
            f"{what} (v{age.version}) with config: model='{self.model}', speculative_config=None, "
            f"tokenizer='{self.model}', skip_tokenizer_init=False, tokenizer_mode=auto, revision=None, "
            f"trust_remote_code=False, dtype=torch.bfloat16, max_seq_len={length}, download_dir=None, load_format=auto, "
            f"tensor_parallel_size={self.tensor_parallel}, pipeline_parallel_size=1, disable_custom_all_reduce=False, "
            f"quantization=None, enforce_eager=False, kv_cache_dtype=auto, device_config=cuda, seed=0, "
            f"served_model_name={self.model}, enable_prefix_caching=True",
        )
        if self.tensor_parallel > 1:
            for rank in range(self.tensor_parallel):
                self.info(rank, "pynccl.py:103", "vLLM is using nccl==2.27.3")
            for rank in range(self.tensor_parallel):
                self.info(
                    rank,
                    "parallel_state.py:1208",
                    f"rank {rank} in world size {self.tensor_parallel} is assigned as DP rank 0, PP rank 0, TP rank {rank}, EP rank {rank}",
                )
        return self.wait(1)

    def loading(self, shards: int = 4, upto: int | None = None, seconds: float = 2.0) -> Printer:
        """The weights, shard by shard; `upto` stops there."""
        for who in self.workers():
            self.info(who, "gpu_model_runner.py:2602", f"Starting to load model {self.model}...")
        self.wait(1)
        first = self.workers()[0]
        for shard in range((shards if upto is None else upto) + 1):
            done = f"{100 * shard // shards:3d}% Completed | {shard}/{shards} [00:{int(shard * seconds):02d}<00:{int((shards - shard) * seconds):02d},  {seconds:.2f}s/it]"
            self.bare(first, "\rLoading safetensors checkpoint shards: " + done)
            self.wait(seconds)
        self.bare(first, "") if upto is None else None
        return self

    def loaded(self, weights: float = 14.2487, seconds: float = 9.1) -> Printer:
        """Weights are on the card."""
        for who in self.workers():
            if self.age.engine == "V0":
                self.info(who, "model_runner.py:1115", f"Loading model weights took {weights:.4f} GB")
            else:
                self.info(who, "default_loader.py:267", f"Loading weights took {seconds:.2f} seconds")
                unit = "GiB memory" if self.age.version not in ("0.8.5.post1", "0.9.2", "0.10.1.1", "0.11.0") else "GiB"
                self.info(
                    who,
                    "gpu_model_runner.py:2653",
                    f"Model loading took {weights:.4f} {unit} and {seconds + 0.62:.6f} seconds",
                )
        return self.wait(2)

    def compiled(self, seconds: float = 24.0) -> Printer:
        """torch.compile, where the age has it."""
        if self.age.engine == "V1":
            for who in self.workers():
                self.info(
                    who,
                    "backends.py:548",
                    "Using cache directory: /root/.cache/vllm/torch_compile_cache/2974002b8e/rank_0_0/backbone for vLLM's torch.compile",
                )
                self.info(who, "backends.py:559", "Dynamo bytecode transform time: 7.03 s")
            self.wait(seconds)
            for who in self.workers():
                self.info(who, "monitor.py:34", f"torch.compile takes {seconds:.2f} s in total")
        return self

    def kv_cache(self, memory: float = 52.4, length: int = 32768) -> Printer:
        """What is left for the KV cache."""
        tokens = int(memory * 18724) // 16 * 16
        if self.age.engine == "V0":
            if self.age.version == "0.7.3":
                self.info(
                    CORE,
                    "worker.py:267",
                    "Memory profiling takes 5.12 seconds\nthe current vLLM instance can use total_gpu_memory (79.10GiB) x gpu_memory_utilization (0.90) = 71.19GiB\n"
                    f"model weights take 14.25GiB; non_torch_memory takes 0.12GiB; PyTorch activation peak memory takes 4.35GiB; the rest of the memory reserved for KV Cache is {memory:.2f}GiB.",
                )
                self.info(CORE, "executor_base.py:111", f"# cuda blocks: {tokens // 16}, # CPU blocks: 4681")
            else:
                self.info(CORE, "gpu_executor.py:122", f"# GPU blocks: {tokens // 16}, # CPU blocks: 4681")
        else:
            for who in self.workers():
                self.info(who, "gpu_worker.py:298", f"Available KV cache memory: {memory:.2f} GiB")
            self.info(CORE, "kv_cache_utils.py:1087", f"GPU KV cache size: {tokens:,} tokens")
            self.info(
                CORE,
                "kv_cache_utils.py:1091",
                f"Maximum concurrency for {length:,} tokens per request: {tokens / length:.2f}x",
            )
        return self.wait(1)

    def captured(self, sizes: int = 67, upto: int | None = None) -> Printer:
        """CUDA graphs; `upto` stops there."""
        first = self.workers()[0]
        if self.age.engine == "V0":
            self.info(
                first,
                "model_runner.py:1434",
                "Capturing cudagraphs for decoding. This may lead to unexpected consequences if the model is not static. To run the model in eager mode, set 'enforce_eager=True' or use '--enforce-eager' in the CLI. If out-of-memory error occurs during cudagraph capture, consider decreasing `gpu_memory_utilization` or switching to eager mode. You can also reduce the `max_num_seqs` as needed to decrease memory usage.",
            )
            bar = "Capturing CUDA graph shapes"
        else:
            bar = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)"
        last = sizes if upto is None else upto
        for step in sorted({0, last // 2, last}):
            self.bare(
                first,
                f"{bar}: {100 * step // sizes:3d}%|{'█' * (10 * step // sizes):10}| {step}/{sizes} [00:{step // 15:02d}<00:{(sizes - step) // 15:02d}, 15.2it/s]",
            )
            self.wait(2)
        if upto is None:
            for who in self.workers():
                self.info(who, "gpu_model_runner.py:3480", "Graph capturing finished in 7 secs, took 0.95 GiB")
            self.info(CORE, "core.py:210", "init engine (profile, create kv cache, warmup model) took 45.99 seconds")
        return self

    def serving(self, port: int = 8000) -> Printer:
        """Routes and uvicorn's words."""
        self.info(
            API, "api_server.py:1912", f"Starting vLLM API server 0 on http://0.0.0.0:{port}"
        ) if self.age.bracket else None
        self.info(API, "launcher.py:34", "Available routes are:")
        for route in (
            "/openapi.json",
            "/docs",
            "/health",
            "/load",
            "/ping",
            "/v1/models",
            "/v1/chat/completions",
            "/v1/completions",
        ):
            self.info(API, "launcher.py:42", f"Route: {route}, Methods: {'POST' if 'completions' in route else 'GET'}")
        self.bare(
            API,
            f"INFO:     Started server process [{self.pid(API)}]\nINFO:     Waiting for application startup.\nINFO:     Application startup complete.",
        )
        return self.wait(1)

    def start(self, length: int = 32768, **args: object) -> Printer:
        """A whole healthy start."""
        return (
            self.arguments(max_model_len=length, **args)
            .configured(length)
            .loading()
            .loaded()
            .compiled()
            .kv_cache(length=length)
            .captured()
            .serving()
        )

    def access(self, path: str = "/v1/chat/completions", status: str = "200 OK", method: str = "POST") -> Printer:
        """One access line of uvicorn."""
        return self.bare(
            API,
            f'INFO:     10.0.0.{self.rng.randrange(2, 250)}:{self.rng.randrange(30000, 60000)} - "{method} {path} HTTP/1.1" {status}',
        )

    def statistics(
        self,
        running: int = 3,
        waiting: int = 0,
        usage: float = 7.5,
        prompt: float = 312.4,
        generation: float = 181.2,
        preemptions: int = 0,
    ) -> Printer:
        """The periodic line, in the age's wording."""
        speed = f"Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {generation:.1f} tokens/s, "
        if self.age.engine == "V0":
            text = (
                speed
                + f"Running: {running} reqs, Swapped: 0 reqs, Pending: {waiting} reqs, GPU KV cache usage: {usage:.1f}%, CPU KV cache usage: 0.0%."
            )
            return self.info(API, "metrics.py:455", text)
        more = f"Preemptions: {preemptions}, " if preemptions else ""
        text = f"Engine 000: {speed}Running: {running} reqs, Waiting: {waiting} reqs, {more}GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: 41.3%"
        return self.info(API, "loggers.py:127", text)

    def request(self, prompt: str) -> Printer:
        """A logged request: its prompt may hold anything, line ends too."""
        self.number += 1
        ident = f"chatcmpl-{self.number:08x}"
        text = f"Received request {ident}: prompt: {prompt!r}, params: SamplingParams(n=1, temperature=0.7, top_p=0.8, max_tokens=512), prompt_token_ids: None, lora_request: None."
        return self.info(API, "logger.py:43", text)

    def stopping(self) -> Printer:
        """A shutdown that was asked for."""
        self.info(API, "launcher.py:99", "Shutting down FastAPI HTTP server.")
        return self.bare(
            API,
            "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.",
        )


# --- wrappers ---------------------------------------------------------------------------------------------------------


def docker_json(
    lines: Iterable[str], begin: datetime = datetime(2026, 4, 3, 7, 12, 30, tzinfo=timezone.utc)
) -> list[str]:
    """Docker's json-file driver."""
    return [
        json.dumps(
            {
                "log": line + "\n",
                "stream": "stdout",
                "time": f"{begin + timedelta(milliseconds=40 * n):%Y-%m-%dT%H:%M:%S.%f}789Z",
            },
            ensure_ascii=False,
        )
        for n, line in enumerate(lines)
    ]


def cri(lines: Iterable[str]) -> list[str]:
    """containerd's format, as it lies under /var/log/pods."""
    return [f"2026-04-03T07:12:{30 + n // 40 % 30:02d}.{n % 40:09d}Z stdout F {line}" for n, line in enumerate(lines)]


def docker_timestamps(lines: Iterable[str]) -> list[str]:
    """`docker logs -t`."""
    return [f"2026-04-03T07:12:30.{n:09d}Z {line}" for n, line in enumerate(lines)]


def compose(lines: Iterable[str]) -> list[str]:
    """docker compose's service column."""
    return [f"vllm-1  | {line}" for line in lines]


def syslog(lines: Iterable[str]) -> list[str]:
    """journalctl -u vllm."""
    return [f"Apr 03 09:12:30 gpubox vllm[812]: {line}" for line in lines]


def kubectl(lines: Iterable[str]) -> list[str]:
    """kubectl logs --prefix --timestamps."""
    return [f"[pod/vllm-7d9c5b6f4-x2x8k/vllm] 2026-04-03T07:12:30.{n:09d}Z {line}" for n, line in enumerate(lines)]


WRAPPERS = {
    "docker": docker_json,
    "cri": cri,
    "timestamps": docker_timestamps,
    "compose": compose,
    "syslog": syslog,
    "kubectl": kubectl,
}


def interleave(speakers: Sequence[Sequence[str]], rng: random.Random) -> list[str]:
    """One order in which several speakers' lines may arrive; each speaker's own order stays."""
    rest = [list(lines) for lines in speakers if lines]
    mixed: list[str] = []
    while rest:
        chosen = rng.choice(rest)
        mixed.append(chosen.pop(0))
        rest = [lines for lines in rest if lines]
    return mixed


def traceback(*frames: str, error: str) -> str:
    """A Python traceback: each frame is `path:line:function:source`."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        path, number, function, source = frame.split(":", 3)
        lines += [
            f'  File "/usr/local/lib/python3.12/dist-packages/{path}", line {number}, in {function}',
            f"    {source}",
        ]
    return "\n".join((*lines, error))

"""The one table of names that conditions and texts of rules may use, with kind and meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from vlogdiag.values import Kind


class Name(Struct, frozen=True):
    """What a dotted name holds; `series` names have many values over time."""

    kind: Kind
    meaning: str


_INT, _FLOAT, _SIZE, _PERCENT, _DURATION, _TEXT, _BOOL = (
    Kind.INT,
    Kind.FLOAT,
    Kind.SIZE,
    Kind.PERCENT,
    Kind.DURATION,
    Kind.TEXT,
    Kind.BOOL,
)

_LOG = {
    "version": (_TEXT, "vLLM version as the log prints it"),
    "model": (_TEXT, "model name or path"),
    "device": (_TEXT, "cuda, rocm, cpu, xpu or npu"),
    "device_name": (_TEXT, "name of the accelerator as the log prints it"),
    "phase": (_TEXT, "starting, loading, profiling, capturing, serving or stopping at the time of the record"),
    "world_size": (_INT, "processes of one engine: tensor times pipeline parallel size"),
    "tensor_parallel_size": (_INT, "tensor parallel size of the engine"),
    "weights": (_SIZE, "memory that the weights took"),
    "kv_memory": (_SIZE, "memory left for the KV cache"),
    "kv_tokens": (_INT, "tokens that the KV cache holds"),
    "concurrency": (_FLOAT, "requests of full length that the KV cache holds"),
    "max_model_len": (_INT, "context length in force"),
    "max_num_seqs": (_INT, "sequences in one step, in force"),
    "max_num_batched_tokens": (_INT, "tokens in one step, in force"),
    "gpu_memory_utilization": (_FLOAT, "share of the GPU, in force"),
    "total_memory": (_SIZE, "memory of the card as the log prints it"),
    "free_memory": (_SIZE, "free memory of the card at start-up as the log prints it"),
    "activation_peak": (_SIZE, "peak of activations while profiling"),
    "non_torch": (_SIZE, "memory outside torch (NCCL, contexts)"),
    "graph_memory": (_SIZE, "memory that the CUDA graphs took"),
    "quantization": (_TEXT, "quantisation in force"),
    "dtype": (_TEXT, "data type in force"),
    "attention_backend": (_TEXT, "attention backend in force"),
    "engine": (_TEXT, "V0 or V1"),
    "running": (_INT, "requests running, last statistics line"),
    "waiting": (_INT, "requests waiting, last statistics line"),
    "kv_usage": (_PERCENT, "KV cache usage, last statistics line"),
    "preemptions": (_INT, "preemptions so far"),
    "generation_throughput": (_FLOAT, "generated tokens a second, last statistics line"),
    "prompt_throughput": (_FLOAT, "prompt tokens a second, last statistics line"),
    "kv_blocks": (_INT, "KV cache blocks on the GPU"),
    "budget": (_SIZE, "memory that vLLM may use: its share of the card"),
    "initial_used": (_SIZE, "memory in use before the model was loaded"),
    "model_memory": (_SIZE, "memory that the weights took, as the memory profile prints it"),
    "load_seconds": (_FLOAT, "seconds that the weights took to load"),
    "capture_seconds": (_FLOAT, "seconds that CUDA graph capture took"),
    "compile_seconds": (_FLOAT, "seconds that torch.compile took"),
    "init_seconds": (_FLOAT, "seconds from profiling to warm-up"),
    "architecture": (_TEXT, "model architecture as vLLM resolved it"),
    "nccl_version": (_TEXT, "NCCL version"),
    "filesystem": (_TEXT, "file system that holds the checkpoint"),
    "checkpoint": (_SIZE, "size of the checkpoint"),
    "host_free": (_SIZE, "free memory of the host as the log prints it"),
    "server_pid": (_INT, "process id of the API server: 1 in a container"),
    "served": (_BOOL, "the run has reached serving"),
    "run": (_INT, "number of the run in the log, from 1"),
    "start_seconds": (_DURATION, "log time since the run began"),
}

_CARD = {
    "total": (_SIZE, "memory of the card: log first, then live"),
    "free": (_SIZE, "free memory of the card"),
    "used": (_SIZE, "used memory of the card"),
    "index": (_INT, "index of the card as the log counts"),
    "name": (_TEXT, "name of the card"),
    "capability": (_FLOAT, "compute capability, 8.9 for an L40"),
}

_EVENT = {
    "count": (_INT, "times that the rule matched in this run"),
    "ranks": (_INT, "distinct ranks that printed it"),
    "speakers": (_INT, "distinct processes that printed it"),
    "phase": (_TEXT, "phase of the run at the first match"),
}

_GPU = {
    "index": (_INT, "index of the GPU that the record means, else of the fullest"),
    "name": (_TEXT, "name of the GPU"),
    "total": (_SIZE, "memory of the GPU"),
    "used": (_SIZE, "used memory"),
    "free": (_SIZE, "free memory"),
    "reserved": (_SIZE, "memory that the driver keeps"),
    "utilization": (_PERCENT, "share of the time that a kernel ran"),
    "memory_utilization": (_PERCENT, "share of the time that memory was read or written"),
    "power": (_FLOAT, "power in watts"),
    "power_limit": (_FLOAT, "power limit in watts"),
    "power_share": (_PERCENT, "power as share of the limit"),
    "sm_clock": (_INT, "SM clock in MHz"),
    "sm_clock_max": (_INT, "highest SM clock in MHz"),
    "throttle": (_TEXT, "active throttle reasons, comma-separated; empty for none"),
    "temperature": (_INT, "temperature in Celsius"),
    "ecc_volatile": (_INT, "uncorrected ECC errors since the driver was loaded"),
    "ecc_aggregate": (_INT, "uncorrected ECC errors of the card's life"),
    "remapped_rows": (_INT, "rows remapped"),
    "remap_failed": (_BOOL, "a row could not be remapped"),
    "nvlinks_down": (_INT, "NVLinks that are down"),
    "pcie_generation": (_INT, "PCIe generation in use"),
    "pcie_width": (_INT, "PCIe lanes in use"),
    "mig": (_BOOL, "MIG is on"),
    "lost": (_BOOL, "the driver has lost the GPU"),
    "count": (_INT, "GPUs seen"),
    "foreign_pid": (_INT, "the largest process on the GPU that is not vLLM's: its pid"),
    "foreign_memory": (_SIZE, "memory of all processes on the GPU that are not vLLM's"),
    "foreign_command": (_TEXT, "the largest process on the GPU that is not vLLM's: its command"),
    "foreign_count": (_INT, "processes on the GPU that are not vLLM's"),
    "all_busy": (_BOOL, "every GPU of the run is busy"),
    "all_idle": (_BOOL, "every GPU of the run is idle"),
    "one_idle": (_BOOL, "one GPU is idle while the others are busy"),
    "straggler": (_INT, "index of the one GPU that is idle, or busy, against the others"),
    "any_throttled": (_BOOL, "some GPU is throttled"),
    "any_ecc": (_BOOL, "some GPU has uncorrected ECC errors"),
    "any_xid": (_BOOL, "some GPU delivered an Xid event"),
    "xid": (_INT, "code of the last Xid event"),
}

_METRICS = {
    "running": (_FLOAT, "requests running"),
    "waiting": (_FLOAT, "requests waiting"),
    "kv_usage": (_PERCENT, "KV cache usage"),
    "preemptions": (_FLOAT, "preemptions so far"),
    "generation_tokens": (_FLOAT, "tokens generated so far"),
    "prompt_tokens": (_FLOAT, "prompt tokens so far"),
    "requests_finished": (_FLOAT, "requests finished so far"),
    "e2e_latency_mean": (_DURATION, "mean latency of finished requests"),
    "ttft_mean": (_DURATION, "mean time to first token"),
    "queue_time_mean": (_DURATION, "mean time that a request waited before it ran"),
    "inter_token_latency_mean": (_DURATION, "mean time between two tokens"),
    "healthy": (_BOOL, "/health answered 200"),
}

_HOST = {
    "memory_total": (_SIZE, "memory of the host"),
    "memory_available": (_SIZE, "memory of the host that is available"),
    "cgroup_limit": (_SIZE, "memory limit of the container"),
    "cgroup_used": (_SIZE, "memory used in the container"),
    "oom_kills": (_INT, "processes killed for memory"),
    "shm_total": (_SIZE, "size of /dev/shm"),
    "shm_free": (_SIZE, "free space of /dev/shm"),
}

_TABLES = (("log", _LOG), ("card", _CARD), ("event", _EVENT), ("gpu", _GPU), ("metrics", _METRICS), ("host", _HOST))

NAMES: Mapping[str, Name] = {
    f"{root}.{name}": Name(kind, meaning) for root, table in _TABLES for name, (kind, meaning) in table.items()
}
"""Every dotted name but `args.*`, which may be any argument of vLLM."""

ROOTS = ("args", *(root for root, _ in _TABLES))
"""First words of dotted names; no hole may be called so."""

LIVE_ROOTS = ("gpu", "metrics", "host")
"""Readings: they may speak in `corroborate` only, for they never decide whether a finding exists."""

_ARGUMENT = re.compile(r"args\.[a-z_][a-z0-9_]*")


def is_argument(name: str) -> bool:
    """Whether `name` is `args.` and an identifier as vLLM's parser spells its destinations."""
    return _ARGUMENT.fullmatch(name) is not None


def is_live(name: str) -> bool:
    """Whether `name` comes from readings."""
    return name.split(".", 1)[0] in LIVE_ROOTS


def names_for(holes: Collection[str], *, live: bool = False) -> Callable[[str], bool]:
    """The test which names a rule with these holes may use; `live` admits readings (in `corroborate`)."""

    def known(name: str) -> bool:
        if "." not in name:
            return name in holes
        return is_argument(name) or (name in NAMES and (live or not is_live(name)))

    return known

"""The environment of a snapshot as lines of text: software, toolchain, GPUs, host, limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlogdiag.snapshot.assemble import Snapshot

GIB = 2**30
MAX_PORTS = 6
_LIMITS = ("Max open files", "Max processes", "Max locked memory", "Max address space", "Max stack size")
_CONFIG = (
    "architectures", "model_type", "dtype", "torch_dtype", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings", "quantization_config",
)  # fmt: skip


def environment_lines(snapshot: Snapshot) -> list[str]:
    """`name: value` lines under headings; what is unknown is left out (the page lists what could not be had)."""
    blocks = (
        ("Software", _software(snapshot)),
        ("Toolchain", _toolchain(snapshot.data("toolchain"))),
        ("GPU", _gpu(snapshot)),
        ("Host", _host(snapshot.data("host"))),
        ("Network", _network(snapshot.data("network"))),
        ("Server", _server(snapshot)),
        ("Model", _model(snapshot.data("model_folder"))),
    )
    out: list[str] = []
    for title, lines in blocks:
        said = [f"{name}: {value}" if name else str(value) for name, value in lines if value not in (None, "", [], {})]
        if said:
            out += [f"== {title} ==", *said, ""]
    return out[:-1] or ["nothing could be collected"]


Lines = Iterator[tuple[str, Any]]


def _software(snapshot: Snapshot) -> Lines:
    data = snapshot.data("versions")
    report = snapshot.report
    run = report.sources[0].runs[-1] if report is not None and report.sources and report.sources[0].runs else None
    if run is not None:
        yield "vLLM by the log", run.vllm_version or run.versions_possible
    yield "vLLM's build", _pairs(data.get("vllm"))
    yield "Python", data.get("python")
    yield "torch's build", _pairs(data.get("torch"))
    yield from (("", package) for package in data.get("packages") or ())
    yield "installed twice", _pairs(data.get("twice"))
    yield "editable", ", ".join(data.get("editable") or ())
    yield "from", ", ".join(data.get("site_packages") or ())
    yield "vlogdiag", snapshot.version


def _toolchain(data: Mapping[str, Any]) -> Lines:
    yield "CUDA_HOME", _joined(data.get("CUDA_HOME"), data.get("CUDA_HOME_version"))
    yield "/usr/local/cuda", data.get("usr_local_cuda_version")
    for name, tool in _dict(data.get("tools")).items():
        yield name, _joined(tool.get("version"), tool.get("path"))
    yield "libcuda", ", ".join(data.get("libcuda") or ())
    yield "loaded by the server", ", ".join(data.get("libraries_loaded") or ())
    driver = data.get("driver")
    yield "driver", driver.splitlines()[0] if isinstance(driver, str) and driver else None


def _gpu(snapshot: Snapshot) -> Lines:
    for line in snapshot.data("gpu").get("said") or ():
        name, _, rest = str(line).partition(": ")
        if name.startswith("GPU"):  # the reading's host and server have their own headings
            yield name, rest


def _host(data: Mapping[str, Any]) -> Lines:
    kernel = _dict(data.get("kernel"))
    yield "system", _joined(data.get("distribution"), " ".join(str(v) for v in kernel.values() if v))
    yield "libc", data.get("libc")
    yield "container", ", ".join(data.get("container") or ())
    cpus = _dict(data.get("cpus"))
    yield "CPUs", f"{cpus.get('usable')} of {cpus.get('logical')} usable, load {cpus.get('load')}" if cpus else None
    memory, swap, shm = _dict(data.get("memory")), _dict(data.get("swap")), _dict(data.get("shm"))
    yield "RAM", f"{_gib(memory.get('available'))} of {_gib(memory.get('total'))} available" if memory else None
    yield "swap", f"{_gib(swap.get('used'))} of {_gib(swap.get('total'))} used" if swap else None
    yield "/dev/shm", f"{_gib(shm.get('free'))} of {_gib(shm.get('total'))} free" if shm else None
    for number, (folder, level) in enumerate(_dict(data.get("cgroup")).items()):
        limited = any(level.get(name) not in (None, "max") for name in ("memory.max", "memory.limit_in_bytes"))
        if not number or limited:  # groups further out that limit nothing say nothing
            yield f"cgroup {folder}", _pairs({k: str(v).replace("\n", " ") for k, v in level.items()})
    yield "OOM kills since start", data.get("oom_kills_since_start")
    for name, disk in _dict(data.get("disks")).items():
        yield f"disk of {name}", f"{_gib(disk.get('free'))} of {_gib(disk.get('total'))} free ({disk.get('path')})"
    limits = _dict(data.get("limits"))
    yield "limits (soft / hard)", "; ".join(f"{name} {limits[name]}" for name in _LIMITS if name in limits)


def _network(data: Mapping[str, Any]) -> Lines:
    yield "host name resolves to", ", ".join(data.get("resolves_to") or ())
    for name, interface in _dict(data.get("interfaces")).items():
        state = "up" if interface.get("up") else "down"
        yield f"interface {name}", f"{state}, MTU {interface.get('mtu')}, {', '.join(interface.get('addresses') or ())}"
    rows = data.get("listening") or ()
    shown = ", ".join(f"{row['address']}:{row['port']} (pid {row['pid']})" for row in rows[:MAX_PORTS])
    yield "listening", shown + (f" and {len(rows) - MAX_PORTS} more" if len(rows) > MAX_PORTS else "")


def _server(snapshot: Snapshot) -> Lines:
    data = snapshot.data("server")
    for page in ("health", "version", "metrics"):
        yield f"/{page}", data.get(f"{page}_status")
    yield "version by the server", data.get("version")
    for process in snapshot.data("launch").get("processes") or ():
        yield (
            f"process {process.get('pid')}",
            f"{process.get('title')}, {process.get('status')}, {_gib(process.get('resident_bytes'))}",
        )


def _model(data: Mapping[str, Any]) -> Lines:
    yield "model", data.get("model")
    yield "folder", data.get("folder")
    config = _dict(data.get("config"))
    for key in _CONFIG:
        yield key, config.get(key)
    weights = _dict(data.get("weights"))
    if weights:
        yield "weights", f"{weights.get('files')} files, {_gib(weights.get('bytes'))}, {weights.get('tensors')} tensors"
        yield "missing by the index", ", ".join(weights.get("missing_by_index") or ())
        yield "damaged", _pairs(weights.get("problems"))
    yield "unfinished downloads", ", ".join(data.get("unfinished_downloads") or ())
    yield "broken links", ", ".join(data.get("broken_links") or ())
    template = _dict(data.get("chat_template"))
    yield (
        "chat template",
        f"{template.get('in')}, {template.get('bytes')} bytes, sha256 {template.get('sha256')}" if template else None,
    )


def _dict(value: object) -> dict[str, Any]:
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def _pairs(value: object) -> str:
    return ", ".join(f"{name} {_flat(item)}" for name, item in _dict(value).items())


def _flat(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


def _gib(size: object) -> str:
    return f"{size / GIB:.1f} GiB" if isinstance(size, (int, float)) else "?"

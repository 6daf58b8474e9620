"""The JSON shape of a live event (`vlogdiag.event/1`): its keys with what each means."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

EVENT: Literal["vlogdiag.event/1"] = "vlogdiag.event/1"


class UnavailableDoc(Struct, kw_only=True, frozen=True):
    """What could not be read."""

    source: Annotated[str, Meta(description="who was asked")]
    reason: Annotated[str, Meta(description="why there is no answer")]


class ProcessDoc(Struct, kw_only=True, frozen=True):
    """A process that holds memory on a GPU."""

    pid: Annotated[int, Meta(description="process id")]
    memory: Annotated[int | None, Meta(description="bytes that it holds")]
    command: Annotated[str | None, Meta(description="its command line")]


class MigDoc(Struct, kw_only=True, frozen=True):
    """One MIG instance."""

    uuid: Annotated[str, Meta(description="UUID")]
    total: Annotated[int | None, Meta(description="memory, bytes")]
    used: Annotated[int | None, Meta(description="memory in use, bytes")]


class GpuDoc(Struct, kw_only=True, frozen=True):
    """One GPU at one moment; null is unknown."""

    index: Annotated[int, Meta(description="index as NVML counts")]
    name: Annotated[str | None, Meta(description="name of the card")]
    uuid: Annotated[str | None, Meta(description="UUID")]
    bus_id: Annotated[str | None, Meta(description="PCI bus id")]
    total: Annotated[int | None, Meta(description="memory, bytes")]
    used: Annotated[int | None, Meta(description="memory in use, bytes")]
    free: Annotated[int | None, Meta(description="free memory, bytes")]
    reserved: Annotated[int | None, Meta(description="memory that the driver keeps, bytes")]
    utilization: Annotated[float | None, Meta(description="share of time with a kernel running, 0..1")]
    memory_utilization: Annotated[float | None, Meta(description="share of time with memory traffic, 0..1")]
    power: Annotated[float | None, Meta(description="watts")]
    power_limit: Annotated[float | None, Meta(description="watts")]
    sm_clock: Annotated[int | None, Meta(description="MHz")]
    sm_clock_max: Annotated[int | None, Meta(description="MHz")]
    throttle: Annotated[list[str] | None, Meta(description="active throttle reasons")]
    temperature: Annotated[int | None, Meta(description="degrees Celsius")]
    ecc_volatile: Annotated[int | None, Meta(description="uncorrected ECC errors since the driver was loaded")]
    ecc_aggregate: Annotated[int | None, Meta(description="uncorrected ECC errors of the card's life")]
    remapped_rows: Annotated[int | None, Meta(description="remapped rows")]
    remap_failed: Annotated[bool | None, Meta(description="whether a row could not be remapped")]
    nvlinks_down: Annotated[int | None, Meta(description="NVLinks that are down")]
    pcie_generation: Annotated[int | None, Meta(description="PCIe generation in use")]
    pcie_width: Annotated[int | None, Meta(description="PCIe lanes in use")]
    mig: Annotated[bool | None, Meta(description="whether the card is split by MIG")]
    mig_devices: Annotated[list[MigDoc], Meta(description="its MIG instances")]
    processes: Annotated[list[ProcessDoc] | None, Meta(description="processes that hold memory on it")]
    lost: Annotated[bool, Meta(description="whether the card fell off the bus")]
    unavailable: Annotated[list[UnavailableDoc], Meta(description="what could not be read, and why")]


class MetricsDoc(Struct, kw_only=True, frozen=True):
    """One answer of `/metrics` and `/health`, summed over engines; null is unknown."""

    running: Annotated[float | None, Meta(description="requests being worked on")]
    waiting: Annotated[float | None, Meta(description="requests in the queue")]
    kv_usage: Annotated[float | None, Meta(description="KV cache in use, 0..1")]
    preemptions: Annotated[float | None, Meta(description="preemptions so far")]
    generation_tokens: Annotated[float | None, Meta(description="tokens generated so far")]
    prompt_tokens: Annotated[float | None, Meta(description="prompt tokens so far")]
    requests_finished: Annotated[float | None, Meta(description="requests finished so far")]
    e2e_latency_mean: Annotated[float | None, Meta(description="mean time of a request, seconds")]
    ttft_mean: Annotated[float | None, Meta(description="mean time to the first token, seconds")]
    queue_time_mean: Annotated[float | None, Meta(description="mean time in the queue, seconds")]
    inter_token_latency_mean: Annotated[float | None, Meta(description="mean time between tokens, seconds")]
    healthy: Annotated[bool | None, Meta(description="what /health answered")]
    unavailable: Annotated[list[UnavailableDoc], Meta(description="what could not be read, and why")]


class HostProcessDoc(Struct, kw_only=True, frozen=True):
    """One of vLLM's processes."""

    pid: Annotated[int, Meta(description="process id")]
    name: Annotated[str, Meta(description="its name")]
    state: Annotated[str, Meta(description="its state, as the kernel names it")]
    memory: Annotated[int | None, Meta(description="resident bytes")]


class HostDoc(Struct, kw_only=True, frozen=True):
    """The host at one moment; null is unknown."""

    memory_total: Annotated[int | None, Meta(description="bytes")]
    memory_available: Annotated[int | None, Meta(description="bytes")]
    cgroup_limit: Annotated[int | None, Meta(description="bytes that the container may use")]
    cgroup_used: Annotated[int | None, Meta(description="bytes that the container uses")]
    oom_kills: Annotated[int | None, Meta(description="processes that the kernel killed for memory")]
    shm_total: Annotated[int | None, Meta(description="size of /dev/shm, bytes")]
    shm_free: Annotated[int | None, Meta(description="free in /dev/shm, bytes")]
    processes: Annotated[list[HostProcessDoc], Meta(description="vLLM's processes")]
    unavailable: Annotated[list[UnavailableDoc], Meta(description="what could not be read, and why")]


class XidDoc(Struct, kw_only=True, frozen=True):
    """An Xid event of the driver."""

    gpu: Annotated[int, Meta(description="index of the GPU")]
    code: Annotated[int, Meta(description="the Xid number")]


class ReadingDoc(Struct, kw_only=True, frozen=True):
    """What the machine said at one moment."""

    time: Annotated[float | None, Meta(description="seconds on the log's clock")]
    stamp: Annotated[str | None, Meta(description="wall-clock time for people")]
    gpus: Annotated[list[GpuDoc], Meta(description="the GPUs")]
    metrics: Annotated[MetricsDoc | None, Meta(description="the server's metrics")]
    host: Annotated[HostDoc | None, Meta(description="the host")]
    xids: Annotated[list[XidDoc], Meta(description="Xid events since the last reading")]
    cuda: Annotated[
        list[str | None] | None,
        Meta(description="CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and NVIDIA_VISIBLE_DEVICES of the server"),
    ]
    log: Annotated[str | None, Meta(description="the followed log whose clock `time` is on")]
    unavailable: Annotated[list[UnavailableDoc], Meta(description="what could not be read, and why")]


class NoticeDoc(Struct, kw_only=True, frozen=True):
    """Something else that a reader should know."""

    text: Annotated[str, Meta(description="one sentence")]


class EventDoc(Struct, kw_only=True, frozen=True):
    """One line of `vlogdiag tail --json`."""

    format: Annotated[
        Literal["vlogdiag.event/1"], Meta(description="`vlogdiag.event/1`: additions keep the number, changes raise it")
    ]
    type: Annotated[str, Meta(description="finding.opened, finding.updated, finding.closed, reading or notice")]
    data: Annotated[dict[str, Any], Meta(description="a finding of the report, a reading, or a notice, by type")]
    details: Annotated[dict[str, Any], Meta(description="what else belongs to the event")]

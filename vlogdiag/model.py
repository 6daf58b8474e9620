"""The frozen types that every room shares: lines and records of a log, findings, fixes, readings, the report.

Sizes are bytes, percentages 0..1, durations seconds, log times seconds on the log's own clock. `None` is "unknown".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Any

from msgspec import Struct, field

Value = bool | int | float | str
"""What a capture, an argument or a fact can hold; unknown is None, never a special number."""


LEFT_OUT = "left out as asked: "
"""With a log's name before it, the notice of findings that somebody wanted ignored (`Report.notices`)."""


class Severity(IntEnum):
    """How bad a finding is; ordered, so that `--fail-on` is a comparison."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        """Lower-case name, as rules and reports spell it."""
        return self.name.lower()


class Confidence(IntEnum):
    """How sure a finding is; one step down or up is arithmetic."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2

    @property
    def word(self) -> str:
        """Lower-case name, as rules and reports spell it."""
        return self.name.lower()


class Role(str, Enum):
    """What a signature's match means (DESIGN section 5)."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    NOISE = "noise"


class Outcome(str, Enum):
    """What became of the run that a finding belongs to."""

    FATAL = "fatal"
    DEGRADED = "degraded"
    RECOVERED = "recovered"


class Phase(str, Enum):
    """Where in its life a run stands, by the log's own marks."""

    STARTING = "starting"
    LOADING = "loading"
    PROFILING = "profiling"
    CAPTURING = "capturing"
    SERVING = "serving"
    STOPPING = "stopping"


class Level(IntEnum):
    """A logger's level; a line without header has none."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50


FAMILIES = (
    "oom",
    "kv-cache",
    "fragmentation",
    "hang",
    "shape",
    "multimodal",
    "startup",
    "environment",
    "hardware",
    "request",
    "noise",
)


class Line(Struct, frozen=True, gc=False):
    """One physical line (or one `\\r` segment of it) with wrappers and header taken off.

    One is made for every line of every traceback: nothing is made faster, and the collector need not look at it.
    """

    number: int
    """1-based line number in its log."""
    offset: int
    """Byte offset of the physical line's start in the (decompressed) log."""
    text: str


class Origin(Struct, frozen=True, gc=False):
    """Who printed a record: a speaker is (host, pid); the process name is a label that may change."""

    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    engine: int | None = None
    host: str | None = None

    @property
    def label(self) -> str:
        """Name for people: process, else rank, else host, else 'log'."""
        if self.process:
            return self.process
        if self.rank is not None:
            return f"rank{self.rank}"
        return self.host or "log"


class Record(Struct, frozen=True):
    """One event of one speaker, however many lines it was printed on."""

    origin: Origin
    level: Level | None
    kind: str
    """Header form: 'vllm', 'uvicorn', 'glog', 'nccl', 'ray', 'json', 'kernel', 'shell', 'bare' …"""
    lines: tuple[Line, ...]
    time: float | None = None
    """Seconds on the log's clock (LogClock), comparable within one log."""
    stamp: str | None = None
    """The time as the log spells it."""
    iso: str | None = None
    """ISO 8601, only where the year is known."""
    source: str | None = None
    """`core.py:946` of the header."""
    repeats: int = 1
    """`[repeated 6x across cluster]` counts six."""
    cut: bool = False
    """True when the record's beginning or end is known to be missing."""
    run: int = 1
    """Which start of the server it belongs to, counted from 1."""
    phase: Phase | None = None
    """The run's phase when the record began."""
    life: int | None = None
    """Line of the run's last sign of life (an answered request, a working statistics line) before it began."""
    bracket: bool = False
    """The header spells `[file:line]` (vLLM 0.8.0 and later) rather than `file:line]`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Record:
        return self  # frozen through and through

    @property
    def text(self) -> str:
        """The message: the lines joined by newlines."""
        return "\n".join([line.text for line in self.lines])

    @property
    def first(self) -> Line:
        """First line of the record."""
        return self.lines[0]


def line_at(record: Record, position: int) -> Line:
    """The physical line that holds offset `position` of the record's text."""
    at = 0
    for line in record.lines:
        at += len(line.text) + 1
        if position < at:
            return line
    return record.lines[-1]


class Unavailable(Struct, frozen=True):
    """What could not be had, by whom and why: a value, not a failure."""

    source: str
    reason: str


class Evidence(Struct, frozen=True):
    """One thing that proves a finding."""

    kind: str
    """'log', 'reading' or 'assumed'."""
    text: str
    source: str | None = None
    line: int | None = None
    time: str | None = None


class Position(Struct, frozen=True):
    """Where in a log something stands; `line` is None where it cannot be known."""

    line: int | None
    offset: int | None = None
    time: str | None = None
    iso: str | None = None


class Consequence(Struct, frozen=True):
    """What followed from a cause: folded by signature."""

    id: str
    title: str
    source: str
    line: int | None
    last_line: int | None
    count: int


class Fix(Struct, frozen=True):
    """One remedy, numbers filled in, valid for the run's version."""

    title: str
    disposition: str = "apply"
    """'apply' or 'check' (its condition could not be decided; `question` says what to look up)."""
    flags: Mapping[str, str | bool] = field(default_factory=dict)
    remove_flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Variable to value; an empty value means: unset it."""
    run: str | None = None
    script: str | None = None
    upgrade: str | None = None
    request: str | None = None
    trade_off: str | None = None
    command: str | None = None
    """The user's own launch command with this fix in it, secrets left out."""
    applies_to: str | None = None
    """PEP 440 specifier of the versions this was checked against."""
    question: str | None = None


class Finding(Struct, frozen=True):
    """One root cause of one run (or, folded for people, of several)."""

    id: str
    family: str
    severity: Severity
    confidence: Confidence
    outcome: Outcome
    title: str
    cause: str
    source: str
    run: int
    first: Position
    last: Position
    count: int = 1
    speakers: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    ranks_missing: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    captures: Mapping[str, Value | None] = field(default_factory=dict)
    ask: str | None = None
    fixes: tuple[Fix, ...] = ()
    references: tuple[str, ...] = ()
    known_bug: str | None = None
    """One sentence: thread, and the release that mends it."""
    phase: Phase | None = None


class RunSummary(Struct, frozen=True):
    """What one start of a server said of itself."""

    run: int
    first_line: int | None
    last_line: int | None
    vllm_version: str | None = None
    versions_possible: str | None = None
    """PEP 440 specifier of the versions that the log allows."""
    model: str | None = None
    outcome: str | None = None
    """'fatal', 'degraded', 'recovered', 'serving', 'stopped' (asked for) or None: unknown."""
    phase: Phase | None = None
    """Last phase reached."""
    ended: Position | None = None
    """The last sign of the run's end, if it ended."""
    args: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Value | None] = field(default_factory=dict)


class Omitted(Struct, frozen=True):
    """What was left out of the analysis, counted."""

    bytes: int = 0
    lines: int = 0
    regex_timeouts: int = 0


class SourceSummary(Struct, frozen=True):
    """One log as far as it was read."""

    path: str
    bytes: int = 0
    lines: int = 0
    error: str | None = None
    recognised: bool = False
    omitted: Omitted = Omitted()
    runs: tuple[RunSummary, ...] = ()


class Unexplained(Struct, frozen=True):
    """Distinct errors that no signature claimed."""

    source: str
    line: int
    text: str
    count: int = 1
    run: int = 1
    symptom: str | None = None
    """Id of the symptom rule that knows it, when it is a mere consequence whose cause stands elsewhere."""


class RuleCount(Struct, frozen=True):
    """Which rules were loaded."""

    shipped: int
    user: int
    digest: str


class Report(Struct, frozen=True):
    """Everything a renderer needs; report format `vlogdiag.report/1` is written from this, field by field."""

    version: str
    rules: RuleCount
    sources: tuple[SourceSummary, ...] = ()
    findings: tuple[Finding, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    notices: tuple[str, ...] = ()


class Process(Struct, frozen=True):
    """A process that holds memory on a GPU; what a pid namespace hides is None."""

    pid: int
    memory: int | None = None
    command: str | None = None


class Gpu(Struct, frozen=True):
    """One GPU at one moment. Bytes, watts, MHz, utilisation 0..1, temperature in Celsius."""

    index: int
    name: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None
    utilization: float | None = None
    memory_utilization: float | None = None
    power: float | None = None
    power_limit: float | None = None
    sm_clock: int | None = None
    sm_clock_max: int | None = None
    throttle: tuple[str, ...] | None = None
    """Names of the active throttle reasons; () is "none", None "unknown"."""
    temperature: int | None = None
    ecc_volatile: int | None = None
    """Uncorrected ECC errors since the driver was loaded."""
    ecc_aggregate: int | None = None
    remapped_rows: int | None = None
    remap_failed: bool | None = None
    nvlinks_down: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    mig: bool | None = None
    mig_devices: tuple[tuple[str, int | None, int | None], ...] = ()
    """(uuid, total bytes, used bytes) of its MIG instances."""
    processes: tuple[Process, ...] | None = None
    lost: bool = False
    unavailable: tuple[Unavailable, ...] = ()


class Xid(Struct, frozen=True):
    """An Xid event that NVML delivered."""

    gpu: int
    code: int


class ServerMetrics(Struct, frozen=True):
    """One answer of `/metrics` and `/health`, summed over engines."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    requests_finished: float | None = None
    e2e_latency_mean: float | None = None
    ttft_mean: float | None = None
    queue_time_mean: float | None = None
    inter_token_latency_mean: float | None = None
    healthy: bool | None = None
    unavailable: tuple[Unavailable, ...] = ()


class HostState(Struct, frozen=True):
    """The host at one moment; bytes, counters as the kernel counts them."""

    memory_total: int | None = None
    memory_available: int | None = None
    cgroup_limit: int | None = None
    cgroup_used: int | None = None
    oom_kills: int | None = None
    shm_total: int | None = None
    shm_free: int | None = None
    processes: tuple[tuple[int, str, str, int | None], ...] = ()
    """(pid, name, state, resident bytes) of vLLM's processes."""
    unavailable: tuple[Unavailable, ...] = ()


class Reading(Struct, frozen=True):
    """What the machine said at `time` (seconds on the log's clock, or None when it was taken 'now' without a log)."""

    time: float | None
    stamp: str | None = None
    """Wall-clock text for people."""
    gpus: tuple[Gpu, ...] = ()
    metrics: ServerMetrics | None = None
    host: HostState | None = None
    xids: tuple[Xid, ...] = ()
    unavailable: tuple[Unavailable, ...] = ()
    cuda: tuple[str | None, str | None, str | None] | None = None
    """`CUDA_VISIBLE_DEVICES`, `CUDA_DEVICE_ORDER`, `NVIDIA_VISIBLE_DEVICES` of the server, where they could be read."""
    log: str | None = None
    """The followed log whose clock `time` is on; None where there was but one."""


class Event(Struct, frozen=True):
    """What the pipeline tells a live consumer (format `vlogdiag.event/1`)."""

    type: str
    """'finding.opened', 'finding.updated', 'finding.closed', 'reading' or 'notice'."""
    finding: Finding | None = None
    reading: Reading | None = None
    notice: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

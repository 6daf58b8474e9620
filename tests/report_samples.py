"""Reports written by hand, in the shapes that real logs give, for the tests of the renderers."""

from __future__ import annotations

from hypothesis import settings
from msgspec.structs import replace

from vlogdiag.model import (
    Confidence,
    Consequence,
    Evidence,
    Finding,
    Fix,
    Omitted,
    Outcome,
    Phase,
    Position,
    Report,
    RuleCount,
    RunSummary,
    Severity,
    SourceSummary,
    Unexplained,
)

UNHURRIED = settings(deadline=None, max_examples=60)
"""Rendering a page takes milliseconds, but not on a machine that does other things at the same time."""

RULES = RuleCount(shipped=40, user=0, digest="5f2c")
GIB = 1024**3


def log(line: int, text: str, source: str = "vllm.log") -> Evidence:
    return Evidence(kind="log", text=text, source=source, line=line)


def at(line: int, time: str | None = None) -> Position:
    return Position(line=line, offset=line * 110, time=time)


# --- a start that fails: the KV cache cannot hold one request -------------------------------------------------------

KV_FINDING = Finding(
    id="kv-cache-too-small",
    family="kv-cache",
    severity=Severity.ERROR,
    confidence=Confidence.HIGH,
    outcome=Outcome.FATAL,
    title="The KV cache cannot hold one request of the configured length",
    cause="131072 tokens need 16.00 GiB of KV cache; 9.83 GiB is left.",
    source="vllm.log",
    run=1,
    first=at(61, "04-03 15:05:56"),
    last=at(80, "04-03 15:05:57"),
    count=2,
    speakers=("EngineCore_DP0",),
    evidence=(
        log(
            61,
            "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (9.83 GiB). Based on the available memory, the "
            "estimated maximum model length is 80512. Try increasing `gpu_memory_utilization` or decreasing "
            "`max_model_len` when initializing the engine.",
        ),
        log(40, "Available KV cache memory: 9.83 GiB"),
        Evidence(kind="assumed", text="--gpu-memory-utilization 0.9 (default of 0.11.0)"),
    ),
    consequences=(
        Consequence("engine-core-init-failed", "Engine core initialization failed", "vllm.log", 88, 88, 1),
        Consequence("api-server-exited", "API server shut down", "vllm.log", 90, 90, 1),
    ),
    captures={"wanted": 131072, "needed": 16 * GIB, "available": None, "fits": 80512},
    fixes=(
        Fix(
            title="Serve the longest context that fits",
            flags={"--max-model-len": "80512"},
            trade_off="longer prompts are refused",
            command="vllm serve Qwen/Qwen3-VL-8B-Instruct --port 3001 --max-model-len 80512",
            applies_to="==0.11.0",
        ),
        Fix(
            title="Keep the KV cache in 8 bits",
            flags={"--kv-cache-dtype": "fp8"},
            trade_off="slightly different answers",
            applies_to="==0.11.0",
        ),
        Fix(
            title="Give vLLM more of the GPU",
            disposition="check",
            flags={"--gpu-memory-utilization": "0.95"},
            trade_off="less is left for other processes",
            question="how much memory do other processes hold? (nvidia-smi)",
            applies_to="==0.11.0",
        ),
    ),
    references=("https://docs.vllm.ai/en/v0.11.0/configuration/conserving_memory.html",),
    phase=Phase.PROFILING,
)

KV_RUN = RunSummary(
    run=1,
    first_line=1,
    last_line=90,
    vllm_version="0.11.0",
    versions_possible="==0.11.0",
    model="Qwen/Qwen3-VL-8B-Instruct",
    outcome="fatal",
    phase=Phase.PROFILING,
    ended=at(90, "04-03 15:05:58"),
    args={"port": 3001},
    facts={"kv.available": 9.83 * GIB, "card.total": None},
)

KV = Report(
    version="0.1.0",
    rules=RULES,
    sources=(SourceSummary("vllm.log", bytes=9902, lines=90, recognised=True, runs=(KV_RUN,)),),
    findings=(KV_FINDING,),
)

# --- an out-of-memory while serving, then the same lines for hours -------------------------------------------------

OOM_FINDING = Finding(
    id="oom-vision-tower",
    family="oom",
    severity=Severity.ERROR,
    confidence=Confidence.HIGH,
    outcome=Outcome.FATAL,
    title="A picture needed more GPU memory than was left",
    cause="The vision tower asked for 2.10 GiB; 1.89 GiB of 23.69 GiB was free, and PyTorch held 21.02 GiB.",
    source="vllm.log",
    run=1,
    first=at(238, "01-24 13:02:11"),
    last=at(41322, "01-24 13:02:11"),
    count=4,
    speakers=("Worker_TP0", "Worker_TP1"),
    evidence=(
        log(
            238,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB. GPU 0 has a total capacity of "
            "23.69 GiB of which 1.89 GiB is free. Including non-PyTorch memory, this process has 21.79 GiB memory in "
            "use. Of the allocated memory 19.21 GiB is allocated by PyTorch, and 1.81 GiB is reserved by PyTorch but "
            "unallocated.",
        ),
        log(
            221, 'File "/usr/lib/python3.12/site-packages/vllm/model_executor/models/qwen3_vl.py", line 512, in forward'
        ),
        log(44, "non-default args: {'model': 'Qwen/Qwen3-VL-8B', 'gpu_memory_utilization': 0.95, 'max_num_seqs': 256}"),
        Evidence(kind="reading", text="GPU 0: 23.4 of 23.7 GiB in use", time="13:02:09"),
        log(12, "Model loading took 16.33 GiB and 12.4 seconds"),
    ),
    consequences=(
        Consequence("engine-dead", "Engine died", "vllm.log", 240, 41580, 93),
        Consequence("api-server-exited", "API server shut down", "vllm.log", 41577, 41577, 1),
        Consequence("nccl-abort", "NCCL communicator aborted", "vllm.log", 260, 300, 4),
        Consequence("worker-died", "A worker process died", "vllm.log", 310, 310, 1),
    ),
    captures={"asked": 2.1 * GIB, "free": 1.89 * GIB},
    ask="if nvidia-smi shows another process on GPU 0, that process took the memory",
    fixes=(
        Fix(
            title="Bound the pixels of a picture",
            flags={"--mm-processor-kwargs": '{"max_pixels": 1003520}'},
            trade_off="large pictures lose detail",
            command="vllm serve Qwen/Qwen3-VL-8B --mm-processor-kwargs '{\"max_pixels\": 1003520}'",
        ),
        Fix(
            title="Leave more memory outside the KV cache",
            flags={"--gpu-memory-utilization": "0.85", "--max-num-seqs": "32"},
            trade_off="fewer requests at a time",
        ),
        Fix(
            title="Let PyTorch grow its segments",
            env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "VLLM_USE_V1": ""},
            remove_flags=("--enable-sleep-mode",),
        ),
        Fix(
            title="Resize pictures before they reach vLLM",
            script="resize-images",
            trade_off="an extra step in the proxy",
        ),
        Fix(title="Take a release that bounds the encoder's batch", upgrade=">=0.11.1"),
    ),
    references=("https://example.org/one", "https://example.org/two"),
    known_bug="pictures of one request are encoded in one batch (vllm-project/vllm#123), mended in 0.11.1",
    phase=Phase.SERVING,
    ranks=(0, 1),
    ranks_missing=(2, 3),
)

OOM_RUN = RunSummary(
    run=1,
    first_line=1,
    last_line=41580,
    vllm_version="0.11.0",
    model="Qwen/Qwen3-VL-8B",
    outcome="fatal",
    phase=Phase.SERVING,
    ended=at(41580, "01-24 13:02:11"),
)

OOM = Report(
    version="0.1.0",
    rules=RULES,
    sources=(SourceSummary("vllm.log", bytes=5_200_000, lines=41580, recognised=True, runs=(OOM_RUN,)),),
    findings=(OOM_FINDING,),
)

# --- three starts: the port is taken twice, then the third serves with a warning -------------------------------------

PORT_FINDING = Finding(
    id="port-in-use",
    family="startup",
    severity=Severity.WARNING,
    confidence=Confidence.HIGH,
    outcome=Outcome.RECOVERED,
    title="The port is taken",
    cause="Port 8000 was held by another process when the server tried to listen on it.",
    source="vllm.log",
    run=2,
    first=at(120, "11-30 12:01:05"),
    last=at(120, "11-30 12:01:05"),
    evidence=(log(120, "OSError: [Errno 98] Address already in use"),),
    fixes=(
        Fix(title="See who holds it", run="ss -ltnp 'sport = :8000'"),
        Fix(title="Listen on another port", flags={"--port": "8001"}),
        Fix(
            title="Wait until the old server is gone",
            run="fuser -k 8000/tcp",
            trade_off="kills the process that holds it",
        ),
    ),
    phase=Phase.STARTING,
)

PREEMPTION_FINDING = Finding(
    id="kv-preemption",
    family="kv-cache",
    severity=Severity.WARNING,
    confidence=Confidence.MEDIUM,
    outcome=Outcome.DEGRADED,
    title="Requests are thrown out of the KV cache and computed again",
    cause="120 preemptions while the KV cache was 97.2 % full.",
    source="vllm.log",
    run=3,
    first=at(400, "11-30 12:30:00"),
    last=at(900, "11-30 12:58:00"),
    count=120,
    evidence=(log(400, "Sequence group cmpl-7 is preempted by PreemptionMode.RECOMPUTE mode"),),
    fixes=(Fix(title="Work on fewer requests at a time", flags={"--max-num-seqs": "64"}),),
    phase=Phase.SERVING,
)


def _run(run: int, outcome: str, first: int, last: int, ended: str, phase: Phase) -> RunSummary:
    return RunSummary(
        run, first, last, "0.10.2", "==0.10.2", "meta-llama/Llama-3.1-8B", outcome, phase, at(last, ended)
    )


STARTS = Report(
    version="0.1.0",
    rules=RULES,
    sources=(
        SourceSummary(
            "vllm.log",
            bytes=100_000,
            lines=1000,
            recognised=True,
            runs=(
                _run(1, "fatal", 1, 60, "11-30 12:00:30", Phase.STARTING),
                _run(2, "fatal", 61, 121, "11-30 12:01:06", Phase.STARTING),
                _run(3, "serving", 122, 1000, "11-30 13:00:00", Phase.SERVING),
            ),
        ),
    ),
    findings=(
        PREEMPTION_FINDING,
        PORT_FINDING,
        replace(PORT_FINDING, run=1, first=at(59, "11-30 12:00:30"), last=at(59, "11-30 12:00:30")),
    ),
)

# --- healthy, only consequences, nothing known -----------------------------------------------------------------------

HEALTHY_RUN = RunSummary(
    1, 1, 812, "0.19.0", "==0.19.0", "Qwen/Qwen3-8B", "serving", Phase.SERVING, at(812, "12-01 12:00:01")
)
HEALTHY = Report(
    version="0.1.0",
    rules=RULES,
    sources=(SourceSummary("vllm.log", bytes=90_000, lines=812, recognised=True, runs=(HEALTHY_RUN,)),),
)

SYMPTOMS = Report(
    version="0.1.0",
    rules=RULES,
    sources=(
        SourceSummary(
            "api.log",
            bytes=9_000,
            lines=88,
            recognised=True,
            runs=(
                RunSummary(1, 1, 88, None, ">=0.10.2,<0.18", None, "fatal", Phase.LOADING, at(88, "04-03 15:05:58")),
            ),
        ),
    ),
    unexplained=(
        Unexplained(
            "api.log",
            80,
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
            2,
            1,
            "engine-core-init-failed",
        ),
    ),
    notices=("api.log begins inside a traceback: the cause stands in the lines before it, or in the engine's own log",),
)

# --- several logs ----------------------------------------------------------------------------------------------------


def _pod(number: int, time: str, line: int) -> tuple[SourceSummary, Finding]:
    path = f"logs/pod-{number}.log"
    run = replace(OOM_RUN, last_line=line + 100, ended=at(line + 100, time))
    finding = replace(
        OOM_FINDING,
        source=path,
        first=at(line, time),
        last=at(line, time),
        count=1,
        evidence=(log(line, OOM_FINDING.evidence[0].text, path),),
        consequences=(Consequence("engine-dead", "Engine died", path, line + 2, line + 90, 12),),
    )
    return SourceSummary(path, bytes=1_000_000, lines=line + 100, recognised=True, runs=(run,)), finding


POD_1, POD_1_FINDING = _pod(1, "01-24 13:02:15", 900)
POD_2, POD_2_FINDING = _pod(2, "01-24 13:02:11", 700)
SEVERAL = Report(
    version="0.1.0",
    rules=RULES,
    sources=(
        POD_1,
        POD_2,
        SourceSummary(
            "logs/pod-3.log",
            bytes=90_000,
            lines=812,
            recognised=True,
            runs=(replace(HEALTHY_RUN, model="Qwen/Qwen3-VL-8B", vllm_version="0.11.0"),),
        ),
        SourceSummary("logs/pod-4.log", error="Permission denied"),
        SourceSummary("logs/nginx.log", bytes=4_000, lines=40, omitted=Omitted(lines=3)),
    ),
    findings=(POD_1_FINDING, POD_2_FINDING),
    unexplained=(Unexplained("logs/pod-3.log", 77, "ERROR something that no rule knows", 3),),
)

# --- a log that attacks its reader -----------------------------------------------------------------------------------

ATTACK = (
    "\x1b[2J\x1b]0;owned\x07[red]red[/red] [link=https://evil.example]x[/link] \u202ereversed\u202c zero\u200bwidth "
    "\x9b31m <script>alert(1)</script> `code` ```` @everyone #1 ##vso[task.complete]\r\n::error file=a::boom\ttab "
    "\ud800 \x00\x7f | cell | ![i](https://evil.example/p.png) https://evil.example"
)


def hostile(text: str) -> Report:
    """A report that holds `text` wherever a log or a rule could have put it."""
    finding = replace(
        OOM_FINDING,
        id=text,
        title=text,
        cause=text,
        source=text,
        ask=text,
        known_bug=text,
        references=(text,),
        captures={text: text},
        speakers=(text,),
        evidence=(
            log(1, text, text),
            Evidence("reading", text, time=text),
            Evidence("assumed", text),
            log(2, text, "b"),
        ),
        consequences=(Consequence(text, text, text, 1, 2, 3), Consequence(text, "", text, None, None, 1)),
        fixes=(
            Fix(
                title=text,
                disposition="check",
                flags={"--served-model-name": text, "--enforce-eager": True},
                remove_flags=(text,),
                env={"X": text},
                run=text,
                script=text,
                upgrade=text,
                request=text,
                trade_off=text,
                command=text,
                question=text,
            ),
        ),
        first=Position(1, 0, text),
        last=Position(2, 0, text),
    )
    run = replace(OOM_RUN, model=text, vllm_version=text, ended=Position(2, 0, text), args={text: [text]})
    source = SourceSummary(text, lines=2, bytes=2, error=text, recognised=True, runs=(run,))
    return Report(
        version="0.1.0",
        rules=RULES,
        sources=(source,),
        findings=(finding,),
        unexplained=(Unexplained(text, 1, text, 2),),
        notices=(text,),
    )


HOSTILE = hostile(ATTACK)

ALL = {
    "kv": KV,
    "oom": OOM,
    "starts": STARTS,
    "healthy": HEALTHY,
    "symptoms": SYMPTOMS,
    "several": SEVERAL,
    "hostile": HOSTILE,
}

"""Counts the starts of a server in one log, line by line, with the phase and signs of life of each.

One start prints several marks (a shell echo, the API server's version line, its banner, each engine's configuration),
so a mark begins a new run only when the run before it has served, failed or ended, or when the same speaker's role
announces itself again (DESIGN section 4).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from vlogdiag.log.headers import Parsed
from vlogdiag.log.quoted import QUOTING
from vlogdiag.log.records import Context
from vlogdiag.model import Level, Phase, Record

__all__ = ["MARK_LITERALS", "Run", "RunTracker"]

MARKS = re.compile(
    r"(?=[v█ISLMWCAURKFsG])(?:"  # how one of them begins: five times as fast
    r"(?P<api>vLLM API server version )"
    r"|(?P<banner>█.{0,60}version \d)"
    r"|(?P<engine>Initializing (?:an? )?(?:V[01] )?(?:LLM )?engine\b)"
    r"|(?P<loading>Starting to load model|Loading (?:safetensors|pt) checkpoint shards|Start loading|Loading model from )"
    r"|(?P<profiling>Model loading took|Warming up model for the compilation|Loading model weights took)"
    r"|(?P<capturing>Capturing (?:CUDA graph|the model for CUDA graphs|cudagraphs))"
    r"|(?P<serving>Application startup complete|Avg prompt throughput: |Uvicorn running on |Starting vLLM API server|Started server process)"
    r"|(?P<stopping>Shutting down|Application shutdown complete|Waiting for application shutdown|Received signal|SIGTERM|KeyboardInterrupt"
    r"|Shutdown initiated|Finished server process|shutdown triggered|Gracefully stopping\.\.\.))"
)
MARK_LITERALS: tuple[str, ...] = (
    "vLLM API server version ",
    "Initializing a",
    "Starting to load model",
    "checkpoint shards",
    "Start loading",
    "Loading model from ",
    "Model loading took",
    "Warming up model for the compilation",
    "Loading model weights took",
    "Capturing CUDA graph",
    "Capturing the model for CUDA graphs",
    "Capturing cudagraphs",
    "Application startup complete",
    "Uvicorn running on ",
    "Starting vLLM API server",
    "Started server process",
    "Shutting down",
    "Application shutdown complete",
    "Waiting for application shutdown",
    "Received signal",
    "SIGTERM",
    "KeyboardInterrupt",
    "Shutdown initiated",
    "Finished server process",
    "shutdown triggered",
    ": error: ",
)
"""Literals that the fast path must not skip, since they move the tracker."""

FATAL = (
    "Engine core initialization failed",
    "Engine process failed to start",
    "EngineDeadError",
    "initialization failed. See root cause",
    "EngineCore failed to start",
    "EngineCore encountered a fatal error",
    "vllm: error: ",
    "vllm serve: error: ",
    "api_server.py: error: ",
    "is already dead, terminating server process",
    "Engine is dead",
)
"""Literals after which a start is over."""
ASKED = (
    "SIGTERM",
    "KeyboardInterrupt",
    "Received signal",
    "Shutdown initiated",
    "Shutting down FastAPI HTTP server",
    "[shutdown] API server: shutdown triggered",
    "Gracefully stopping...",
)
"""Literals that say a shutdown was asked for: by the signal handler (`launcher.py`), by `docker compose` on Ctrl-C."""
NEAR = 50
"""Processes' lines arrive out of order: what was asked may be printed this many lines after what came of it."""
RECORD_MARKS = frozenset((*FATAL, *ASKED))

PHASES = {
    "loading": Phase.LOADING,
    "profiling": Phase.PROFILING,
    "capturing": Phase.CAPTURING,
    "serving": Phase.SERVING,
    "stopping": Phase.STOPPING,
}
ORDER = {phase: number for number, phase in enumerate(Phase)}
LAUNCH = re.compile(r"(?:^|[\s/;&])(?:vllm\s+serve|vllm\.entrypoints\.(?:openai\.)?api_server)\b")
ANSWERED = re.compile(r'"POST \S{1,200} HTTP/[\d.]{1,3}" 200')
THROUGHPUT = re.compile(r"throughput: (\d+\.\d+) tokens/s")
MAX_PLAIN = 1_000
MAX_MARK = 600
"""Marks stand near the start of a line."""


class Run(Struct):
    """What the tracker knows of one start."""

    number: int
    first_line: int
    last_line: int
    first_time: float | None = None
    last_time: float | None = None
    phase: Phase = Phase.STARTING
    roles: set[str] = field(default_factory=set)
    marked: bool = False
    """A start mark was seen (else the log began in the middle)."""
    served: bool = False
    served_line: int | None = None
    failed_line: int | None = None
    """First line of a fatal mark."""
    ended_line: int | None = None
    """First line of an exit mark."""
    asked_line: int | None = None
    """First line that says the shutdown was asked for."""
    last_life: int | None = None
    """Line of the last answered request or working statistics line."""
    phase_times: dict[Phase, float] = field(default_factory=dict)
    error_line: int | None = None

    def asked_by(self, line: int) -> bool:
        """The shutdown had been asked for when that line was printed: it is no failure."""
        return self.asked_line is not None and self.asked_line <= line + NEAR


class RunTracker:
    """Takes every parsed line once, in order; answers with the run and phase that the line belongs to."""

    def __init__(self, on_start: Callable[[], None]) -> None:
        self.runs: list[Run] = []
        self._plain: set[str] = set()  # messages without a mark, which floods repeat
        self._on_start = on_start
        """Called before a mark that may begin a run is judged: what is open belongs to the run before."""

    @property
    def current(self) -> Run:
        """The run in progress (the first begins with the first line)."""
        if not self.runs:
            self.runs.append(Run(1, 1, 1))
        return self.runs[-1]

    def __call__(self, parsed: Parsed, number: int, time: float | None) -> Context:
        """Account for one line; see `Assembler`."""
        run = self.current
        text = parsed.text if len(parsed.text) <= MAX_MARK else parsed.text[:MAX_MARK]
        if parsed.kind == "shell":
            if LAUNCH.search(text):
                run = self._start(run, "shell", number)
        elif parsed.kind == "uvicorn" and " HTTP/" in text:
            if not run.served and '"POST ' in text:  # it answers, if only with errors
                self._advance(run, "serving", text, number, time)
            if ANSWERED.search(text):
                run.last_life = number
        elif not text.startswith(QUOTING):
            run = self._mark(run, parsed, text, number, time)
        run.last_line = number
        if time is not None:
            if run.first_time is None:
                run.first_time = time
            if run.last_time is None or time > run.last_time:
                run.last_time = time
        return Context(run.number, run.phase, run.last_life)

    def skip(self, first_line: int, last_line: int, time: float | None, life: int | None) -> None:
        """Account for lines that nobody had to read: their end, their last time, the last answered request."""
        run = self.current
        run.first_line = min(run.first_line, first_line)
        run.last_line = max(run.last_line, last_line)
        if life is not None:
            run.last_life = max(life, run.last_life or 0)
        if time is not None:
            run.first_time = time if run.first_time is None else run.first_time
            run.last_time = time if run.last_time is None else max(time, run.last_time)

    def _mark(self, run: Run, parsed: Parsed, text: str, number: int, time: float | None) -> Run:
        match = None if text in self._plain else MARKS.search(text)
        if match is None:
            if len(self._plain) >= MAX_PLAIN:
                self._plain.clear()
            self._plain.add(text)
            return run
        name = match.lastgroup or ""
        info = parsed.level is None or parsed.level <= Level.WARNING
        if name in ("api", "banner"):
            return self._start(run, f"{name}:{parsed.process}", number) if info else run
        if name == "engine":
            if not info:
                return run
            own = parsed.process is None or parsed.process.startswith("EngineCore")
            return self._start(
                run, f"engine:{parsed.process}" if own else f"engine:{parsed.process}:{parsed.pid}", number, engine=True
            )
        if not info and name != "stopping":
            return run
        self._advance(run, name, text, number, time)
        return run

    @staticmethod
    def _advance(run: Run, name: str, text: str, number: int, time: float | None) -> None:
        phase = PHASES[name]
        if name == "stopping":
            if any(word in text for word in ASKED):
                run.asked_line = run.asked_line or number
            run.ended_line = run.ended_line or number
        elif name == "serving":
            if not run.served:
                run.served, run.served_line, run.last_life = True, number, number
            found = THROUGHPUT.findall(text)
            if any(float(value) > 0 for value in found):
                run.last_life = number
        if ORDER[phase] > ORDER[run.phase]:
            run.phase = phase
            if time is not None:
                run.phase_times.setdefault(phase, time)

    def fork(self, on_start: Callable[[], None]) -> RunTracker:
        """A twin that goes its own way; runs that are over are shared."""
        twin = RunTracker(on_start)
        last = replace(self.current, roles=set(self.current.roles), phase_times=dict(self.current.phase_times))
        twin.runs = [*self.runs[:-1], last]
        return twin

    def forget(self, run: int) -> None:
        """Let go of runs up to `run`."""
        if len(self.runs) > 1:
            self.runs = [r for r in self.runs if r.number > run] or self.runs[-1:]

    def end(self, number: int) -> None:
        """The log ends with line `number`."""
        if self.runs and number:
            self.runs[-1].last_line = number

    def note(self, record: Record, marks: frozenset[str], *, error: bool) -> None:
        """Account for a complete record: errors, and the ends that stand in their text."""
        run = self.run(record.run)
        if run is None:
            return
        number = record.first.number
        if error and (run.error_line is None or number < run.error_line):
            run.error_line = number
        if marks.isdisjoint(RECORD_MARKS):
            return
        if not marks.isdisjoint(FATAL) and (run.failed_line is None or number < run.failed_line):
            run.failed_line = number
        if not marks.isdisjoint(ASKED) and (run.asked_line is None or number < run.asked_line):
            run.asked_line = number

    def run(self, number: int) -> Run | None:
        """The start with that number, while it is known: the current one as a rule."""
        for run in reversed(self.runs):
            if run.number == number:
                return run
        return None

    def _start(self, run: Run, role: str, number: int, *, engine: bool = False) -> Run:
        self._on_start()
        over = run.served or run.ended_line is not None or role in run.roles
        if not engine:
            over = over or run.failed_line is not None or (run.marked and run.error_line is not None)
        elif run.failed_line is not None and not any(r.startswith(("api", "banner", "shell")) for r in run.roles):
            over = True
        if (
            over
            and engine
            and any(r.startswith(("api", "banner")) for r in run.roles)
            and role not in run.roles
            and not run.served
        ):
            over = False
        if over and (run.marked or run.served or run.failed_line is not None or run.ended_line is not None):
            run.last_line = max(run.first_line, number - 1)
            run = Run(run.number + 1, number, number)
            self.runs.append(run)
        run.marked = True
        run.roles.add(role)
        return run

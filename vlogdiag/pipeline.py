"""Puts the stages together: bytes of a log in, findings out. Read this first; it is the whole flow.

bytes -> lines -> records -> detections, facts -> (run by run) incidents -> findings
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from vlogdiag.catalog import Versions
from vlogdiag.corroboration import AFTER_S, Readings, corroborated, live_values, moment_of
from vlogdiag.diagnosis import arguments, incidents
from vlogdiag.diagnosis.engine import MAX_HITS, Detection, Hit, Matcher
from vlogdiag.diagnosis.facts import ARGUMENT_MARKS, FactCollector, Facts
from vlogdiag.diagnosis.findings import finding_of, plain_value, unexplained_finding
from vlogdiag.diagnosis.incidents import Incident, Member
from vlogdiag.diagnosis.runs import MARK_LITERALS, RECORD_MARKS, Run, RunTracker
from vlogdiag.diagnosis.scope import RunScope
from vlogdiag.diagnosis.statistics import Statistics, parse_statistics
from vlogdiag.diagnosis.time_rules import TimeRules
from vlogdiag.diagnosis.unexplained import CRASHES, SHOWN, Leftovers, exception_line, is_error
from vlogdiag.diagnosis.useless import useless_arguments
from vlogdiag.loading import Rules
from vlogdiag.log.edges import edge_lines, last_life
from vlogdiag.log.indent import Indent
from vlogdiag.log.prefilter import Gates, Prefilter, is_statistics, matters
from vlogdiag.log.quoted import DATA, QUOTING, is_quotation, without_data
from vlogdiag.log.records import Assembler, LogClock
from vlogdiag.log.when import Moment, window
from vlogdiag.log.windows import HEAD_LINES, MAX_LINE, Windows
from vlogdiag.model import (
    Finding,
    Level,
    Line,
    Omitted,
    Outcome,
    Phase,
    Position,
    Reading,
    Record,
    Report,
    Role,
    RunSummary,
    Severity,
    SourceSummary,
    Unexplained,
)
from vlogdiag.values import Quantity

__all__ = ["Pipeline", "Result", "report_of"]

MAX_RUNS = 1_000
MAX_HOSTS = 1_000
DEFAULT_PORT = 8000
"""Where `vllm serve` listens unless told otherwise, in every version."""


class Result(Struct, frozen=True):
    """What one log gave."""

    summary: SourceSummary
    findings: tuple[Finding, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    notices: tuple[str, ...] = ()


class _Judged(Struct):
    run: Run
    incidents: list[Incident]
    orphans: list[Member]
    causes: frozenset[str]
    """What `after_run` of the next run may name."""
    extra: list[Finding] = field(default_factory=list)
    versions: frozenset[str] = frozenset()
    """Versions that the log had printed when it was judged: a run without one has that of the others."""
    written: dict[int, tuple[Incident, Finding]] = field(default_factory=dict)
    """Findings that can no longer change, with the incidents that they were written from."""


class Pipeline:
    """One log. `feed` bytes as they come (any cuts), then `close`; `findings` may be asked for at any time."""

    def __init__(
        self,
        rules: Rules,
        *,
        source: str,
        version: str | None = None,
        given: Mapping[str, Quantity] | None = None,
        prefilter: Prefilter | None = None,
        keep_runs: int | None = None,
        gates: Gates | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> None:
        self.source = source
        self._rules = rules
        self._given = dict(given or {})
        self._version = version
        self._keep_runs = keep_runs
        self.on_statistics: Callable[[Statistics, Record], None] | None = None
        """Told every statistics line (a live display wants them all), one that `mark` met while it was open twice."""
        self._since = since
        self._until = until
        self._tracker = RunTracker(self._close_open)
        self._assembler = Assembler(self._tracker)
        self._matcher = Matcher(rules.book)
        self._facts = FactCollector(rules.facts)
        self._timed = TimeRules(rules.book.signatures, self._matcher, self._scope)
        self._hits: dict[int, dict[object, Hit]] = {}
        self._leftovers = Leftovers()
        self.gates = gates or Gates((*self._matcher.gates, *self._timed.gates, *self._facts.gates, *RECORD_MARKS, DATA))
        """Of the same rules; whoever has many logs hands on those of the first, which cost a tenth of a second."""
        self._windows = Windows(self, prefilter)
        self._indent = Indent()
        self._recognised = False
        self._hosts: set[str] = set()  # containers, pods and machines whose lines are vLLM's
        self._uncounted = 0  # matches of a run that has too many distinct ones
        self._last_run = 1
        self._anchor: tuple[float | None, float] | None = None
        self._readings = Readings()
        self._over: dict[int, _Judged] = {}
        self._news = 0
        self._last_news = 0
        self._speaks: dict[tuple[int, int], bool] = {}
        self._deadline: float | None = None
        self._owned: set[tuple[int, object]] | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the log."""
        self._windows.feed(data)

    def leave_out(self, count: int) -> None:
        """The line in progress, which is as long as lines are read, has `count` bytes more."""
        self._windows.leave_out(count)

    def whole_lines(self, data: bytes) -> bytes:
        """First half of `feed`, for a caller who scans in another thread: whole lines to hand to `feed_scanned`."""
        return self._windows.whole_lines(data)

    @property
    def cutting(self) -> bool:
        """The line in progress is longer than lines are read."""
        return self._windows.cutting

    def feed_scanned(self, chunk: bytes, hits: Sequence[int] | None) -> None:
        """Second half: whole lines, with what `prefilter.scan` found in them."""
        self._windows.take(chunk, hits)

    def stop(self, moment: float) -> Result:
        """End of looking at `moment` (monotonic), though the log may go on."""
        self.flush()
        self._count(self._timed.overdue(self.log_time(moment)))
        return self.result()

    def close(self, error: str | None = None, *, moment: float | None = None) -> Result:
        """End of the log (noticed at `moment`, monotonic); `error` says why it could not be read to its end."""
        self.flush()
        now = self._assembler.clock.now if moment is None else self.log_time(moment)
        for deadline in self._timed.deadlines():
            self._readings.at(deadline)
        watched = self._readings.last()  # a recording shows how long nothing came after the last line
        if now is not None and watched is not None and moment is None:
            now = max(now, watched)
        self._count(self._timed.overdue(now))
        if error is None:
            self._count(self._timed.at_end(self._still_open, self._assembler.clock.now))
        return self.result(error)

    def _still_open(self, run: int) -> bool:
        """The run is the last one and has not ended by itself."""
        last = self._tracker.runs[-1] if self._tracker.runs else None
        return last is not None and last.number == run and last.ended_line is None and last.failed_line is None

    def _scope(self, record: Record, captures: Mapping[str, Quantity | None]) -> RunScope:
        """What conditions inside a sequence or silence may ask: the run as far as it is known at that record."""
        run = self._tracker.run(record.run)
        return RunScope(captures, self._facts_of(record.run), run, record, record.phase, self._given)

    def flush(self) -> None:
        """Take what stands after the last line end as a line, and everything open as complete (a quiet moment)."""
        self._windows.finish()
        self._close_open()

    def _close_open(self) -> None:
        for record in self._assembler.close():
            self._record(record)

    def tick(self, seconds: float) -> None:
        """Let log time pass without a line: silences are decided by it."""
        now = self._assembler.clock.now
        if now is not None:
            self._count(self._timed.overdue(now + seconds))

    def arrived(self, moment: float) -> None:
        """What was fed so far had arrived by `moment` (seconds on a monotonic clock): log time goes on from there.

        Lines without a time (access lines of health checks) leave the last time where it was.
        """
        if self._anchor is None or self._anchor[0] != self._assembler.clock.now:
            self._anchor = self._assembler.clock.now, moment

    def mark(self, until: int, moment: float) -> Hashable:
        """Another value whenever `peek(until, moment)` may say something else than before; costs microseconds."""
        run = self._tracker.current
        hits = self._hits.get(run.number)
        if self.due(moment):
            return object()  # another look is worth while in any case
        speaking = tuple((r.first.number, r.lines[-1].number) for r in self._assembler.held(until) if self._says(r))
        state = (run.number, run.served, run.failed_line, run.ended_line, run.asked_line)
        if not hits and not self._leftovers.distinct:
            return self._news, state, speaking
        passed = sum(
            hit.last is not None and hit.last.lines[-1].number < (run.last_life or 0) for hit in (hits or {}).values()
        )
        alive = passed, run.last_life is not None and run.last_life > self._last_news
        return self._news, state, speaking, alive, self._facts.revision, self._readings.revision

    def due(self, moment: float) -> bool:
        """Whether by `moment` a silence has lasted long enough that the last `peek` saw begin."""
        now = self.log_time(moment)
        return self._deadline is not None and now is not None and now >= self._deadline

    def _says(self, record: Record) -> bool:
        """Whether an open record may change what is found."""
        place = record.first.number, record.lines[-1].number
        known = self._speaks.get(place)
        if known is None:
            text = record.text
            if len(self._speaks) > 10_000:
                self._speaks.clear()
            if self.on_statistics is not None and is_statistics(text):
                self.on_statistics(parse_statistics(text), record)  # will come again once it is complete
            known = self._speaks[place] = is_error(record, text) or bool(self.gates.found(text))
        return known

    def observe(self, reading: Reading) -> None:
        """Take a live reading; without a time of its own it was taken now, on the log's clock."""
        self._readings.add(reading)

    def replay(self, recorded: Iterable[Reading]) -> None:
        """Take a recording of readings, in its order; it is read as far as the log has come."""
        self._readings.replay(r for r in recorded if r.log is None or same_log(r.log, self.source))

    @property
    def clock(self) -> LogClock:
        """The log's own clock."""
        return self._assembler.clock

    @property
    def pids(self) -> frozenset[int]:
        """Process ids that the log has named."""
        return frozenset(self._readings.pids)

    @property
    def address(self) -> tuple[str | None, int] | None:
        """Host and port of the server that the current start has brought up; None while the log does not tell."""
        run = self._tracker.current
        facts = self._facts_of(run.number)
        if not run.served or not (facts.complete or facts.args) or facts.argument("ssl_certfile"):
            return None
        host, port = facts.argument("host"), facts.argument("port")
        return (str(host) if host else None, port if isinstance(port, int) else DEFAULT_PORT)

    def log_time(self, moment: float) -> float | None:
        """Log time at `moment` (monotonic): that of the last record plus what has passed since it arrived."""
        now = self._assembler.clock.now
        return None if now is None or self._anchor is None else now + max(0.0, moment - self._anchor[1])

    def summary_of(self, run: int) -> RunSummary | None:
        """What one start has said of itself so far; its outcome is left open."""
        known = self._tracker.run(run)
        return None if known is None else self._summary(known, None)

    def peek(self, until: int | None = None, moment: float | None = None) -> Result:
        """What `stop` would say now; open records with lines after `until`, which may still grow, are left out.

        Changes nothing: what stands in the middle of a message is looked at by a twin, which shares what is over.
        """
        twin = copy.copy(self)
        twin.on_statistics = None
        twin._owned = set()
        twin._hits = dict(self._hits)
        twin._hosts = set(self._hosts)
        twin._tracker = self._tracker.fork(twin._close_open)
        twin._facts = self._facts.fork(self._tracker.current.number)
        twin._timed = self._timed.fork(twin._scope)
        twin._leftovers = self._leftovers.fork()
        twin._indent = copy.copy(self._indent)
        if self._windows.waiting:
            twin._assembler = copy.deepcopy(self._assembler, {id(self._tracker): twin._tracker})
            twin._windows = self._windows.fork(twin)
            twin._windows.finish()
        place = twin._windows.number
        now = self.log_time(moment) if moment is not None else None
        seen = place if until is None else until
        for record in twin._assembler.held(seen):
            twin._record(record)
        deadlines = twin._timed.deadlines()
        if now is not None and deadlines and now >= deadlines[0]:
            for record in twin._assembler.held(place):
                if record.lines[-1].number > seen:  # however young, it may have ended that silence
                    twin._record(record)
            twin._count(twin._timed.overdue(now))
            deadlines = twin._timed.deadlines()
        self._deadline = deadlines[0] if deadlines else None
        return twin.result(brief=True)

    def heard(self) -> set[str]:
        """Ids of every rule that matched anything, refinements by name."""
        found: set[str] = set()
        for table in self._hits.values():
            for hit in table.values():
                found.add(hit.lead.signature.id)
                found.update(r.id for r in hit.lead.refinements)
        return found

    def result(self, error: str | None = None, *, brief: bool = False) -> Result:
        """Everything known so far, as a report's parts; `brief` leaves out what the starts say of themselves."""
        self._tracker.end(self._windows.number)
        judged = self._judge()
        findings = self.findings(judged)
        summary = SourceSummary(
            path=self.source,
            bytes=self._windows.offset,
            lines=self._windows.number,
            error=error,
            recognised=self._recognised,
            omitted=Omitted(self._windows.omitted_bytes, self._windows.omitted_lines, self._matcher.timeouts),
            runs=() if brief else tuple(self._run_summary(j, judged) for j in judged),
        )
        unexplained = self._unexplained(judged)
        return Result(summary, findings, unexplained, self._notices(judged, findings))

    def findings(self, judged: Sequence[_Judged] | None = None) -> tuple[Finding, ...]:
        """Findings in order: the last run first, within a run what ended it first."""
        judged = self._judge() if judged is None else judged
        found: list[Finding] = []
        for one in reversed(judged):
            found.extend(self._written(one, incident) for incident in one.incidents)
            found.extend(one.extra)
        return tuple(found)

    def _written(self, one: _Judged, incident: Incident) -> Finding:
        if one.run.number not in self._over:
            return self._finding(incident)
        known = one.written.get(id(incident))
        if known is None or known[0] is not incident:
            known = one.written[id(incident)] = incident, self._finding(incident)
        return known[1]

    def _finding(self, incident: Incident) -> Finding:
        live, reading = live_values(incident.cause, self._readings)
        incident.cause.scope.live = live
        return corroborated(finding_of(incident, self.source), incident, reading)

    # --- lines and records ---

    @property
    def runs(self) -> tuple[Run, ...]:
        """The starts seen so far, with the times of their phases."""
        return tuple(self._tracker.runs)

    @property
    def phase(self) -> Phase:
        """Phase of the current run."""
        return self._tracker.current.phase

    @property
    def place(self) -> tuple[int, int]:
        """Lines and bytes taken so far, those that wait included."""
        return self._windows.place

    @property
    def growing(self) -> int:
        """Number of the last line that joined a traceback (`windows.Reader`)."""
        return self._assembler.bare_last

    @property
    def served(self) -> bool:
        """The current run serves (`windows.Reader`)."""
        return self._tracker.current.served

    def stands_apart(self, text: str) -> bool:
        """Whether a line may be passed over inside a window (`windows.Reader`)."""
        done = self._assembler.apart(text)
        for record in done or ():
            self._record(record)
        return done is not None

    def line(self, number: int, offset: int, text: str) -> None:
        """One line (`windows.Reader`)."""
        for record in self._assembler.line(number, offset, self._indent.off(text)):
            self._record(record)

    def lines(self, number: int, offset: int, texts: Sequence[str]) -> None:
        """Many plain lines (`windows.Reader`)."""
        if self._indent.text != "":
            for text in texts:
                self.line(number, offset, text)
                number, offset = number + 1, offset + len(text) + 1
            return
        self._assembler.lines(number, offset, texts, self._record)

    def skip(self, data: bytes, start: int, end: int, first: int, last: int) -> None:
        """Lines that hold nothing worth reading: their time, and whether a request was answered (`windows.Reader`)."""
        time = None
        for parsed in edge_lines(data, start, end, self._indent.off):
            if not self._recognised:
                self._recognised = _is_vllm(parsed.kind, parsed.process, parsed.text, parsed.source)
            moment = self._assembler.time(parsed)
            time = moment if time is None else max(time, moment if moment is not None else time)
        self._tracker.skip(first, last, time, last_life(data, start, end, last))
        for record in self._assembler.skip(last):
            self._record(record)

    def _record(self, record: Record) -> None:
        if not self._recognised:
            known = _is_vllm(record.kind, record.origin.process, record.first.text, record.source)
            self._recognised = known or self._tracker.current.marked
        host = record.origin.host
        if (
            host is not None
            and host not in self._hosts
            and len(self._hosts) < MAX_HOSTS
            and _is_vllm(record.kind, record.origin.process, record.first.text, record.source)
        ):
            self._hosts.add(host)
        if record.kind == "vllm" and record.source is not None and tells_version(record):
            self._facts.shape(record.run, record.origin.process, record.bracket)
        self._readings.saw(record)
        text = record.text
        if is_statistics(text):
            if self.on_statistics is not None:
                self.on_statistics(parse_statistics(text), record)
            if not matters(text):
                return
        gates = self.gates.found(text)
        if DATA in gates:
            record = without_data(record, text)
            text = record.text
            gates = self.gates.found(text)
        self._facts.take(record, text, gates)
        if record.run != self._last_run:  # a new start: what the one before was silent about no longer matters
            self._timed.forget(self._last_run)
            self._last_run = record.run
            if self._keep_runs is not None:
                self._forget(record.run - self._keep_runs)
        if is_quotation(record, text):
            return
        detections = [*self._matcher.match(record, text, gates), *self._timed.take(record, text, gates)]
        error = is_error(record, text)
        if not text.startswith(QUOTING):
            self._tracker.note(record, gates, error=error and record.kind in ("vllm", "bare", "json"))
        if error and not claimed(record, detections):
            self._leftovers.add(record)
            self._told(record)
        if not detections:
            return
        self._recognised = True
        self._count(detections)

    def _forget(self, run: int) -> None:
        """Let go of runs up to `run`: whoever follows a log for months keeps the recent ones."""
        for table in (self._hits, self._over):
            for old in [number for number in table if number <= run]:
                del table[old]
        self._facts.forget(run)
        self._leftovers.forget(run)
        self._tracker.forget(run)

    def _count(self, detections: Iterable[Detection]) -> None:
        for detection in detections:
            self._told(detection.last or detection.record)
            self._readings.at(moment_of(detection))  # now: later the ring holds newer ones
            run, key = detection.record.run, detection.key
            table = self._hits.setdefault(run, {})
            hit = table.get(key)
            if self._owned is not None and (run, key) not in self._owned:  # a twin: what it changes becomes its own
                table = self._hits[run] = dict(table)
                self._owned.add((run, key))
                if hit is not None:
                    hit = table[key] = hit.fork()
            over = hit is not None and hit.is_over(detection)
            if hit is None or over:
                if len(table) >= MAX_HITS:
                    self._uncounted += 1
                    continue
                if hit is not None:
                    table[key, hit.lead.line.number] = hit
                hit = table[key] = Hit(detection)
            hit.add(detection)

    def _told(self, record: Record) -> None:
        """Something that a finding may rest on has come."""
        self._news += 1
        self._last_news = max(self._last_news, record.lines[-1].number)

    # --- judging ---

    def _judge(self) -> list[_Judged]:
        runs = self._tracker.runs[-MAX_RUNS:]  # `_notices` says how many that leaves out
        versions = frozenset(self._facts.known_versions())
        judged: list[_Judged] = []
        before: frozenset[str] = frozenset()
        for run in runs:
            one = self._over.get(run.number)
            if one is None or (one.versions != versions and self._facts.of(run.number).version_text is None):
                one = self._judge_run(run, before)
                one.versions = versions
                if run is not runs[-1] and self._is_settled(run):
                    self._over[run.number] = one
            before = one.causes
            judged.append(one)
        served = False
        for one in reversed(judged):
            if served:
                one.incidents = sorted((incidents.recovered(i, runs) for i in one.incidents), key=incidents.rank)
            served = served or one.run.served
        return judged

    def _judge_run(self, run: Run, before: frozenset[str]) -> _Judged:
        hits = [
            hit
            for hit in self._hits.get(run.number, {}).values()
            if self._inside(hit.times) and not self._foreign(hit.lead.record)
        ]
        facts = self._facts_of(run.number)
        found, orphans = incidents.judge(hits, self._rules.book, run, facts, given=self._given, before=before)
        causes = incidents.names_of(found, self._rules.book)
        # What a process prints while it is being stopped wants no explanation.
        one = _Judged(run, found, [m for m in orphans if not run.asked_by(m.line)], causes)
        self._fall_back(one)
        return one

    def _is_settled(self, run: Run) -> bool:
        """Nothing that is still to come, a reading included, can belong to this run."""
        now = self._assembler.clock.now
        return not self._readings.used or now is None or run.last_time is None or now - run.last_time > AFTER_S

    def _inside(self, times: Sequence[float]) -> bool:
        """Whether something happened in the window that was asked for."""
        if self._since is None and self._until is None:
            return True
        asked = window(self._since, self._until, self._assembler.clock)
        return asked is None or any(asked[0] <= t <= asked[1] for t in times)

    def _foreign(self, record: Record) -> bool:
        """A traceback of another container, beside vLLM's own, in `docker compose logs` and the like."""
        host = record.origin.host
        if host is None or not self._hosts or host in self._hosts or record.level is not None:
            return False
        return is_raised(record) and "vllm" not in record.text

    def _in_window(self, record: Record) -> bool:
        return self._inside([record.time] if record.time is not None else [])

    def _facts_of(self, run: int) -> Facts:
        facts = self._facts.of(run)
        version = self._version
        if version is None and facts.version_text is None:
            # Another start in the same log is most likely the same installation, if that says one at all.
            known = self._facts.known_versions()
            version = known.pop() if len(known) == 1 else None
        if version is None or version == facts.version_text:
            return facts
        facts = copy.copy(facts)
        facts.version_text = version
        return facts

    def _fall_back(self, one: _Judged) -> None:
        """A run that died without an explanation still says of what."""
        run = one.run
        if any(i.severity >= Severity.ERROR for i in one.incidents):
            return
        first = self._leftovers.first(run.number) or worker_said(one.orphans)
        if first is None:
            return
        record, line = first
        if not self._in_window(record):
            return
        if run.asked_by(line.number):
            return
        if run.last_life is not None and run.last_life > line.number:
            return
        if run.served and (run.served_line or 0) > line.number:
            return
        crashed = run.ended_line is None and any(crash in each.text for each in record.lines for crash in CRASHES)
        died = crashed or run.failed_line is not None or any(m.signature.role is Role.SYMPTOM for m in one.orphans)
        if not died and (run.served or not is_raised(record)):
            return
        ended = max(
            (m.hit.last for m in one.orphans if m.hit.last is not None), key=lambda r: r.lines[-1].number, default=None
        )
        one.extra.append(
            unexplained_finding(record, self.source, ended=ended, versions=self._facts_of(run.number).versions)
        )
        one.orphans = []

    def _run_summary(self, one: _Judged, judged: Sequence[_Judged]) -> RunSummary:
        return self._summary(one.run, _outcome(one, judged))

    def _summary(self, run: Run, outcome: str | None) -> RunSummary:
        facts = self._facts_of(run.number)
        versions = facts.versions
        ended = run.failed_line or run.ended_line
        return RunSummary(
            run=run.number,
            first_line=run.first_line,
            last_line=run.last_line,
            vllm_version=facts.version_text or versions.single,
            versions_possible=(versions.spec() or None) if versions.mask != Versions.all().mask else None,
            model=_model(facts),
            outcome=outcome,
            phase=run.phase,
            ended=Position(ended) if ended else None,
            args=arguments.plain(facts.args or facts.resolved),
            facts={name: plain_value(fact.quantity) for name, fact in sorted(facts.values.items())},
        )

    def _unexplained(self, judged: Sequence[_Judged]) -> tuple[Unexplained, ...]:
        shown = {(e.source, e.line) for one in judged for f in one.extra for e in f.evidence}
        listed = [u for u in self._leftovers.listed(self.source, self._in_window) if (u.source, u.line) not in shown]
        for one in judged:
            if one.incidents or one.extra:
                continue
            for member in one.orphans:
                lead = member.hit.lead
                listed.append(
                    Unexplained(
                        self.source,
                        lead.line.number,
                        lead.line.text[:1000],
                        member.hit.count,
                        one.run.number,
                        symptom=member.signature.id,
                    )
                )
        listed.sort(key=lambda u: u.line)
        return tuple(listed[:SHOWN])

    def _notices(self, judged: Sequence[_Judged], findings: Sequence[Finding]) -> tuple[str, ...]:
        notices: list[str] = []
        if self._windows.omitted_lines:
            notices.append(
                f"{self.source}: {self._windows.omitted_lines} lines longer than {MAX_LINE >> 20} MiB were cut "
                f"({self._windows.omitted_bytes} bytes left out)"
            )
        if (self._since or self._until) and self._assembler.clock.now is None:
            notices.append(f"{self.source}: no line tells its time, so --since and --until leave nothing out")
        if self._matcher.timeouts:
            notices.append(f"{self.source}: {self._matcher.timeouts} searches ran into their time limit")
        if self._uncounted:
            notices.append(
                f"{self.source}: {self._uncounted} matches beyond the {MAX_HITS:,} events of a start were left out"
            )
        if len(self._tracker.runs) > MAX_RUNS:
            unread = len(self._tracker.runs) - MAX_RUNS
            notices.append(f"{self.source}: the last {MAX_RUNS:,} starts were judged, {unread:,} earlier ones were not")
        if self._leftovers.distinct > SHOWN or self._leftovers.beyond:
            notices.append(
                f"{self.source}: {self._leftovers.distinct} distinct unexplained errors, {SHOWN} are listed "
                f"({self._leftovers.beyond} more were only counted)"
            )
        useless = dict.fromkeys(text for one in judged for text in useless_arguments(self._facts_of(one.run.number)))
        notices.extend(f"{self.source}: {text}" for text in useless)
        if not findings:
            for one in judged:
                symptoms = [m for m in one.orphans if m.signature.role is Role.SYMPTOM]
                if symptoms:
                    notices.append(elsewhere(self.source, symptoms[0], one.run))
                    break
        return tuple(notices)


def same_log(one: str, other: str) -> bool:
    """Whether two paths may name one log: a recording is replayed in another folder as a rule."""
    return one.replace("\\", "/").rpartition("/")[2] == other.replace("\\", "/").rpartition("/")[2]


def elsewhere(source: str, symptom: Member, run: Run) -> str:
    """Where the cause of a lone symptom is to be found."""
    line = symptom.line
    before = line - run.first_line
    where = (
        f"in the lines before {source}:{line} that this file does not hold (it begins {before} lines earlier)"
        if before < 200 and not run.marked
        else "in the output of another process that is not in this file (worker, engine core, other node, stderr)"
    )
    return f"{source}:{line}: only consequences are here; the cause stands {where}"


PROCESSES = ("APIServer", "ApiServer", "EngineCore", "Worker", "VllmWorker", "RayWorkerWrapper", "DPSupervisor")
"""How the names begin that vLLM's processes put before all that they print (`logging_utils`, `decorate_logs`)."""
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/models", "/v1/embeddings", "/v1/responses")


def _is_vllm(kind: str, process: str | None, text: str, source: str | None) -> bool:
    """Whether a line shows that the log is vLLM's: its header, logger, process prefix, or requests served."""
    if kind == "vllm" or (kind == "json" and source is not None and source.startswith("vllm")):
        return True
    if process is not None and process.startswith(PROCESSES):
        return True
    return kind == "uvicorn" and any(path in text for path in ENDPOINTS)


def tells_version(record: Record) -> bool:
    """Header shapes are looked at where every path looks: in the log's first lines and in errors."""
    return record.first.number <= HEAD_LINES or (record.level is not None and record.level >= Level.ERROR)


def claimed(record: Record, detections: Sequence[Detection]) -> bool:
    """Whether signatures account for a record: a symptom does so only for the exception that it names.

    `EngineCore failed to start.` heads a traceback whose exception still wants an explanation.
    """
    if any(d.signature.role is not Role.SYMPTOM for d in detections):
        return True
    if not detections or not is_raised(record):
        return bool(detections)
    return any(d.line.number >= exception_line(record).number for d in detections)


def worker_said(members: Iterable[Member]) -> tuple[Record, Line] | None:
    """The parent's quotation of what its worker raised, for logs in which the worker's own lines are missing."""
    for member in members:
        lead = member.hit.lead
        if "Worker failed with error '" in lead.line.text and "error ''" not in lead.line.text:
            return lead.record, lead.line
    return None


def is_raised(record: Record) -> bool:
    """A traceback in the record, the rest of one whose beginning is missing, or a crash."""
    marks = ("Traceback (most recent call last)", *CRASHES)
    return record.cut or any(mark in line.text for line in record.lines[:40] for mark in marks)


def _model(facts: Facts) -> str | None:
    for name in ("model", "model_tag"):
        value = facts.argument(name)
        if isinstance(value, str):
            return value
    served = facts.argument("served_model_name")
    if isinstance(served, list) and served and isinstance(served[0], str):
        return served[0]
    return served if isinstance(served, str) else None


def _outcome(one: _Judged, judged: Sequence[_Judged]) -> str | None:
    run = one.run
    fatal = any(i.outcome is Outcome.FATAL for i in one.incidents) or bool(one.extra)
    if any(i.outcome is Outcome.RECOVERED for i in one.incidents):
        return "recovered"
    if fatal:
        return "fatal"
    alive = run.last_life is not None and run.last_life > (run.failed_line or 0)
    if run.failed_line is not None and not alive and not run.asked_by(run.failed_line):
        return "fatal"
    if run.ended_line is not None and run.served:
        return "stopped"
    if any(i.severity >= Severity.WARNING for i in one.incidents):
        return "degraded"
    return "serving" if run.served else None


def report_of(results: Iterable[Result], rules: Rules, version: str, *, notices: Sequence[str] = ()) -> Report:
    """All logs' results as one report."""
    results = tuple(results)
    return Report(
        version=version,
        rules=rules.count,
        sources=tuple(r.summary for r in results),
        findings=tuple(f for r in results for f in r.findings),
        unexplained=tuple(u for r in results for u in r.unexplained),
        notices=(*notices, *(n for r in results for n in r.notices)),
    )


def only_run(result: Result, wanted: str) -> Result:
    """Keep the findings of one run: `last`, or its number as text; `all` keeps everything."""
    if wanted == "all":
        return result
    last = max((r.run for r in result.summary.runs), default=1)
    number = last if wanted == "last" else int(wanted)
    return replace(
        result,
        findings=tuple(f for f in result.findings if f.run == number),
        unexplained=tuple(u for u in result.unexplained if u.run == number),
    )


def prefilter_of(rules: Rules) -> Prefilter | None:
    """The literals of all rules, facts and marks, where Hyperscan can be had."""
    if not Prefilter.available():
        return None
    patterns = (p for signature in rules.book.signatures for p in signature.patterns)
    facts = (rule.pattern for rule in rules.facts)
    gates = (p.gate for p in chain(patterns, facts))
    return Prefilter(chain(gates, ARGUMENT_MARKS, MARK_LITERALS, RECORD_MARKS))

"""The report's JSON shape (`vlogdiag.report/1`): its keys in the order of the contract, with what each means."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

REPORT: Literal["vlogdiag.report/1"] = "vlogdiag.report/1"

Severity = Literal["error", "warning", "info"]
Outcome = Literal["fatal", "degraded", "recovered"]
PhaseName = Literal["starting", "loading", "profiling", "capturing", "serving", "stopping"]


class PositionDoc(Struct, kw_only=True, frozen=True):
    """Where in a log something stands."""

    line: Annotated[int | None, Meta(description="line number from 1; null where it cannot be known")]
    offset: Annotated[int | None, Meta(description="byte offset of that line in the decompressed log")]
    time: Annotated[str | None, Meta(description="time as the log spells it")]
    iso: Annotated[str | None, Meta(description="ISO 8601, only where the log says the year")]


class RulesDoc(Struct, kw_only=True, frozen=True):
    """Which rules looked at the log."""

    shipped: Annotated[int, Meta(description="rules that came with vlogdiag")]
    user: Annotated[int, Meta(description="rules added with --rules")]
    digest: Annotated[str, Meta(description="hash over all of them")]


class OmittedDoc(Struct, kw_only=True, frozen=True):
    """What was left out of the analysis."""

    bytes: Annotated[int, Meta(description="bytes not looked at")]
    lines: Annotated[int, Meta(description="lines not looked at")]
    regex_timeouts: Annotated[int, Meta(description="patterns given up because they ran too long")]


class RunDoc(Struct, kw_only=True, frozen=True):
    """One start of a server within a log."""

    run: Annotated[int, Meta(description="number of the start, from 1")]
    first_line: Annotated[int | None, Meta(description="first line of the start")]
    last_line: Annotated[int | None, Meta(description="last line of the start")]
    vllm_version: Annotated[str | None, Meta(description="version that the log prints")]
    versions_possible: Annotated[str | None, Meta(description="PEP 440 specifier of the versions that the log allows")]
    model: Annotated[str | None, Meta(description="model as the log names it")]
    outcome: Annotated[
        str | None, Meta(description="fatal, degraded, recovered, serving or stopped (as asked); null is unknown")
    ]
    args: Annotated[dict[str, Any], Meta(description="arguments that the log prints, by name with underscores")]
    facts: Annotated[dict[str, Any], Meta(description="what else the start said of itself; bytes, 0..1, seconds")]
    phase: Annotated[PhaseName | None, Meta(description="last phase that the start reached")]
    ended: Annotated[PositionDoc | None, Meta(description="last sign of the start's end")]


class SourceDoc(Struct, kw_only=True, frozen=True):
    """One log as far as it was read."""

    path: Annotated[str, Meta(description="the path as given; - is standard input")]
    bytes: Annotated[int, Meta(description="bytes read, decompressed")]
    lines: Annotated[int, Meta(description="lines read")]
    error: Annotated[str | None, Meta(description="why it could not be read, or not to its end")]
    omitted: Annotated[OmittedDoc, Meta(description="what was left out of the analysis")]
    runs: Annotated[list[RunDoc], Meta(description="the starts in this log, in order")]
    recognised: Annotated[bool, Meta(description="whether anything in it is vLLM's")]


class EvidenceDoc(Struct, kw_only=True, frozen=True):
    """One thing that proves a finding; `log` has source and line, `reading` has time."""

    kind: Annotated[Literal["log", "reading", "assumed"], Meta(description="a log line, a live reading or a default")]
    source: Annotated[str | UnsetType | None, Meta(description="log that holds the line (kind log)")] = UNSET
    line: Annotated[int | UnsetType | None, Meta(description="line number from 1 (kind log)")] = UNSET
    time: Annotated[str | UnsetType | None, Meta(description="when it was read (kind reading)")] = UNSET
    text: Annotated[str, Meta(description="the message without header, at most 1,000 characters around the match")]


class ConsequenceDoc(Struct, kw_only=True, frozen=True):
    """What followed from the cause."""

    id: Annotated[str, Meta(description="rule that recognised it")]
    source: Annotated[str, Meta(description="log that holds it")]
    line: Annotated[int | None, Meta(description="its first line")]
    count: Annotated[int, Meta(description="how often it was printed")]
    title: Annotated[str, Meta(description="the rule's title")]
    last_line: Annotated[int | None, Meta(description="its last line")]


class FixDoc(Struct, kw_only=True, frozen=True):
    """One remedy; those that come first are better."""

    title: Annotated[str, Meta(description="what to do, in words")]
    disposition: Annotated[str, Meta(description="apply, or check: its condition could not be decided")]
    flags: Annotated[dict[str, str | bool], Meta(description="flags to set; true is a bare switch")]
    remove_flags: Annotated[list[str], Meta(description="flags to take out")]
    env: Annotated[dict[str, str], Meta(description="variables to set; an empty value means unset")]
    run: Annotated[str | None, Meta(description="command to run")]
    script: Annotated[str | None, Meta(description="name for `vlogdiag rules script`")]
    upgrade: Annotated[str | None, Meta(description="release to install")]
    request: Annotated[str | None, Meta(description="what the client should send instead")]
    trade_off: Annotated[str | None, Meta(description="what it costs")]
    command: Annotated[str | None, Meta(description="the user's own launch command with the fix in it")]
    applies_to: Annotated[str | None, Meta(description="PEP 440 specifier of the versions it was checked against")]
    question: Annotated[str | None, Meta(description="what to find out first (disposition check)")]


class FindingDoc(Struct, kw_only=True, frozen=True):
    """One root cause in one start of one log."""

    id: Annotated[str, Meta(description="rule that found it")]
    family: Annotated[str, Meta(description="kind of trouble: the folder of its rule, or unexplained")]
    severity: Annotated[Severity, Meta(description="as severe as its worst member")]
    confidence: Annotated[Literal["high", "medium", "low"], Meta(description="how sure it is")]
    outcome: Annotated[Outcome, Meta(description="what became of the start")]
    title: Annotated[str, Meta(description="the rule's title")]
    cause: Annotated[str, Meta(description="one sentence with the log's numbers")]
    source: Annotated[str, Meta(description="log that holds it")]
    run: Annotated[int, Meta(description="start that it belongs to, from 1")]
    count: Annotated[int, Meta(description="how often it was printed, by all ranks and parents")]
    speakers: Annotated[list[str], Meta(description="processes that printed it")]
    first: Annotated[PositionDoc, Meta(description="its first line")]
    last: Annotated[PositionDoc, Meta(description="its last line")]
    evidence: Annotated[list[EvidenceDoc], Meta(description="the matched line first; at most six")]
    consequences: Annotated[list[ConsequenceDoc], Meta(description="what followed from it")]
    captures: Annotated[dict[str, Any], Meta(description="values read from it; bytes, 0..1, seconds; null is unknown")]
    ask: Annotated[str | None, Meta(description="what would tell two possible causes apart")]
    fixes: Annotated[list[FixDoc], Meta(description="remedies, best first")]
    references: Annotated[list[str], Meta(description="documentation or threads that confirm cause and fix")]
    known_bug: Annotated[str | None, Meta(description="a bug of vLLM's, and the release that mends it")]
    phase: Annotated[PhaseName | None, Meta(description="phase in which it happened")]
    ranks: Annotated[list[int], Meta(description="ranks that printed it")]
    ranks_missing: Annotated[list[int], Meta(description="ranks of the world that did not")]


class UnexplainedDoc(Struct, kw_only=True, frozen=True):
    """An error that no rule explains."""

    source: Annotated[str, Meta(description="log that holds it")]
    line: Annotated[int, Meta(description="its first line")]
    text: Annotated[str, Meta(description="its message")]
    count: Annotated[int, Meta(description="how often it was printed, numbers aside")]
    run: Annotated[int, Meta(description="start that it belongs to")]
    symptom: Annotated[
        str | None, Meta(description="rule that knows it as a mere consequence: its cause stands elsewhere")
    ]


class SummaryDoc(Struct, kw_only=True, frozen=True):
    """How many findings of each severity there are."""

    error: Annotated[int, Meta(description="findings of severity error")]
    warning: Annotated[int, Meta(description="findings of severity warning")]
    info: Annotated[int, Meta(description="findings of severity info")]


class ReportDoc(Struct, kw_only=True, frozen=True):
    """What `vlogdiag scan --json` prints."""

    format: Annotated[
        Literal["vlogdiag.report/1"],
        Meta(description="`vlogdiag.report/1`: additions keep the number, changes raise it"),
    ]
    vlogdiag: Annotated[str, Meta(description="version of vlogdiag")]
    rules: Annotated[RulesDoc, Meta(description="which rules looked at the log")]
    sources: Annotated[list[SourceDoc], Meta(description="the logs, in the order given")]
    findings: Annotated[list[FindingDoc], Meta(description="what the reader came for first")]
    unexplained: Annotated[
        list[UnexplainedDoc], Meta(description="distinct errors that no rule explains, at most fifty")
    ]
    notices: Annotated[list[str], Meta(description="what else a reader should know")]
    summary: Annotated[SummaryDoc, Meta(description="how many findings of each severity")]

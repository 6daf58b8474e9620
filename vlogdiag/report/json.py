"""A report or a live event to JSON (`vlogdiag.report/1`, `vlogdiag.event/1`), written field by field."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

import msgspec

from vlogdiag.model import (
    Event,
    Evidence,
    Finding,
    Fix,
    Gpu,
    HostState,
    Position,
    Reading,
    Report,
    RunSummary,
    ServerMetrics,
    Severity,
    SourceSummary,
)
from vlogdiag.report import wire, wire_event

Doc = TypeVar("Doc", bound=msgspec.Struct)


def encode(report: Report) -> dict[str, Any]:
    """The report as plain JSON values, keys in the order of the contract; the order of findings is the caller's."""
    doc = wire.ReportDoc(
        format=wire.REPORT,
        vlogdiag=report.version,
        rules=_take(wire.RulesDoc, report.rules),
        sources=[_source(source) for source in report.sources],
        findings=[_finding(finding) for finding in report.findings],
        unexplained=[_take(wire.UnexplainedDoc, item) for item in report.unexplained],
        notices=list(report.notices),
        summary=wire.SummaryDoc(**{level.word: _count(report, level) for level in Severity}),
    )
    return _document(doc)


def dumps(report: Report) -> str:
    """The report as JSON text with a final newline: ASCII only, so that no terminal and no build server obeys it."""
    return _text(encode(report), indent=2) + "\n"


def encode_event(event: Event) -> dict[str, Any]:
    """A live event as plain JSON values; `data` is a finding of the report, a reading or a notice."""
    doc = wire_event.EventDoc(
        format=wire_event.EVENT, type=event.type, data=_event_data(event), details=_plain(event.details)
    )
    return _document(doc)


def event(event: Event) -> str:
    """A live event as one line of JSON, without the newline."""
    return _text(encode_event(event), indent=None)


def schema() -> dict[str, Any]:
    """JSON Schema of what `encode` yields; every key has a description."""
    return msgspec.json.schema(wire.ReportDoc)


def event_schema() -> dict[str, Any]:
    """JSON Schema of what `event` yields; `data` is one of three shapes."""
    shapes = (wire.FindingDoc, wire_event.ReadingDoc, wire_event.NoticeDoc)
    (envelope, *data), components = msgspec.json.schema_components((wire_event.EventDoc, *shapes))
    event_doc = components["EventDoc"]["properties"]
    event_doc["data"] = {"description": event_doc["data"]["description"], "anyOf": data}
    return {**envelope, "$defs": components}


def field_table(document: Mapping[str, Any], *, besides: Mapping[str, Any] | None = None) -> str:
    """The keys of a schema as Markdown tables, one for each kind of object that is not in the schema `besides`."""
    blocks = []
    known = besides["$defs"] if besides else {}
    top = document["$ref"].rpartition("/")[2]
    shapes = [(name, shape) for name, shape in document["$defs"].items() if name not in known]
    for name, shape in sorted(shapes, key=lambda item: item[0] != top):
        rows = [f"| `{key}` | {value['description']} |" for key, value in shape["properties"].items()]
        title = f"### {name.removesuffix('Doc')}"
        blocks.append("\n".join([title, "", shape["description"], "", "| key | meaning |", "|---|---|", *rows]))
    return "\n\n".join(blocks) + "\n"


def _source(source: SourceSummary) -> wire.SourceDoc:
    return _take(
        wire.SourceDoc,
        source,
        omitted=_take(wire.OmittedDoc, source.omitted),
        runs=[_run(run) for run in source.runs],
    )


def _run(run: RunSummary) -> wire.RunDoc:
    return _take(
        wire.RunDoc,
        run,
        args=_plain(run.args),
        facts=_plain(run.facts),
        phase=_word(run.phase),
        ended=_position(run.ended) if run.ended else None,
    )


def _finding(finding: Finding) -> wire.FindingDoc:
    return _take(
        wire.FindingDoc,
        finding,
        severity=finding.severity.word,
        confidence=finding.confidence.word,
        outcome=finding.outcome.value,
        speakers=list(finding.speakers),
        first=_position(finding.first),
        last=_position(finding.last),
        evidence=[_evidence(item) for item in finding.evidence],
        consequences=[_take(wire.ConsequenceDoc, item) for item in finding.consequences],
        captures=_plain(finding.captures),
        fixes=[_fix(fix) for fix in finding.fixes],
        references=list(finding.references),
        phase=_word(finding.phase),
        ranks=list(finding.ranks),
        ranks_missing=list(finding.ranks_missing),
    )


def _position(position: Position) -> wire.PositionDoc:
    return _take(wire.PositionDoc, position)


def _evidence(item: Evidence) -> wire.EvidenceDoc:
    if item.kind == "log":
        return wire.EvidenceDoc(kind="log", source=item.source, line=item.line, text=item.text)
    if item.kind == "reading":
        return wire.EvidenceDoc(kind="reading", time=item.time, text=item.text)
    return wire.EvidenceDoc(kind="assumed", text=item.text)


def _fix(fix: Fix) -> wire.FixDoc:
    return _take(wire.FixDoc, fix, flags=dict(fix.flags), remove_flags=list(fix.remove_flags), env=dict(fix.env))


def _event_data(event: Event) -> dict[str, Any]:
    if event.finding is not None:
        return _document(_finding(event.finding))
    if event.reading is not None:
        return _document(_reading(event.reading))
    return _document(wire_event.NoticeDoc(text=event.notice or ""))


def _reading(reading: Reading) -> wire_event.ReadingDoc:
    return _take(
        wire_event.ReadingDoc,
        reading,
        gpus=[_gpu(gpu) for gpu in reading.gpus],
        metrics=_metrics(reading.metrics) if reading.metrics else None,
        host=_host(reading.host) if reading.host else None,
        xids=[_take(wire_event.XidDoc, xid) for xid in reading.xids],
        unavailable=_unavailable(reading.unavailable),
    )


def _gpu(gpu: Gpu) -> wire_event.GpuDoc:
    processes = None if gpu.processes is None else [_take(wire_event.ProcessDoc, each) for each in gpu.processes]
    return _take(
        wire_event.GpuDoc,
        gpu,
        throttle=None if gpu.throttle is None else list(gpu.throttle),
        mig_devices=[wire_event.MigDoc(uuid=uuid, total=total, used=used) for uuid, total, used in gpu.mig_devices],
        processes=processes,
        unavailable=_unavailable(gpu.unavailable),
    )


def _metrics(metrics: ServerMetrics) -> wire_event.MetricsDoc:
    return _take(wire_event.MetricsDoc, metrics, unavailable=_unavailable(metrics.unavailable))


def _host(host: HostState) -> wire_event.HostDoc:
    processes = [
        wire_event.HostProcessDoc(pid=pid, name=name, state=state, memory=memory)
        for pid, name, state, memory in host.processes
    ]
    return _take(wire_event.HostDoc, host, processes=processes, unavailable=_unavailable(host.unavailable))


def _unavailable(items: Iterable[object]) -> list[wire_event.UnavailableDoc]:
    return [_take(wire_event.UnavailableDoc, item) for item in items]


def _take(shape: type[Doc], source: object, **given: Any) -> Doc:
    """A `shape` whose keys are the attributes of that name, but for those `given` in another form."""
    return shape(**{key: given[key] if key in given else getattr(source, key) for key in shape.__struct_fields__})


def _word(member: Enum | None) -> str | None:
    return None if member is None else str(member.value)


def _count(report: Report, level: Severity) -> int:
    return sum(finding.severity is level for finding in report.findings)


def _document(doc: msgspec.Struct) -> dict[str, Any]:
    built: dict[str, Any] = _plain(msgspec.to_builtins(doc))
    return built


def _plain(value: Any) -> Any:
    """`value` as JSON can hold it: NaN and infinity are null, containers lists and objects, the rest is its text."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_whole(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return _whole(str(value))


def _whole(text: str) -> str:
    """Half of a surrogate pair is no character, and strict readers refuse it: it becomes the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _text(value: dict[str, Any], *, indent: int | None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=True, allow_nan=False)
    # DEL is ASCII yet no character to print; build servers obey `##vso[` and `##[` wherever they stand.
    return text.replace("\x7f", "\\u007f").replace("##", "\\u0023#")

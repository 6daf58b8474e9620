"""The JSON that scripts lean on: every key, in its order, described, and valid whatever the log holds."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import ALL, ATTACK, HEALTHY, KV, KV_FINDING, OOM, STARTS, UNHURRIED, hostile

from vlogdiag import model
from vlogdiag.model import Event, Gpu, HostState, Process, Reading, ServerMetrics, Unavailable, Xid
from vlogdiag.report import json as report_json
from vlogdiag.report import wire, wire_event

GIB = 1024**3


def position(line: int, time: str) -> dict[str, Any]:
    return {"line": line, "offset": line * 110, "time": time, "iso": None}


def test_a_report_is_written_key_by_key() -> None:
    assert report_json.encode(KV) == {
        "format": "vlogdiag.report/1",
        "vlogdiag": "0.1.0",
        "rules": {"shipped": 40, "user": 0, "digest": "5f2c"},
        "sources": [
            {
                "path": "vllm.log",
                "bytes": 9902,
                "lines": 90,
                "error": None,
                "omitted": {"bytes": 0, "lines": 0, "regex_timeouts": 0},
                "runs": [
                    {
                        "run": 1,
                        "first_line": 1,
                        "last_line": 90,
                        "vllm_version": "0.11.0",
                        "versions_possible": "==0.11.0",
                        "model": "Qwen/Qwen3-VL-8B-Instruct",
                        "outcome": "fatal",
                        "args": {"port": 3001},
                        "facts": {"kv.available": 9.83 * GIB, "card.total": None},
                        "phase": "profiling",
                        "ended": position(90, "04-03 15:05:58"),
                    }
                ],
                "recognised": True,
            }
        ],
        "findings": [
            {
                "id": "kv-cache-too-small",
                "family": "kv-cache",
                "severity": "error",
                "confidence": "high",
                "outcome": "fatal",
                "title": "The KV cache cannot hold one request of the configured length",
                "cause": "131072 tokens need 16.00 GiB of KV cache; 9.83 GiB is left.",
                "source": "vllm.log",
                "run": 1,
                "count": 2,
                "speakers": ["EngineCore_DP0"],
                "first": position(61, "04-03 15:05:56"),
                "last": position(80, "04-03 15:05:57"),
                "evidence": [
                    {"kind": "log", "source": "vllm.log", "line": 61, "text": KV_FINDING.evidence[0].text},
                    {"kind": "log", "source": "vllm.log", "line": 40, "text": "Available KV cache memory: 9.83 GiB"},
                    {"kind": "assumed", "text": "--gpu-memory-utilization 0.9 (default of 0.11.0)"},
                ],
                "consequences": [
                    {
                        "id": "engine-core-init-failed",
                        "source": "vllm.log",
                        "line": 88,
                        "count": 1,
                        "title": "Engine core initialization failed",
                        "last_line": 88,
                    },
                    {
                        "id": "api-server-exited",
                        "source": "vllm.log",
                        "line": 90,
                        "count": 1,
                        "title": "API server shut down",
                        "last_line": 90,
                    },
                ],
                "captures": {"wanted": 131072, "needed": 16 * GIB, "available": None, "fits": 80512},
                "ask": None,
                "fixes": [
                    {
                        "title": "Serve the longest context that fits",
                        "disposition": "apply",
                        "flags": {"--max-model-len": "80512"},
                        "remove_flags": [],
                        "env": {},
                        "run": None,
                        "script": None,
                        "upgrade": None,
                        "request": None,
                        "trade_off": "longer prompts are refused",
                        "command": "vllm serve Qwen/Qwen3-VL-8B-Instruct --port 3001 --max-model-len 80512",
                        "applies_to": "==0.11.0",
                        "question": None,
                    },
                    {
                        "title": "Keep the KV cache in 8 bits",
                        "disposition": "apply",
                        "flags": {"--kv-cache-dtype": "fp8"},
                        "remove_flags": [],
                        "env": {},
                        "run": None,
                        "script": None,
                        "upgrade": None,
                        "request": None,
                        "trade_off": "slightly different answers",
                        "command": None,
                        "applies_to": "==0.11.0",
                        "question": None,
                    },
                    {
                        "title": "Give vLLM more of the GPU",
                        "disposition": "check",
                        "flags": {"--gpu-memory-utilization": "0.95"},
                        "remove_flags": [],
                        "env": {},
                        "run": None,
                        "script": None,
                        "upgrade": None,
                        "request": None,
                        "trade_off": "less is left for other processes",
                        "command": None,
                        "applies_to": "==0.11.0",
                        "question": "how much memory do other processes hold? (nvidia-smi)",
                    },
                ],
                "references": ["https://docs.vllm.ai/en/v0.11.0/configuration/conserving_memory.html"],
                "known_bug": None,
                "phase": "profiling",
                "ranks": [],
                "ranks_missing": [],
            }
        ],
        "unexplained": [],
        "notices": [],
        "summary": {"error": 1, "warning": 0, "info": 0},
    }


ORDER = {
    "report": "format vlogdiag rules sources findings unexplained notices summary",
    "source": "path bytes lines error omitted runs",
    "run": "run first_line last_line vllm_version versions_possible model outcome args facts",
    "finding": "id family severity confidence outcome title cause source run count speakers first last evidence "
    "consequences captures ask fixes references",
    "position": "line offset time iso",
    "fix": "title disposition flags remove_flags env run script upgrade request trade_off command applies_to",
    "consequence": "id source line count",
    "unexplained": "source line text count",
}
"""The key order of the contract (DESIGN section 8); additions come after."""


def test_keys_stand_in_the_order_of_the_contract() -> None:
    report = json.loads(report_json.dumps(ALL["several"]))
    finding = report["findings"][0]
    shapes = {
        "report": report,
        "source": report["sources"][0],
        "run": report["sources"][0]["runs"][0],
        "finding": finding,
        "position": finding["first"],
        "fix": finding["fixes"][0],
        "consequence": finding["consequences"][0],
        "unexplained": report["unexplained"][0],
    }
    for name, shape in shapes.items():
        wanted = ORDER[name].split()
        assert list(shape)[: len(wanted)] == wanted


def test_evidence_has_the_keys_of_its_kind() -> None:
    evidence = report_json.encode(OOM)["findings"][0]["evidence"]
    assert next(list(item) for item in evidence if item["kind"] == "log") == ["kind", "source", "line", "text"]
    assert [item for item in evidence if item["kind"] == "reading"] == [
        {"kind": "reading", "time": "13:02:09", "text": "GPU 0: 23.4 of 23.7 GiB in use"}
    ]


def test_a_cause_in_several_starts_stays_one_finding_each() -> None:
    report = report_json.encode(STARTS)
    assert [(item["id"], item["run"]) for item in report["findings"]] == [
        ("kv-preemption", 3),
        ("port-in-use", 2),
        ("port-in-use", 1),
    ]
    assert report["summary"] == {"error": 0, "warning": 3, "info": 0}


@pytest.mark.parametrize("name", ALL)
def test_what_is_printed_is_what_the_schema_says(name: str) -> None:
    report = json.loads(report_json.dumps(ALL[name]))
    read = msgspec.convert(report, type=wire.ReportDoc, strict=True)
    assert msgspec.to_builtins(read) == report


@pytest.mark.parametrize("schema", [report_json.schema(), report_json.event_schema()], ids=["report", "event"])
def test_every_key_is_described(schema: dict[str, Any]) -> None:
    shapes = schema["$defs"]
    assert len(shapes) > 10
    bare = [
        f"{name}.{key}"
        for name, shape in shapes.items()
        for key, value in shape["properties"].items()
        if not value.get("description")
    ]
    assert bare == []
    assert [name for name, shape in shapes.items() if not shape.get("description")] == []


def test_the_schema_names_every_key_that_is_printed() -> None:
    shapes = report_json.schema()["$defs"]
    printed: dict[str, set[str]] = {}
    for report in ALL.values():
        document = report_json.encode(report)
        runs = [run for source in document["sources"] for run in source["runs"]]
        groups = {
            "ReportDoc": [document],
            "RulesDoc": [document["rules"]],
            "SummaryDoc": [document["summary"]],
            "SourceDoc": document["sources"],
            "OmittedDoc": [source["omitted"] for source in document["sources"]],
            "RunDoc": runs,
            "FindingDoc": document["findings"],
            "EvidenceDoc": [item for finding in document["findings"] for item in finding["evidence"]],
            "ConsequenceDoc": [item for finding in document["findings"] for item in finding["consequences"]],
            "FixDoc": [item for finding in document["findings"] for item in finding["fixes"]],
            "PositionDoc": [finding["first"] for finding in document["findings"]],
            "UnexplainedDoc": document["unexplained"],
        }
        for name, items in groups.items():
            printed.setdefault(name, set()).update(key for item in items for key in item)
    assert printed == {name: set(shape["properties"]) for name, shape in shapes.items()}


PAIRS = [
    (model.Finding, wire.FindingDoc),
    (model.Fix, wire.FixDoc),
    (model.Consequence, wire.ConsequenceDoc),
    (model.Evidence, wire.EvidenceDoc),
    (model.Position, wire.PositionDoc),
    (model.RunSummary, wire.RunDoc),
    (model.SourceSummary, wire.SourceDoc),
    (model.Omitted, wire.OmittedDoc),
    (model.Unexplained, wire.UnexplainedDoc),
    (model.RuleCount, wire.RulesDoc),
    (model.Gpu, wire_event.GpuDoc),
    (model.ServerMetrics, wire_event.MetricsDoc),
    (model.HostState, wire_event.HostDoc),
    (model.Reading, wire_event.ReadingDoc),
    (model.Process, wire_event.ProcessDoc),
    (model.Xid, wire_event.XidDoc),
    (model.Unavailable, wire_event.UnavailableDoc),
]


@pytest.mark.parametrize(("kind", "shape"), PAIRS, ids=[kind.__name__ for kind, _ in PAIRS])
def test_no_field_of_the_model_is_forgotten(kind: type, shape: type[msgspec.Struct]) -> None:
    assert {field.name for field in msgspec.structs.fields(kind)} == set(shape.__struct_fields__)


READING = Reading(
    time=12.5,
    stamp="2026-12-01 13:02:09",
    gpus=(
        Gpu(
            0,
            name="NVIDIA L4",
            total=24 * GIB,
            used=23 * GIB,
            utilization=0.97,
            throttle=("sw power cap",),
            mig_devices=(("MIG-1", 10, None),),
            processes=(Process(229, 20 * GIB, "python -m vllm"), Process(7)),
        ),
        Gpu(1, lost=True, unavailable=(Unavailable("nvml", "GPU is lost"),)),
    ),
    metrics=ServerMetrics(running=3.0, kv_usage=float("nan")),
    host=HostState(memory_total=64 * GIB, processes=((7, "vllm", "S", None),)),
    xids=(Xid(0, 79),),
)


def test_an_event_is_one_line_with_the_finding_of_the_report() -> None:
    line = report_json.event(Event("finding.opened", finding=KV_FINDING, details={"after": 2.0}))
    assert "\n" not in line
    event = json.loads(line)
    assert list(event) == ["format", "type", "data", "details"]
    assert event["format"] == "vlogdiag.event/1"
    assert event["type"] == "finding.opened"
    assert event["data"] == report_json.encode(KV)["findings"][0]
    assert event["details"] == {"after": 2.0}


def test_a_notice_and_a_reading_are_events() -> None:
    assert json.loads(report_json.event(Event("notice", notice="the log was rotated"))) == {
        "format": "vlogdiag.event/1",
        "type": "notice",
        "data": {"text": "the log was rotated"},
        "details": {},
    }
    data = json.loads(report_json.event(Event("reading", reading=READING)))["data"]
    assert msgspec.to_builtins(msgspec.convert(data, type=wire_event.ReadingDoc)) == data
    assert data["gpus"][0]["processes"] == [
        {"pid": 229, "memory": 20 * GIB, "command": "python -m vllm"},
        {"pid": 7, "memory": None, "command": None},
    ]
    assert data["gpus"][0]["mig_devices"] == [{"uuid": "MIG-1", "total": 10, "used": None}]
    assert data["gpus"][1]["unavailable"] == [{"source": "nvml", "reason": "GPU is lost"}]
    assert data["metrics"]["kv_usage"] is None
    assert data["host"]["processes"] == [{"pid": 7, "name": "vllm", "state": "S", "memory": None}]


@UNHURRIED
@given(st.text(alphabet=st.characters(), max_size=40))
def test_whatever_the_log_holds_the_json_is_valid_and_harmless(text: str) -> None:
    printed = report_json.dumps(hostile(text))
    assert printed.isascii()
    assert all(character.isprintable() or character == "\n" for character in printed)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(printed)["findings"][0]["cause"] == whole
    # A strict reader, which refuses half characters, takes it as well.
    assert msgspec.json.decode(printed)["notices"] == [whole]


def test_no_build_server_finds_a_command_in_the_json() -> None:
    printed = report_json.dumps(hostile(ATTACK)) + report_json.event(Event("notice", notice=ATTACK))
    assert "##" not in printed
    assert not re.search(r"(?m)^\s*::", printed)


def test_values_that_json_cannot_hold_become_null_or_text() -> None:
    run = msgspec.structs.replace(
        HEALTHY.sources[0].runs[0],
        args={"a": float("inf"), "b": {"c": (1, 2.5, model.Phase.SERVING)}, "d": b"x", 3: None},
    )
    report = msgspec.structs.replace(HEALTHY, sources=(msgspec.structs.replace(HEALTHY.sources[0], runs=(run,)),))
    args = json.loads(report_json.dumps(report))["sources"][0]["runs"][0]["args"]
    assert args == {"a": None, "b": {"c": [1, 2.5, "serving"]}, "d": "b'x'", "3": None}

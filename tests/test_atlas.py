"""The atlas of vLLM's error messages, release by release: some signature claims each, in that release's header."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ages import AGES, API, CORE, Age, Printer, traceback
from packaging.version import Version

from vlogdiag.loading import Rules, load
from vlogdiag.model import Severity
from vlogdiag.pipeline import Pipeline

TABLE = Path(__file__).parent / "data" / "atlas.yaml"


@dataclass(frozen=True)
class Row:
    first: str
    last: str
    kind: str
    place: str
    expect: tuple[str, ...]
    text: str
    frames: str = ""


def row_of(entry: dict[str, Any]) -> Row:
    expect = entry["expect"]
    return Row(
        entry["first"],
        entry["last"],
        entry["as"],
        entry["from"],
        tuple(expect) if isinstance(expect, list) else (expect,),
        entry["text"],
        entry.get("frames", ""),
    )


ROWS = [row_of(entry) for entry in yaml.safe_load(TABLE.read_text(encoding="utf-8"))]


@cache
def rules() -> Rules:
    return load()


def age_of(version: str) -> Age:
    """How that release prints: as the latest age that is not newer."""
    wanted = Version(version)
    older = [age for age in AGES if Version(age.version) <= wanted]
    return replace(older[-1] if older else AGES[0], version=version)


def ages_of(row: Row) -> tuple[Age, ...]:
    """The first and the last release that print it, and one between."""
    between = [age.version for age in AGES if Version(row.first) < Version(age.version) < Version(row.last)]
    return tuple(age_of(v) for v in dict.fromkeys((row.first, *between[len(between) // 2 :][:1], row.last)))


def log_of(row: Row, age: Age) -> str:
    """A start that ends in the message, as that release prints it."""
    p = Printer(age).arguments().configured()
    who = API if row.place.startswith(("entrypoints", "config", "transformers_utils", "engine/arg")) else CORE
    source = f"{row.place.rsplit('/', 1)[-1] or 'core.py'}:77"
    if row.kind in ("error", "warning", "critical"):
        return p.log(who, row.kind.upper(), source, row.text).text
    if row.kind == "bare":
        return p.loose(row.text).text
    if row.kind == "kernel":
        return p.loose(f"Apr 03 09:12:50 gpubox kernel: {row.text}").text
    error = f"{row.kind}: {row.text}" if row.text else row.kind
    trace = traceback(f"vllm/{row.place}:77:function:{row.frames or 'raise ' + row.kind + '('}", error=error)
    if age.engine == "V1" and who == CORE:
        p.error(who, "core.py:700", f"EngineCore failed to start.\n{trace}")
    else:
        p.bare(who, trace)
    return p.text


CASES = [(row, age) for row in ROWS for age in ages_of(row)]


def heard(row: Row, age: Age) -> tuple[set[str], list[str], list[str]]:
    """Families of every signature that matched, the ids of findings of some weight, and what stayed unexplained."""
    pipeline = Pipeline(rules(), source="vllm.log")
    pipeline.feed(log_of(row, age).encode())
    result = pipeline.close()
    families = {rules().book.by_id[ident].family for ident in pipeline.heard()}
    return (
        families,
        [f.id for f in result.findings if f.severity >= Severity.WARNING],
        [u.text for u in result.unexplained if u.symptom is None],
    )


@pytest.mark.parametrize(
    ("row", "age"), CASES, ids=lambda v: v.version if isinstance(v, Age) else v.text[:50].replace("\n", " ")
)
def test_a_signature_claims_it_in_that_release(row, age):
    families, findings, unexplained = heard(row, age)
    if row.expect == ("quiet",):
        assert (findings, unexplained) == ([], [])
        return
    assert "unexplained-failure" not in findings
    assert not [text for text in unexplained if text.startswith(row.kind)]
    assert families & set(row.expect), f"heard {sorted(families)}"


def test_the_table_holds_the_whole_atlas():
    assert len(ROWS) > 280
    assert {family for row in ROWS for family in row.expect} >= {
        "oom",
        "kv-cache",
        "hang",
        "shape",
        "multimodal",
        "startup",
        "environment",
        "hardware",
        "request",
    }

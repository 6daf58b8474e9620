"""Failures as users report them (memory, KV cache, hangs, hardware, wrappers): each keeps its diagnosis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from vlogdiag.loading import Rules, load
from vlogdiag.report.json import encode
from vlogdiag.scan import scan_paths

CASES = sorted((Path(__file__).parent / "data" / "regressions_b").glob("*.yaml"))
TYPED = ("title", "flags", "remove_flags", "env", "run", "script", "upgrade", "request")


@pytest.fixture(scope="module")
def rules() -> Rules:
    return load()


@pytest.mark.parametrize("path", CASES, ids=[p.stem for p in CASES])
def test_a_reported_failure_keeps_its_cause_and_remedy(path: Path, rules: Rules, tmp_path: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    log = tmp_path / "vllm.log"
    log.write_text(case["log"], encoding="utf-8")
    findings = encode(scan_paths([str(log)], rules).report)["findings"]
    if case["expect"] is None:
        assert [f["id"] for f in findings if f["severity"] in ("error", "warning")] == []
        return
    first = findings[0]
    if case.get("alone"):
        assert [f["id"] for f in findings if f["severity"] == "error"] == [case["expect"]]
    assert first["id"] in case["expect"].split(" or ")
    cited = " | ".join(_squash(e["text"]) for e in first["evidence"][:3])
    assert any(_squash(root) in cited for root in case["root"])
    told = json.dumps([[fix.get(key) for key in TYPED] for fix in first["fixes"][:4]]).lower()
    assert all(word.lower() in told for word in case.get("all_of", ()))
    assert any(word.lower() in told for word in case.get("any_of", [""]))
    done = json.dumps([[fix.get(key) for key in ("flags", "env", "run")] for fix in first["fixes"][:4]]).lower()
    assert not any(word.lower() in done for word in case.get("none_of", ()))


def _squash(text: str) -> str:
    return " ".join(text.replace("\\", "").split())

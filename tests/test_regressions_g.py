"""Logs whose server only slows down, shares its card or tells its cause in the kernel's words: each keeps its cause and its remedy.

`expect` is the rule that leads. `all_of` are words that the first four remedies tell, `none_of` words that none may do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from vlogdiag.loading import Rules, load
from vlogdiag.report.json import encode
from vlogdiag.scan import scan_paths

CASES = sorted((Path(__file__).parent / "data" / "regressions_g").glob("*.yaml"))
TYPED = ("flags", "remove_flags", "env", "run", "upgrade")


@pytest.fixture(scope="module")
def rules() -> Rules:
    return load()


@pytest.mark.parametrize("path", CASES, ids=[p.stem for p in CASES])
def test_the_cause_leads_and_its_remedy_is_the_first(path: Path, rules: Rules, tmp_path: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    log = tmp_path / "vllm.log"
    log.write_text(case["log"], encoding="utf-8")
    findings = encode(scan_paths([str(log)], rules).report)["findings"]
    grave = [f["id"] for f in findings if f["severity"] in ("error", "warning")]
    assert grave[:1] == [case["expect"]]
    told = [json.dumps([fix[key] for key in TYPED]) for fix in findings[0]["fixes"]]
    assert all(any(word in fix for fix in told[:4]) for word in case["all_of"])
    assert not [word for word in case.get("none_of", ()) if any(word in fix for fix in told)]

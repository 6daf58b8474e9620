"""The labelled real failures, where they are at hand: plain, and between thousands of healthy lines."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from vlogdiag.cli_common import FailOn
from vlogdiag.cli_scan import _status
from vlogdiag.loading import load
from vlogdiag.pipeline import Pipeline, prefilter_of, report_of
from vlogdiag.report.json import encode

SHARED = Path(__file__).resolve().parents[2] / "shared"
SCORER = SHARED / "corpus/score.py"
pytestmark = pytest.mark.skipif(not SCORER.exists(), reason="the labelled corpus is not beside this checkout")
RULES = load()
PREFILTER = prefilter_of(RULES)
BEFORE = "".join(
    f'(APIServer pid=7) INFO:     10.0.0.{n % 250}:{4000 + n} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    if n % 4 == 0
    else f"(APIServer pid=7) INFO 01-01 00:{n // 60 % 60:02d}:{n % 60:02d} [async_llm.py:269] Added request chatcmpl-{n:032x}.\n"
    for n in range(3000)
).encode()
AFTER = "".join(
    f'INFO:     10.0.0.{n % 250}:{4000 + n} - "GET /metrics HTTP/1.1" 200 OK\n' for n in range(3000)
).encode()


def scorer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("score", SCORER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judged(folder: Path, *, padded: bool) -> tuple[dict[str, object], dict[str, object]]:
    """(label, verdict) of one case."""
    label = json.loads((folder / "label.json").read_text())
    log = (folder / "log.txt").read_bytes()
    if padded:
        log = BEFORE + log + (b"" if log.endswith(b"\n") else b"\n") + AFTER
    pipeline = Pipeline(RULES, source="log.txt", prefilter=PREFILTER)
    pipeline.feed(log)
    report = report_of([pipeline.close()], RULES, "0")
    status = _status(report, True, FailOn.ERROR, False)
    encoded = json.loads(json.dumps(encode(report)))
    return label, scorer().judge(label, status, encoded, log.decode("utf-8", "replace"))


def totals(folder: Path, *, padded: bool = False) -> dict[str, int]:
    rows = [judged(p, padded=padded) for p in sorted(folder.iterdir()) if (p / "label.json").exists()]
    faulty = [v for label, v in rows if label["family"] != "none"]
    return {
        "cause": sum(bool(v["cause"]) for v in faulty),
        "lift": sum(bool(v["cause"]) for v in faulty if not v.get("plain", True)),
        "fix": sum(bool(v["cause"] and v["fix"]) for v in faulty),
        "wrong_way": sum(bool(v.get("wrong_way")) for v in faulty),
        "beside": sum(bool(v.get("beside")) for v in faulty),
        "loud": sum(not v["quiet"] for label, v in rows if label["family"] == "none"),
    }


@pytest.mark.parametrize("padded", [False, True], ids=["plain", "padded"])
def test_labelled_failures_keep_their_cause_and_remedy(padded: bool) -> None:
    found = totals(SHARED / "corpus/dev", padded=padded)
    assert found["cause"] >= 47 and found["fix"] >= 42 and found["lift"] >= 17, found
    assert found["wrong_way"] == 0 and found["beside"] <= 2 and found["loud"] == 0, found


def test_logs_of_real_servers_keep_their_cause_and_remedy() -> None:
    found = totals(SHARED / "vllm-logs")
    assert found["cause"] >= 54 and found["fix"] >= 50 and found["loud"] == 0, found

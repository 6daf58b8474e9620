"""sample_logs/: what each log is worth, written by hand beside it, is what the tool says."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from ages import BY_VERSION, Printer

from vlogdiag.cli_common import FailOn
from vlogdiag.cli_scan import _status
from vlogdiag.loading import Rules
from vlogdiag.model import FAMILIES, Finding, Fix, Report
from vlogdiag.scan import scan_paths

FOLDER = Path(__file__).parent.parent / "sample_logs"
LOGS = sorted(FOLDER.rglob("*.log"))
NAMES = [str(path.relative_to(FOLDER)) for path in LOGS]


def expected(log: Path) -> dict[str, Any]:
    return yaml.safe_load(log.with_name(log.stem + ".expected.yaml").read_text(encoding="utf-8"))


def fix_holds(fix: Fix, wish: dict[str, Any]) -> bool:
    """Flags and variables by their value; other keys are words that the fix must contain."""
    for name, value in wish.items():
        if name.startswith("-"):
            held = fix.flags.get(name) == value
        elif name == "remove":
            held = list(fix.remove_flags) == value
        elif name.isupper():
            held = fix.env.get(name) == value
        else:
            held = value in (getattr(fix, name) or "")
        if not held:
            return False
    return True


def brief(finding: Finding, wish: dict[str, Any]) -> dict[str, Any]:
    """The finding in the words of the expectation."""
    said: dict[str, Any] = {
        "id": finding.id,
        "severity": finding.severity.word,
        "outcome": finding.outcome.value,
        "line": finding.first.line,
        "run": finding.run,
        "count": finding.count,
        "ranks": list(finding.ranks),
        "missing": list(finding.ranks_missing),
        "confidence": finding.confidence.word,
        "consequences": [c.id for c in finding.consequences],
        "fix": wish.get("fix")
        if finding.fixes and fix_holds(finding.fixes[0], wish.get("fix", {}))
        else finding.fixes[:1],
    }
    return {name: said[name] for name in wish}


def report_of(rules: Rules, log: Path) -> Report:
    return scan_paths([str(log)], rules).report


@pytest.mark.parametrize("log", LOGS, ids=NAMES)
def test_a_sample_log_is_diagnosed_as_it_is(shipped, log):
    wish = expected(log)
    report = report_of(shipped, log)
    wanted = wish["findings"]
    assert [f.id for f in report.findings] == [w["id"] for w in wanted]
    assert [brief(f, w) for f, w in zip(report.findings, wanted, strict=True)] == wanted
    assert _status(report, True, FailOn.ERROR, False) == wish["status"]
    if "outcome" in wish:
        assert report.sources[0].runs[-1].outcome == wish["outcome"]
    assert [u.line for u in report.unexplained] == wish.get("unexplained", [])
    assert wish.get("notice", "") in " ".join(report.notices)


@pytest.mark.parametrize("log", sorted((FOLDER / "healthy").glob("*.log")), ids=lambda path: path.stem)
def test_a_healthy_log_is_silent(shipped, log):
    """Not a finding of any severity, nothing unexplained, no notice."""
    report = report_of(shipped, log)
    assert (report.findings, report.unexplained, report.notices) == ((), (), ())


def test_every_log_says_where_its_shape_comes_from():
    assert all(len(expected(log)["source"]) > 20 for log in LOGS)


def test_the_samples_cover_every_family(shipped):
    found = {f.family for log in LOGS for f in report_of(shipped, log).findings}
    assert set(FAMILIES) - {"noise"} <= found


def test_there_are_fourteen_faulty_and_six_healthy_logs():
    healthy = [log for log in LOGS if log.parent.name == "healthy"]
    assert (len(LOGS) - len(healthy) >= 14, len(healthy) >= 6) == (True, True)


@pytest.mark.parametrize("log", LOGS, ids=NAMES)
def test_a_sample_log_is_one_that_a_person_would_read(log):
    lines = log.read_text(encoding="utf-8").splitlines()
    assert 20 <= len(lines) <= 400


ACCESS = 'INFO:     10.0.0.7:41234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def healthy_lines(count: int) -> str:
    """An earlier, healthy start of that many lines."""
    p = Printer(BY_VERSION["0.24.0"], now=datetime(2026, 1, 1, 0, 0, 1)).start()
    while len(p.out) < count:
        p.wait(2).access().access("/health", method="GET")
        if len(p.out) % 5 == 0:
            p.statistics()
    return "\n".join(p.out[:count]) + "\n"


FAULTY = [log for log in LOGS if log.parent == FOLDER and not log.name.startswith("only-")]


@pytest.mark.parametrize("log", FAULTY, ids=lambda log: log.stem)
def test_three_thousand_lines_before_and_after_change_no_diagnosis(shipped, tmp_path, log):
    """An earlier healthy start in front, an access log behind: the same causes, the same first remedy, other line numbers."""
    padded = tmp_path / log.name
    padded.write_bytes(healthy_lines(3000).encode() + log.read_bytes() + ACCESS.encode() * 3000)
    plain, wide = report_of(shipped, log).findings, report_of(shipped, padded).findings
    assert sorted((f.id, (f.first.line or 0) + 3000) for f in plain) == sorted((f.id, f.first.line or 0) for f in wide)
    assert [(f.id, f.fixes[0].title) for f in plain[:1]] == [(f.id, f.fixes[0].title) for f in wide[:1]]


TIMELESS = ("driver-too-old", "only-consequences", "port-in-use", "refused-argument", "tp-heads")
"""Too few times in them to tell which way they run: read as they are."""


@pytest.mark.parametrize("log", [log for log in FAULTY if log.stem not in TIMELESS], ids=lambda log: log.stem)
def test_the_newest_line_first_gives_the_same_diagnosis(shipped, tmp_path, log):
    """Log viewers export so."""
    lines = log.read_bytes().rstrip(b"\n").split(b"\n")
    turned = tmp_path / log.name
    turned.write_bytes(b"\n".join(reversed(lines)) + b"\n")
    plain, back = report_of(shipped, log), report_of(shipped, turned)
    assert "newest line first" in " ".join(back.notices)
    assert [f.id for f in back.findings] == [f.id for f in plain.findings]
    assert [f.first.line for f in back.findings] == [len(lines) + 1 - (f.first.line or 0) for f in plain.findings]

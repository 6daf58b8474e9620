"""Logs whose remedy once was another model's, was set already, or took out what was never given; and that law for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from regression_logs import DATA, cases, check, report

from vlogdiag import catalog
from vlogdiag.catalog import Versions

RULES = Path(__file__).parent.parent / "rules"
WHOLE = ("non-default args: {", "args: Namespace(")
"""Lines that print every option given; the engine's own line prints some."""


@pytest.mark.parametrize("path", cases("regressions_h"), ids=lambda path: path.stem)
def test_the_cause_leads_and_its_remedy_is_the_first(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, lead_only=True)


def logs_with_arguments() -> Iterator[tuple[str, str]]:
    """Every example and regression that prints its options."""
    for path in sorted(RULES.rglob("*.yaml")):
        rule = yaml.safe_load(path.read_text(encoding="utf-8"))
        fires = rule["examples"]["fires"] if isinstance(rule, dict) and "examples" in rule else ()
        yield from ((path.stem, example["log"]) for example in fires)
    for path in sorted(DATA.glob("regressions*/*.yaml")):
        yield path.stem, yaml.safe_load(path.read_text(encoding="utf-8")).get("log", "")


def useless(found: dict[str, Any]) -> Iterator[str]:
    """Remedies that set what is set, or take out what the run was not given."""
    runs = [run for source in found["sources"] for run in source["runs"]]
    given = (runs[-1].get("args") or {}) if len(runs) == 1 else {}
    if not given:
        return
    values = {"--" + name.replace("_", "-"): str(value).lower() for name, value in given.items()}
    for finding in found["findings"]:
        for fix in finding["fixes"]:
            if fix["disposition"] != "apply":
                continue
            yield from (f"{finding['id']} takes {flag} out" for flag in fix["remove_flags"] if flag not in values)
            yield from (
                f"{finding['id']} sets {flag} {value}"
                for flag, value in fix["flags"].items()
                if values.get(flag) == str(value).lower() and len(fix["flags"]) == 1
            )


def test_no_remedy_sets_what_is_set_or_takes_out_what_was_not_given(tmp_path: Path) -> None:
    found = {
        f"{name}: {fault}"
        for name, log in logs_with_arguments()
        if any(line in log for line in WHOLE)
        for fault in useless(report(log, tmp_path))
    }
    assert not found


def foreign(log: str, found: dict[str, Any]) -> Iterator[str]:
    """Options to take out that the run's release never had, and that nobody typed."""
    runs = [run for source in found["sources"] for run in source["runs"]]
    version = runs[-1].get("vllm_version") if len(runs) == 1 else None
    if version is None:
        return
    for finding in found["findings"]:
        for flag in {flag for fix in finding["fixes"] for flag in fix["remove_flags"]}:
            if catalog.flag(flag, Versions.of(version)).exists is False and flag not in log:
                yield f"{finding['id']} takes {flag} out of {version}"


def test_what_is_to_be_taken_out_exists_in_the_release_of_the_run(tmp_path: Path) -> None:
    found = {
        f"{name}: {fault}"
        for name, log in logs_with_arguments()
        if "ersion" in log or "LLM engine (v" in log
        for fault in foreign(log, report(log, tmp_path))
    }
    assert not found

"""Whole logs as YAML files with what must be said of them; see `check`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from vlogdiag.loading import Rules, load
from vlogdiag.report.json import encode
from vlogdiag.scan import scan_paths

DATA = Path(__file__).parent / "data"
TYPED = ("flags", "remove_flags", "env", "run", "upgrade")


@cache
def rules() -> Rules:
    return load()


def cases(folder: str) -> list[Any]:
    """The files of one folder, for `parametrize`."""
    return sorted((DATA / folder).glob("*.yaml"))


def report(text: str, folder: Path) -> dict[str, Any]:
    """What `scan --json` says of a log."""
    log = folder / "vllm.log"
    log.write_text(text, encoding="utf-8")
    return encode(scan_paths([str(log)], rules()).report)


def check(path: Path, folder: Path, *, lead_only: bool) -> None:
    """`expect` leads, or nothing worse than a notice is said where it is null: the server is well.

    `all_of` are words that the first four remedies tell, `none_of` words that none may do: of the finding that leads,
    or of all findings.
    """
    case: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    findings = report(case["log"], folder)["findings"]
    grave = [f["id"] for f in findings if f["severity"] in ("error", "warning")]
    assert grave[:1] == ([] if case["expect"] is None else [case["expect"]])
    judged = findings[:1] if lead_only else findings
    told = [json.dumps([fix[key] for key in TYPED]) for finding in judged for fix in finding["fixes"]]
    wanted = case["all_of"] if lead_only else case.get("all_of", ())
    assert all(any(word in fix for fix in told[:4]) for word in wanted)
    assert not [word for word in case.get("none_of", ()) if any(word in fix for fix in told)]

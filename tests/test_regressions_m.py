"""Logs as their users report them: containers, the hub, other platforms, clients; each once unexplained or told wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest
from regression_logs import cases, check


@pytest.mark.parametrize("path", cases("regressions_m"), ids=lambda path: path.stem)
def test_the_cause_leads_and_its_remedy_is_among_the_first(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, lead_only=True)

"""Logs whose cause stood below a warning, beside a kill or in another program's words: each keeps its cause and its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from regression_logs import cases, check


@pytest.mark.parametrize("path", cases("regressions_f"), ids=lambda path: path.stem)
def test_the_cause_leads_and_its_remedy_is_the_first(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, lead_only=True)

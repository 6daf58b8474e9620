"""Whole logs of quantised, drafted and shared-out models that ended as 'the first error', or with the wrong remedy first."""

from __future__ import annotations

from pathlib import Path

import pytest
from regression_logs import cases, check


@pytest.mark.parametrize("path", cases("regressions_l"), ids=lambda path: path.stem)
def test_the_cause_leads_and_its_remedy_is_told(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, lead_only=True)

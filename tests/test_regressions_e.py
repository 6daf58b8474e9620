"""Whole logs whose cause stood before the loudest line, or whose remedy failed again: each keeps its cause and its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from regression_logs import cases, check


@pytest.mark.parametrize("path", cases("regressions_e"), ids=lambda path: path.stem)
def test_the_cause_is_the_logs_own_and_the_remedy_points_the_right_way(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, lead_only=False)

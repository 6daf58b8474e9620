"""Logs of healthy servers, and of other failures, that print words which a rule once took for its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from regression_logs import cases, check


@pytest.mark.parametrize("path", cases("regressions_o"), ids=lambda path: path.stem)
def test_only_what_failed_is_named(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, lead_only=False)

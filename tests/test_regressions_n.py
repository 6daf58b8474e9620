"""Logs in which one sign of a cause is there and the cause is not, and remedies that the release no longer has."""

from __future__ import annotations

from pathlib import Path

import pytest
from regression_logs import cases, check

from vlogdiag.diagnosis.arguments import from_dict


@pytest.mark.parametrize("path", cases("regressions_n"), ids=lambda path: path.stem)
def test_the_cause_leads_and_its_remedy_is_among_the_first(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, lead_only=True)


def test_a_connector_is_known_though_its_settings_are_printed_as_an_object() -> None:
    text = "non-default args: {'model': 'm', 'kv_transfer_config': KVTransferConfig(kv_connector='C', kv_rank=None, x={'a': 'b)'})}"
    assert from_dict(text)["kv_transfer_config"] == {"kv_connector": "C", "x": {"a": "b)"}}

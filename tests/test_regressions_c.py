"""Logs in which the wrong program, request or number was blamed: each keeps its cause, and its remedy's direction."""

from __future__ import annotations

from pathlib import Path

import pytest
from regression_logs import cases, check, rules

from vlogdiag.pipeline import Pipeline


@pytest.mark.parametrize("path", cases("regressions_c"), ids=lambda path: path.stem)
def test_the_cause_is_the_logs_own_and_the_remedy_points_the_right_way(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path, lead_only=False)


@pytest.mark.parametrize(
    ("version", "option"),
    [("0.8.4", "--cuda-graph-sizes 64"), ("0.6.6", "--calculate-kv-scales"), ("0.6.3", "--task x")],
)
def test_an_option_newer_than_the_release_was_not_removed_from_it(version: str, option: str) -> None:
    pipeline = Pipeline(rules(), source="x", version=version)
    pipeline.feed(f"usage: vllm serve <model_tag> [options]\nvllm: error: unrecognized arguments: {option}\n".encode())
    (found,) = pipeline.close().findings
    assert found.id == "argument-unrecognized" and "arrives in" in found.fixes[0].title

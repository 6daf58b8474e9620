"""docs/report.md says of the JSON what the code prints."""

from __future__ import annotations

from pathlib import Path

from vlogdiag.report.json import event_schema, field_table, schema

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "report.md").read_text(encoding="utf-8")


def test_every_key_of_the_report_is_documented() -> None:
    assert field_table(schema()) in PAGE


def test_every_key_of_an_event_is_documented() -> None:
    assert field_table(event_schema(), besides=schema()) in PAGE

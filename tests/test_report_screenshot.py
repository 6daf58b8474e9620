"""The README's picture shows the report, and needs nothing from the network."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_samples import KV, OOM, hostile

SPEC = importlib.util.spec_from_file_location(
    "screenshot", Path(__file__).resolve().parent.parent / "tools" / "screenshot.py"
)
assert SPEC is not None and SPEC.loader is not None
screenshot = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(screenshot)


def words_of(svg: str) -> str:
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return " ".join("".join(text.itertext()) for text in texts).replace("\u00a0", " ")


def test_the_picture_holds_the_report() -> None:
    words = words_of(screenshot.picture(KV, width=100, title="vlogdiag scan vllm.log"))
    assert "vlogdiag scan vllm.log" in words
    assert "--max-model-len 80512" in words
    assert "The KV cache cannot hold one request of the configured length" in words


def test_the_picture_loads_nothing_and_is_reproducible() -> None:
    svg = screenshot.picture(OOM, width=100, title="t")
    assert svg == screenshot.picture(OOM, width=100, title="t")
    assert "@font-face" not in svg
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?(?!["']?#)\w""", svg)


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "&lt;", "]]>", "\x1b[31m"])
def test_log_text_cannot_leave_the_picture(text: str) -> None:
    svg = screenshot.picture(hostile(text), width=60, title=text.replace("\x1b", ""))
    assert "<script" not in svg
    ElementTree.fromstring(svg)

"""Tells what people wrote, and models answered, from what vLLM says: a prompt may quote any error.

Sources: vLLM `entrypoints/logger.py`, `entrypoints/openai/tool_parsers/qwen3coder_tool_parser.py`, `inputs/registry.py`
(`call_hf_processor`), `examples/offline_inference/basic/`.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from vlogdiag.model import Line, Record

__all__ = ["DATA", "QUOTING", "is_quotation", "without_data"]

QUOTING = ("Received request ", "Request ", "Generated response ")
"""How messages begin that hold somebody's prompt or a model's answer: their words are no marks and no facts."""
WHOLE = ("Received request ", "Generated response ", "Parsed value '")
PRINTED = re.compile(r"(?:Prompt|Output|Generated text|Generated): {1,8}f?['\"]")
"""What offline scripts print of a prompt and its answer, as vLLM's examples do."""
APPLIED = "Failed to apply "
DATA = " on data="
"""Without it in a record's text there is nothing for `without_data` to do."""


def is_quotation(record: Record, text: str) -> bool:
    """Whether a record's text is somebody's words: no failure, whatever they quote."""
    if text.startswith(WHOLE) or " details: prompt: " in text[:200]:
        return True
    return record.level is None and PRINTED.match(text) is not None


def without_data(record: Record, text: str) -> Record:
    """The record without the request that `Failed to apply P on data={'text': …} with kwargs=…` quotes."""
    if APPLIED not in text:
        return record
    return replace(record, lines=tuple(_cut(line) for line in record.lines))


def _cut(line: Line) -> Line:
    begin = line.text.find(APPLIED)
    at = line.text.find(DATA, begin) if begin >= 0 else -1
    return line if at < 0 else replace(line, text=line.text[: at + len(DATA)] + "…")

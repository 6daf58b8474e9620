"""Reads the server's arguments from the words of its command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from vlogdiag.launch.argv import option_name, parse_args

_MODULE = re.compile(r"vllm\.entrypoints\.(?:openai\.)?api_server")
_WHOLE = re.compile(r"-?\d{1,15}")
MAX_WORDS = 500


def arguments_of(argv: Sequence[str]) -> dict[str, Any] | None:
    """`vllm serve MODEL --port 8000` to names with underscores and their values; None where no server is started."""
    start = _start(argv)
    if start is None:
        return None
    found: dict[str, Any] = {}
    for flag, value in parse_args(argv[start : start + MAX_WORDS]):
        if value is None:
            found.setdefault("model_tag", flag)
            continue
        name = option_name(flag).lstrip("-").replace("-", "_")
        read = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value
        found[name] = [*_listed(found[name]), read] if name in found else read
    return found


def _start(argv: Sequence[str]) -> int | None:
    for at, word in enumerate(argv):
        if word.rsplit("/", 1)[-1] == "vllm" and list(argv[at + 1 : at + 2]) == ["serve"]:
            return at + 2
        if _MODULE.fullmatch(word) or word.endswith("vllm/entrypoints/openai/api_server.py"):
            return at + 1
    return None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]

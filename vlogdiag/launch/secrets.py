"""Replaces what looks like a credential in command lines and launch files by `***`."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"

_OPTION = r"--?(?:[a-z0-9]+[-_])*(?:api[-_]?key|token|password|passwd|secret)"
_VARIABLE = r"(?<![\w-])\w*(?:TOKEN|API_?KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?|ACCESS_KEY|ACCESS_KEY_ID)"
_IS_OPTION = re.compile(_OPTION + r"(?:[.=]|$)", re.IGNORECASE)
_IS_VARIABLE = re.compile(_VARIABLE + "$", re.IGNORECASE)
_VALUE = r"(?P<value>[^\s\"',\\)\]}]+)"
_NAMED = tuple(
    re.compile(name + between + _VALUE, re.IGNORECASE)
    for name, between in (
        (_OPTION, r"(?:[\"']?[\s=,]+(?:-\s+)?|=)[\"']?"),  # `--api-key x`, `--api-key=x`, two items of a list
        (_VARIABLE, r"[\"']?[ \t]*[=:][ \t]*[\"']?"),  # `HF_TOKEN=x`, `HF_TOKEN: x`
        (_VARIABLE, r"[\"']?\s*,?\s*[\"']?value[\"']?:\s*[\"']?"),  # Kubernetes: `name: HF_TOKEN`, `value: x`
    )
)
_NO_SECRET = re.compile(r"\$|%\(|\{\{|\d*$|-")
"""A variable that stands for a secret gives nothing away, a number is a limit, and a dash begins another option."""
_SHAPES = (
    r"hf_[A-Za-z0-9]{6,}",
    r"sk-[\w-]{6,}",
    r"gh[pousr]_[A-Za-z0-9]{10,}",
    r"github_pat_\w{10,}",
    r"nvapi-[\w-]{10,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{12,}",
    r"xox[abprs]-[A-Za-z0-9-]{8,}",
    r"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*",
    r"(?<=Bearer )[\w.~+/-]{8,}=*",
    r"(?<=://)[^/\s:@\"']+:[^/\s@\"']+(?=@)",
)
_LOOKS_SECRET = re.compile("|".join(_SHAPES))
"""Tokens of Hugging Face, OpenAI, GitHub, NVIDIA, AWS and Slack, JSON web tokens, passwords in addresses."""


def is_secret_option(flag: str) -> bool:
    """True for `--api-key`, `--hf-token` and their like."""
    return _IS_OPTION.match(flag) is not None


def is_secret_variable(name: str) -> bool:
    """True for `HF_TOKEN`, `AWS_SECRET_ACCESS_KEY` and their like."""
    return _IS_VARIABLE.match(name) is not None


def mask_value(text: str) -> str:
    """`text` without what looks like a credential anywhere in it."""
    return _LOOKS_SECRET.sub(MASK, text)


def secret_values(text: str) -> frozenset[str]:
    """The credentials in a launch file, by the name of their option or variable."""
    values = (hit["value"] for pattern in _NAMED for hit in pattern.finditer(text))
    return frozenset(value for value in values if not _NO_SECRET.match(value))


def mask_text(text: str, values: Iterable[str] = ()) -> str:
    """`text` without these values and without what looks like a credential."""
    for value in sorted(values, key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", MASK, text)
    return mask_value(text)

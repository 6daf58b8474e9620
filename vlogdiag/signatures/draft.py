"""Begins a rule file from one record of a log: the record as first example, its numbers as typed holes."""

from __future__ import annotations

import re

import yaml

from vlogdiag.model import FAMILIES, Line, Record

__all__ = ["draft_rule"]

TOKENS = re.compile(
    r"(?P<size>\d[\d,]*(?:\.\d+)? ?(?:[KMGT]i?B|bytes)\b)"
    r"|(?P<percent>\d+(?:\.\d+)?%)"
    r"|(?P<duration>\d+(?:\.\d+)? ?(?:ms|milliseconds|seconds|secs|minutes)\b)"
    r"|(?P<float>(?<![\w.])\d+\.\d+(?![\w.]))"
    r"|(?P<int>(?<![\w.])\d[\d,]*(?![\w.]))"
    r"|(?P<brace>[{}])"
)
MAX_PATTERN = 300
QUOTING = "INFO 01-01 00:00:00 [logger.py:43] Received request cmpl-1: prompt: "


def draft_rule(path_stem: str, family: str, record: Record, line: Line, source_line: str) -> str:
    """YAML of a new rule: `line` is the one that proves the cause, `source_line` the log's own text for the example."""
    message = message_of(line.text)
    pattern, names = template_of(message)
    holes = " ".join(f"{{{name}}}" for name in names)
    body = "\n".join(f"        {text}" for text in source_line.split("\n"))
    title = yaml.safe_dump(message[:80], allow_unicode=True, width=200).splitlines()[0]
    return f"""id: {path_stem}
title: {title}
severity: error
match:
  line:
    - {_quoted(pattern)}
cause: "Say in one sentence what broke{": " + holes if holes else "."}"
fixes:
  - title: Say what to change
    run: "the command to type"
references:
  - https://docs.vllm.ai/en/latest/usage/troubleshooting.html
examples:
  fires:
    - log: |
{body}
  quiet:
    - name: the same words in a prompt
      log: |
        {QUOTING}{_quoted(message)}, params: SamplingParams(n=1)
"""


def message_of(text: str) -> str:
    """The line without what pydantic puts around a message (vLLM 0.9.1 and later)."""
    text = text.strip().removeprefix("Value error, ")
    return text.partition(" [type=")[0][:MAX_PATTERN]


def template_of(text: str) -> tuple[str, tuple[str, ...]]:
    """A log line as a pattern: numbers become holes (`n1`, `size2` …), braces are doubled."""
    names: list[str] = []

    def hole(match: re.Match[str]) -> str:
        kind = match.lastgroup or "int"
        if kind == "brace":
            return match.group() * 2
        name = f"{'n' if kind == 'int' else kind}{len(names) + 1}"
        names.append(name)
        return f"{{{name}:{kind}}}"

    return TOKENS.sub(hole, text), tuple(names)


def _quoted(text: str) -> str:
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=100_000).strip()


def family_of(folder: str) -> str:
    """The family that a folder's name says, else `startup`, the commonest."""
    return folder if folder in FAMILIES else "startup"

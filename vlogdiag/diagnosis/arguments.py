"""Reads a run's arguments where they are printed: the args dict, a Namespace, the engine's config, a shell echo.

vLLM prints Python reprs, sometimes of objects that are no literals; what cannot be read is left out, never guessed.
Sources: vLLM `entrypoints/openai/api_server.py` (`args: %s`), `entrypoints/utils.py` (`non-default args: %s`),
`v1/engine/core.py` (`with config: %s`, 0.4.0 to 0.33.0).
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from vlogdiag import catalog

__all__ = ["from_config", "from_dict", "from_namespace", "from_shell", "literal"]

MAX_ARGS = 64 * 1024
MAX_VALUE = 4_000
OPEN, CLOSE = "([{", ")]}"
CONFIG_NAMES = {
    "model": "model",
    "max_seq_len": "max_model_len",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "quantization": "quantization",
    "enforce_eager": "enforce_eager",
    "kv_cache_dtype": "kv_cache_dtype",
    "dtype": "dtype",
    "load_format": "load_format",
    "disable_custom_all_reduce": "disable_custom_all_reduce",
    "enable_prefix_caching": "enable_prefix_caching",
    "trust_remote_code": "trust_remote_code",
    "served_model_name": "served_model_name",
    "seed": "seed",
    "download_dir": "download_dir",
    "tokenizer": "tokenizer",
    "device_config": "device",
}
"""What the engine's config line calls things, and the argument that sets them. Its values are resolved ones."""
SECRET = re.compile(r"(?:.*[._])?(?:(?:api|access|auth|private)_?keys?|token|password|passwd|secret)\Z")
"""Names of arguments whose values are not kept: `hf_token` is one, `tokenizer` and `max_num_batched_tokens` are not."""


def literal(text: str) -> Any | None:
    """A Python literal, or None when the text is something else (an enum's repr, a class)."""
    text = text.strip()
    if len(text) > MAX_VALUE:
        return None
    try:
        with warnings.catch_warnings():  # `1if 2else 3` is worth a warning to Python, and none to people
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _split(body: str, closer: str) -> Iterator[str]:
    """Top-level, comma-separated parts of a repr up to its closing bracket; strings and brackets are respected."""
    depth = 0
    quote = ""
    start = position = 0
    end = min(len(body), MAX_ARGS)
    while position < end:
        char = body[position]
        if quote:
            if char == "\\":
                position += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in OPEN:
            depth += 1
        elif char in CLOSE:
            if depth == 0 and char == closer:
                break
            depth -= 1
        elif char == "," and depth == 0:
            yield body[start:position]
            start = position + 1
        position += 1
    yield body[start:position]


def _clean(pairs: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if value is None or not name.isidentifier() or len(found) >= 400:
            continue
        found[name] = "***" if SECRET.match(name) and isinstance(value, (str, list)) else value
    return found


def from_dict(text: str) -> dict[str, Any]:
    """`non-default args: {'model': 'x', 'max_model_len': 8192}`: the user's own arguments."""
    start = text.find("{")
    if start < 0:
        return {}

    def pairs() -> Iterator[tuple[str, Any]]:
        for part in _split(text[start + 1 :], "}"):
            name, colon, value = part.partition(":")
            key = literal(name)
            if colon and isinstance(key, str):
                yield key, _value(value)

    return _clean(pairs())


def from_namespace(text: str) -> dict[str, Any]:
    """`args: Namespace(host=None, port=8000, …)`: every argument, defaults included."""
    start = text.find("Namespace(")
    if start < 0:
        return {}

    def pairs() -> Iterator[tuple[str, Any]]:
        for part in _split(text[start + len("Namespace(") :], ")"):
            name, equals, value = part.partition("=")
            if equals:
                yield name.strip(), _value(value)

    return _clean(pairs())


ENUM = re.compile(r"<[\w.]{1,80}: (.{1,200})>$")
TRANSFER = re.compile(r"KVTransferConfig\((.{1,4000})\)$", re.DOTALL)
"""The one option whose value a user writes as JSON and every release prints as an object."""
NAME = re.compile(r"(?:torch\.)?([\w.+/-]{1,120})$")


def _value(text: str) -> Any | None:
    text = text.strip()
    found = literal(text)
    if found is not None or text == "None":
        return found
    enum = ENUM.match(text)
    if enum:
        return literal(enum[1])
    transfer = TRANSFER.match(text)
    if transfer:
        return _fields(transfer[1])
    name = NAME.match(text)
    return name[1] if name else None


def _fields(body: str) -> dict[str, Any]:
    """What a configuration object prints between its brackets: the fields that are plain values."""
    parts = (part.partition("=") for part in _split(body, ")"))
    values = ((name.strip(), literal(value)) for name, _, value in parts)
    return {name: value for name, value in values if value is not None and name.isidentifier()}


CONFIG_PAIR = re.compile(r"(?:^|, )(\w{2,60})=('(?:[^'\\]|\\.){0,500}'|\"[^\"]{0,500}\"|[\w./:+-]{1,200})(?=,|$|\)|\s)")


def from_config(text: str) -> dict[str, Any]:
    """`… with config: model='x', …, tensor_parallel_size=4, …`: resolved values, defaults included."""
    start = text.find("with config:")
    if start < 0:
        return {}

    def pairs() -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for match in CONFIG_PAIR.finditer(text[start + len("with config: ") : start + MAX_ARGS]):
            name = CONFIG_NAMES.get(match[1])
            if name and name not in seen:  # the first is the engine's own: SpeculativeConfig(model=…) has one as well
                seen.add(name)
                yield name, _value(match[2])

    return _clean(pairs())


NUMBER = re.compile(r"-?\d{1,15}$")
FRACTION = re.compile(r"-?\d{0,9}\.\d{1,9}$")


def from_shell(text: str) -> tuple[dict[str, Any], dict[str, str]] | None:
    """`FOO=1 vllm serve MODEL --max-model-len 8192`: (arguments, environment); None if it starts no vLLM server."""
    try:
        words = shlex.split(text[:MAX_ARGS], comments=True)
    except ValueError:
        words = text[:MAX_ARGS].split()
    env: dict[str, str] = {}
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    for number, word in enumerate(words):
        if word.rsplit("/", 1)[-1] == "vllm" and words[number + 1 : number + 2] == ["serve"]:
            rest = words[number + 2 :]
            break
        if word.startswith("vllm.entrypoints.") and "api_server" in word:
            rest = words[number + 1 :]
            break
    else:
        return None
    return _options(rest), env


def _options(words: list[str]) -> dict[str, Any]:
    args: dict[str, Any] = {}
    position = 0
    if words and not words[0].startswith("-"):
        args["model"] = words[0]
        position = 1
    while position < len(words) and len(args) < 400:
        word = words[position]
        position += 1
        if not word.startswith("-") or word in ("&", "-"):
            continue
        name, equals, value = word.partition("=")
        key = {"-tp": "tensor_parallel_size", "-pp": "pipeline_parallel_size"}.get(name) or name.lstrip("-").replace(
            "-", "_"
        )
        if equals:
            args[key] = _word(value)
            continue
        values = []
        while position < len(words) and (not words[position].startswith("-") or NUMBER.match(words[position])):
            if words[position] in ("&", ">", ">>", "2>&1", "|", "&&", ";"):
                position = len(words)
                break
            values.append(_word(words[position]))
            position += 1
        if (  # `vllm serve --port 9000 org/model`
            values
            and "model" not in args
            and len(values) - 1 == catalog.most_values(f"--{key.replace('_', '-')}")
            and isinstance(values[-1], str)
            and values[-1].lower() not in ("true", "false")
        ):
            args["model"] = values.pop()
        args[key] = True if not values else values[0] if len(values) == 1 else values
    return {
        k: "***" if SECRET.match(k) and v is not True else v for k, v in args.items() if k.split(".")[0].isidentifier()
    }


def _word(text: str) -> Any:
    if NUMBER.match(text):
        return int(text)
    if FRACTION.match(text):
        return float(text)
    return text


def plain(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON can carry them: everything that is no plain value becomes text."""

    def convert(value: Any, depth: int = 0) -> Any:
        if isinstance(value, (bool, int, float, str)) or value is None:
            return value
        if isinstance(value, dict) and depth < 4:
            return {str(k): convert(v, depth + 1) for k, v in value.items()}
        if isinstance(value, (list, tuple, set)) and depth < 4:
            return [convert(v, depth + 1) for v in value]
        return repr(value)[:200]

    return {name: convert(value) for name, value in args.items()}

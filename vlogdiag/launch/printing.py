"""Turns a server's arguments into a command line for people, changes marked and secrets left out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from vlogdiag.catalog import Versions, resolve, spell_mapping
from vlogdiag.catalog.names import entry_at, is_option
from vlogdiag.launch.quoting import quote_word
from vlogdiag.launch.secrets import MASK, is_secret_option, is_secret_variable, mask_value

_VARIABLE = re.compile(r"^\$\{?\w+\}?$")
_NOT_OPTIONS = frozenset(("model", "model_tag", "subparser", "dispatch_function", "func", "config"))
"""Names in vLLM's argument listing that no option of the command line stands for."""


def format_command(
    argv: Sequence[str], *, mark: Callable[[str], str] | None = None, before: Sequence[str] | None = None
) -> str:
    """`argv` as one shell line; values of secret options, and what looks like a credential, become `***`.

    `mark` wraps each run of words that `before` (the command as it was) did not have.
    """
    shown = _without_secrets(argv)
    if mark is None or before is None:
        return " ".join(shown)
    parts: list[str] = []
    matcher = SequenceMatcher(None, list(before), list(argv), autojunk=False)
    for tag, _, _, start, end in matcher.get_opcodes():
        if start == end:
            continue
        text = " ".join(shown[start:end])
        parts.append(text if tag == "equal" else mark(text))
    return " ".join(parts)


def _without_secrets(argv: Sequence[str]) -> list[str]:
    shown = []
    hiding = False
    for word in argv:
        option = is_option(word)
        name, equals, value = word.partition("=")
        secret = is_secret_option(name) if option else is_secret_variable(name)
        if (hiding and not option and not _VARIABLE.match(word)) or (equals and secret and not _VARIABLE.match(value)):
            word = f"{name}={MASK}" if equals and secret else MASK
        hiding = secret and not equals if option else hiding
        if _VARIABLE.match(word):
            shown.append(f'"{word}"')
        elif equals and _VARIABLE.match(value):
            shown.append(f'{name}="{value}"')
        else:
            shown.append(_quoted(mask_value(word)))
    return shown


def _quoted(word: str) -> str:
    """One word for people: the stars of a mask stay without the quotes that a shell would want."""
    plain = word.replace(MASK, "x")
    return word if quote_word(plain) == plain else quote_word(word)


def command_from_args(
    args: Mapping[str, Any], model: str | None = None, versions: Versions | None = None
) -> tuple[str, ...]:
    """`vllm serve …` from the arguments that vLLM's log lists (`{'max_model_len': 8192, 'enforce_eager': True}`).

    Mappings become JSON, or `image=2` for releases that want it; switches that are off become their negation where
    the releases have one.
    """
    versions = versions or Versions.all()
    name = model or args.get("model_tag") or args.get("model")
    words = ["vllm", "serve", *([str(name)] if name else [])]
    for key, value in args.items():
        if key not in _NOT_OPTIONS and value is not None:
            words += _option_words("--" + key.lstrip("-").replace("_", "-"), value, versions)
    return tuple(words)


def _option_words(flag: str, value: Any, versions: Versions) -> list[str]:
    found = resolve(flag, versions)
    entry = entry_at(found.spelling or flag, found.where)
    if value is True:
        return [flag]
    if value is False:
        off = [text for text in entry.off if text.startswith("--no-")] if entry else []
        return [off[0]] if off else []
    if isinstance(value, Mapping):
        return [flag, spell_mapping(flag, value, versions)]
    if isinstance(value, (list, tuple)):
        if entry is not None and entry.type == "json":
            return [flag, json.dumps(list(value), ensure_ascii=False)]
        return [flag, *(item if isinstance(item, str) else json.dumps(item) for item in value)]
    return [flag, str(value)]

"""Gives every private value its placeholder: the same value the same one, in the whole bundle."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping

DIGESTED = {
    "prompt": "chars",
    "output": "chars",
    "image": "chars",
    "data": "chars",
    "line": "chars",
    "token-ids": "numbers",
}
"""Kinds that are shown by length and digest, and what their length counts; all others get a number."""

NUMBERED = ("token", "password", "private-key", "user", "host", "ip", "mac", "email", "serial")

PLACEHOLDER = re.compile(
    r"<(?:(?:" + "|".join(NUMBERED) + r")-\d{1,9}|"
    r"(?:" + "|".join(DIGESTED) + r") \d{1,12} (?:chars|numbers) sha256:[0-9a-f]{8})>"
)

_NUMBER = re.compile(r"\d+")
_CASELESS = ("host", "mac", "email", "ip")


class Placeholders:
    """Hands out `<host-1>`, `<token-3>`, `<prompt 120 chars sha256:ab12cd34>` and counts them by kind."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._last: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def give(self, kind: str, value: str) -> str:
        """The placeholder for `value`; a value that is one already stays."""
        if PLACEHOLDER.fullmatch(value):
            return value
        self._counts[kind] += 1
        unit = DIGESTED.get(kind)
        if unit is not None:
            length = len(_NUMBER.findall(value)) if unit == "numbers" else len(value)
            return f"<{kind} {length} {unit} sha256:{digest(value)}>"
        key = (kind, value.casefold() if kind in _CASELESS else value)
        number = self._numbers.get(key)
        if number is None:
            self._last[kind] += 1
            number = self._numbers[key] = self._last[kind]
        return f"<{kind}-{number}>"

    def start_counting(self) -> None:
        """Count from here on; what stands for what is kept."""
        self._counts.clear()

    def counts(self) -> Mapping[str, int]:
        """How many replacements were made, by kind; never the values."""
        return dict(sorted(self._counts.items()))

    def distinct(self) -> Mapping[str, int]:
        """How many different values stand behind the numbered placeholders, by kind."""
        return dict(sorted(self._last.items()))


def digest(value: str) -> str:
    """First eight hexadecimal digits of the value's SHA-256: they show that two texts are equal, and check a guess."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:8]

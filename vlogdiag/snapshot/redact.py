"""Turns log text into log text without secrets, names, addresses and prompts, line by line and in linear time."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct, structs

from vlogdiag.snapshot.credential_names import kind_of_name
from vlogdiag.snapshot.credentials import harmless, looks_random
from vlogdiag.snapshot.gates import make_gate
from vlogdiag.snapshot.hosts import distinctive
from vlogdiag.snapshot.placeholders import PLACEHOLDER, Placeholders
from vlogdiag.snapshot.spans import Span
from vlogdiag.snapshot.stream import Stream

MAX_LEARNED = 256
"""Values of one kind that are looked for wherever they stand; further ones are found by place and shape only."""

_TELLING = re.compile(r"user|host|node|addr|login|owner|machine|prompt|content|output|serial", re.I)
"""Keys that say what their value is."""

Thing = TypeVar("Thing")


class Redactor:
    """One bundle's memory of what stands for what; `line` and `text` clean, `counts` says what was replaced.

    `known` are values that the caller has from elsewhere (this machine's name, the account's): they are replaced
    wherever they stand as a word, unless it is one of `vocabulary` (lower case: the words that diagnoses need), which
    counts as a name only where something tells that it is one. `gate` says of a line that it needs no closer look
    (`gates.py`). With `enabled` false everything stays as it is. Not safe for two threads at once.
    """

    def __init__(
        self,
        *,
        enabled: bool = True,
        keep_prompts: bool = False,
        known: Mapping[str, Iterable[str]] | None = None,
        vocabulary: Container[str] = frozenset(),
        gate: Callable[[str], bool] | None = None,
    ) -> None:
        self.enabled = enabled
        self.keep_prompts = keep_prompts
        self._gate = gate or make_gate()
        self._vocabulary = vocabulary
        self._placeholders = Placeholders()
        self._anywhere: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._folders: set[str] = set()
        self._stream = self.stream()
        for kind, values in (known or {}).items():
            for value in values:
                self.know(kind, value)

    def stream(self) -> Stream:
        """Follow another log with the same memory."""
        return Stream(self._give, self._remembered, self._gate, keep_prompts=self.keep_prompts)

    def line(self, text: str) -> str:
        """Clean the next line of the log that this redactor follows; its line end stays."""
        return self._stream.line(text) if self.enabled else text

    def text(self, text: str) -> str:
        """Clean a text of its own, of any number of lines."""
        return "".join(redact_stream(text.splitlines(keepends=True), self))

    def value(self, kind: str, text: str) -> str:
        """The placeholder that stands for this value in the whole bundle."""
        return self._placeholders.give(kind, text) if self.enabled else text

    def data(self, value: Thing, key: str = "") -> Thing:
        """`value` with every text in it cleaned: dicts, lists, frozen dataclasses; a text may be known by its `key`."""
        cleaned: Thing = self._data(value, key) if self.enabled else value
        return cleaned

    def start_counting(self) -> None:
        """Count replacements from here on: a first pass over everything only learns what is to be hidden."""
        self._placeholders.start_counting()

    def counts(self) -> Mapping[str, int]:
        """How many replacements were made, by kind."""
        return self._placeholders.counts()

    def distinct(self) -> Mapping[str, int]:
        """How many different values were replaced by a number, by kind."""
        return self._placeholders.distinct()

    def know(self, kind: str, value: str) -> None:
        """Replace `value` wherever it stands from now on, if it is not a word that any log may use."""
        if kind in ("token", "password"):
            if len(value) >= 8 and len(self._anywhere) < MAX_LEARNED:
                self._anywhere.setdefault(value, kind)
        elif len(self._words) < MAX_LEARNED and (kind not in ("host", "user") or self._is_nobodys_word(value)):
            self._words.setdefault(value, kind)
            if kind == "user":
                self._folders.add(value)
        elif kind == "user" and distinctive(value):  # `will`, `mark`: known only where a folder is named
            self._folders.add(value)

    def _is_nobodys_word(self, value: str) -> bool:
        return distinctive(value) and value.lower() not in self._vocabulary

    def _give(self, kind: str, value: str) -> str:
        placeholder = self._placeholders.give(kind, value)
        if not PLACEHOLDER.search(value):
            self._learn(kind, value)
        return placeholder

    def _learn(self, kind: str, value: str) -> None:
        """Remember what a line gave away, so that it is found where nothing around it tells what it is."""
        if kind in ("token", "password"):
            if looks_random(value) and len(set(value)) >= 6:
                self.know(kind, value)
        elif kind == "host":
            if len(value) >= 6 or any(c in "-." or c.isdigit() for c in value):
                self.know(kind, value)
        elif kind == "user" and distinctive(value) and len(self._folders) < MAX_LEARNED:
            self._folders.add(value)

    def _remembered(self, line: str) -> Iterator[Span]:
        for value, kind in self._anywhere.items():
            for at in _places(line, value):
                yield Span(at, at + len(value), kind)
        for value, kind in self._words.items():
            for at in _places(line, value):
                if not _goes_on_before(line, at) and not _goes_on_after(line, at + len(value)):
                    yield Span(at, at + len(value), kind)
        for value in self._folders:
            for at in _places(line, f"/{value}"):
                end = at + 1 + len(value)
                if not _goes_on_after(line, end) and line[max(0, at - 1) : at] not in (":", "/"):
                    yield Span(at + 1, end, "user")

    def _data(self, value: Any, key: str) -> Any:
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return self._keyed(value, key)
        if isinstance(value, Mapping):
            return {self._data(k, ""): self._data(v, k if isinstance(k, str) else "") for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._data(item, key) for item in value)
        if isinstance(value, Struct):
            fields = {f.name: self._data(getattr(value, f.name), f.name) for f in structs.fields(value)}
            return structs.replace(value, **fields)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: self._data(getattr(value, f.name), f.name) for f in dataclasses.fields(value) if f.init}
            return dataclasses.replace(value, **fields)
        return value

    def _keyed(self, value: str, key: str) -> str:
        kind = kind_of_name(key) if key else None
        if kind is not None and not harmless(value, kind, key):
            return self.value("password" if kind == "password" else "token", value)
        if _TELLING.search(key) and len(key) <= 40 and not set(value) & set("\n\\'\""):
            # As a log would print it, so that names and places are recognised by what stands before them.
            printed = self.text(f"{key}='{value}'")
            if printed.startswith(f"{key}='") and printed.endswith("'"):
                return printed[len(key) + 2 : -1]
        if "\n" not in value and not self._gate(value) and not any(self._remembered(value)):
            return value  # most values of a report
        return self.text(value)


def redact_stream(lines: Iterable[str], redactor: Redactor) -> Iterator[str]:
    """Clean a log of any size line by line; one line comes out for each that went in."""
    if not redactor.enabled:
        yield from lines
        return
    stream = redactor.stream()
    for line in lines:
        yield stream.line(line)


def _places(line: str, value: str) -> Iterator[int]:
    at = line.find(value)
    while at >= 0:
        yield at
        at = line.find(value, at + len(value))


def _goes_on_before(line: str, at: int) -> bool:
    """True if a word begins before `at`; the letter of an escape (`\\n`) is none of the word's."""
    before = line[max(0, at - 1) : at]
    return (before.isalnum() or before == "_") and line[max(0, at - 2) : at] not in ("\\n", "\\r", "\\t")


def _goes_on_after(line: str, at: int) -> bool:
    after = line[at : at + 1]
    return after.isalnum() or after == "_"

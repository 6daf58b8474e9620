"""Turns a quoted or folded piece of a file into its plain text, every character still knowing where it stands.

A launch command may sit three layers deep: shell words, inside a double-quoted string, inside a YAML scalar. Reading
unwraps the layers one by one; a change to the innermost text goes back through the same layers, so that only the
characters that were meant are touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Piece = tuple[str, int, int]
"""One plain character with the span of its spelling, relative to the wrapped text."""


@dataclass(frozen=True, slots=True)
class Inset:
    """Plain text with, for each character, the span `[starts[i], ends[i])` of its spelling in the document."""

    document: str
    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    layers: tuple[str, ...] = ()
    """Names in `LAYERS`, outermost first; what is written here is spelled by the innermost first."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Document span of the non-empty `text[start:end]`."""
        return self.starts[start], self.ends[end - 1]

    def line(self, index: int) -> int:
        """1-based line in the document of `text[index]`."""
        return self.document.count("\n", 0, self.starts[index]) + 1

    def unwrap(self, start: int, pieces: Iterable[Piece], layer: str | None) -> Inset:
        """The inset one layer further in; `pieces` are relative to `text[start:]`."""
        listed = list(pieces)
        return Inset(
            self.document,
            "".join(char for char, _, _ in listed),
            [self.starts[start + a] for _, a, _ in listed],
            [self.ends[start + b - 1] for _, _, b in listed],
            (*self.layers, layer) if layer else self.layers,
        )


def whole(document: str) -> Inset:
    """The document as its own outermost text."""
    return Inset(document, document, range(len(document)), range(1, len(document) + 1))


def spell(text: str, layers: Sequence[str]) -> str:
    """`text` as it must be written inside `layers` (outermost first) to come out as it is."""
    for layer in reversed(layers):
        text = LAYERS[layer](text)
    return text


def verbatim(raw: str) -> list[Piece]:
    """A spelling without escapes, such as a single-quoted shell string."""
    return [(char, i, i + 1) for i, char in enumerate(raw)]


def double_quoted(raw: str) -> list[Piece]:
    """The inside of a shell's double quotes: four escapes, and a continuation that vanishes (POSIX 2.2.3)."""
    pieces: list[Piece] = []
    i = 0
    while i < len(raw):
        if raw[i] == "\\" and raw[i + 1 : i + 2] == "\n":
            i += 2
            continue
        if raw[i] == "\\" and raw[i + 1 : i + 2] in ("$", "`", '"', "\\"):
            pieces.append((raw[i + 1], i, i + 2))
            i += 2
            continue
        pieces.append((raw[i], i, i + 1))
        i += 1
    return pieces


def json_string(raw: str) -> list[Piece]:
    """The inside of a JSON string."""
    pieces: list[Piece] = []
    for hit in re.finditer(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u[0-9a-fA-F]{4}|\\.|.", raw, re.DOTALL):
        pieces += [(char, hit.start(), hit.end()) for char in json.loads(f'"{hit.group()}"', strict=False)]
    return pieces


def _shell_double(text: str) -> str:
    return re.sub(r'([$`"\\])', r"\\\1", text)


def _shell_single(text: str) -> str:
    return text.replace("'", "'\\''")


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _yaml_single(text: str) -> str:
    return text.replace("'", "''")


def _same(text: str) -> str:
    return text


LAYERS: dict[str, Callable[[str], str]] = {
    "shell double quotes": _shell_double,
    "shell single quotes": _shell_single,
    "unit single quotes": lambda text: re.sub(r"([\\'])", r"\\\1", text),
    "unit double quotes": lambda text: re.sub(r'([\\"])', r"\\\1", text),
    "json string": _json,
    "yaml double quotes": _json,
    "yaml single quotes": _yaml_single,
    "yaml plain": _same,
    "yaml block": _same,
    "compose": lambda text: text.replace("$", "$$"),
    "kubernetes": lambda text: text.replace("$(", "$$("),
    "systemd": lambda text: text.replace("%", "%%").replace("$", "$$"),
    "supervisor": lambda text: text.replace("%", "%%"),
}
"""How each layer spells a text; written from the layers' own manuals."""

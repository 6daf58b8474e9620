"""Composes YAML to nodes that know their place, and unwraps a scalar's text with the place of every character."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from vlogdiag.launch.command import NotCertain
from vlogdiag.launch.inset import Inset, Piece, whole

_ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b"}
_ESCAPES |= {"N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}
_FOLD = re.compile(r"[ \t]*(?:\r?\n)([ \t]*(?:\r?\n))*[ \t]*")


def documents(text: str) -> list[Node]:
    """The documents' root nodes. Raises NotCertain, with the line, where the text is no YAML."""
    try:
        return [node for node in YAML(typ="safe", pure=True).compose_all(text) if node is not None]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        hint = " (a template must be rendered first)" if "{{" in text else ""
        raise NotCertain(f"{line}not readable as YAML: {error.problem or error.context}{hint}") from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise NotCertain(f"not readable as YAML: {str(error).splitlines()[0]}") from None


def pairs(node: Node | None) -> Iterator[tuple[ScalarNode, Node]]:
    """Key and value nodes of a mapping, merged mappings (`<<`) after its own; nothing for other nodes."""
    if not isinstance(node, MappingNode):
        return
    merged: list[Node] = []
    own: set[str] = set()
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge" or key.value == "<<":
            merged += value.value if isinstance(value, SequenceNode) else [value]
        elif isinstance(key, ScalarNode):
            own.add(key.value)
            yield key, value
    for other in merged:
        for key, value in pairs(other):
            if key.value not in own:
                yield key, value


def get(node: Node | None, name: str) -> Node | None:
    """A mapping's value by key."""
    return next((value for key, value in pairs(node) if key.value == name), None)


def items(node: Node | None) -> Sequence[Node]:
    """A sequence's nodes; none for other nodes."""
    return tuple(node.value) if isinstance(node, SequenceNode) else ()


def span(node: Node) -> tuple[int, int]:
    """Document span of a node."""
    return node.start_mark.index, node.end_mark.index


def scalar(document: str, node: ScalarNode) -> Inset:
    """A scalar's text; raises NotCertain where the places of its characters are not sure."""
    start, end = span(node)
    raw = document[start:end]
    base = whole(document)
    style = node.style
    if style == '"':
        inset = base.unwrap(start + 1, _quoted(raw[1:-1], escapes=True), "yaml double quotes")
    elif style == "'":
        inset = base.unwrap(start + 1, _quoted(raw[1:-1], escapes=False), "yaml single quotes")
    elif style in ("|", ">"):
        inset = base.unwrap(start, _block(raw, folded=style == ">"), "yaml block")
    else:
        inset = base.unwrap(start, _plain(raw), "yaml plain")
    if inset.text.rstrip("\n") != str(node.value).rstrip("\n"):
        raise NotCertain(f"line {node.start_mark.line + 1}: the layout of this YAML text is not understood")
    return inset


def _folded(hit: re.Match[str]) -> list[Piece]:
    """A line break inside flow text: one is a blank, the others are themselves."""
    breaks = [m.span() for m in re.finditer(r"\r?\n", hit.group())]
    at = hit.start()
    if len(breaks) == 1:
        return [(" ", at, hit.end())]
    return [("\n", at + a, at + b) for a, b in breaks[1:]]


def _plain(raw: str) -> list[Piece]:
    pieces: list[Piece] = []
    done = 0
    for hit in _FOLD.finditer(raw):
        pieces += [(raw[i], i, i + 1) for i in range(done, hit.start())]
        pieces += _folded(hit)
        done = hit.end()
    return pieces + [(raw[i], i, i + 1) for i in range(done, len(raw))]


def _quoted(raw: str, *, escapes: bool) -> list[Piece]:
    pieces: list[Piece] = []
    i = 0
    while i < len(raw):
        fold = _FOLD.match(raw, i)
        if fold:
            pieces += _folded(fold)
            i = fold.end()
        elif escapes and raw[i] == "\\":
            char, length = _escape(raw, i)
            pieces += [(char, i, i + length)] if char else []
            i += length
        elif not escapes and raw[i : i + 2] == "''":
            pieces.append(("'", i, i + 2))
            i += 2
        else:
            pieces.append((raw[i], i, i + 1))
            i += 1
    return pieces


def _escape(raw: str, i: int) -> tuple[str, int]:
    """The character of a double-quoted escape and the escape's length; a continued line has none."""
    following = raw[i + 1]
    broken = re.compile(r"\\\r?\n[ \t]*").match(raw, i)
    if broken:
        return "", broken.end() - i
    width = {"x": 2, "u": 4, "U": 8}.get(following)
    if width:
        return chr(int(raw[i + 2 : i + 2 + width], 16)), 2 + width
    return _ESCAPES.get(following, following), 2


def _block(raw: str, *, folded: bool) -> list[Piece]:
    """The content of `|` and `>`; chomping is left to the caller's comparison."""
    header = raw.index("\n") + 1
    lines = []
    at = header
    for line in raw[header:].splitlines(keepends=True):
        lines.append((at, line.rstrip("\r\n")))
        at += len(line)
    filled = [line for _, line in lines if line.strip(" ")]
    explicit = re.match(r"[|>][+-]?([1-9])", raw)
    indent = min((len(line) - len(line.lstrip(" ")) for line in filled), default=0)
    first = len(filled[0]) - len(filled[0].lstrip(" ")) if filled else 0
    indent = first if not explicit else indent
    while lines and not lines[-1][1].strip(" "):
        lines.pop()
    pieces: list[Piece] = []
    for number, (start, line) in enumerate(lines):
        text = line[indent:]
        pieces += [(char, start + indent + k, start + indent + k + 1) for k, char in enumerate(text)]
        if number + 1 == len(lines):
            break
        following = lines[number + 1]
        newline = (start + len(line), following[0])
        if not folded or not text or _indented(text):
            pieces.append(("\n", *newline))
            continue
        upcoming = next((later[indent:] for _, later in lines[number + 1 :] if later[indent:]), "")
        if _indented(upcoming):
            pieces.append(("\n", *newline))
        elif following[1][indent:]:
            pieces.append((" ", newline[0], following[0] + indent))
    return pieces


def _indented(text: str) -> bool:
    return text[:1] in (" ", "\t")


def plain_value(node: Node | None) -> str:
    """A scalar's text, '' for anything else."""
    return str(node.value) if isinstance(node, ScalarNode) else ""


def dump(value: Any) -> str:
    """A value as YAML flow text (JSON is YAML)."""
    return json.dumps(value, ensure_ascii=False)

"""Reads the environment variables of a YAML service or container, and where another one would go."""

from __future__ import annotations

import re

from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from vlogdiag.launch.command import EnvEntry, EnvPlace
from vlogdiag.launch.yaml_text import get, items, pairs, plain_value, span

_REST_OF_LINE = re.compile(r"[ \t]*(#[^\n]*)?(\r?\n|$)")


def compose_environment(document: str, service: Node) -> EnvPlace:
    """`environment:` of a compose service, as a mapping or a list."""
    node = get(service, "environment")
    if isinstance(node, MappingNode) and node.value:
        entries = tuple(
            EnvEntry(
                key.value,
                plain_value(value),
                *_value_span(key, value),
                *_dropped(document, node, k),
                "yaml scalar",
                ("compose",),
            )
            for k, (key, value) in enumerate(node.value)
            if isinstance(key, ScalarNode) and isinstance(value, ScalarNode)
        )
        return _into(document, node, entries, "yaml pair", ("compose",))
    if isinstance(node, SequenceNode) and node.value:
        entries = tuple(
            EnvEntry(*_split(item), *span(item), *_dropped(document, node, k), "yaml list item", ("compose",))
            for k, item in enumerate(node.value)
            if isinstance(item, ScalarNode)
        )
        return _into(document, node, entries, "yaml list item", ("compose",))
    return _fresh(document, service, "environment", "yaml pair", ("compose",), ("command", "entrypoint", "image"))


def kubernetes_environment(document: str, container: Node) -> EnvPlace:
    """`env:` of a container."""
    node = get(container, "env")
    if not isinstance(node, SequenceNode) or not node.value:
        return _fresh(document, container, "env", "kubernetes item", ("kubernetes",), ("args", "command", "image"))
    entries = []
    fixed = []
    for k, item in enumerate(node.value):
        name, value = plain_value(get(item, "name")), get(item, "value")
        if isinstance(value, ScalarNode):
            dropped = _dropped(document, node, k)
            entries.append(EnvEntry(name, plain_value(value), *span(value), *dropped, "yaml scalar", ("kubernetes",)))
        else:
            fixed.append(name)
    return _into(document, node, tuple(entries), "kubernetes item", ("kubernetes",), tuple(fixed))


def _split(item: ScalarNode) -> tuple[str, str]:
    name, _, value = str(item.value).partition("=")
    return name, value


def _value_span(key: Node, value: Node) -> tuple[int, int]:
    """Span of a mapping's value; of an empty one, the place behind the colon."""
    start, end = span(value)
    return (start, end) if end > start else (key.end_mark.index + 1, key.end_mark.index + 1)


def _bounds(node: CollectionNode) -> list[tuple[int, int]]:
    """Spans of a collection's members, keys included."""
    if isinstance(node, MappingNode):
        return [(key.start_mark.index, max(key.end_mark.index + 1, value.end_mark.index)) for key, value in node.value]
    return [span(item) for item in items(node)]


def _end(document: str, start: int, end: int) -> int:
    """A member's end without the blank lines that the parser counts to a nested block."""
    return start + len(document[start:end].rstrip())


def _dropped(document: str, node: CollectionNode, k: int) -> tuple[int, int]:
    """The span to delete for member `k`: its lines in a block, its comma in a flow."""
    bounds = _bounds(node)
    start, end = bounds[k]
    end = _end(document, start, end)
    if node.flow_style:
        if k + 1 < len(bounds):
            return start, bounds[k + 1][0]
        return (bounds[k - 1][1] if k else start), end
    line_start = document.rfind("\n", 0, start) + 1
    rest = _REST_OF_LINE.match(document, end)
    return line_start, rest.end() if rest else end


def _into(
    document: str,
    node: CollectionNode,
    entries: tuple[EnvEntry, ...],
    form: str,
    layers: tuple[str, ...],
    fixed: tuple[str, ...] = (),
) -> EnvPlace:
    """A new member behind the last one, written as that is."""
    start, end = _bounds(node)[-1]
    end = _end(document, start, end)
    if node.flow_style:
        if form == "kubernetes item":
            return EnvPlace(entries, end, ", {", "}", form="yaml flow item", layers=layers, fixed=fixed)
        return EnvPlace(entries, end, ", ", form=form, layers=layers, fixed=fixed)
    rest = re.compile(r"[ \t]+#[^\n]*").match(document, end)
    line_start = document.rfind("\n", 0, start) + 1
    lead = document[line_start:start]
    indent = " " * len(lead)
    return EnvPlace(
        entries, rest.end() if rest else end, "\n" + lead, form=form, indent=indent, layers=layers, fixed=fixed
    )


def _fresh(
    document: str, holder: Node, key: str, form: str, layers: tuple[str, ...], anchors: tuple[str, ...]
) -> EnvPlace:
    """A new `environment:` before the first of `anchors` that the holder has itself."""
    if not isinstance(holder, MappingNode) or holder.flow_style:
        return EnvPlace()
    own = [
        (name, node)
        for name, node in pairs(holder)
        if holder.start_mark.index <= name.start_mark.index < holder.end_mark.index
    ]
    for anchor in anchors:
        name = next((name for name, _ in own if name.value == anchor), None)
        if name is None:
            continue
        at = name.start_mark.index
        indent = " " * name.start_mark.column
        dash = "- " if form == "kubernetes item" else ""
        inner = indent + "  "
        exists = get(holder, key)
        if exists is not None:
            return EnvPlace()  # `environment:` without content, or in a manner that is not known here
        return EnvPlace(
            (), at, inner + dash, "\n", f"{key}:\n", indent, indent=inner + " " * len(dash), form=form, layers=layers
        )
    return EnvPlace()

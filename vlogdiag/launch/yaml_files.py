"""Reads the vLLM servers that a compose file or Kubernetes manifests start, every word with its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from vlogdiag.launch.build import Words, commands
from vlogdiag.launch.command import LaunchCommand, Site
from vlogdiag.launch.inset import Inset, Piece
from vlogdiag.launch.yaml_env import compose_environment, kubernetes_environment
from vlogdiag.launch.yaml_text import documents, get, items, pairs, plain_value, scalar, span


def read_compose(document: str) -> list[LaunchCommand]:
    """Every service of a compose file that starts a vLLM server."""
    found: dict[tuple[int, int], tuple[str, LaunchCommand]] = {}
    for root in documents(document):
        for name, service in pairs(get(root, "services")):
            for command in _service(document, service):
                key = command.line, command.column
                if key in found:
                    reason = f"the services {found[key][0]} and {name.value} share it"
                    command = replace(command, certain=False, reason=reason)
                found[key] = name.value, command
    return [command for _, command in found.values()]


def read_kubernetes(document: str) -> list[LaunchCommand]:
    """Every container of the manifests that starts a vLLM server."""
    found = []
    for root in documents(document):
        for container in _containers(root):
            collected = Words(document)
            entrypoint = get(container, "command")
            _add(collected, entrypoint, "kubernetes")
            _add(collected, get(container, "args"), "kubernetes")
            env = kubernetes_environment(document, container)
            image = plain_value(get(container, "image"))
            found += commands(collected, "kubernetes", env, span(container)[0], image or None, entrypoint is not None)
    return found


def _service(document: str, service: Node) -> list[LaunchCommand]:
    collected = Words(document)
    entrypoint = get(service, "entrypoint")
    _add(collected, entrypoint, "compose")
    _add(collected, get(service, "command"), "compose")
    env = compose_environment(document, service)
    image = plain_value(get(service, "image"))
    own = bool(entrypoint is not None and entrypoint.value)
    return commands(collected, "compose", env, span(service)[0], image or None, own)


def _containers(root: Node) -> Iterator[Node]:
    """The members of every `containers:` list, however deep (pods, deployments, jobs, custom resources)."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, MappingNode):
            for key, value in node.value:
                if key.value in ("containers", "initContainers"):
                    yield from items(value)
                stack.append(value)
        elif isinstance(node, SequenceNode):
            stack += reversed(node.value)


def _add(collected: Words, node: Node | None, layer: str) -> None:
    """A list's items are words as they stand; a text is split as compose splits it."""
    if isinstance(node, SequenceNode):
        members = [item for item in node.value if isinstance(item, ScalarNode)]
        tokens = tuple(_trimmed(collected.document, item) for item in members)
        start, end = span(node)
        at = tokens[-1][1] if tokens else (start + 1 if node.flow_style else end)
        collected.sites.append(Site("yaml item", (layer,), start + 1 if node.flow_style else start, at, None, tokens))
        for item, token in zip(members, tokens, strict=True):
            inset = _interpolated(scalar(collected.document, item), layer)
            collected.add_item(inset, token, len(collected.sites) - 1)
    elif isinstance(node, ScalarNode) and node.value:
        collected.add_text(_interpolated(scalar(collected.document, node), layer))


def _trimmed(document: str, item: ScalarNode) -> tuple[int, int]:
    start, end = span(item)
    return start, start + len(document[start:end].rstrip())


def _interpolated(inset: Inset, layer: str) -> Inset:
    """`$$` is how compose spells a dollar that it must leave alone; Kubernetes has `$$(`."""
    doubled = "$$" if layer == "compose" else "$$("
    pieces: list[Piece] = []
    i = 0
    while i < len(inset.text):
        width = 2 if inset.text.startswith(doubled, i) else 1
        pieces.append((inset.text[i], i, i + width))
        i += width
    return inset.unwrap(0, pieces, layer)

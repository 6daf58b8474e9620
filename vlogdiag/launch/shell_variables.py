"""Tells what a shell text assigns to a variable that a launch command uses, and who else uses it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from tree_sitter import Node

from vlogdiag.launch.command import Source
from vlogdiag.launch.entry import name_of
from vlogdiag.launch.quoting import unquote
from vlogdiag.launch.shell_tree import Tree, command_words, condition

_HARMLESS = frozenset(("echo", "printf", "log", "info", "warn", "logger"))
"""A variable that these print is still the launch command's own."""
_ASSIGNERS = frozenset(("read", "mapfile", "readarray", "source", ".", "eval", "getopts", "unset"))
"""These can change a variable without an assignment that the text shows."""


@cache
def self_reference(name: str) -> re.Pattern[str]:
    """`$ARGS` or `${ARGS}` at the beginning of what is assigned to ARGS: an append."""
    return re.compile(rf"\$(?:{name}(?!\w)|\{{{name}\}})")


def assignments(tree: Tree, command: Node, name: str) -> list[tuple[Node, str | None]] | None:
    """The assignment of `name` and its appends, each with the reason not to edit it; None when they are not plain."""
    nodes = tree.assignments.get(name, [])
    if not nodes or _hidden_change(tree, command, name, nodes[0]):
        return None
    parts: list[tuple[Node, str | None]] = []
    shared = _other_use(tree, command, name)
    for i, node in enumerate(nodes):
        if node.type != "variable_assignment" or len(node.children) < 3 or node.start_byte > command.start_byte:
            return None
        own = self_reference(name).match(tree.text(node.children[2]).lstrip('"'))
        appends = tree.text(node.children[1]) == "+=" or own is not None
        under = condition(tree, node, command)
        if (i == 0) == appends or (i == 0 and under):
            return None
        exported = f"{name} is exported in line {tree.line(node)}" if _exported(tree, node) else None
        parts.append((node, under or shared or exported))
    return parts


def source(tree: Tree, command: Node, name: str) -> Source | None:
    """The one literal assignment of `name`, if there is exactly one."""
    nodes = tree.assignments.get(name, [])
    if len(nodes) != 1 or nodes[0].type != "variable_assignment" or len(nodes[0].children) < 3:
        return None
    node = nodes[0]
    late = node.start_byte > command.start_byte
    if (
        late
        or condition(tree, node, command)
        or tree.text(node.children[1]) != "="
        or _hidden_change(tree, command, name, node)
    ):
        return None
    value = node.children[-1]
    raw = tree.text(value)
    plain = unquote(raw)
    if not plain.literal or value.type not in ("word", "number", "string", "raw_string", "concatenation"):
        return None
    start, end = tree.inset.span(*tree.span(value))
    own = not _exported(tree, node) and _other_use(tree, command, name) is None
    return Source(plain.text, start, end, tree.inset.layers, own)


def _exported(tree: Tree, assignment: Node) -> bool:
    """True for `export A=1`, which other programs may read."""
    holder = tree.parent(assignment)
    return holder is not None and holder.type == "declaration_command" and tree.text(holder).startswith("export")


def _hidden_change(tree: Tree, command: Node, name: str, assignment: Node) -> bool:
    """True when `read`, `source` and their like stand between assignment and use, and may have changed the variable."""
    for other in tree.commands:
        if assignment.end_byte <= other.start_byte < command.start_byte:
            words = [tree.inset.text[slice(*span)] for span in command_words(tree, other)]
            if words and name_of(words[0]) in _ASSIGNERS:
                changes_all = words[0] in ("source", ".", "eval")
                if changes_all or name in words[1:]:
                    return True
    return False


def _other_use(tree: Tree, command: Node, name: str) -> str | None:
    """Where somebody besides the launch command (and `echo`) uses the variable."""
    mine: Sequence[Node] = [command]
    for use in tree.uses.get(name, []):
        holder: Node | None = use
        while holder is not None and holder.type not in ("command", "variable_assignment"):
            holder = tree.parent(holder)
        if holder is None:
            return f"{name} is used in line {tree.line(use)} too"
        if holder.type == "variable_assignment":
            target = tree.text(holder.children[0])
            if target == name or _only_for(tree, command, target):
                continue
            return f"{name} is used in line {tree.line(use)} too"
        spans = command_words(tree, holder)
        program = tree.inset.text[slice(*spans[0])] if spans else ""
        if holder not in mine and name_of(program) not in _HARMLESS:
            return f"{name} is used in line {tree.line(use)} too"
    used_here = sum(1 for use in tree.uses.get(name, []) if _is_under(use, command))
    return f"{name} is used twice in the command" if used_here > 1 else None


def _only_for(tree: Tree, command: Node, target: str) -> bool:
    """True when the launch command spreads `target`: a variable inside ARGS=(…) is used by the command alone."""
    text = tree.text(command)
    return bool(re.search(rf"\$\{{?{target}(\[[@*]\])?\b", text))


def _is_under(node: Node, ancestor_node: Node) -> bool:
    return ancestor_node.start_byte <= node.start_byte < ancestor_node.end_byte

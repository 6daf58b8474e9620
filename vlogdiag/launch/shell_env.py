"""Reads from a shell text the environment variables that it gives a launch command, and where another one would go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tree_sitter import Node

from vlogdiag.launch.command import EnvEntry, EnvPlace, Word
from vlogdiag.launch.entry import name_of
from vlogdiag.launch.quoting import unquote
from vlogdiag.launch.shell_tree import Tree, condition, walk

_ASSIGNMENT = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_GOES_ON = re.compile(r"(\\|&&|\|\|?|;;|\()[ \t]*$")
"""A line that ends so is continued: an `export` line cannot follow it."""
_CLEARS = frozenset(("sudo", "doas", "su-exec", "gosu", "chroot", "env"))
"""Programs before which `NAME=value` would not (surely) arrive at the server."""


def shell_environment(tree: Tree, command: Node, before: Sequence[Word], first: Word) -> EnvPlace:
    """`before` are the command's words in front of the server's, `first` is the server's first word."""
    exported, uncertain = _exports(tree, command)
    prefixes = [_prefix(tree, command, child) for child in command.children if child.type == "variable_assignment"]
    inline = _env_words(tree, before, first)
    entries = (*exported, *prefixes, *inline)
    layers = tree.inset.layers
    place = _place(tree, command, before, first, entries, inline, bool(prefixes))
    return replace(place, layers=layers, uncertain=uncertain, cleared=_cleared(tree, command, before))


def _place(
    tree: Tree,
    command: Node,
    before: Sequence[Word],
    first: Word,
    entries: tuple[EnvEntry, ...],
    inline: Sequence[EnvEntry],
    prefixed: bool,
) -> EnvPlace:
    by_env = EnvPlace(entries, unset_at=first.start, unset_before="env -u ", unset_after=" ")
    if inline:
        return replace(by_env, at=inline[-1].end, before=" ", form="shell word")
    if any(name_of(word.text) in _CLEARS for word in before):
        return replace(by_env, at=first.start, before="env ", after=" ", form="shell word")
    start = tree.inset.starts[tree.span(command)[0]]
    document = tree.inset.document
    line_start = document.rfind("\n", 0, start) + 1
    indent = document[line_start:start]
    alone = not indent.strip(" \t") and not _GOES_ON.search(document[:line_start].rstrip("\r\n"))
    if alone and not tree.inset.layers:
        own = EnvPlace(entries, start, unset_at=start, unset_before="unset ", unset_after="\n" + indent)
        if prefixed:
            return replace(own, after=" ")
        return replace(own, before="export ", after="\n" + indent)
    return replace(by_env, at=start, after=" ")


def _cleared(tree: Tree, command: Node, before: Sequence[Word]) -> tuple[str, ...]:
    """Variables of `unset NAME` in front of the command, and of `env -u NAME` in it."""
    names = [after.text for word, after in pairwise(before) if word.text in ("-u", "--unset")]
    for node in walk(tree.root):
        if node.type == "unset_command" and node.end_byte <= command.start_byte and not condition(tree, node, command):
            names += tree.text(node).split()[1:]
    return tuple(names)


def _exports(tree: Tree, command: Node) -> tuple[list[EnvEntry], tuple[str, ...]]:
    """`export A=1` before the command, in order; and the names that conditions or functions may set."""
    entries: list[EnvEntry] = []
    uncertain: list[str] = []
    for name, nodes in tree.assignments.items():
        for node in nodes:
            holder = tree.parent(node)
            declared = (
                holder is not None
                and holder.type == "declaration_command"
                and tree.text(holder).startswith(("export", "declare -x", "typeset -x"))
            )
            if node.type != "variable_assignment" or node.start_byte > command.start_byte:
                continue
            if not declared and not _exported_elsewhere(tree, name):
                continue
            if condition(tree, node, command):
                uncertain.append(name)
            else:
                entries.append(_export(tree, node, holder if declared else None, name))
    return sorted(entries, key=lambda entry: entry.start), tuple(uncertain)


def _exported_elsewhere(tree: Tree, name: str) -> bool:
    return bool(re.search(rf"^[ \t]*export[ \t]+(?:\w+[ \t]+)*{re.escape(name)}\b(?!=)", tree.inset.text, re.MULTILINE))


def _export(tree: Tree, node: Node, declaration: Node | None, name: str) -> EnvEntry:
    start, end = tree.inset.span(*tree.span(node))
    raw = tree.text(node).partition("=")[2]
    document = tree.inset.document
    holder = declaration or node
    drop_start, drop_end = tree.inset.span(*tree.span(holder))
    drop_text = f"unset {name}"
    if declaration is not None and sum(child.type == "variable_assignment" for child in declaration.children) > 1:
        drop_start, drop_end, drop_text = start - 1, end, ""
    else:
        line_start = document.rfind("\n", 0, drop_start) + 1
        line_end = document.find("\n", drop_end)
        rest = document[drop_end : len(document) if line_end < 0 else line_end]
        if not document[line_start:drop_start].strip() and not rest.strip():
            drop_start, drop_end, drop_text = line_start, len(document) if line_end < 0 else line_end + 1, ""
    return EnvEntry(
        name, unquote(raw).text, start, end, drop_start, drop_end, "shell assignment", tree.inset.layers, drop_text
    )


def _prefix(tree: Tree, command: Node, node: Node) -> EnvEntry:
    name, _, raw = tree.text(node).partition("=")
    start, end = tree.inset.span(*tree.span(node))
    following = next(child for child in command.children if child.start_byte >= node.end_byte)
    drop_end = tree.inset.starts[tree.span(following)[0]]
    return EnvEntry(name, unquote(raw).text, start, end, start, drop_end, "shell assignment", tree.inset.layers)


def _env_words(tree: Tree, before: Sequence[Word], first: Word) -> list[EnvEntry]:
    """`NAME=value` words after `env`, `sudo` and their like."""
    entries = []
    for word, following in zip(before, (*before[1:], first), strict=False):
        hit = _ASSIGNMENT.match(word.text)
        if hit and word is not before[0]:
            layers = tree.inset.layers
            entries.append(
                EnvEntry(hit[1], hit[2], word.start, word.end, word.start, following.start, "shell word", layers)
            )
    return entries

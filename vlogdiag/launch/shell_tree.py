"""Parses a shell text to commands, words and assignments that know their characters."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from vlogdiag.launch.inset import Inset

_COMMENT_TRICK = re.compile(r"`[ \t]*#[^`\n]*`")
"""`` `# why` `` between continued lines: legal, but the grammar lets the comment swallow the closing backquote."""
_SUPERVISOR_VALUE = re.compile(r"%\(\w+\)[sd]")
"""`%(ENV_MODEL)s` is filled in by supervisor before a shell sees the text."""
_CONTINUATION = re.compile(r"\\\r?\n")
_NOT_WORDS = frozenset(("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect", "comment"))
_BRANCHES = """
if_statement while_statement for_statement c_style_for_statement case_statement function_definition list subshell
command_substitution
"""
_CONDITIONS = frozenset(_BRANCHES.split())
"""Inside these an assignment may not happen, or may not be seen outside."""

Span = tuple[int, int]


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


@dataclass(frozen=True)
class Tree:
    """A parsed shell text, addressed in characters."""

    inset: Inset
    root: Node
    bytes_at: Sequence[int]
    """Byte offset of every character, for texts that are not plain ASCII; else empty."""
    parents: dict[int, Node] = field(default_factory=dict)
    """By node id: the grammar's own `parent` starts from the root each time, too slow for a hostile nesting."""
    commands: list[Node] = field(default_factory=list)
    assignments: dict[str, list[Node]] = field(default_factory=dict)
    """Assignments that outlive their line (no `A=1 program` prefixes), by variable."""
    uses: dict[str, list[Node]] = field(default_factory=dict)

    def span(self, node: Node) -> Span:
        """Character span of a node."""
        if not self.bytes_at:
            return node.start_byte, node.end_byte
        return bisect_right(self.bytes_at, node.start_byte) - 1, bisect_right(self.bytes_at, node.end_byte) - 1

    def text(self, node: Node) -> str:
        """The spelling of a node."""
        start, end = self.span(node)
        return self.inset.text[start:end]

    def parent(self, node: Node) -> Node | None:
        """The node around a node."""
        return self.parents.get(node.id)

    def line(self, node: Node) -> int:
        """1-based line of a node in the document."""
        return self.inset.line(self.span(node)[0])


def parse(inset: Inset) -> Tree:
    """The tree of `inset`'s text."""
    masked = _COMMENT_TRICK.sub(lambda hit: " " * len(hit.group()), inset.text)
    if "supervisor" in inset.layers:
        masked = _SUPERVISOR_VALUE.sub(lambda hit: "x" * len(hit.group()), masked)
    data = masked.encode("utf-8", "surrogateescape")
    bytes_at: list[int] = []
    if len(data) != len(masked):
        offset = 0
        for char in masked:
            bytes_at.append(offset)
            offset += len(char.encode("utf-8", "surrogateescape"))
        bytes_at.append(offset)
    tree = Tree(inset, _parser().parse(data).root_node, bytes_at)
    for node in walk(tree.root):
        tree.parents.update((child.id, node) for child in node.children)
        holder = tree.parent(node)
        parent = holder.type if holder else ""
        if node.type == "command":
            tree.commands.append(node)
        elif node.type == "variable_assignment" and parent != "command" and node.children:
            tree.assignments.setdefault(tree.text(node.children[0]).partition("[")[0], []).append(node)
        elif node.type == "variable_name" and parent in ("for_statement", "c_style_for_statement"):
            tree.assignments.setdefault(tree.text(node), []).append(node)
        elif node.type == "variable_name" and parent != "variable_assignment":
            tree.uses.setdefault(tree.text(node), []).append(node)
    return tree


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it, in the order of the text."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def command_words(tree: Tree, command: Node) -> list[Span]:
    """Spans of a command's words, the program first; redirections, comments and `A=1` prefixes left out."""
    spans = _merge(tree, [child for child in command.children if child.type not in _NOT_WORDS])
    parent = tree.parent(command)
    for holder in (command, parent if parent and parent.type == "redirected_statement" else None):
        for redirect in holder.children if holder else ():
            if redirect.type == "file_redirect":
                # The grammar counts words after `> log` as more targets; a shell gives them to the command.
                targets = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
                spans += _merge(tree, targets)[1:]
    return sorted(spans)


def array_words(tree: Tree, array: Node) -> list[Span] | None:
    """Spans of an array literal's words; None for `([2]=x)`."""
    inner = [child for child in array.children if child.is_named and child.type != "comment"]
    if any(child.type == "variable_assignment" for child in inner):
        return None
    return _merge(tree, inner)


def _merge(tree: Tree, nodes: Sequence[Node]) -> list[Span]:
    """Spans of nodes; what nothing but an escape separates is one word (the grammar splits `"a"\\ b`)."""
    spans: list[Span] = []
    for node in nodes:
        start, end = tree.span(node)
        if spans:
            gap = _CONTINUATION.sub("", tree.inset.text[spans[-1][1] : start])
            if gap in ("", "\\ "):
                spans[-1] = (spans[-1][0], end)
                continue
        spans.append((start, end))
    return spans


def ancestor(tree: Tree, node: Node, types: frozenset[str]) -> Node | None:
    """The nearest surrounding node of one of these types."""
    up = tree.parent(node)
    while up is not None and up.type not in types:
        up = tree.parent(up)
    return up


def condition(tree: Tree, assignment: Node, command: Node) -> str | None:
    """Why an assignment may not hold where the command stands, if it may not."""
    holder = ancestor(tree, assignment, _CONDITIONS)
    if holder is None or holder.start_byte <= command.start_byte < holder.end_byte:
        return None
    first = holder.type == "list" and assignment.start_byte < holder.children[0].end_byte
    if first and ancestor(tree, holder, _CONDITIONS) is None:
        return None  # the first of `A=1 && …` is always carried out
    return f"line {tree.line(assignment)} is carried out only under a condition"


def in_function(tree: Tree, node: Node) -> Node | None:
    """The function definition around a node."""
    return ancestor(tree, node, frozenset(("function_definition",)))


def unreadable(tree: Tree, node: Node) -> bool:
    """True when the grammar fails in a command's statement or right beside it."""
    if not tree.root.has_error:
        return False
    up = tree.parent(node)
    while up is not None and up.type != "program":
        node, up = up, tree.parent(up)
    beside = (node.prev_sibling, node.next_sibling)
    return node.has_error or node.type == "ERROR" or any(other is not None and other.is_error for other in beside)

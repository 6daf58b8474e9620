"""Turns the text of one rule file into a draft: checked in shape, its captures known, its expressions not yet read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from vlogdiag.model import FAMILIES
from vlogdiag.signatures.keys import RULE
from vlogdiag.signatures.matches import read_pattern
from vlogdiag.signatures.positions import Fault, Node, Table, child, entries_of, items_of, read_yaml, text_of
from vlogdiag.signatures.shapes import nearest

# In a broken pattern: `{name:`, `(?P<name>` or `(?P<name__type>`.
_HOLE_NAME = re.compile(r"(?:\{|\(\?P<)([a-z][a-z0-9_]*?)(?::|__|>)")


@dataclass(slots=True)
class Draft:
    """A rule on its way: checked in shape, its patterns read, its expressions not yet."""

    path: str
    table: Table
    id: str
    family: str
    holes: dict[str, str]
    """Own captures: name to hole type."""
    gates: tuple[str, ...]
    sound: bool
    """All its patterns could be read."""
    written: frozenset[str]
    """Keys of the file, sound or not."""
    refines: str | None
    faults: list[Fault] = field(default_factory=list)

    def complain(self, node: Node, message: str) -> None:
        """Note a fault at a node."""
        self.faults.append(Fault(self.path, node.line, node.column, message))


def read_draft(path: str, text: str, faults: list[Fault]) -> Draft | None:
    """The first look at one file; faults of its shape go to `faults`, later ones are the draft's own."""
    root, broken = read_yaml(path, text)
    faults += broken
    if root is None:
        return None
    own: list[Fault] = []

    def complain(node: Node, message: str) -> None:
        own.append(Fault(path, node.line, node.column, message))

    table = RULE.check(root, complain)
    faults += own
    if not isinstance(table, Table):
        return None
    file = PurePath(path)
    identity = text_of(table.get("id")) or file.stem
    holes, gates, sound = _holes(table)
    written = frozenset(key.text for key, _ in entries_of(root))
    refines = text_of(table.get("refines"))
    draft = Draft(path, table, identity, file.parent.name, holes, gates, sound, written, refines)
    if identity != file.stem:
        draft.complain(table.get("id") or table, f"id {identity!r} must be the file's name, {file.stem!r}")
    if draft.family not in FAMILIES:
        guess = nearest(draft.family, FAMILIES)
        draft.complain(table, f"the folder {draft.family!r} is no family{guess}; families: {', '.join(FAMILIES)}")
    return draft


def _match_tables(table: Table) -> list[Table]:
    """Every table of the rule that holds a `line`."""
    found = [table.get("match"), table.get("silence"), *items_of(child(table.get("sequence"), "steps"))]
    return [node for node in found if isinstance(node, Table)]


def _holes(table: Table) -> tuple[dict[str, str], tuple[str, ...], bool]:
    """The rule's own captures with their types, the gates of its lines, and whether every pattern could be read.

    What is wrong with a pattern is said when the parts are built. Here the names in a broken one are guessed, so that
    its fault does not bring a second one for every text that uses them.
    """
    holes: dict[str, str] = {}
    gates: list[str] = []
    broken: list[Node] = []
    for match in _match_tables(table):
        for key in ("line", "capture"):
            for node in items_of(match.get(key)):
                pattern = read_pattern(node, lambda at, _: broken.append(at))
                for name, type_ in ({} if pattern is None else pattern.types).items():
                    holes.setdefault(name, type_)
                if pattern is not None and key == "line":
                    gates.append(pattern.gate)
    for node in broken:
        for name in _HOLE_NAME.findall(text_of(node) or text_of(child(node, "regex")) or ""):
            holes.setdefault(name, "text")
    return holes, tuple(gates), not broken


def lineage(draft: Draft, drafts: Mapping[str, Draft]) -> list[Draft]:
    """The rule and what it refines, up to the first rule; stops at a gap or a cycle, which it complains of."""
    line = [draft]
    while line[-1].refines is not None:
        target = line[-1].refines
        base = drafts.get(target)
        at = draft.table.get("refines") or draft.table
        if base is None:
            if line[-1] is draft:
                draft.complain(at, f"refines {target!r}, which is no rule{nearest(target, drafts)}")
            break
        if base in line:
            draft.complain(at, f"refines itself: {' refines '.join([each.id for each in line] + [base.id])}")
            break
        line.append(base)
    return line

"""Turns the YAML of all rules into frozen signatures, or into all their faults at once with file, line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from vlogdiag.model import FAMILIES, Confidence, Role, Severity
from vlogdiag.signatures.build import Catalogue, RuleReader
from vlogdiag.signatures.examples import read_examples
from vlogdiag.signatures.expr import Expr, Text, parse_expr
from vlogdiag.signatures.keys import RULE, json_schema
from vlogdiag.signatures.matches import read_match, read_pattern
from vlogdiag.signatures.positions import (
    Fault,
    Node,
    RuleError,
    Scalar,
    Table,
    child,
    entries_of,
    is_true,
    items_of,
    read_yaml,
    text_of,
    texts_of,
)
from vlogdiag.signatures.shapes import nearest
from vlogdiag.signatures.types import (
    AfterRun,
    Corroborate,
    Example,
    FixTemplate,
    FlagValue,
    KnownBug,
    Match,
    Sequence,
    Signature,
    Silence,
    Step,
    YieldsTo,
)

__all__ = [
    "AfterRun",
    "Corroborate",
    "Example",
    "Fault",
    "FixTemplate",
    "FlagValue",
    "KnownBug",
    "Match",
    "RuleError",
    "Sequence",
    "Signature",
    "Silence",
    "Step",
    "YieldsTo",
    "json_schema",
    "load_rules",
]


_HOLE_NAME = re.compile(r"(?:\{|\(\?P<)([a-z][a-z0-9_]*?)(?::|__|>)")


def _always(_: str) -> bool:
    return True


def _never(_: str) -> bool:
    return False


@dataclass(slots=True)
class _Draft:
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


def load_rules(
    texts: Iterable[tuple[str, str]],
    *,
    knows_flag: Callable[[str], bool] = _always,
    knows_env: Callable[[str], bool] = _always,
    knows_script: Callable[[str], bool] = _always,
    is_user: Callable[[str], bool] = _never,
) -> tuple[Signature, ...]:
    """Signatures of all files (path, text), by id; raises RuleError with the faults of all of them.

    `knows_flag` and `knows_env` ask vLLM's catalogue, `knows_script` the script fixes; `is_user` says which paths are
    the user's own rules.
    """
    faults: list[Fault] = []
    drafts: dict[str, _Draft] = {}
    for path, text in texts:
        draft = _draft(path, text, faults)
        if draft is None:
            continue
        held = drafts.setdefault(draft.id, draft)
        if held is not draft:
            draft.complain(draft.table, f"id {draft.id!r} is taken by {held.path}")
            faults += draft.faults
    catalogue = Catalogue(knows_flag, knows_env, knows_script)
    signatures = [_finish(draft, drafts, catalogue, is_user(draft.path)) for draft in drafts.values()]
    faults += [fault for draft in drafts.values() for fault in draft.faults]
    if faults:
        raise RuleError(faults)
    return tuple(sorted((signature for signature in signatures if signature is not None), key=lambda rule: rule.id))


def _draft(path: str, text: str, faults: list[Fault]) -> _Draft | None:
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
    draft = _Draft(path, table, identity, file.parent.name, holes, gates, sound, written, refines)
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


def _lineage(draft: _Draft, drafts: Mapping[str, _Draft]) -> list[_Draft]:
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


def _finish(draft: _Draft, drafts: Mapping[str, _Draft], catalogue: Catalogue, user: bool) -> Signature | None:
    """The signature, or what could be read of it: load_rules raises if anything was complained of."""
    table, complain = draft.table, draft.complain
    lineage = _lineage(draft, drafts)
    holes: dict[str, str] = {}
    for ancestor in lineage:
        for name, type_ in ancestor.holes.items():
            holes.setdefault(name, type_)
    gates = tuple(dict.fromkeys(gate for ancestor in lineage for gate in ancestor.gates))
    _check_frame(draft)
    _check_targets(draft, drafts)
    read = RuleReader(holes, catalogue, complain)
    title = read.text(table.get("title"))
    fixes = read.fixes(table.get("fixes"))
    match = table.get("match")
    when = table.get("when")
    role = Role(text_of(table.get("role")) or Role.CAUSE)
    severity = text_of(table.get("severity")) or {Role.SYMPTOM: "error", Role.NOISE: "info"}.get(role, "error")
    signature = Signature(
        id=draft.id,
        family=draft.family,
        title=title or Text("", frozenset(), ()),
        severity=Severity[severity.upper()],
        role=role,
        order=int(text_of(table.get("order")) or 100),
        confidence=Confidence[(text_of(table.get("confidence")) or "high").upper()],
        match=None if match is None else read_match(match, complain),
        sequence=read.sequence(table.get("sequence")),
        silence=read.silence(table.get("silence")),
        refines=draft.refines,
        when=_when(when, read),
        cause=read.text(table.get("cause")),
        fixes=fixes,
        ask=read.text(table.get("ask")),
        yields_to=read.yields_to(table.get("yields_to")),
        after_run=read.after_run(table.get("after_run")),
        corroborate=read.corroborate(table.get("corroborate"), [fix.title.source for fix in fixes]),
        known_bug=read.known_bug(table.get("known_bug")),
        vllm=read.specifiers(table.get("vllm")),
        references=texts_of(table.get("references")),
        examples=read_examples(table.get("examples"), holes, complain),
        quiet_reason=text_of(table.get("quiet_reason")),
        by=read.by(table.get("by")),
        path=draft.path,
        line=table.line,
        user=user,
    )
    if all(ancestor.sound for ancestor in lineage):
        _check_examples(draft, signature, gates)
    return signature


def _when(node: Node | None, read: RuleReader) -> Expr | None:
    if isinstance(node, Scalar) and node.type == "bool":
        return parse_expr("true" if is_true(node) else "false", names=_never)
    return read.expr(node)


def _check_frame(draft: _Draft) -> None:
    """A rule says what it looks for, how bad that is, and why it happens."""
    table = draft.table
    match = table.get("match")
    ways = [key for key in ("match", "sequence", "silence") if key in draft.written]
    if not ways and "refines" not in draft.written:
        draft.complain(table, "a rule needs `match`, `sequence`, `silence` or `refines`")
    if len(ways) > 1:
        draft.complain(table.key(ways[1]) or table, f"`{ways[0]}` and `{ways[1]}` exclude each other")
    if draft.refines is not None and ways not in ([], ["match"]):
        draft.complain(table.key(ways[0]) or table, f"a refinement takes `match`, not `{ways[0]}`")
    if isinstance(match, Table) and match.get("line") is None and draft.refines is None:
        draft.complain(match, "`match` needs a `line`")
    if (text_of(table.get("role")) or "cause") == "cause":
        for key in ("severity", "cause"):
            if key not in draft.written:
                draft.complain(table, f"key {key!r} is missing: a cause needs it")


def _check_targets(draft: _Draft, drafts: Mapping[str, _Draft]) -> None:
    """Rules and families that `yields_to` and `after_run` name must exist."""
    for key in ("yields_to", "after_run"):
        node = draft.table.get(key)
        names = node.get("any_of") if isinstance(node, Table) else node
        for item in items_of(names):
            word = text_of(item) or ""
            if word not in drafts and word not in FAMILIES:
                draft.complain(item, f"{key}: {word!r} is no rule and no family{nearest(word, [*drafts, *FAMILIES])}")
            elif word == draft.id:
                draft.complain(item, f"{key}: a rule cannot name itself")


def _check_examples(draft: _Draft, signature: Signature, gates: tuple[str, ...]) -> None:
    """Examples must be able to prove something: the firing ones hold a gate, and so does a quiet one."""
    if not gates or not signature.examples:
        return
    at = draft.table.get("examples") or draft.table
    for example in signature.examples:
        if example.kind == "fires" and not any(gate in example.log for gate in gates):
            place = Scalar("", "str", example.line, 1)
            draft.complain(place, f"this example cannot fire: it holds none of {', '.join(map(repr, gates))}")
    quiet = [example for example in signature.examples if example.kind == "quiet"]
    if (
        quiet
        and draft.table.get("quiet_reason") is None
        and not any(gate in each.log for each in quiet for gate in gates)
    ):
        draft.complain(
            at, "no quiet example holds the rule's literal text; add a look-alike, or `quiet_reason` why none can be"
        )

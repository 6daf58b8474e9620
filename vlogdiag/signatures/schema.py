"""Turns the YAML of all rules into frozen signatures, or into all their faults at once with file, line and column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from vlogdiag.model import Confidence, Role, Severity
from vlogdiag.signatures.build import Catalogue, RuleReader
from vlogdiag.signatures.drafts import Draft, lineage, read_draft
from vlogdiag.signatures.examples import read_examples
from vlogdiag.signatures.expr import Expr, Text, parse_expr
from vlogdiag.signatures.keys import json_schema
from vlogdiag.signatures.matches import read_match
from vlogdiag.signatures.positions import (
    Fault,
    Node,
    RuleError,
    Scalar,
    is_true,
    text_of,
    texts_of,
)
from vlogdiag.signatures.soundness import check_examples, check_frame, check_targets
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


def _always(_: str) -> bool:
    return True


def _never(_: str) -> bool:
    return False


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
    drafts: dict[str, Draft] = {}
    for path, text in texts:
        draft = read_draft(path, text, faults)
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


def _finish(draft: Draft, drafts: Mapping[str, Draft], catalogue: Catalogue, user: bool) -> Signature | None:
    """The signature, or what could be read of it: load_rules raises if anything was complained of."""
    table, complain = draft.table, draft.complain
    ancestors = lineage(draft, drafts)
    holes: dict[str, str] = {}
    for ancestor in ancestors:
        for name, type_ in ancestor.holes.items():
            holes.setdefault(name, type_)
    gates = tuple(dict.fromkeys(gate for ancestor in ancestors for gate in ancestor.gates))
    check_frame(draft)
    check_targets(draft, drafts)
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
    if all(ancestor.sound for ancestor in ancestors):
        check_examples(draft, signature, gates)
    return signature


def _when(node: Node | None, read: RuleReader) -> Expr | None:
    if isinstance(node, Scalar) and node.type == "bool":
        return parse_expr("true" if is_true(node) else "false", names=_never)
    return read.expr(node)

"""Checks that a draft says what it looks for, names what exists, and that its examples can prove something."""

from __future__ import annotations

from collections.abc import Mapping

from vlogdiag.model import FAMILIES
from vlogdiag.signatures.drafts import Draft
from vlogdiag.signatures.positions import Scalar, Table, items_of, text_of
from vlogdiag.signatures.shapes import nearest
from vlogdiag.signatures.types import Signature


def check_frame(draft: Draft) -> None:
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


def check_targets(draft: Draft, drafts: Mapping[str, Draft]) -> None:
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


def check_examples(draft: Draft, signature: Signature, gates: tuple[str, ...]) -> None:
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

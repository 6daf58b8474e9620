"""The shipped rules: every example is as it says, and no rule fires on another one's failure."""

from __future__ import annotations

from functools import cache

import pytest

from vlogdiag.checking import _check, findings_of
from vlogdiag.loading import Rules, load, rule_files, rules_folder
from vlogdiag.model import FAMILIES, Role, Severity
from vlogdiag.signatures.checks import check_rules
from vlogdiag.signatures.types import Example, Signature


@cache
def rules() -> Rules:
    return load(examples=True)


IDS = [path.stem for path in rule_files(rules_folder())]


def signature(ident: str) -> Signature:
    return rules().book.by_id[ident]


@pytest.mark.parametrize("ident", IDS)
def test_the_examples_of_a_rule_are_as_they_say(ident):
    rule = signature(ident)
    faults = [
        f"{rule.path}:{example.line}: {fault}" for example in rule.examples for fault in _check(rules(), rule, example)
    ]
    assert faults == []


def test_no_rule_has_a_serious_fault():
    assert [str(remark) for remark in check_rules(rules().book.signatures) if remark.serious] == []


@pytest.mark.parametrize("ident", IDS)
def test_a_rule_lies_in_its_familys_folder(ident):
    rule = signature(ident)
    assert rule.family in FAMILIES
    assert rule.path.endswith(f"/{rule.family}/{rule.id}.yaml")


def causes() -> list[Signature]:
    return [s for s in rules().book.signatures if s.role is Role.CAUSE]


def kin(rule: Signature) -> set[str]:
    """The rule, what it refines, what refines it: one family of meanings."""
    base = rules().book.base(rule.id)
    return {s.id for s in rules().book.signatures if rules().book.base(s.id) == base}


def fired(rule: Signature, example: Example) -> list[str]:
    """Causes of another kind that speak as findings of their own on a rule's example."""
    findings, _ = findings_of(rules(), example)
    return [f.id for f in findings if f.severity >= Severity.WARNING and f.id not in kin(rule)]


def test_no_other_cause_fires_on_a_rules_positive_examples():
    """Each signature meets the positive examples of all others."""
    crossed = {
        f"{rule.id}, {example.name}": others
        for rule in causes()
        for example in rule.examples
        if example.kind == "fires" and (others := fired(rule, example))
    }
    assert crossed == {}


def test_every_cause_of_an_error_offers_a_remedy_or_asks():
    book = rules().book

    def remedied(rule: Signature) -> bool:
        return bool(rule.fixes or rule.ask) or (rule.refines is not None and remedied(book.by_id[rule.refines]))

    assert [s.id for s in causes() if s.severity is Severity.ERROR and not remedied(s)] == []


def test_every_cause_cites_where_cause_and_remedy_are_confirmed():
    book = rules().book

    def cited(rule: Signature) -> bool:
        return bool(rule.references) or (rule.refines is not None and cited(book.by_id[rule.refines]))

    assert [s.id for s in causes() if not cited(s)] == []


def test_references_are_addresses():
    assert [(s.id, r) for s in rules().book.signatures for r in s.references if not r.startswith("https://")] == []


def test_no_remedy_is_a_flood_of_flags():
    """At most eight flags and variables a finding: more is no advice."""
    many = {}
    for rule in causes():
        for example in rule.examples:
            if example.kind == "fires":
                for finding in findings_of(rules(), example)[0]:
                    names = {n for fix in finding.fixes for n in (*fix.flags, *fix.remove_flags, *fix.env)}
                    if len(names) > 8:
                        many[finding.id] = sorted(names)
    assert many == {}

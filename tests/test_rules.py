"""The shipped rules: every example is as it says, and no rule fires on another one's failure."""

from __future__ import annotations

from functools import cache

import pytest

from vlogdiag.checking import _check, findings_of
from vlogdiag.loading import Rules, load, rule_files, rules_folder
from vlogdiag.model import FAMILIES, Finding, Role, Severity
from vlogdiag.signatures.checks import check_rules
from vlogdiag.signatures.types import Signature


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


@cache
def kin_of(base: str) -> frozenset[str]:
    return frozenset(s.id for s in rules().book.signatures if rules().book.base(s.id) == base)


def kin(rule: Signature) -> frozenset[str]:
    """The rule, what it refines, what refines it: one family of meanings."""
    return kin_of(rules().book.base(rule.id))


@cache
def found(rule: str, number: int) -> tuple[Finding, ...]:
    """Findings of a rule's example, looked at once for all tests."""
    return findings_of(rules(), signature(rule).examples[number])[0]


def positive(rule: Signature) -> list[tuple[str, tuple[Finding, ...]]]:
    """(name, findings) of each example on which the rule fires."""
    return [(e.name, found(rule.id, n)) for n, e in enumerate(rule.examples) if e.kind == "fires"]


def crossing(rule: Signature, findings: tuple[Finding, ...]) -> list[str]:
    """Causes of another kind that speak for themselves in the rule's own run (the run before may have had its own)."""
    runs = {f.run for f in findings if f.id in kin(rule)}
    return [f.id for f in findings if f.severity >= Severity.WARNING and f.id not in kin(rule) and f.run in runs]


def test_no_other_cause_fires_on_a_rules_positive_examples():
    """Each signature meets the positive examples of all others."""
    crossed = {
        f"{rule.id}, {name}": others
        for rule in causes()
        for name, findings in positive(rule)
        if (others := crossing(rule, findings))
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
    many = {
        finding.id: sorted(names)
        for rule in causes()
        for _, findings in positive(rule)
        for finding in findings
        if len(names := {n for fix in finding.fixes for n in (*fix.flags, *fix.remove_flags, *fix.env)}) > 8
    }
    assert many == {}

"""Rules about rules: from loaded signatures to remarks on what the schema cannot see, without running them on a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from vlogdiag.model import Role, Severity
from vlogdiag.signatures.holes import KINDS
from vlogdiag.signatures.types import FixTemplate, Signature


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """What is odd about one rule; a serious one makes `rules test` fail, the others are advice."""

    path: str
    line: int
    rule: str
    message: str
    serious: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {'' if self.serious else 'advice: '}{self.message}"


Found = Iterator[tuple[str, bool]]
"""Messages with their seriousness."""


def check_rules(signatures: Iterable[Signature]) -> tuple[Remark, ...]:
    """Every remark on these signatures, in file order."""
    rules = {signature.id: signature for signature in signatures}
    remarks = [
        Remark(rule.path, rule.line, rule.id, message, serious)
        for rule in rules.values()
        for check in CHECKS
        for message, serious in check(rule, rules)
    ]
    return tuple(sorted(remarks))


def lineage(rule: Signature, rules: Mapping[str, Signature]) -> tuple[Signature, ...]:
    """The rule, what it refines, and so on."""
    line = [rule]
    while line[-1].refines is not None and line[-1].refines in rules and rules[line[-1].refines] not in line:
        line.append(rules[line[-1].refines])
    return tuple(line)


def all_fixes(rule: Signature, rules: Mapping[str, Signature]) -> tuple[FixTemplate, ...]:
    """Its own fixes, else those of the nearest rule that it refines."""
    return next((each.fixes for each in lineage(rule, rules) if each.fixes), ())


def _one_kind_a_capture(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    """Patterns that fill one capture must agree what it is, or arithmetic on it means two things."""
    kinds: dict[str, str] = {}
    for each in reversed(lineage(rule, rules)):
        for match in each.matches:
            for pattern in (*match.lines, *match.captures):
                for name, type_ in pattern.types.items():
                    kind = KINDS[type_].value
                    if kinds.setdefault(name, kind) != kind:
                        yield f"capture {name!r} is {kinds[name]} in one pattern and {kind} in another", True


def _siblings_have_an_order(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    """Between refinements of one rule that both hold, the lower `order` wins; equal ones leave it to the alphabet."""
    if rule.refines is None:
        return
    siblings = [each for each in rules.values() if each.refines == rule.refines and each.id < rule.id]
    twins = [each.id for each in siblings if each.order == rule.order]
    if twins:
        yield (
            f"has the same order ({rule.order}) as its sibling {', '.join(twins)}: say which wins where both hold",
            False,
        )


def _no_fix_undoes_itself(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    for fix in rule.fixes:
        both = sorted(set(fix.flags) & set(fix.remove_flags))
        if both:
            yield f"fix {fix.title.source!r} both sets and removes {', '.join(both)}", True


def _fixes_are_told_apart(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    """One remedy may need other flags in other versions; two that always come together need two titles."""
    heads = [(fix.title.source, fix.when.source if fix.when else None, str(fix.vllm or "")) for fix in rule.fixes]
    for title in sorted({head[0] for head in heads if heads.count(head) > 1}):
        yield f"two fixes are titled {title!r}", True


def _known_bug_has_a_way_out(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    """A fault of vLLM's that a release mends is mended by upgrading to it, or worked around."""
    bug = rule.known_bug
    if bug is None or bug.fixed_in is None:
        return
    fixes = all_fixes(rule, rules)
    if not fixes:
        yield f"known bug, fixed in {bug.fixed_in}, but no fix: name the upgrade or a workaround", True
    upgrades = [fix.upgrade for fix in fixes if fix.upgrade is not None]
    if fixes and not upgrades:
        yield f"known bug, fixed in {bug.fixed_in}: no fix says `upgrade: '>={bug.fixed_in}'`", False


def _cause_has_a_reference(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    if rule.role is Role.CAUSE and not any(each.references for each in lineage(rule, rules)):
        yield "no reference confirms cause and fix", False


def _cause_has_a_fix(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    """A finding without a remedy leaves its reader alone, unless it says what to look at."""
    if rule.role is Role.CAUSE and rule.severity is Severity.ERROR and not all_fixes(rule, rules) and rule.ask is None:
        yield "an error with neither `fixes` nor `ask`", False


def _clients_mistakes_are_no_errors(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    if rule.family == "request" and rule.severity is not Severity.INFO:
        yield "one client's mistake is never more than `info`: family `request`", True


def _noise_says_nothing(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    if rule.role is Role.NOISE and rule.fixes:
        yield "noise is never shown, so nobody sees its fixes", True
    if rule.family == "noise" and rule.role is Role.CAUSE:
        yield "family `noise` holds noise and symptoms, not causes", True


def _yielding_has_an_end(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    """Two rules that yield to each other would each hide behind the other."""
    for other in rule.yields_to.any_of if rule.yields_to else ():
        back = rules[other].yields_to if other in rules else None
        if back is not None and rule.id in back.any_of and other < rule.id:
            yield f"yields to {other!r}, which yields to it", True


def _lines_are_its_own(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    """Two rules with the same line both fire on it; a special case says `refines`."""
    if rule.match is None or rule.refines is not None:
        return
    own = {line.source for line in rule.match.lines}
    for other in rules.values():
        if other.id < rule.id and other.match is not None and other.refines is None:
            for source in sorted(own & {line.source for line in other.match.lines}):
                yield f"{other.id!r} looks for the same line {source!r}: refine it, or tell them apart", False


def _captures_are_used(rule: Signature, rules: Mapping[str, Signature]) -> Found:
    """A capture that no text or condition of the family reads is a typing mistake, or clutter in the report."""
    kin = [each for each in rules.values() if rule in lineage(each, rules)]
    used: set[str] = set(rule.by)
    for each in kin:
        used |= _names(each)
        used.update(name for example in each.examples for name in example.captures)
    for name in rule.holes:
        if name not in used:
            yield f"capture {name!r} is never used: drop it as {{:type}}, or say it in `cause`", False


def _names(rule: Signature) -> set[str]:
    """Every name that the rule's texts and conditions read."""
    found: set[str] = set(rule.by)
    readers = [rule.title, rule.when, rule.cause, rule.ask]
    for fix in rule.fixes:
        readers += [fix.title, fix.when, fix.run, fix.request, fix.trade_off, fix.question, *fix.env.values()]
        for value in fix.flags.values():
            found |= _flag_names(value)
    for corroborate in rule.corroborate:
        readers += [corroborate.when, corroborate.say]
    if rule.sequence is not None:
        found.update(rule.sequence.by)
        readers += [rule.sequence.within, *(step.when for step in rule.sequence.steps)]
    if rule.silence is not None:
        found.update(rule.silence.by)
        readers += [rule.silence.when, rule.silence.for_]
    if rule.yields_to is not None:
        readers.append(rule.yields_to.within)
    for reader in readers:
        found |= reader.names if reader is not None else frozenset()
    return found


def _flag_names(value: object) -> set[str]:
    if isinstance(value, Mapping):
        return {name for inner in value.values() for name in _flag_names(inner)}
    return set(getattr(value, "names", ()))


CHECKS: tuple[Callable[[Signature, Mapping[str, Signature]], Found], ...] = (
    _one_kind_a_capture,
    _siblings_have_an_order,
    _no_fix_undoes_itself,
    _fixes_are_told_apart,
    _known_bug_has_a_way_out,
    _cause_has_a_reference,
    _cause_has_a_fix,
    _clients_mistakes_are_no_errors,
    _noise_says_nothing,
    _yielding_has_an_end,
    _lines_are_its_own,
    _captures_are_used,
)

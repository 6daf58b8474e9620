"""Rules about rules: what the schema cannot see in one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlogdiag.model import FAMILIES
from vlogdiag.signatures.checks import check_rules
from vlogdiag.signatures.schema import Signature, load_rules

LOG = " ".join(
    f"failed because of {name}" for name in ("sound", "base", "one (5", "two (5", "deep", "deep-a", "deep-b")
)


def rule(identity: str, body: str, family: str = "oom") -> tuple[str, str]:
    """A rule file, sound but for `body`; the defaults leave nothing to remark."""
    lines = {
        "title": "title: something broke",
        "severity": "severity: error",
        "cause": "cause: because",
        "match": f"match: {{line: 'failed because of {identity}'}}",
        "fixes": "fixes: [{title: mend it, flags: {--enforce-eager: true}}]",
        "references": "references: https://docs.vllm.ai",
    }
    written = {line.split(":")[0] for line in body.splitlines()}
    kept = [line for key, line in lines.items() if key not in written]
    examples = f"quiet_reason: none\nexamples: {{fires: [{{log: '{LOG}'}}], quiet: [{{log: fine}}]}}"
    return f"rules/{family}/{identity}.yaml", "\n".join([f"id: {identity}", *kept, body, examples])


def remarks(*files: tuple[str, str]) -> list[tuple[str, str, bool]]:
    return [(remark.rule, remark.message, remark.serious) for remark in check_rules(load_rules(files))]


def test_a_sound_rule_gets_no_remark() -> None:
    assert remarks(rule("sound", "")) == []


CAPTURED = "cause: '{n}'\nmatch: {line: ['failed because of one ({n:int})', 'failed because of two ({n:size})']}"
BASE = rule("base", "")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([rule("one", CAPTURED)], ("one", "capture 'n' is int in one pattern and size in another", True)),
        (
            [rule("one", "fixes: [{title: a, flags: {--x: 1}, remove_flags: --x}]")],
            ("one", "fix 'a' both sets and removes --x", True),
        ),
        (
            [rule("one", "fixes: [{title: a, run: x}, {title: a, run: y}]")],
            ("one", "two fixes are titled 'a'", True),
        ),
        (
            [rule("one", "known_bug: {thread: 'vllm#1', fixed_in: 0.11.1}")],
            ("one", "known bug, fixed in 0.11.1: no fix says `upgrade: '>=0.11.1'`", False),
        ),
        ([rule("one", "severity: warning", "request")], ("one", "one client's mistake is never more than `info`: family `request`", True)),
        ([rule("one", "role: noise")], ("one", "noise is never shown, so nobody sees its fixes", True)),
        ([rule("one", "", "noise")], ("one", "family `noise` holds noise and symptoms, not causes", True)),
        (
            [rule("one", "yields_to: two"), rule("two", "yields_to: one")],
            ("two", "yields to 'one', which yields to it", True),
        ),
        (
            [BASE, rule("two", "match: {line: 'failed because of base'}")],
            ("two", "'base' looks for the same line 'failed because of base': refine it, or tell them apart", False),
        ),
        (
            [rule("one", "match: {line: 'failed because of one {unused:int}'}")],
            ("one", "capture 'unused' is never used: drop it as {:type}, or say it in `cause`", False),
        ),
        (
            [BASE, rule("deep-a", "refines: base\nmatch: {frames: {any: a}}"), rule("deep-b", "refines: base\nmatch: {frames: {any: b}}")],
            ("deep-b", "has the same order (100) as its sibling deep-a: say which wins where both hold", False),
        ),
    ],
)  # fmt: skip
def test_a_hazard_is_remarked_on(files: list[tuple[str, str]], expected: tuple[str, str, bool]) -> None:
    assert remarks(*files) == [expected]


def without(key: str, identity: str = "one") -> tuple[str, str]:
    path, text = rule(identity, "")
    return path, "\n".join(line for line in text.splitlines() if not line.startswith(f"{key}:"))


def test_a_cause_without_reference_is_remarked_on() -> None:
    assert remarks(without("references")) == [("one", "no reference confirms cause and fix", False)]


def test_one_remedy_may_be_written_twice_for_two_ages_of_vllm() -> None:
    fixes = "fixes: [{title: a, run: x, vllm: '<0.10'}, {title: a, run: y, vllm: '>=0.10'}]"
    assert remarks(rule("one", fixes)) == []


def test_an_error_without_remedy_or_question_is_remarked_on() -> None:
    assert remarks(without("fixes")) == [("one", "an error with neither `fixes` nor `ask`", False)]


def test_a_known_bug_that_a_release_mends_needs_a_fix() -> None:
    path, text = without("fixes")
    found = remarks((path, f"known_bug: {{thread: 'vllm#1', fixed_in: 0.11.1}}\nask: x\n{text}"))
    assert found == [("one", "known bug, fixed in 0.11.1, but no fix: name the upgrade or a workaround", True)]


def test_a_refinement_inherits_references_fixes_and_uses_of_captures() -> None:
    base = rule("base", "match: {line: 'failed because of base {n:int}'}")
    path, text = without("fixes", "deep")
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("references:", "match:", "cause:")))
    deep = (path, f"refines: base\ncause: '{{n}} times'\n{text}".replace("because of deep", "because of base"))
    assert remarks(base, deep) == []


def test_an_alternative_in_a_refinement_must_keep_the_kind_of_the_bases_capture() -> None:
    base = rule("base", "match: {line: 'failed because of base {n:int}'}\ncause: '{n}'")
    deep = rule("deep", "refines: base\nmatch: {capture: 'and then {n:size} more'}\ncause: '{n}'")
    assert ("deep", "capture 'n' is int in one pattern and size in another", True) in remarks(base, deep)


def test_remarks_are_printed_with_file_and_line() -> None:
    (remark,) = check_rules(load_rules([without("references")]))
    assert str(remark) == "rules/oom/one.yaml:1: advice: no reference confirms cause and fix"


def shipped() -> tuple[Signature, ...]:
    folder = Path(__file__).parent.parent / "rules"
    files = [path for family in FAMILIES for path in sorted((folder / family).glob("*.yaml"))]
    return load_rules([(str(path), path.read_text(encoding="utf-8")) for path in files])


def test_the_shipped_rules_have_no_serious_remark() -> None:
    assert [str(remark) for remark in check_rules(shipped()) if remark.serious] == []

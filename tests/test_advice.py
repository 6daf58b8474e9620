"""Which remedies are given, with which numbers, for which versions of vLLM."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml
from small_rules import diagnose, rules_from

from vlogdiag import catalog
from vlogdiag.model import Finding, Fix
from vlogdiag.values import Kind, Quantity

CARD = "RuntimeError: {wanted} wanted, {free} free of {total}"
START = "INFO 04-03 08:59:00 [api_server.py:1] vLLM API server version {version}\n"
ARGS = "INFO 04-03 08:59:01 [utils.py:233] non-default args: {args}\n"
FAILED = "ERROR 04-03 09:00:00 [core.py:1] RuntimeError: 2.10 GiB wanted, 1.02 GiB free\n"


def rule(*fixes: dict, **more: object):
    return rules_from(
        yaml.safe_dump(
            {
                "id": "broke",
                "severity": "error",
                "match": {
                    "line": "RuntimeError: {wanted:size} wanted, {free:size} free",
                    "capture": ["of a card of {total:size}"],
                },
                "fixes": list(fixes),
                **more,
            }
        )
    )


def finding(rules, version: str | None = "0.11.0", args: dict | None = None, failed: str = FAILED) -> Finding:
    log = (
        (START.format(version=version) if version else "")
        + (ARGS.format(args=args) if args is not None else "")
        + failed
    )
    (found,) = diagnose(rules, log).findings
    return found


def fixes(rules, *more, **named) -> tuple[Fix, ...]:
    return finding(rules, *more, **named).fixes


def brief(found: tuple[Fix, ...]) -> list[tuple[str, str]]:
    return [(fix.title, fix.disposition) for fix in found]


EAGER = {"title": "Do without graphs", "flags": {"--enforce-eager": True}}


def less(when: str | None = None, **more: object) -> dict:
    found = {"title": "Take less", "flags": {"--gpu-memory-utilization": "0.85"}, **more}
    return {**found, "when": when} if when else found


# --- conditions --------------------------------------------------------------------------------------------------------


def test_fixes_stand_in_the_rules_order():
    assert brief(fixes(rule(less(), EAGER))) == [("Take less", "apply"), ("Do without graphs", "apply")]


def test_a_fix_whose_condition_is_false_is_left_out():
    assert brief(fixes(rule(less("wanted > 3GiB"), EAGER))) == [("Do without graphs", "apply")]


def test_a_fix_whose_condition_is_unknown_comes_last_with_its_question():
    found = fixes(rule(less("total > 3GiB"), EAGER))
    assert brief(found) == [("Do without graphs", "apply"), ("Take less", "check")]
    assert found[1].question == "not in the log: total"


def test_an_unknown_argument_is_asked_for_as_the_flag_it_is():
    found = fixes(rule(less("args.max_model_len > 3000")))
    assert found[0].disposition == "check"
    assert found[0].question == "not in the log: --max-model-len"


def test_the_rules_own_question_is_put_instead():
    found = fixes(rule(less("total > 3GiB", question="Does {wanted} fit on the card?")))
    assert found[0].question == "Does 2.10 GiB fit on the card?"


def test_a_number_that_the_log_lacks_is_a_question_mark_to_check():
    (fix,) = fixes(
        rule({"title": "Take {total} less", "flags": {"--gpu-memory-utilization": "{round(free / total, 0.01)}"}})
    )
    assert (fix.title, fix.flags, fix.disposition) == ("Take ? less", {"--gpu-memory-utilization": "?"}, "check")


def test_division_by_zero_is_unknown_not_a_crash():
    (fix,) = fixes(rule({"title": "Take less", "flags": {"--gpu-memory-utilization": "{free / (wanted - wanted)}"}}))
    assert fix.flags == {"--gpu-memory-utilization": "?"}


def test_computed_numbers_are_filled_in():
    (fix,) = fixes(rule({"title": "Leave {wanted - free}", "flags": {"--gpu-memory-utilization": "{round_down(args.gpu_memory_utilization - (wanted - free) / 15.7GiB, 0.01)}"}}), args={"gpu_memory_utilization": 0.9})  # fmt: skip
    assert (fix.title, dict(fix.flags)) == ("Leave 1.08 GiB", {"--gpu-memory-utilization": "0.83"})


def test_two_fixes_of_one_title_are_one():
    """The same remedy written for two ages of vLLM: the first that holds."""
    found = fixes(rule(less("known(free)"), less("wanted > free")))
    assert brief(found) == [("Take less", "apply")]


def test_two_titles_that_change_the_same_are_one_and_the_sure_one_stays():
    maybe = {**deepcopy(EAGER), "title": "Perhaps without graphs", "when": "total > 3GiB"}
    assert brief(fixes(rule(maybe, EAGER))) == [("Do without graphs", "apply")]
    assert brief(fixes(rule(EAGER, {**deepcopy(EAGER), "title": "Graphs off"}))) == [("Do without graphs", "apply")]


def test_true_and_false_in_a_mapping_are_json_s_own():
    mapping = {"--structured-outputs-config": {"disable_any_whitespace": "true"}}
    (fix,) = fixes(rule({"title": "No blanks", "flags": mapping}), version="0.12.0")
    assert fix.flags == {"--structured-outputs-config": '{"disable_any_whitespace": true}'}


# --- flags by version --------------------------------------------------------------------------------------------------

SIZES = {"title": "Capture fewer graphs", "flags": {"--cudagraph-capture-sizes": "1 2 4"}}


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("0.33.0", "--cudagraph-capture-sizes"),
        ("0.11.2", "--cudagraph-capture-sizes"),
        ("0.11.0", "--cuda-graph-sizes"),
        ("0.9.2", "--cuda-graph-sizes"),
    ],
)
def test_a_flag_that_the_version_lacks_is_given_by_its_counterpart(version, flag):
    assert [list(fix.flags) for fix in fixes(rule(SIZES), version=version)] == [[flag]]


def test_a_fix_whose_flag_has_no_counterpart_there_is_left_out():
    assert brief(fixes(rule(SIZES, EAGER), version="0.6.2")) == [("Do without graphs", "apply")]


SWAP = {"title": "Swap more", "flags": {"--swap-space": "8"}}


@pytest.mark.parametrize(
    ("version", "there"), [("0.10.0", True), ("0.17.1", True), ("0.18.0", False), ("0.33.0", False)]
)
def test_a_flag_that_was_removed_is_not_given_after_its_removal(version, there):
    assert bool(fixes(rule(SWAP), version=version)) is there


def test_a_flag_to_leave_out_need_not_exist():
    (fix,) = fixes(rule({"title": "Leave it out", "remove_flags": ["--swap-space"]}), version="0.33.0")
    assert fix.remove_flags == ("--swap-space",)


@pytest.mark.parametrize(
    ("version", "spelled"),
    [("0.6.0", "image=2"), ("0.8.4", "image=2"), ("0.10.0", '{"image": 2}'), ("0.33.0", '{"image": 2}')],
)
def test_a_mapping_is_spelled_as_the_version_reads_it(version, spelled):
    (fix,) = fixes(
        rule({"title": "Allow fewer pictures", "flags": {"--limit-mm-per-prompt": {"image": "2"}}}), version=version
    )
    assert fix.flags == {"--limit-mm-per-prompt": spelled}


@pytest.mark.parametrize(("version", "there"), [("0.10.2", True), ("0.11.0", False), ("0.33.0", False)])
def test_a_variable_that_does_nothing_any_more_is_not_given(version, there):
    """VLLM_RPC_TIMEOUT is defined up to 0.22.1 and read up to 0.10.2 only."""
    assert bool(fixes(rule({"title": "Wait longer", "env": {"VLLM_RPC_TIMEOUT": "60000"}}), version=version)) is there


def test_other_programs_variables_are_given_in_every_version():
    (fix,) = fixes(
        rule({"title": "Let segments grow", "env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}),
        version="0.4.2",
    )
    assert fix.env == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def test_a_fix_may_be_for_some_versions_only():
    rules = rule(less(vllm=">=0.9"), {**EAGER, "vllm": "<0.9"})
    assert brief(fixes(rules, version="0.11.0")) == [("Take less", "apply")]
    assert brief(fixes(rules, version="0.6.2")) == [("Do without graphs", "apply")]


@pytest.mark.parametrize(
    ("version", "there"), [("0.9.0", True), ("0.11.0", True), ("0.11.1", False), ("0.33.0", False)]
)
def test_upgrading_is_advised_only_to_who_is_behind(version, there):
    assert bool(fixes(rule({"title": "Upgrade", "upgrade": ">=0.11.1"}), version=version)) is there


# --- versions as sets --------------------------------------------------------------------------------------------------

BRACKET = "(EngineCore_DP0 pid=7) ERROR 04-03 09:00:00 [core.py:1] RuntimeError: 2.10 GiB wanted, 1.02 GiB free\n"


def test_an_unknown_version_gives_what_each_possible_one_takes():
    """The header says 0.10.2 or later, no more: both spellings of the remedy stay, each with its versions."""
    rules = rule(
        {
            "title": "Fewer sizes (0.11.1 and later)",
            "vllm": ">=0.11.1",
            "flags": {"--cudagraph-capture-sizes": "1 2 4"},
        },
        {"title": "Fewer sizes (before)", "vllm": "<0.11.1", "flags": {"--cuda-graph-sizes": "4"}},
    )
    found = fixes(rules, version=None, failed=BRACKET)
    assert [fix.applies_to for fix in found] == [">=0.11.1", ">=0.10.2,<0.11.1"]


def test_what_no_possible_version_takes_is_left_out():
    assert (
        brief(
            fixes(
                rule({"title": "Wait longer", "env": {"VLLM_RPC_TIMEOUT": "60000"}}, EAGER),
                version=None,
                failed=BRACKET,
            )
        )
        != []
    )
    rules = rule({**SWAP, "vllm": "<0.8"}, EAGER)
    assert brief(fixes(rules, version=None, failed=BRACKET)) == [("Do without graphs", "apply")]


def test_a_known_version_is_stated():
    assert fixes(rule(EAGER))[0].applies_to == "==0.11.0"


def test_without_any_hint_the_whole_catalogue_is_meant():
    (fix,) = fixes(rule(EAGER), version=None, failed=FAILED.replace("ERROR 04-03 09:00:00 [core.py:1] ", ""))
    assert fix.applies_to == ">=0.4.0"


# --- assumed defaults --------------------------------------------------------------------------------------------------

USES_DEFAULT = {**less(), "title": "Take less than {args.gpu_memory_utilization}"}


def test_an_assumed_default_is_said_and_lowers_the_confidence():
    found = finding(rule(USES_DEFAULT))
    assert found.confidence.word == "medium"
    assert [e.text for e in found.evidence if e.kind == "assumed"] == [
        "--gpu-memory-utilization 0.9 (default of 0.11.0)"
    ]


def test_the_default_is_that_of_the_version():
    found = finding(rule(USES_DEFAULT), version="0.20.0")
    assert [e.text for e in found.evidence if e.kind == "assumed"] == [
        "--gpu-memory-utilization 0.92 (default of 0.20.0)"
    ]


def test_an_absent_argument_in_a_complete_list_has_its_default_for_sure():
    """`non-default args` prints all that the user gave."""
    assert finding(rule(USES_DEFAULT), args={"port": 8000}).confidence.word == "high"


def test_what_only_a_condition_asked_is_no_evidence():
    found = finding(rule(less("args.gpu_memory_utilization > 0.5")))
    assert found.confidence.word == "high"
    assert not [e for e in found.evidence if e.kind == "assumed"]


def test_a_given_argument_is_cited_by_its_line():
    found = finding(rule(USES_DEFAULT), args={"gpu_memory_utilization": 0.8})
    assert any("non-default args" in e.text and e.line == 2 for e in found.evidence)


# --- siblings ----------------------------------------------------------------------------------------------------------


def test_the_fixes_of_a_sibling_are_appended():
    rules = rules_from(
        """
id: base
match: {line: "RuntimeError: {wanted:size} wanted, {free:size} free"}
fixes: [{title: the base's, flags: {--enforce-eager: true}}]
---
id: first
refines: base
order: 10
when: wanted > free
fixes: [{title: the first's, flags: {--max-num-seqs: "64"}}]
---
id: second
refines: base
order: 20
when: free > 1GiB
fixes: [{title: the second's, flags: {--max-model-len: "4096"}}]
"""
    )
    found = finding(rules)
    assert (found.id, [fix.title for fix in found.fixes]) == ("first", ["the first's", "the second's"])


# --- texts -------------------------------------------------------------------------------------------------------------


def test_segments_with_unknown_numbers_vanish():
    found = finding(rule(EAGER, cause="{wanted} were asked for[[ and {free} was free]][[ of {total}]]."))
    assert found.cause == "2.10 GiB were asked for and 1.02 GiB was free."


def test_a_cause_that_cannot_be_said_falls_back_on_the_title():
    found = finding(rule(EAGER, title="It broke", cause="of {total}"))
    assert found.cause == "It broke"


def test_a_hostile_capture_stays_data():
    """A capture is text from the log: it may hold braces and quotes, and is not evaluated again."""
    rules = rules_from(
        """
id: named
match: {line: "RuntimeError: model {name:word} is broken"}
cause: "The model {name} is broken."
fixes: [{title: "Look at {name}", run: "ls {name}"}]
"""
    )
    found = finding(
        rules, failed="ERROR 04-03 09:00:00 [core.py:1] RuntimeError: model {wanted}[[x]]$(reboot) is broken\n"
    )
    assert found.cause == "The model {wanted}[[x]]$(reboot) is broken."


def test_an_example_may_state_facts():
    rules = rule(less("card.total > 20GiB"))
    log = START.format(version="0.11.0") + FAILED
    (found,) = diagnose(rules, log, given={"card.total": Quantity(24 * 2**30, Kind.SIZE)}).findings
    assert brief(found.fixes) == [("Take less", "apply")]


def test_a_known_bug_is_one_sentence():
    bug = {"thread": "https://github.com/vllm-project/vllm/issues/1", "introduced": "0.9.0", "fixed_in": "0.11.1"}
    found = finding(rule(EAGER, known_bug=bug))
    assert found.known_bug == "https://github.com/vllm-project/vllm/issues/1, since 0.9.0, mended in 0.11.1"


def test_every_flag_that_shipped_rules_name_exists_in_some_release(shipped):
    names = {flag for s in shipped.book.signatures for fix in s.fixes for flag in fix.flags}
    assert [flag for flag in sorted(names) if not catalog.knows_flag(flag)] == []


def test_what_the_run_has_been_given_already_is_not_advised():
    out = {"title": "Take it out", "remove_flags": ["--swap-space"]}
    assert brief(fixes(rule(less(), EAGER), args={"enforce_eager": True})) == [("Take less", "apply")]
    assert brief(fixes(rule(out, less()), args={"enforce_eager": True})) == [("Take less", "apply")]
    assert len(fixes(rule(out, less()), args={"swap_space": 8})) == 2
    assert len(fixes(rule(out, less()))) == 2, "without its arguments nothing is known of them"

"""Rule files: read into signatures, or refused with every fault's file, line and column."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from vlogdiag.model import FAMILIES, Confidence, Level, Phase, Role, Severity, Unavailable
from vlogdiag.signatures.keys import RULE
from vlogdiag.signatures.schema import RuleError, Signature, json_schema, load_rules
from vlogdiag.values import GIB, Kind, Quantity

PATH = "rules/kv-cache/kv-cache-too-small.yaml"
RULE_TEXT = """\
id: kv-cache-too-small
title: The KV cache cannot hold one request
severity: error
match:
  line:
    - "max seq len ({wanted:int}), ({needed:size} KV cache is needed, available KV cache memory ({available:size})"
    - "max seq len ({wanted:int}) is larger than the maximum number of tokens ({fits:int})"
  capture:
    - "the estimated maximum model length is {fits:int}"
cause: "{wanted} tokens need {needed} of KV cache; {available} is left."
fixes:
  - title: Serve the longest context that fits
    when: known(fits)
    flags:
      --max-model-len: "{fits}"
    trade_off: longer prompts are refused
examples:
  fires:
    - log: |
        ValueError: max seq len (131072), (16.00 GiB KV cache is needed, available KV cache memory (9.83 GiB)
      facts: {args.gpu_memory_utilization: 0.9, card.total: 79.1 GiB, log.served: false}
      captures: {wanted: 131072, needed: 16.00 GiB, fits: null}
      fixes: [{--max-model-len: 80512}]
  quiet:
    - name: the same words in a prompt
      log: |
        INFO Received request: 'why is KV cache is needed, available KV cache memory (3 GiB)?'
"""


GATE = "KV cache is needed, available KV cache memory ("


def rule(*changes: tuple[str, str], path: str = PATH) -> tuple[str, str]:
    """The rule above with pieces replaced."""
    text = RULE_TEXT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return path, text


def load(*changes: tuple[str, str]) -> Signature:
    (signature,) = load_rules([rule(*changes)])
    return signature


def faults(*files: tuple[str, str], **options: object) -> list[str]:
    with pytest.raises(RuleError) as caught:
        load_rules(files, **options)  # type: ignore[arg-type]
    return [str(fault) for fault in caught.value.faults]


def other(identity: str, body: str, family: str = "oom") -> tuple[str, str]:
    """A second rule, small and sound unless `body` is not."""
    text = f"id: {identity}\ntitle: another\nseverity: error\ncause: because\n{body}\n"
    if "examples:" not in body:
        text += "quiet_reason: none\nexamples: {fires: [{log: out of memory}], quiet: [{log: fine}]}\n"
    return f"rules/{family}/{identity}.yaml", text


MATCH = "match: {line: 'out of memory'}"


def test_a_rule_becomes_a_signature() -> None:
    signature = load()
    assert (signature.id, signature.family, signature.path, signature.line) == (
        "kv-cache-too-small",
        "kv-cache",
        PATH,
        1,
    )
    assert (signature.severity, signature.role, signature.confidence, signature.order) == (
        Severity.ERROR,
        Role.CAUSE,
        Confidence.HIGH,
        100,
    )
    assert signature.match is not None
    assert [line.gate for line in signature.match.lines] == [
        GATE,
        ") is larger than the maximum number of tokens (",
    ]
    assert signature.holes == ("wanted", "needed", "available", "fits")
    assert signature.match.levels is None
    assert signature.match.phases == frozenset()
    (fix,) = signature.fixes
    assert fix.when is not None
    assert fix.when.names == {"fits"}
    assert set(fix.flags) == {"--max-model-len"}


def test_examples_are_typed_by_the_names_they_set() -> None:
    fires, quiet = load().examples
    assert fires.facts == {
        "args.gpu_memory_utilization": Quantity(0.9, Kind.FLOAT),
        "card.total": Quantity(round(79.1 * GIB), Kind.SIZE),
        "log.served": Quantity(False, Kind.BOOL),
    }
    assert fires.captures == {
        "wanted": Quantity(131072, Kind.INT),
        "needed": Quantity(16 * GIB, Kind.SIZE),
        "fits": None,
    }
    assert fires.fixes == ({"--max-model-len": "80512"},)
    assert (quiet.kind, quiet.name, quiet.line) == ("quiet", "the same words in a prompt", 25)


EVERYTHING = """\
id: everything
title: "Everything at once[[ on {word}]]"
severity: warning
role: symptom
order: 7
confidence: medium
sequence:
  steps:
    - line: "first thing happened {n:int}"
      when: n > 3
      at_least: 2
      level: [info, none]
      phase: serving
    - line: {regex: 'second (?P<word>\\w+) thing', literal: ' thing'}
      optional: true
      frames: {all: a, any: [b, c], none: d}
      kind: uvicorn
      unless: "but all is well"
  any_order: true
  within: "{n} * 1s + 60s"
  by: [rank, word]
  unless: "recovered at last"
when: true
fixes:
  - title: Upgrade
    upgrade: ">=0.11.1"
    vllm: "<0.11.1"
  - title: Change much
    when: gone(1)
    flags:
      --enforce-eager: true
      --limit-mm-per-prompt: {image: 1, video: {count: "{n}", keep: true}}
    remove_flags: --swap-space
    env: {PYTORCH_ALLOC_CONF: "", VLLM_USE_V1: 1}
    run: "kill {n}"
    script: resize-images
    request: send less
    question: is it so?
ask: look elsewhere
yields_to: {any_of: [oom, kv-cache-too-small], within: "{n} + 60s"}
after_run: startup
corroborate:
  when: gpu.foreign_memory > 1GiB and metrics.waiting > 0
  say: "GPU {gpu.index} holds {gpu.foreign_memory}"
  confidence: raise
  prefer_fix: Upgrade
known_bug: {thread: "vllm#1", introduced: 0.10.0, fixed_in: 0.11.1}
vllm: ">=0.10,<0.12"
references: https://docs.vllm.ai
by: process
examples:
  fires:
    - name: both
      log: "first thing happened 5"
      tick: 2 min
      readings:
        - time: 5
          gpus:
            - {index: 0, used: 78 GiB, utilization: 99%, throttle: [sw_power_cap], mig: false,
               processes: [{pid: 7, memory: 8 GiB, command: python}], unavailable: [{source: nvml, reason: none}]}
          metrics: {waiting: 3, kv_usage: 0.97, healthy: true}
          host: {shm_free: 64 MiB}
          xids: [{gpu: 0, code: 79}]
      fixes: [{--enforce-eager: true, --limit-mm-per-prompt: {image: 1}}, {upgrade: '>=0.11.1'}]
  quiet:
    - log: "first thing happened"
quiet_reason: because
"""


def test_every_key_of_a_rule_is_read() -> None:
    text = EVERYTHING.replace("gone(1)", "known(n)")
    files = [rule(), ("rules/hang/everything.yaml", text)]
    by_id = {each.id: each for each in load_rules(files, is_user=lambda path: "everything" in path)}
    found = by_id["everything"]
    assert (found.severity, found.role, found.order, found.confidence) == (
        Severity.WARNING,
        Role.SYMPTOM,
        7,
        Confidence.MEDIUM,
    )
    assert found.user
    assert not by_id["kv-cache-too-small"].user
    assert found.sequence is not None
    first, second = found.sequence.steps
    assert (first.at_least, first.optional, first.levels, first.phases) == (
        2,
        False,
        {Level.INFO, None},
        {Phase.SERVING},
    )
    assert (second.optional, second.frames_all, second.frames_any, second.frames_none, second.kinds) == (
        True,
        ("a",),
        ("b", "c"),
        ("d",),
        {"uvicorn"},
    )
    assert [each.source for each in second.unless] == ["but all is well"]
    assert found.sequence.any_order
    assert found.sequence.by == ("rank", "word")
    assert found.sequence.within is not None
    assert found.sequence.within.names == {"n"}
    assert [each.gate for each in found.sequence.unless] == ["recovered at last"]
    assert found.when is not None
    upgrade, change = found.fixes
    assert (upgrade.upgrade, str(upgrade.vllm)) == (">=0.11.1", "<0.11.1")
    assert change.flags["--enforce-eager"] is True
    image = change.flags["--limit-mm-per-prompt"]
    assert isinstance(image, dict)
    assert image["video"]["keep"] is True
    assert change.remove_flags == ("--swap-space",)
    assert {name: text.source for name, text in change.env.items()} == {"PYTORCH_ALLOC_CONF": "", "VLLM_USE_V1": "1"}
    assert change.script == "resize-images"
    assert found.yields_to is not None
    assert found.yields_to.any_of == ("oom", "kv-cache-too-small")
    assert found.after_run is not None
    assert found.after_run.any_of == ("startup",)
    (corroborate,) = found.corroborate
    assert (corroborate.confidence, corroborate.prefer_fix) == ("raise", "Upgrade")
    assert found.known_bug is not None
    assert (found.known_bug.introduced, found.known_bug.fixed_in) == ("0.10.0", "0.11.1")
    assert found.vllm == SpecifierSet(">=0.10,<0.12")
    assert found.references == ("https://docs.vllm.ai",)
    example = found.examples[0]
    assert example.tick == 120
    (reading,) = example.readings
    gpu = reading.gpus[0]
    assert (gpu.used, gpu.utilization, gpu.throttle, gpu.mig) == (78 * GIB, 0.99, ("sw_power_cap",), False)
    assert gpu.processes is not None
    assert (gpu.processes[0].pid, gpu.processes[0].memory) == (7, 8 * GIB)
    assert gpu.unavailable == (Unavailable("nvml", "none"),)
    assert reading.metrics is not None
    assert (reading.metrics.waiting, reading.metrics.healthy) == (3, True)
    assert reading.host is not None
    assert reading.host.shm_free == 64 * 2**20
    assert reading.xids[0].code == 79
    assert example.fixes == (
        {"--enforce-eager": True, "--limit-mm-per-prompt": {"image": "1"}},
        {"upgrade": ">=0.11.1"},
    )
    assert found.gates == ("first thing happened", " thing")
    assert {pattern.gate for pattern in found.patterns} == {"first thing happened", " thing", "recovered at last"}


SILENCE = """\
silence:
  line: "Running: {running:int} reqs"
  when: running > 0
  level: info
  for: 60s
  until: "Avg generation throughput"
  by: engine
  at_end: true
examples: {fires: [{log: "Running: 3 reqs", tick: 90s}], quiet: [{log: "Running: 0 reqs", tick: 90s}]}
"""


def test_a_silence_is_read() -> None:
    (signature,) = load_rules([other("stalled", SILENCE, "hang")])
    silence = signature.silence
    assert silence is not None
    assert silence.match.levels == {Level.INFO}
    assert silence.when is not None
    assert silence.for_.source == "60s"
    assert [each.gate for each in silence.until] == ["Avg generation throughput"]
    assert (silence.by, silence.at_end) == (("engine",), True)


def test_a_refinement_reads_the_captures_of_its_base() -> None:
    examples = f"examples: {{fires: [{{log: '{GATE}'}}], quiet: [{{log: fine}}]}}\nquiet_reason: none"
    files = [
        other("deep", f"refines: middle\nwhen: needed > 1GiB and known(extra)\n{examples}"),
        other(
            "middle",
            "refines: kv-cache-too-small\n"
            f"match: {{capture: 'extra word {{extra:word}}', frames: {{any: visual}}}}\n{examples}",
        ),
        rule(),
    ]
    by_id = {each.id: each for each in load_rules(files)}
    assert by_id["deep"].refines == "middle"
    assert by_id["deep"].match is None
    assert by_id["middle"].match is not None
    assert by_id["middle"].match.frames_any == ("visual",)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("severity: error", "severty: error", ["1:1: key 'severity' is missing: a cause needs it", "3:1: unknown key 'severty' (did you mean 'severity'?)"]),
        ("severity: error", "severity: fatal", ["3:11: expected one of info, warning, error"]),
        ("severity: error", "severity: error\nseverity: error", ["4:1: key 'severity' appears twice"]),
        ("title: The", "title: {a: 1}\nask: The", ["2:8: expected text with {holes}"]),
        ("title: The KV cache cannot hold one request", "title:", ["2:7: expected text with {holes}"]),
        ("id: kv-cache-too-small", "id: Kv_Cache", ["1:5: expected an id, found 'Kv_Cache'"]),
        ("id: kv-cache-too-small", "id: kv-cache", ["1:5: id 'kv-cache' must be the file's name, 'kv-cache-too-small'"]),
        ("{wanted:int}), (", "{wanted:number}), (", ["6:7: pattern: unknown hole type 'number'"]),
        ("max seq len ({wanted:int}) is larger than the maximum number of tokens (", "len {n:int} (", ["7:7: pattern: no gate"]),
        ("{wanted:int}) is", "{in:int}) is", ["7:7: pattern: a hole cannot be called 'in': the word is taken"]),
        ("{wanted:int}) is", "{log:int}) is", ["7:7: pattern: a hole cannot be called 'log': the word is taken"]),
        ("  capture:", "  level: loud\n  capture:", ["8:10: expected one of debug, info, warning, error, critical, none"]),
        ("  capture:", "  phase: [loading, lading]\n  capture:", ["8:20: expected one of starting, loading"]),
        ("  capture:", "  frames: {every: x}\n  capture:", ["8:12: unknown key 'every'"]),
        ("  capture:", "  capture: []\n  line: x\n  unless:", ["9:3: key 'line' appears twice", "8:12: expected at least 1 item"]),
        ('cause: "{wanted}', 'cause: "{wnated}', ["10:8: text: unknown name 'wnated'"]),
        ('cause: "{wanted} tokens need {needed} of KV cache; {available} is left."\n', "", ["1:1: key 'cause' is missing: a cause needs it"]),
        ("when: known(fits)", "when: fits ** 2", ["13:11: expression: operator Pow is not allowed"]),
        ("when: known(fits)", "when: gpu.used > 1", ["13:11: expression: unknown name 'gpu.used'"]),
        ("when: known(fits)", "when: [a]", ["13:11: expected a condition"]),
        ("--max-model-len:", "max-model-len:", ["15:7: expected a flag, found 'max-model-len'"]),
        ('"{fits}"', "false", ["15:24: a flag is switched off by its own"]),
        ("    flags:\n      --max-model-len: \"{fits}\"\n", "", ["12:5: a fix changes something"]),
        ("  - title: Serve the longest context that fits\n    when", "  - when", ["12:5: key 'title' is missing"]),
        ("    trade_off:", "    upgrade: newest\n    trade_off:", ["16:14: 'newest' is no PEP 440 specifier"]),
        ("fixes:", "vllm: 0.11\nfixes:", ["11:7: '0.11' is no PEP 440 specifier"]),
        ("fixes:", "known_bug: {fixed_in: soon}\nfixes:", ["11:12: key 'thread' is missing", "11:23: expected a version, found 'soon'"]),
        ("fixes:", "order: -1\nfixes:", ["11:8: expected a whole number of at least 0"]),
        ("fixes:", "role: reason\nfixes:", ["11:7: expected one of cause, symptom, noise"]),
        ("fixes:", "by: nothing\nfixes:", ["11:5: `by` names a capture or one of"]),
        ("fixes:", "refines: kv-cache-too-smal\nfixes:", ["11:10: refines 'kv-cache-too-smal', which is no rule (did you mean 'kv-cache-too-small'?)"]),
        ("fixes:", "refines: kv-cache-too-small\nfixes:", ["11:10: refines itself: kv-cache-too-small refines kv-cache-too-small"]),
        ("fixes:", "yields_to: [oom, mystery]\nfixes:", ["11:18: yields_to: 'mystery' is no rule and no family"]),
        ("fixes:", "yields_to: kv-cache-too-small\nfixes:", ["11:12: yields_to: a rule cannot name itself"]),
        ("fixes:", "after_run: {any_of: starup}\nfixes:", ["11:21: after_run: 'starup' is no rule and no family (did you mean 'startup'?)"]),
        ("fixes:", "corroborate: {when: gpu.usd > 1, say: x, prefer_fix: y}\nfixes:", ["11:21: expression: unknown name 'gpu.usd'", "11:54: no fix of this rule is titled 'y'"]),
        ("fixes:", "silence: {line: 'something said', for: 60s}\nfixes:", ["11:1: `match` and `silence` exclude each other"]),
        ("card.total: 79.1 GiB", "card.total: much", ["21:61: card.total: 'much' is no size"]),
        ("card.total: 79.1 GiB", "gpu.used: 1 GiB", ["21:49: 'gpu.used' is no fact of a run"]),
        ("wanted: 131072,", "wnated: 131072,", ["22:18: the rule has no capture 'wnated' (did you mean 'wanted'?)"]),
        ("needed: 16.00 GiB,", "needed: 16.00 XiB,", ["22:42: needed: '16.00 XiB' is no size"]),
        ("  quiet:", "  queit:", ["18:3: key 'quiet' is missing", "24:3: unknown key 'queit' (did you mean 'quiet'?)"]),
        ("KV cache is needed, available KV cache memory (3", "KV cache is (3", ["18:3: no quiet example holds the rule's literal text"]),
        ("ValueError: max seq len (131072), (16.00 GiB KV cache is needed,", "ValueError: nothing,", ["19:1: this example cannot fire"]),
        ("    - name: the same", "    - name: *alias\n      nome: the same", ["25:13: not YAML: found undefined alias"]),
        ("order: 1", "order: !!python/name:os.system 1", ["11:8: tag tag:yaml.org,2002:python/name:os.system is not used in rules"]),
        ("severity: error", "severity: &x error\nask: *x", ["3:11: anchors and aliases are not used in rules"]),
        ("severity: error", "severity: error\n? [a]\n: b", ["4:3: keys are plain words"]),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_place(old: str, new: str, expected: list[str]) -> None:
    found = faults(rule(("fixes:", "order: 1\nfixes:"), (old, new)) if old == "order: 1" else rule((old, new)))
    for each in expected:
        assert any(fault.startswith(f"{PATH}:{each}") for fault in found), (each, found)
    assert len(found) == len(expected), found


def test_every_fault_of_every_file_is_told_at_once() -> None:
    found = faults(
        rule(("severity: error", "severity: bad"), ("known(fits)", "fits + x")),
        other("second", "match: {line: short}\nyields_to: nobody"),
        ("rules/oom/third.yaml", "id: third: no"),
        ("rules/oom/empty.yaml", "# nothing\n"),
        ("rules/oom/list.yaml", "- a\n"),
    )
    assert [fault.rsplit(": ")[0].split(": ")[0] for fault in found] == [
        f"{PATH}:3:11",
        f"{PATH}:13:11",
        "rules/oom/empty.yaml:1:1",
        "rules/oom/list.yaml:1:1",
        "rules/oom/second.yaml:5:15",
        "rules/oom/second.yaml:6:12",
        "rules/oom/third.yaml:1:10",
    ]


def test_one_broken_pattern_brings_no_second_fault_for_the_names_it_fills() -> None:
    (fault,) = faults(rule(("{needed:size} KV", "{needed:siez} KV")))
    assert "unknown hole type 'siez'" in fault


def test_a_folder_that_is_no_family_is_named() -> None:
    (fault,) = faults(other("lost", MATCH, family="oomm"))
    assert fault.startswith("rules/oomm/lost.yaml:1:1: the folder 'oomm' is no family (did you mean 'oom'?)")


def test_two_rules_cannot_share_an_id() -> None:
    assert faults(other("twice", MATCH), other("twice", MATCH, family="hang")) == [
        "rules/hang/twice.yaml:1:1: id 'twice' is taken by rules/oom/twice.yaml"
    ]


def test_a_circle_of_refinements_is_a_fault_of_each_of_its_rules() -> None:
    found = faults(other("one", "refines: two"), other("two", "refines: one"))
    assert found == [
        "rules/oom/one.yaml:5:10: refines itself: one refines two refines one",
        "rules/oom/two.yaml:5:10: refines itself: two refines one refines two",
    ]


def test_a_rule_must_look_for_something() -> None:
    (fault,) = faults(other("empty-handed", "when: true"))
    assert "a rule needs `match`, `sequence`, `silence` or `refines`" in fault


def test_a_match_without_line_is_for_refinements_only() -> None:
    (fault,) = faults(other("lineless", "match: {phase: loading}"))
    assert "`match` needs a `line`" in fault


def test_a_sequence_of_options_only_would_fire_on_nothing() -> None:
    (fault,) = faults(other("optional", "sequence: {steps: [{line: out of memory, optional: true}]}"))
    assert "a sequence needs a step that is not optional" in fault


class TestCatalogue:
    FIX = (
        "match: {line: 'out of memory'}\n"
        "fixes: [{title: x, flags: {--gpu-mem-util: 1}, remove_flags: [--swap-space, --request-timeout],"
        " env: {VLLM_NOPE: 1, OTHER: 1}, script: nothing}]"
    )

    def test_flags_variables_and_scripts_that_do_not_exist_are_faults(self) -> None:
        found = faults(
            other("invented", self.FIX),
            knows_flag=lambda flag: flag == "--swap-space",
            knows_env=lambda name: name.startswith("VLLM_USE"),
            knows_script=lambda name: False,
        )
        assert [fault.split(": ", 1)[1] for fault in found] == [
            "vLLM has no flag --gpu-mem-util",
            "vLLM has no flag --request-timeout",
            "vLLM knows no variable VLLM_NOPE",
            "no script fix is called 'nothing'",
        ]

    def test_variables_of_others_are_not_vllms_to_know(self) -> None:
        load_rules(
            [other("torch", "match: {line: out of memory}\nfixes: [{title: x, env: {PYTORCH_ALLOC_CONF: a}}]")],
            knows_env=lambda name: False,
        )


class TestSpelling:
    def test_a_capture_may_be_called_like_a_function(self) -> None:
        body = "match: {line: 'out of memory {count:int}'}\nwhen: count > 3 and count(count) > 1"
        (signature,) = load_rules([other("counted", body)])
        assert signature.when is not None
        assert signature.when.names == {"count"}

    def test_numbers_keep_the_text_they_were_written_as(self) -> None:
        signature = load(('"{fits}"', "0x10"))
        value = signature.fixes[0].flags["--max-model-len"]
        assert getattr(value, "source", None) == "0x10"

    def test_yes_and_no_are_no_truth_values(self) -> None:
        assert any(
            "expected true or false" in fault
            for fault in faults(other("yes", SILENCE.replace("at_end: true", "at_end: yes"), "hang"))
        )

    def test_a_block_scalar_as_pattern_loses_its_last_newline(self) -> None:
        (signature,) = load_rules([other("block", "match:\n  line: |\n    out of memory {n:int}\n")])
        assert signature.match is not None
        assert signature.match.lines[0].search("out of memory 5") is not None

    def test_several_documents_are_refused(self) -> None:
        (fault,) = faults(("rules/oom/x.yaml", "id: x\n---\nid: y\n"))
        assert "not YAML: but found another document" in fault

    @pytest.mark.parametrize("text", ["\x00", "a: \x07", "[" * 5000, "a: [", "\t", "%YAML 9.9\n---\na", "'"])
    def test_what_is_no_yaml_is_one_fault(self, text: str) -> None:
        assert faults(("rules/oom/x.yaml", text))


def test_rules_come_back_by_id_whatever_the_order_of_files() -> None:
    files = [other("b", MATCH), other("a", MATCH), rule()]
    assert [each.id for each in load_rules(files)] == [each.id for each in load_rules(reversed(files))] == ["a", "b", "kv-cache-too-small"]  # fmt: skip


class TestJsonSchema:
    def test_it_is_json_and_names_every_key_of_the_table(self) -> None:
        schema = json.loads(json.dumps(json_schema()))
        assert set(schema["properties"]) == set(RULE.keys)
        assert schema["required"] == ["id", "title", "examples"]
        assert schema["additionalProperties"] is False
        assert all(family in schema["description"] for family in FAMILIES)

    def test_every_key_says_what_it_is_for(self) -> None:
        def walk(node: object) -> None:
            if isinstance(node, dict):
                for each in node.get("properties", {}).values():
                    assert each["description"].strip()
                for each in node.values():
                    walk(each)
            elif isinstance(node, list):
                for each in node:
                    walk(each)

        walk(json_schema())

    def test_what_loads_fits_it_and_an_unknown_key_does_not(self) -> None:
        schema = json_schema()
        assert fits(yaml.safe_load(RULE_TEXT), schema)
        assert fits(yaml.safe_load(EVERYTHING), schema)
        assert not fits({**yaml.safe_load(RULE_TEXT), "severty": "error"}, schema)
        assert not fits({**yaml.safe_load(RULE_TEXT), "severity": "fatal"}, schema)
        assert not fits({**yaml.safe_load(RULE_TEXT), "match": {"line": 5, "level": "loud"}}, schema)


def fits(value: object, schema: dict[str, object]) -> bool:
    """As much of JSON Schema as json_schema() speaks."""
    import re

    if "anyOf" in schema:
        return any(fits(value, each) for each in schema["anyOf"])  # type: ignore[attr-defined]
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    python = {"string": str, "number": (int, float), "boolean": bool, "integer": int, "null": type(None), "array": list, "object": dict}  # fmt: skip
    if not any(isinstance(value, python[each]) for each in types):  # type: ignore[index, arg-type]
        return False
    if isinstance(value, str):
        enum, pattern = schema.get("enum"), schema.get("pattern")
        return (enum is None or value in enum) and (pattern is None or re.search(str(pattern), value) is not None)  # type: ignore[operator]
    if isinstance(value, list):
        return all(fits(each, schema["items"]) for each in value)  # type: ignore[arg-type]
    if isinstance(value, dict):
        known, free = schema.get("properties", {}), schema.get("patternProperties", {})
        for key, each in value.items():
            shape = known.get(key) or next((s for p, s in free.items() if re.search(p, key)), None)  # type: ignore[attr-defined]
            if shape is None or not fits(each, shape):
                return False
        return all(key in value for key in schema.get("required", []))  # type: ignore[attr-defined]
    return True


NODES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["x", "known(fits)", "{wanted}", "60s", "oom", ""]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([*RULE.keys, "line", "steps", "title", "when", "flags", "any_of", "log", "fires"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


DOCUMENT = yaml.load(RULE_TEXT, Loader=yaml.CSafeLoader)


@given(st.sampled_from([key for key in RULE.keys if key != "id"]), NODES)
@settings(max_examples=200)
def test_a_key_that_holds_anything_is_loaded_or_refused_with_a_place(key: str, node: object) -> None:
    try:
        load_rules([(PATH, yaml.dump({**DOCUMENT, key: node}, Dumper=yaml.CSafeDumper))])
    except RuleError as error:
        assert error.faults
        assert all(fault.line >= 1 and fault.column >= 1 for fault in error.faults)

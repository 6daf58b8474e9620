"""The one table of keys that a rule file may hold: validation and the editors' JSON Schema both come from it."""

from __future__ import annotations

from typing import Any

from vlogdiag.model import FAMILIES, Confidence, Level, Phase, Role, Severity
from vlogdiag.signatures.readings import READING
from vlogdiag.signatures.shapes import Either, Fields, Free, Key, Many, Null, Switch, Whole, Words

ID = r"[a-z0-9]+(?:-[a-z0-9]+)*"
NO_LEVEL = "none"
"""In `level`: a line without level."""

_TEXT = Words()
_TEMPLATE = Words("text with {holes}")
_CONDITION = Words("a condition")
_DURATION = Words("a duration such as 60s")
_PATTERN = Either(
    (
        Words("a pattern"),
        Fields(
            {
                "regex": Key(_TEXT, "expression of the `regex` module; groups (?P<name__type>…)", required=True),
                "literal": Key(
                    _TEXT, "literal text, six characters or more, that every matching record holds", required=True
                ),
            },
            "a regex with its literal",
        ),
    )
)
_PATTERNS = Many(_PATTERN, one=True)
_TEXTS = Many(_TEXT, one=True)
_RULE_IDS = Many(Words("a rule id or family", pattern=ID), one=True)
_LINE = Key(_PATTERNS, "pattern that looks like the log line, or alternatives; the first that matches wins")

_FRAMES = Fields(
    {
        "all": Key(_TEXTS, "all of these stand in the joined traceback"),
        "any": Key(_TEXTS, "at least one of these stands in the joined traceback"),
        "none": Key(_TEXTS, "none of these stands in the joined traceback"),
    }
)

MATCH_KEYS = {
    "line": _LINE,
    "capture": Key(_PATTERNS, "patterns searched in the same record; each may be missing, then its holes are unknown"),
    "frames": Key(_FRAMES, "what the traceback must hold"),
    "phase": Key(Many(Words("a phase", tuple(phase.value for phase in Phase)), one=True), "phases in which it counts"),
    "level": Key(
        Many(Words("a level", (*(level.name.lower() for level in Level), NO_LEVEL)), one=True),
        "levels that it is printed at; by default no level, warning and above",
    ),
    "unless": Key(_PATTERNS, "none of these may stand in the same record"),
    "kind": Key(_TEXTS, "header forms: vllm, uvicorn, glog, nccl, ray, json, kernel, shell, bare …"),
}

_BY = Key(_TEXTS, "what tells separate events apart: captures, or process, pid, rank, engine, host")

STEP_KEYS = {
    **MATCH_KEYS,
    "when": Key(_CONDITION, "condition that this step must meet"),
    "at_least": Key(Whole(1), "how many matches inside `within`"),
    "optional": Key(Switch(), "the sequence also fires without this step"),
}

_SEQUENCE = Fields(
    {
        "steps": Key(Many(Fields(STEP_KEYS, "a step")), "what must happen", required=True),
        "any_order": Key(Switch(), "the steps may come in any order"),
        "within": Key(_DURATION, "duration that all steps fit in; may use captures"),
        "by": _BY,
        "unless": Key(_PATTERNS, "a record with one of these resets the sequence"),
    }
)

_SILENCE = Fields(
    {
        **MATCH_KEYS,
        "when": Key(_CONDITION, "condition on the line after which silence counts"),
        "until": Key(_PATTERNS, "what ends the silence; by default the same line"),
        "for": Key(_DURATION, "how long nothing may come; may use captures", required=True),
        "by": _BY,
        "at_end": Key(Switch(), "also fires when a finished log ends in that state"),
    }
)

# JSON nests: mm-processor-kwargs hold a size, which holds an edge.
_FLAG_LEAF = Either((Switch(), Words(empty=True)))
_FLAG_INNER = Either((Switch(), Words(empty=True), Free(_FLAG_LEAF)))
_FLAG_VALUE = Either((Switch(), Words("text, true or a mapping", empty=True), Free(_FLAG_INNER)))
_FLAG = r"--?[A-Za-z][A-Za-z0-9_.-]*"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"

_FIX = Fields(
    {
        "title": Key(_TEMPLATE, "what the reader is asked to do", required=True),
        "when": Key(_CONDITION, "condition under which the fix helps"),
        "flags": Key(
            Free(_FLAG_VALUE, _FLAG, "a flag"), "flags of vllm serve: text with {expressions}, true, or a mapping"
        ),
        "remove_flags": Key(Many(Words("a flag", pattern=_FLAG), one=True), "flags to leave out"),
        "env": Key(Free(Words(empty=True), _VARIABLE, "a variable"), "environment variables; empty text means unset"),
        "run": Key(_TEMPLATE, "a command to run once"),
        "script": Key(_TEXT, "name of a script fix in rules/scripts"),
        "upgrade": Key(Words("a specifier"), "PEP 440 specifier of vLLM versions that mend it, such as '>=0.11.1'"),
        "request": Key(_TEMPLATE, "what the client should send instead"),
        "trade_off": Key(_TEMPLATE, "what it costs"),
        "question": Key(_TEMPLATE, "what to look up when `when` cannot be decided"),
        "vllm": Key(Words("a specifier"), "PEP 440 specifier of vLLM versions that the fix is for"),
    },
    "a fix",
)

_YIELDS = Fields(
    {
        "any_of": Key(_RULE_IDS, "rules or families", required=True),
        "within": Key(_DURATION, "duration before the match; may use captures; by default the whole run"),
    }
)
_AFTER = Fields({"any_of": Key(_RULE_IDS, "rules or families of the run before", required=True)})

_CORROBORATE = Fields(
    {
        "when": Key(_CONDITION, "condition, readings included", required=True),
        "say": Key(_TEMPLATE, "the evidence in words", required=True),
        "confidence": Key(Words("raise or lower", ("raise", "lower")), "what it does to the confidence"),
        "prefer_fix": Key(_TEXT, "title of the fix to put first"),
    }
)

_VERSION = Words("a version", pattern=r"[0-9]+(?:\.[0-9]+)*(?:\.?(?:post|rc|dev|a|b)[0-9]+)?")
_BUG = Fields(
    {
        "thread": Key(_TEXT, "where it is discussed", required=True),
        "introduced": Key(_VERSION, "first vLLM release that has it"),
        "fixed_in": Key(_VERSION, "first vLLM release that does not"),
    }
)

_EXPECTED_INNER = Either((Switch(), Words(empty=True), Free(Either((Switch(), Words(empty=True))))))
_EXPECTED = Either((Switch(), Words(empty=True), Free(_EXPECTED_INNER)))
_FACT_VALUE = Either((Null(), Words(empty=True)))
_EXAMPLE_KEYS = {
    "name": Key(_TEXT, "what the example shows"),
    "log": Key(_TEXT, "the log"),
    "facts": Key(Free(_FACT_VALUE), "what the run is known to say elsewhere: args.*, log.*, card.*"),
    "readings": Key(Many(READING), "live readings, in order"),
    "tick": Key(_DURATION, "silence after the last line"),
}
_EXAMPLE_KEYS["log"] = Key(_TEXT, "the log", required=True)
_FIRES = Fields(
    {
        **_EXAMPLE_KEYS,
        "captures": Key(Free(_FACT_VALUE), "expected captures; null is unknown"),
        "fixes": Key(Many(Free(_EXPECTED)), "expected fixes in order"),
    },
    "an example",
)
_QUIET = Fields(_EXAMPLE_KEYS, "an example")
_EXAMPLES = Fields(
    {
        "fires": Key(Many(_FIRES), "logs on which this rule fires, and no other cause", required=True),
        "quiet": Key(Many(_QUIET), "logs that look alike and on which it must not fire", required=True),
    }
)

RULE = Fields(
    {
        "id": Key(Words("an id", pattern=ID), "the file's name without its ending", required=True),
        "title": Key(_TEMPLATE, "one line: what broke", required=True),
        "severity": Key(Words("a severity", tuple(severity.word for severity in Severity)), "how bad it is"),
        "role": Key(Words("a role", tuple(role.value for role in Role)), "cause (default), symptom or noise"),
        "order": Key(Whole(), "among refinements of one rule the lowest wins; 100 by default"),
        "confidence": Key(
            Words("a confidence", tuple(confidence.word for confidence in Confidence)),
            "how sure a match is; high by default",
        ),
        "match": Key(Fields(MATCH_KEYS), "what one record must look like"),
        "sequence": Key(_SEQUENCE, "several records in a row"),
        "silence": Key(_SILENCE, "records that fail to come"),
        "refines": Key(Words("a rule id", pattern=ID), "the rule that this one is a special case of"),
        "when": Key(Either((Switch(), _CONDITION)), "condition over captures, args.*, log.*, card.*; must be true"),
        "by": _BY,
        "cause": Key(_TEMPLATE, "one sentence: why, with the log's numbers; [[ … ]] is left out if unknown"),
        "fixes": Key(Many(_FIX), "remedies, best first"),
        "ask": Key(_TEMPLATE, "what would tell apart two causes that print the same"),
        "yields_to": Key(Either((_RULE_IDS, _YIELDS)), "rules or families whose finding makes this one a consequence"),
        "after_run": Key(Either((_RULE_IDS, _AFTER)), "rules or families of the run before that explain this one"),
        "corroborate": Key(Many(_CORROBORATE, one=True), "what live readings add"),
        "known_bug": Key(_BUG, "a fault of vLLM's own"),
        "vllm": Key(Words("a specifier"), "PEP 440 specifier of the vLLM versions that print this"),
        "references": Key(_TEXTS, "documentation or threads that confirm cause and fix"),
        "examples": Key(_EXAMPLES, "logs that prove the rule", required=True),
        "quiet_reason": Key(_TEXT, "why no look-alike can hold the rule's literal text"),
    },
    "a rule",
)


def json_schema() -> dict[str, Any]:
    """JSON Schema of a rule file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vlogdiag rule",
        "description": f"One signature; lies in a folder named after its family: {', '.join(FAMILIES)}.",
        **RULE.json(),
    }

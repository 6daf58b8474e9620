"""A few rules written in a test, and the whole pipeline over a log with only these."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from vlogdiag import catalog
from vlogdiag.diagnosis.engine import Rulebook
from vlogdiag.loading import Rules, parse_facts, rules_folder
from vlogdiag.model import RuleCount
from vlogdiag.pipeline import Pipeline, Result
from vlogdiag.signatures.schema import load_rules
from vlogdiag.values import Quantity


@cache
def facts_rules() -> tuple[Any, ...]:
    path = rules_folder() / "facts.yaml"
    return parse_facts(path.read_text(encoding="utf-8"), str(path))


def rules_from(text: str) -> Rules:
    """Rules out of YAML documents (`---` between them); family, title, cause, severity and examples may be left out."""
    drafts = list(yaml.safe_load_all(text))
    gates = "\n".join(words(drafts))  # an example must hold a gate of its rule
    files: list[tuple[str, str]] = []
    for rule in drafts:
        family = rule.pop("family", "oom")
        rule.setdefault("title", rule["id"])
        if rule.get("role", "cause") == "cause":
            rule.setdefault("severity", "error")
            rule.setdefault("cause", rule["title"])
        rule.setdefault("examples", {"fires": [{"log": gates}], "quiet": [{"log": gates}]})
        files.append((f"{family}/{rule['id']}.yaml", yaml.safe_dump(rule, sort_keys=False)))
    signatures = load_rules(files, knows_flag=catalog.knows_flag, knows_env=catalog.knows_env)
    return Rules(Rulebook(signatures), facts_rules(), RuleCount(0, len(files), ""))


def words(node: Any) -> list[str]:
    """Every text below a node."""
    if isinstance(node, Mapping):
        return [text for value in node.values() for text in words(value)]
    if isinstance(node, list):
        return [text for value in node for text in words(value)]
    return [node] if isinstance(node, str) else []


def diagnose(
    rules: Rules, log: str | bytes, *, version: str | None = None, given: Mapping[str, Quantity] | None = None
) -> Result:
    """The log through the whole pipeline."""
    pipeline = Pipeline(rules, source="vllm.log", version=version, given=given)
    pipeline.feed(log if isinstance(log, bytes) else log.encode())
    return pipeline.close()


def ids(result: Result) -> list[str]:
    return [finding.id for finding in result.findings]

"""Chooses an incident's fixes, fills in numbers, and checks every flag against the run's vLLM version."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from vlogdiag import catalog
from vlogdiag.catalog import Versions
from vlogdiag.diagnosis.incidents import Member
from vlogdiag.diagnosis.refused import explained
from vlogdiag.diagnosis.scope import RunScope
from vlogdiag.model import Fix
from vlogdiag.signatures.types import FixTemplate, Signature

__all__ = ["fixes_of"]

UNKNOWN = "?"
"""Stands for a number that the log does not give, in fixes marked `check`."""


def fixes_of(member: Member) -> tuple[Fix, ...]:
    """Fixes in order: those that hold, then those whose condition is unknown; siblings' fixes last."""
    own_first = member.signature.refines is not None
    apply: list[Fix] = [] if own_first else [*explained(member.scope)]
    check: list[Fix] = []
    seen: set[str] = set()
    for signature in (member.signature, *member.siblings):
        for template in signature.fixes:
            fix = fill(template, signature, member.scope)
            if fix is None or fix.title in seen:
                continue
            seen.add(fix.title)
            (apply if fix.disposition == "apply" else check).append(fix)
    if own_first:  # a refinement knows this very option; the catalogue's word on it comes after
        done = {name for fix in apply for name in (*fix.remove_flags, *fix.flags)}
        more = [fix for fix in explained(member.scope) if not done.issuperset(fix.remove_flags)]
        apply = [*apply, *more] if done else [*more, *apply]
    once = {_does(fix): fix for fix in reversed((*apply, *check))}  # the first of those that do the same
    return tuple(fix for fix in (*apply, *check) if once[_does(fix)] is fix)


def _does(fix: Fix) -> Hashable:
    """What a fix changes, whatever it is called; its title where it only tells."""
    flags, env = tuple(sorted(fix.flags.items())), tuple(sorted(fix.env.items()))
    found = (flags, fix.remove_flags, env, fix.run, fix.script, fix.upgrade, fix.request)
    return found if any(found) else fix.title


def fill(template: FixTemplate, signature: Signature, scope: RunScope) -> Fix | None:
    """One fix for one run, or None if it does not hold or the version has no such flag."""
    versions = scope.versions
    if template.vllm is not None:
        inside = versions.within(Versions.parse_spec(template.vllm))
        if inside is False:
            return None
        # Only some possible versions take this fix: it stays, and says for which.
        if inside is None:
            versions = versions & Versions.parse_spec(template.vllm)
    # A condition that picks among fixes proves nothing: evidence, and assumptions, are those of cause and fixes.
    stated, guessed = scope.used, scope.assumed
    scope.used, scope.assumed = {}, {}
    holds = True if template.when is None else template.when.truth(scope)
    scope.used, scope.assumed = stated, guessed
    if holds is False:
        return None
    if template.upgrade is not None and not _older(versions, template.upgrade):
        return None
    flags = _flags(template, scope, versions)
    env = _env(template, scope, versions)
    if flags is None or env is None or _done_already(template, flags, scope):
        return None
    unknown = holds is None or UNKNOWN in flags.values() or UNKNOWN in env.values()
    title = template.title.render(scope)
    run = template.run.render(scope, raw=True, quote=True) if template.run else None
    request = template.request.render(scope) if template.request else None
    if (template.run and run is None) or (template.request and request is None):
        unknown = True
    if title is None:
        title = _without_numbers(template.title.source)
        unknown = True
    return Fix(
        title=title,
        disposition="check" if unknown else "apply",
        flags=flags,
        remove_flags=template.remove_flags,  # the user has typed them: they need not exist in this version
        env=env,
        run=run,
        script=template.script,
        upgrade=template.upgrade,
        request=request,
        trade_off=template.trade_off.render(scope) if template.trade_off else None,
        applies_to=versions.spec() or None,
        question=_question(template, scope, holds) if unknown else None,
    )


def _older(versions: Versions, wanted: str) -> bool:
    """Whether upgrading to `wanted` changes anything: some possible version lies outside it."""
    return versions.within(Versions.parse_spec(wanted)) is not True


def _done_already(template: FixTemplate, flags: Mapping[str, str | bool], scope: RunScope) -> bool:
    """Whether a fix that only sets and takes out options changes nothing of what the run was given."""
    if template.env or template.run or template.script or template.upgrade or template.request:
        return False
    given = {name.lstrip("-").replace("-", "_"): name for name in (*flags, *template.remove_flags)}
    if not given:
        return False
    args = scope.facts.args
    for key, name in given.items():
        if name in flags:
            if key not in args or str(args[key]) != str(flags[name]):
                return False
        elif scope.facts.argument(key) is not None or not scope.facts.complete:
            return False
    return True


def _without_numbers(source: str) -> str:
    """A title whose numbers are unknown: holes become a question mark."""
    out, depth = [], 0
    for char in source.replace("[[", "").replace("]]", ""):
        if char == "{":
            depth += 1
            if depth == 1:
                out.append(UNKNOWN)
        elif char == "}":
            depth = max(0, depth - 1)
        elif not depth:
            out.append(char)
    return "".join(out)


def _flags(template: FixTemplate, scope: RunScope, versions: Versions) -> dict[str, str | bool] | None:
    flags: dict[str, str | bool] = {}
    for name, value in template.flags.items():
        known = catalog.flag(name, versions)
        spelled = name
        if known.exists is False:
            other = catalog.counterpart(name, versions)
            if other is None:
                return None
            spelled = other
        flags[spelled] = _value(name, value, scope, versions)
    return flags


def _value(name: str, value: Any, scope: RunScope, versions: Versions) -> str | bool:
    if value is True:
        return True
    if isinstance(value, Mapping):
        return catalog.spell_mapping(name, _filled(value, scope), versions)
    text = value.render(scope, raw=True)
    return UNKNOWN if text is None else str(text)


def _filled(value: Mapping[str, Any], scope: RunScope) -> dict[str, Any]:
    """A mapping's values with their numbers, however deep."""
    filled: dict[str, Any] = {}
    for key, part in value.items():
        if isinstance(part, Mapping):
            filled[key] = _filled(part, scope)
            continue
        text = part.render(scope, raw=True) if hasattr(part, "render") else str(part)
        filled[key] = UNKNOWN if text is None else _number(text)
    return filled


def _number(text: str) -> int | float | bool | str:
    if text in ("True", "true", "False", "false"):
        return text in ("True", "true")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _env(template: FixTemplate, scope: RunScope, versions: Versions) -> dict[str, str] | None:
    env: dict[str, str] = {}
    for name, value in template.env.items():
        text = value.render(scope, raw=True)
        if text != "" and name.startswith("VLLM_") and catalog.knows_env(name):  # to unset one is always possible
            known = catalog.env(name, versions)
            if known.exists is False or known.effective is False:
                return None
        env[name] = UNKNOWN if text is None else text
    return env


def _question(template: FixTemplate, scope: RunScope, holds: bool | None) -> str | None:
    if template.question is not None:
        return template.question.render(scope)
    names: set[str] = set(template.when.names) if template.when is not None and holds is None else set()
    for value in (*template.flags.values(), *template.env.values()):
        if hasattr(value, "names"):
            names |= set(value.names)
    missing = sorted(n for n in names if scope.lookup(n) is None)
    if not missing:
        return None
    return "not in the log: " + ", ".join(_in_words(n) for n in missing[:3])


def _in_words(name: str) -> str:
    root, _, short = name.partition(".")
    if root == "args":
        return "--" + short.replace("_", "-")
    return short.replace("_", " ") if short else name.replace("_", " ")

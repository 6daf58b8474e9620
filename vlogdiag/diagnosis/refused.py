"""Explains arguments that argparse refused, one by one, by the catalogue: never existed, removed, renamed, mistyped."""

from __future__ import annotations

import shlex

from vlogdiag.catalog import ArgProblem, Versions, explain_unrecognized, explain_value, flag
from vlogdiag.diagnosis.scope import RunScope
from vlogdiag.model import Fix

__all__ = ["explained"]

MAX_PROBLEMS = 4


def explained(scope: RunScope) -> tuple[Fix, ...]:
    """Fixes for captures named `arguments` (all of `unrecognized arguments: …`) or `argument` with `value`."""
    versions = scope.versions
    words = scope.captures.get("arguments")
    if words is not None:
        given = _split(str(words.value))
        problems = explain_unrecognized(given, _lacking(given, versions))
        return tuple(_fix(problem, versions) for problem in problems[:MAX_PROBLEMS])
    argument, value = scope.captures.get("argument"), scope.captures.get("value")
    if argument is None or value is None:
        return ()
    name = str(argument.value).split("/")[0].strip(",:")
    refused = str(value.value).strip("'\"")
    problem = explain_value(name, refused, versions) if name.startswith("-") else None
    if problem is None or "wants str" in problem.reason:  # any text passes the parser: something else refused it
        return ()
    return (_fix(problem, versions),)


def _lacking(words: list[str], versions: Versions) -> Versions:
    """Of the possible releases those that lack the options: they were refused, after all."""
    for word in words:
        if word.startswith("--"):
            left = versions - flag(word.partition("=")[0], versions).present
            if left:
                versions = left
    return versions


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _fix(problem: ArgProblem, versions: Versions) -> Fix:
    value = problem.value
    name = f"{problem.argument} {value}" if value else problem.argument
    instead = problem.instead
    title = f"Leave {name} out: {problem.reason}"
    if instead is not None and instead.startswith("--") and " " not in instead:
        title = f"Write {instead} for {problem.argument}: {problem.reason}"
        return Fix(
            title,
            flags={instead: value if value else True},
            remove_flags=(problem.argument,),
            applies_to=versions.spec() or None,
        )
    if instead is not None and instead.startswith("--"):
        flag, _, rest = instead.partition(" ")
        if rest and all(c not in rest for c in ",;()"):
            title = f"Write {instead} for {name}: {problem.reason}"
            removed = () if flag == problem.argument else (problem.argument,)
            return Fix(title, flags={flag: rest}, remove_flags=removed, applies_to=versions.spec() or None)
    if instead:
        title = f"{title}; {instead}"
    return Fix(title, remove_flags=(problem.argument,), applies_to=versions.spec() or None)

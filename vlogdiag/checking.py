"""Runs every rule's examples through the whole pipeline: `fires` must fire their rule alone, `quiet` must not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vlogdiag.loading import Rules
from vlogdiag.model import Finding, Fix, Role
from vlogdiag.pipeline import Pipeline
from vlogdiag.signatures.positions import Fault
from vlogdiag.signatures.types import Example, Signature

__all__ = ["check_examples", "findings_of"]


def check_examples(rules: Rules, wanted: Iterable[str] | None = None) -> tuple[Fault, ...]:
    """Faults of the examples of all rules, or of those with the ids `wanted`."""
    chosen = set(wanted) if wanted is not None else None
    faults: list[Fault] = []
    for signature in rules.book.signatures:
        if chosen is None or signature.id in chosen:
            for example in signature.examples:
                faults.extend(
                    Fault(signature.path, example.line, 1, f"{example.name or example.kind}: {text}")
                    for text in _check(rules, signature, example)
                )
    return tuple(faults)


def findings_of(rules: Rules, example: Example) -> tuple[tuple[Finding, ...], set[str]]:
    """Findings of an example's log, and the ids of every rule that was heard in it (symptoms and noise too)."""
    pipeline = Pipeline(rules, source="example", given=example.facts)
    for reading in example.readings:
        pipeline.observe(reading)
    pipeline.feed(example.log.encode())
    if example.tick is not None:
        pipeline.flush()
        pipeline.tick(example.tick)
    result = pipeline.close()
    return result.findings, pipeline.heard()


def _check(rules: Rules, signature: Signature, example: Example) -> Iterable[str]:
    findings, heard = findings_of(rules, example)
    ids = [f.id for f in findings]
    if example.kind == "quiet":
        if signature.id in ids or (signature.role is not Role.CAUSE and signature.id in heard):
            yield f"{signature.id} fires, but must stay quiet"
        return
    if signature.role is not Role.CAUSE:
        if signature.id not in heard:
            yield f"{signature.id} does not match"
        return
    if signature.id not in ids:
        yield f"{signature.id} does not fire; instead: {', '.join(ids) or 'nothing'}"
        return
    run = findings[ids.index(signature.id)].run
    others = [f.id for f in findings if f.id != signature.id and f.run == run]
    if others:
        yield f"other causes fire too: {', '.join(others)}"
    finding = findings[ids.index(signature.id)]
    for name, expected in example.captures.items():
        value = expected.value if expected is not None else None
        if not _same(finding.captures.get(name), value):
            yield f"capture {name} is {finding.captures.get(name)!r}, not {value!r}"
    for number, wish in enumerate(example.fixes):
        if number >= len(finding.fixes):
            yield f"fix {number + 1} is missing; expected {dict(wish)}"
        else:
            yield from _check_fix(finding.fixes[number], wish, number + 1)


def _same(value: Any, expected: Any) -> bool:
    if isinstance(value, float) or isinstance(expected, float):
        return (
            value is not None
            and expected is not None
            and abs(float(value) - float(expected)) < 1e-9 * max(1.0, abs(float(expected)))
        )
    return bool(value == expected)


def _check_fix(fix: Fix, wish: Mapping[str, Any], number: int) -> Iterable[str]:
    for name, expected in wish.items():
        if name.startswith("-"):
            actual: Any = fix.flags.get(name)
        elif name == "remove":
            actual = list(fix.remove_flags)
            expected = [expected] if isinstance(expected, str) else list(expected)
        elif name in ("run", "script", "upgrade", "request", "title", "disposition"):
            actual = getattr(fix, name)
        else:
            actual = fix.env.get(name)
        if str(actual) != str(expected):
            yield f"fix {number} ({fix.title}): {name} is {actual!r}, not {expected!r}"

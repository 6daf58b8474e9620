"""Collects the gates of signatures: each literal with the signatures that a record holding it may match."""

from __future__ import annotations

from collections.abc import Iterable

from vlogdiag.signatures.types import Signature


def collect_gates(signatures: Iterable[Signature]) -> dict[str, tuple[Signature, ...]]:
    """Gate to signatures, for every pattern that must be looked for: lines, ends of silences, resets of sequences.

    A refinement without lines of its own has no gate: it is reached through its base.
    """
    found: dict[str, list[Signature]] = {}
    for signature in signatures:
        for gate in dict.fromkeys(pattern.gate for pattern in signature.patterns):
            found.setdefault(gate, []).append(signature)
    return {gate: tuple(owners) for gate, owners in found.items()}

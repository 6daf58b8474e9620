"""A signature as it is kept between starts: what a finding prints of it stays packed until one is printed.

Of five hundred rules a log concerns three; reading back the causes and remedies of the others cost more than the scan.
"""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

from vlogdiag.signatures.types import Signature

__all__ = ["Kept", "kept"]

PRINTED = ("title", "cause", "fixes", "ask", "corroborate", "known_bug", "references", "quiet_reason")


class _Packed:
    """Unpacks all of them when one is asked for; the instance's own values then hide this."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, signature: Any, owner: type | None = None) -> Any:
        if signature is None:
            return self
        values = signature.__dict__
        values.update(pickle.loads(values["packed"]))
        return values[self._name]


class Kept(Signature):
    """A `Signature` in all but its type."""


for _name in PRINTED:
    _packed = _Packed()
    _packed.__set_name__(Kept, _name)
    setattr(Kept, _name, _packed)


def kept(signature: Signature) -> Kept:
    """The signature without its examples, ready to be kept."""
    own = {field.name: getattr(signature, field.name) for field in fields(signature) if field.name != "examples"}
    packed = pickle.dumps({name: own.pop(name) for name in PRINTED}, protocol=5)
    found = object.__new__(Kept)
    found.__dict__.update(own, packed=packed)
    return found

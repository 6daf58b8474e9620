"""One line of text to everything in it that must not leave the machine, and what of it goes on in the next line."""

from __future__ import annotations

from typing import NamedTuple

from vlogdiag.snapshot.addresses import find_addresses
from vlogdiag.snapshot.credential_places import find_placed, find_told
from vlogdiag.snapshot.credential_shapes import SHORTEST, find_shapes
from vlogdiag.snapshot.credentials import find_named
from vlogdiag.snapshot.encoded import find_encoded
from vlogdiag.snapshot.hosts import find_hosts
from vlogdiag.snapshot.people import find_people
from vlogdiag.snapshot.prompts import find_prompts
from vlogdiag.snapshot.quoting import wrapped
from vlogdiag.snapshot.spans import Span


class Detected(NamedTuple):
    """What one line holds."""

    spans: list[Span]
    open: str | None
    """Kind of a text that goes on in the next line: 'private-key', 'prompt' or 'output'."""
    pending: str | None
    """The line ends in a flag or in the name of a pair, whose value must be on the next line (`credentials.Found`)."""


def detect(line: str, *, keep_prompts: bool) -> Detected:
    """Run every detector over a line without terminal escapes."""
    inside_json = wrapped(line)
    lowered = line.lower()
    longest = max(map(len, line.split()), default=0)
    spans: list[Span] = []
    pending: str | None = None
    if _may_name(lowered):
        named = find_named(line, inside_json)
        spans += named.spans
        spans += find_told(line)
        pending = named.pending
    spans += find_placed(line, lowered)
    if longest >= SHORTEST:
        spans += find_shapes(line)
    encoded = find_encoded(line, longest)
    spans += encoded.spans
    spans += find_people(line, lowered)
    spans += find_addresses(line, lowered)
    spans += find_hosts(line, lowered)
    going_on = "private-key" if encoded.key_open else None
    if not keep_prompts:
        prompts = find_prompts(line, inside_json)
        spans += prompts.spans
        going_on = going_on or prompts.open
    return Detected(spans, going_on, pending)


def _may_name(lowered: str) -> bool:
    """False only if no name of a secret stands in the line; spelled out, since it runs for every line."""
    return (
        "key" in lowered or "token" in lowered or "secret" in lowered or "pass" in lowered or "pw" in lowered
        or "_pat" in lowered or "-pat" in lowered
        or "auth" in lowered or "cookie" in lowered or "credential" in lowered or "dsn" in lowered
        or "webhook" in lowered or "connection" in lowered
    )  # fmt: skip

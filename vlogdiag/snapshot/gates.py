"""Says cheaply of a line that nothing in it needs a closer look, so that a log of gigabytes is cleaned in minutes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from vlogdiag.snapshot.credential_shapes import SHAPES
from vlogdiag.snapshot.spans import START

hyperscan: Any
try:
    import hyperscan
except ImportError:  # no wheel for this platform: every line gets the closer look
    hyperscan = None

_LOOKAHEAD = re.compile(r"\(\?[=!][^()]*\)")

GATES: tuple[str, ...] = (
    # names of secrets
    r"key|secret|pass|pwd|[-_]pw|[-_]pat(?:[^a-z]|$)|auth|cookie|credential|dsn|webhook|connection_?string",
    r"token(?:[^si]|$)",
    r"tokens\\*[\"'`]?\s*[:=]",
    # secrets with a place of their own
    r"[?&;][\w.%-]{2,40}=",
    r"@|://",
    r"bearer|basic [a-z0-9+/]{8}|hook|telegram",
    r"curl|mysql|mariadb|redis-cli",
    # people
    r"home|users|user|logname|login|owner|account",
    r"id=\d+\(|su: |su\[|sudo",
    # addresses
    r"\d\.\d{1,3}\.\d{1,3}\.\d",
    r"(?:[23f][0-9a-f]{3}|64):[0-9a-f:.]*:|::ffff:|(?:[0-9a-f]{1,4}:){7}",
    r"(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}",
    # machines
    r"(?:host|node|addr|address|name|machine|fqdn|server|ip)\\*[\"']?\s{0,4}[=:]",
    r"--[\w-]*(?:host|node|addr|address|name|machine|fqdn|ip)\s",
    r"to host|resolv|unknown host|hostname|getaddrinfo|not known|associated with|on host|on node|from host|from node",
    r"ssh",
    r"[a-z]{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[t ]\d\d:\d\d:\d\d[^ ]* [a-z+-]|<\d{1,3}>1 ",
    r":\d{1,9}:\d{1,9} \[\d",
    r"\.(?:internal|local|lan|corp|intranet|localdomain|invalid|com|net|org|edu|gov|cn|eu|co\.[a-z]{2})(?:\W|$)",
    r"(?:ip|ec2|host|node|vm)-\d{1,3}-\d{1,3}-\d",
    r"serial",
    # contents
    r"-----begin |base64,|[a-z0-9+/]{60}",
    r"(?:t|s|ing|ion|y|al)\\*[\"']?\s{0,4}[:=]\s{0,4}(?:\[\s{0,4})?[bfr]?\\*[\"']",
    r"(?:ids|prompt)\\*[\"']?\s{0,4}[:=]",
    *(_LOOKAHEAD.sub("", pattern.pattern.removeprefix(START)) for _, pattern in SHAPES),
)
"""One of these is found in every line that a detector finds something in (case never matters)."""


@lru_cache(maxsize=1)
def make_gate() -> Callable[[str], bool]:
    """A function that is False only for lines in which no detector can find anything."""
    if hyperscan is None:
        return lambda line: True
    database = hyperscan.Database()
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL
    database.compile(expressions=[gate.encode() for gate in GATES], flags=[flags] * len(GATES))
    hits: list[int] = []

    def found(number: int, start: int, end: int, flags: int, context: object) -> None:
        hits.append(number)

    def gate(line: str) -> bool:
        hits.clear()
        database.scan(line.encode("utf-8", "surrogatepass"), match_event_handler=found)
        return bool(hits)

    return gate

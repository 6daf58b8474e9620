"""Finds encoded matter in a line of text: private keys, data URLs (pictures), long base64."""

from __future__ import annotations

import re
from typing import NamedTuple

import regex

from vlogdiag.snapshot.spans import TIMEOUT, Span

_DATA_URL = regex.compile(
    r"data:(?P<type>[\w.+-]{1,40}/[\w.+-]{1,80})?(?:;[\w.+-]{1,40}=[\w.+-]{1,60}){0,4};base64,(?P<data>[A-Za-z0-9+/=_%-]*)"
)
_BASE64 = regex.compile(r"(?<![A-Za-z0-9+/=])(?!(?<=_)Z)[A-Za-z0-9+/]{60,}={0,2}(?:\\n[A-Za-z0-9+/]{20,}={0,2})*")
"""`_ZN3c10…` is a name of C++."""
_LONG_RUN = re.compile(r"[A-Za-z0-9+/]{60}")
SHORTEST_RUN = 60

KEY_BEGIN = regex.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
KEY_END = regex.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = regex.compile(r"(?:[A-Za-z0-9+/=\s:,-]|\\+[nrt])*")
_ESCAPES = regex.compile(r"\\+[nrt]")


class Encoded(NamedTuple):
    """What a line holds, and whether a private key goes on in the next line."""

    spans: list[Span]
    key_open: bool


def find_encoded(line: str, longest: int) -> Encoded:
    """Private keys, data URLs and long base64; `longest` is the length of the line's longest word."""
    spans: list[Span] = []
    key_open = "-----BEGIN " in line and _private_keys(line, spans)
    if "base64," in line:
        for match in _DATA_URL.finditer(line, timeout=TIMEOUT):
            kind = "image" if (match["type"] or "").startswith("image/") else "data"
            if match["data"]:
                spans.append(Span(*match.span("data"), kind))
    if longest >= SHORTEST_RUN and _LONG_RUN.search(line):
        spans += (Span(*m.span(), "data") for m in _BASE64.finditer(line, timeout=TIMEOUT) if _looks_encoded(m[0]))
    return Encoded(spans, key_open)


def _looks_encoded(run: str) -> bool:
    """True for a long run of base64: no hexadecimal digest, no path."""
    bare = run.rstrip("=")
    if bare.count("/") > len(bare) / 8:
        return False
    upper = sum("A" <= c <= "Z" for c in bare)
    lower = sum("a" <= c <= "z" for c in bare)
    digits = sum("0" <= c <= "9" for c in bare)
    share = len(bare) / 20
    return upper > share and lower > share and digits > share / 2 and len(set(bare)) > 16


def _private_keys(line: str, spans: list[Span]) -> bool:
    for match in KEY_BEGIN.finditer(line, timeout=TIMEOUT):
        finish = KEY_END.search(line, match.end(), timeout=TIMEOUT)
        if finish is not None:
            end = finish.start()  # whatever stands between the marks
        else:
            body = _KEY_BODY.match(line, match.end(), timeout=TIMEOUT)
            assert body is not None  # it may be empty
            end = body.end()
        if any(c.isalnum() for c in _ESCAPES.sub("", line[match.end() : end])):
            spans.append(Span(match.end(), end, "private-key"))
        if finish is None:
            return True
    return False

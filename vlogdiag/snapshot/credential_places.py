"""Finds keys, tokens and passwords in a line of text by the place where they stand: URLs, headers, sentences."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

import regex

from vlogdiag.snapshot.credential_names import kind_of_name
from vlogdiag.snapshot.credentials import harmless, looks_random, squeezed
from vlogdiag.snapshot.spans import START, TIMEOUT, Span, words

_BEARER = regex.compile(START + r"(?i:bearer)(?:\s|%20|\+){1,4}(?P<value>[A-Za-z0-9._~+/=\-]{6,4096})")
_NOT_BEARER = words(
    "token tokens auth authentication authorization scheme header headers format prefix credentials realm"
)
_BASIC = regex.compile(START + r"(?i:basic) {1,4}(?P<value>[A-Za-z0-9+/]{8,512}={0,2})")
_PROSE = regex.compile(
    r"(?i:\b(?:api[ _-]?key|token|password|secret|credentials?)\s{1,4}(?:\w{1,12}\s){0,2}?"
    r"(?:provided|given|used|is|was|value|supplied|set to|to)\s{0,4}[:=]?\s{0,4}[\"'`]?"
    r"(?P<value>[A-Za-z0-9._~+/=*-]{8,512}))"
)
_QUERY = regex.compile(r"[?&;](?P<name>[\w.%-]{2,40})=(?P<value>[^&#;\s\"'<>\\]{1,4096})")
_QUERY_NAMES = words(
    "key sig signature sign code ticket session sid sessionid jwt auth pass passwd pwd password secret xamzsignature "
    "xamzcredential xamzsecuritytoken xgoogsignature xgoogcredential awsaccesskeyid googleaccessid"
)
_USERINFO = regex.compile(r"://(?P<info>[^\s/\"'<>@]{1,200}(?:@[^\s/\"'<>@]{0,100}){0,3})@(?=[\w\[<])")
_BARE_USERINFO = regex.compile(
    START + r"(?P<info>[A-Za-z][\w.-]{0,63}:[^\s:@/\"'<>,()]{3,128})@[A-Za-z0-9][\w.-]{0,200}(?::\d{2,5}\b|/)"
)
_PUBLIC_USERS = words("git oauth2 x-access-token __token__ token user root")
_HOOKS = regex.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/|/bot/v2/hook/"
    r"|api\.telegram\.org/bot|office\.com/webhookb?2?/)(?P<value>[\w/:@-]{8,300})"
)


def find_placed(line: str, lowered: str) -> Iterator[Span]:
    """Every secret that its place gives away; `lowered` is the line in lower case."""
    if "=" in line and ("?" in line or "&" in line):
        yield from _in_queries(line)
    if "@" in line:
        yield from _in_addresses(line)
    if "bearer" in lowered:
        for match in _BEARER.finditer(line, timeout=TIMEOUT):
            if match["value"].lower().strip(".=") not in _NOT_BEARER:
                yield Span(*match.span("value"), "token")
    if "basic" in lowered:
        for match in _BASIC.finditer(line, timeout=TIMEOUT):
            if _is_user_and_password(match["value"]):
                yield Span(*match.span("value"), "password")
    if "hook" in lowered or "telegram" in lowered:
        yield from (Span(*match.span("value"), "token") for match in _HOOKS.finditer(line, timeout=TIMEOUT))


def find_told(line: str) -> Iterator[Span]:
    """Secrets that a sentence names: `Incorrect API key provided: …`."""
    for match in _PROSE.finditer(line, timeout=TIMEOUT):
        if looks_random(match["value"]):
            yield Span(*match.span("value"), "token")


def _in_queries(line: str) -> Iterator[Span]:
    for match in _QUERY.finditer(line, timeout=TIMEOUT):
        name = match["name"]
        kind = "token" if squeezed(name) in _QUERY_NAMES else kind_of_name(name)
        if kind and not harmless(match["value"], "token", name):
            yield Span(*match.span("value"), "password" if kind == "password" else "token")


def _in_addresses(line: str) -> Iterator[Span]:
    for pattern in (_USERINFO, _BARE_USERINFO):
        for match in pattern.finditer(line, timeout=TIMEOUT):
            start, end = match.span("info")
            user, colon, password = match["info"].partition(":")
            if not colon and looks_random(user) and len(user) >= 16:
                yield Span(start, end, "token")
            elif user and user not in _PUBLIC_USERS:
                yield Span(start, start + len(user), "user")
            if password:
                yield Span(start + len(user) + 1, end, "password")


def _is_user_and_password(value: str) -> bool:
    """True for base64 that decodes to `user:password`."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and decoded.isascii()

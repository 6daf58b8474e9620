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
_REFUSED = regex.compile(
    r"(?i:\b(?:invalid|incorrect|wrong|unknown|bad|expired|revoked|unauthorized|rejected)\s{1,4}(?:\w{1,12}\s){0,1}?"
    r"(?:api[ _-]?key|access[ _-]?key|token|password|secret|credentials?)\s{0,4}[:=]\s{0,4})(?P<quote>[\"'`]?)"
    r"(?P<value>[A-Za-z0-9._~+/=*!@#$%^&-]{4,512})(?P<rest>[\"'`.,;)\]}\\]{0,4}$)?"
)
_QUOTED = regex.compile(
    r"(?i:\b(?P<name>api[ _-]?key|access[ _-]?key|token|password|secret)\s{1,4})"
    r"\\{0,3}[\"'`](?P<value>[^\s\"'`\\]{4,512})[\\\"'`]"
)
_NETRC = regex.compile(
    r"(?:\bmachine\s{1,8}\S{1,200}\s{1,8}|\bdefault\s{1,8}|^\s{0,40})login\s{1,8}(?P<user>[^\s:=]{1,64})\s{1,8}"
    r"(?:account\s{1,8}\S{1,64}\s{1,8})?password\s{1,8}(?P<value>[^\s\"']{1,256})"
)
_BY = words("with by via using and or failed without requires needs")
"""Words between `login` and `password` in a sentence."""
_COMMAND = regex.compile(
    r"(?<![\w.-])(?:(?P<user>curl)|(?P<password>sshpass|(?:docker|podman|nerdctl|helm|oras|buildah|skopeo|crane)"
    r"\s{1,4}(?:registry\s{1,4})?login)|(?P<glued>mysql(?:dump|admin|import|show)?|mariadb(?:-\w{1,12})?)"
    r"|(?P<auth>redis-cli))(?=\s)"
)
_OPTIONS = {
    "user": regex.compile(r"\s(?:-u\s{0,4}|--user[ =])[\"']?(?P<name>[^\s:\"'/]{0,64}):(?P<value>[^\s\"']{1,256})"),
    "password": regex.compile(r"\s-p\s{0,4}=?[\"']?(?P<value>[^\s\"']{1,256})"),
    "glued": regex.compile(r"\s-p[\"']?(?P<value>[^\s\"']{1,256})"),
    "auth": regex.compile(r"\s-a\s{1,4}[\"']?(?P<value>[^\s\"']{1,256})"),
}
"""Of well-known programs: the option that takes a password without saying so."""
FAR = 400
"""Characters behind a program's name in which its option is looked for."""
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
    if any(name in lowered for name in ("curl", "sshpass", "login", "mysql", "mariadb", "redis-cli")):
        yield from _in_commands(line)
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
    for match in _REFUSED.finditer(line, timeout=TIMEOUT):
        value = match["value"]
        if (match["quote"] or match["rest"] is not None or looks_random(value)) and not harmless(value, "token", "key"):
            yield Span(*match.span("value"), "token")
    for match in _QUOTED.finditer(line, timeout=TIMEOUT):
        value, name = match["value"], match["name"].lower()
        told = looks_random(value) or (name != "token" and kind_of_name(value) is None)
        if told and not harmless(value, "token", name):
            yield Span(*match.span("value"), "password" if name == "password" else "token")


def _in_commands(line: str) -> Iterator[Span]:
    """Passwords on the command lines of other programs, and in a netrc file."""
    for match in _COMMAND.finditer(line, timeout=TIMEOUT):
        kind = match.lastgroup or ""
        found = _OPTIONS[kind].search(line, match.end(), match.end() + FAR, timeout=TIMEOUT)
        if found is None or harmless(found["value"], "password", kind):
            continue
        if kind == "user" and found["name"]:
            yield Span(*found.span("name"), "user")
        yield Span(*found.span("value"), "password")
    for match in _NETRC.finditer(line, timeout=TIMEOUT):
        if match["user"] not in _BY and not harmless(match["value"], "password", "password"):
            yield Span(*match.span("value"), "password")


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

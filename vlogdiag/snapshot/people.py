"""Finds people in a line of text: user names, home folders, e-mail addresses."""

from __future__ import annotations

from collections.abc import Iterator

import regex

from vlogdiag.snapshot.spans import START, TIMEOUT, Span, words

_HOME = regex.compile(
    r"(?:(?:/|%2[fF])(?:home|Users|users)(?:/|%2[fF])|[A-Za-z]:\\{1,8}Users\\{1,8})"
    r"(?P<name>[^/\\\s\"'<>:,;()\[\]{}&?|=*`%!$]{1,64})"
)
_KEY = regex.compile(
    START + r"(?<!-)(?P<key>(?:--)?(?i:user(?:[-_]?name)?|logname|sudo_user|login|owner|account_name))"
    r"(?:\\*[\"']?\s{0,4}[:=]\s{0,4}|(?<=--\w{0,20})\s)(?:b?\\*[\"'])?(?P<name>[A-Za-z0-9_][\w.@+-]{0,63})(?![\w(])"
)
_ID = regex.compile(r"\d{1,10}\((?P<name>[A-Za-z_][\w.-]{0,31})\)")
"""As `id` prints it: `uid=1000(alice)`."""
_SENTENCE = regex.compile(
    START + r"(?:(?:for|as|by|of|invalid) user {1,2}(?P<name>[A-Za-z_][\w.-]{0,31})(?=\(| from | by | to |[.,;:]?$)"
    r"|[Uu]ser(?:name)? {1,2}\\*[\"'`](?P<name>[A-Za-z_][\w.-]{0,31})(?=\\*[\"'`])"
    r"|(?:su|sudo)(?:\[\d+\])?: {1,4}(?P<name>[A-Za-z_][\w.-]{0,31})(?= : ))"
)
_SHELL = regex.compile(
    START + r"(?<![_/.@+-])(?P<user>[A-Za-z_][\w.-]{0,31})@(?P<host>[A-Za-z0-9][\w.-]{0,62})"
    r"(?=:[~/]| [~/][^\]\s]{0,80}\][$#])"
)
"""A shell's prompt, `alice@gpubox:~$` or `[alice@gpubox ~]$`, and what scp takes."""
_EMAIL = regex.compile(
    r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![\w-])"
)
_IN_USERINFO = regex.compile(r"://[^\s/\"']{0,240}$")
_MATRIX_PRODUCT = regex.compile(r"git@.*|.*@(?:self|torch|np|x|k|v|w|q|weight|shape)\..*")

NOBODY = words("""
    root none null true false user assistant system tool developer function nobody default public shared all users str
    string id name defaults unknown
    """)
"""What stands where a user's name may stand without being one."""
_CODE = ("<", "self.", "args.", "os.", "getpass.")


def find_people(line: str, lowered: str) -> Iterator[Span]:
    """Every user name and e-mail address of the line, and the host beside a user; `lowered` is in lower case."""
    if "home" in lowered or "users" in lowered:
        yield from _users(_HOME, line)
    if "user" in lowered or "login" in lowered or "owner" in lowered or "account" in lowered or "logname" in lowered:
        yield from _users(_KEY, line)
    if "id=" in lowered and "(" in line:
        yield from _users(_ID, line)
    if "user" in lowered or "su: " in lowered or "sudo" in lowered or "su[" in lowered:
        yield from _users(_SENTENCE, line)
    if "@" in line:
        for match in _SHELL.finditer(line, timeout=TIMEOUT):
            if match["user"] == "git":
                continue
            yield from (Span(*match.span(kind), kind) for kind in ("user", "host") if match[kind] != "root")
        yield from _emails(line)


def _users(pattern: regex.Pattern[str], line: str) -> Iterator[Span]:
    for match in pattern.finditer(line, timeout=TIMEOUT):
        name = match["name"].rstrip(".")
        if name.lower() in NOBODY or name.isdigit() or name.startswith(_CODE):
            continue
        yield Span(match.start("name"), match.start("name") + len(name), "user")


def _emails(line: str) -> Iterator[Span]:
    for match in _EMAIL.finditer(line, timeout=TIMEOUT):
        start = match.start()
        if start and line[start - 1] == "\\" and line[start] in "nrt":
            start += 1
        if _IN_USERINFO.search(line, max(0, start - 260), start, timeout=TIMEOUT):
            continue  # `https://user:password@host`: credential_places.py takes it apart
        if not _MATRIX_PRODUCT.fullmatch(line, start, match.end(), timeout=TIMEOUT):
            yield Span(start, match.end(), "email")

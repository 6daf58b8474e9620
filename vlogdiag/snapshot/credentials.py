"""Finds keys, tokens and passwords in a line of text by the name that stands before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import regex

from vlogdiag.snapshot.credential_names import kind_of_name
from vlogdiag.snapshot.quoting import closing
from vlogdiag.snapshot.spans import TIMEOUT, Span, words

_WORD = regex.compile(
    r"(?i:key|token|secret|passw|passphrase|[-_]pass\b|pwd|[-_]pw\b|[-_]pat\b|authori[sz]ation|cookie|credential|[-_]auth\b"
    r"|connection_?string|dsn|webhook)"
)

_SIGN = regex.compile(
    r"""(?:\\*["'`])?\]?\s{0,8}(?P<sign>=>|:=|[=!]?=|:|%3[DdAa])\s{0,8}
        (?:(?:[\w.]{0,20}[Ss]tr|bytes|(?:Optional|Union|list|List)\[[^\]=]{0,40}\])(?:\s?\|\s?None)?\s{0,4}=\s{0,4})?""",
    regex.X,
)
"""Between a name and its value: an equals sign or a colon, quotes before and after, perhaps a type in between."""
_LIST = regex.compile(r"\\*[\"']\s{0,4},\s{0,4}(?=b?\\*[\"'])")
_BLANK = regex.compile(r"[ \t]{1,8}(?=\S)")
_OPENING = regex.compile(r"(?:[\w.]{0,24}Secret\w{0,12}\()?(?P<many>[\[({]?)\s{0,4}(?:b?(?P<quote>\\*[\"']))?")
_KEYED = regex.compile(r"\s{0,4}:\s{0,4}b?(?P<quote>\\*[\"'])")
_PAIR = regex.compile(r"(?:\\*[\"'])?\s{0,4},\s{0,4}(?:\\*[\"'])?(?i:value)(?:\\*[\"'])?\s{0,4}[:=]\s{0,4}")
"""`"name": "HF_TOKEN", "value": …`: what stands between the name and its value."""
_NAMES_A_PAIR = regex.compile(r"\b(?i:name|key)(?:\\*[\"'])?\s{0,4}[:=]\s{0,4}(?:\\*[\"'])?$")
_VALUE_BEFORE = regex.compile(
    r"(?i:value)(?:\\*[\"'])?\s{0,4}[:=]\s{0,4}(?:\\*[\"'])?(?P<value>[^\s\"'\\,]{1,256})(?:\\*[\"'])?\s{0,4},\s{0,4}(?:\\*[\"'])?"
    r"(?i:name|key)(?:\\*[\"'])?\s{0,4}[:=]\s{0,4}(?:\\*[\"'])?$"
)
BEFORE = 320
"""Characters before a name in which the value of a pair may stand."""
_PAIRS_VALUE = regex.compile(r"(?:^|[\s{\"'\\])value(?:\\*[\"'])?\s{0,4}[:=]\s{0,4}")
_SETTER = regex.compile(r"(?:^|[\s\"'`;&(/])(?:ENV|setx|setenv|set -[a-zA-Z]{1,4})\s{1,4}$")
"""Words behind which a variable's value follows its name without a sign: Dockerfile, Windows, csh, fish."""
_BRACKET = regex.compile(r"[(\[]\s{0,2}[bu]?\\*[\"']$")
_PAIR_ENDS = regex.compile(r"\\*[\"']\s{0,2}[)\]]")
_CONSTANT = regex.compile(r"(?i:none|null|nil|true|false)(?=[,;)\]}\s]|$)")
_NEXT = regex.compile(r"\s{0,4},\s{0,4}b?(?P<quote>\\*[\"'])")

_BARE = regex.compile(r"(?:[^\s\\\"'\x1b]|\\(?![nrtu\"'\\])|[\"'](?!\s|[,;:)\]}]|\\|$)|\\{2}(?![nrtu\"']))+")
_BARE_IN_JSON = regex.compile(r"(?:[^\s\\\"\x1b]|\\{2}(?![nrtu\"']))+")
# A password may hold any character; what looks like the escape of a line break may be part of it.
_BARE_PASSWORD = regex.compile(r"(?:[^\s\"'\x1b]|[\"'](?!\s|[,;:)\]}]|\\|$))+")
_BARE_PASSWORD_IN_JSON = regex.compile(r"(?:[^\s\\\"\x1b]|\\{2})+")
_REST_OF_HEADER = regex.compile(r"[^\"'\r\n\\]+")
_NEXT_ASSIGNMENT = regex.compile(r"[,;](?=(?:\\*[\"'])?[\w.-]{1,60}(?:\\*[\"'])?[:=])")
_SCHEME = regex.compile(r"(?i:bearer|basic|token|digest|negotiate|apikey|aws4-hmac-sha256)\s{1,4}")
_COLOUR_END = re.compile(r"\d{1,3}m")
_END_OF_FLAG = regex.compile(r"[\s\\\"',]*$")

_OPERATORS = words("| || & && ; > >> < 2>&1 \\")
_PROSE = words("""
    a an and are argument as at by can cannot does env environment flag for from has have if in into is it must not of
    on option or parameter required set should that the then to unless use used using value via was when which will with
    """)
"""Words that follow a flag's name in a sentence about it."""
_LOOSE = words("token secret credentials cookie auth")
"""Names that stand before a colon in sentences too: only a value that no person wrote counts."""

_NOTHING = regex.compile(
    r"(?i:none|null|nil|true|false|redacted|\*+|x{3,}|\.{2,}|…+|<[^<>]{0,80}>|\$\{?\w{1,80}\}?|\$\([^()]{0,80}\)"
    r"|%\(?\w{0,40}\)?s|\{\w{0,40}\})"
)
_WORDS = regex.compile(
    r"(?i:nan|yes|no|on|off|empty|unset|not[ _-]?set|n/a|undefined|hidden|masked|secret|token|str|string|bytes|int|bool"
    r"|float|object|any|optional|union|list|dict|self|-+)"
)
_TAG = regex.compile(r"<[|/]?[\w|\s-]{1,60}>|\[[A-Za-z_]{1,30}\]|AddedToken.*|</?s>")
_NUMBER = regex.compile(
    r"-?\d{1,9}(?:\.\d{1,9}){0,4}(?:\.?(?:rc|a|b|post|dev)\d{0,12})?[,.]?"
    r"|\d{1,9}(?:\.\d{1,9}){1,4}(?:\.?(?:rc|a|b|post|dev)\d{0,12})?\+[\w.]{1,24}"
    r"|\d{1,3}(?:,\d{3})+"
)
"""An amount or a version. Behind `7a` or `1b` only digits: a key may begin so (`7aTj9b48UCTp`)."""
_CODE = regex.compile(
    r"(?:self|cls|args|kwargs|os|config|cfg|settings|request|params|options|env|envs|parser|namespace)[.\[(].*"
    r"|[A-Za-z_][\w.]{0,60}\(.*\)?|lambda"
)


class Found(NamedTuple):
    """What a line holds, and what of it must go on in the next line."""

    spans: list[Span]
    pending: str | None
    """'word': the last word was a flag; 'pair': it was the name of a pair, whose value is on the next line."""


def find_named(line: str, inside_json: bool) -> Found:
    """Every value behind the name of a secret; `inside_json` says that the line is a JSON object as a whole."""
    spans: list[Span] = []
    done = 0
    for match in _WORD.finditer(line, timeout=TIMEOUT):
        if match.start() < done:
            continue
        start, done = _whole_name(line, match.start(), match.end())
        name = line[start:done]
        kind = kind_of_name(name)
        if kind is None:
            continue
        if name.startswith("-") and _END_OF_FLAG.match(line, done, timeout=TIMEOUT):
            return Found(spans, "word")
        if _END_OF_FLAG.match(line, done, timeout=TIMEOUT) and _NAMES_A_PAIR.search(line[max(0, start - 24) : start]):
            return Found(spans, "pair")
        reader = _Reader(line, name, kind, inside_json)
        for span in reader.values(start, done):
            spans.append(span)
            done = max(done, span.end)
    return Found(spans, None)


def find_pairs_value(line: str, inside_json: bool) -> Iterator[Span]:
    """The value of a pair whose name ended the line before (`value: …`)."""
    found = _PAIRS_VALUE.search(line, 0, 400, timeout=TIMEOUT)
    if found is not None:
        yield from _Reader(line, "value", "token", inside_json).values_at(found.end())


def looks_random(value: str) -> bool:
    """True for what a person would not have written as a word: letters with digits, mixed case, or very long."""
    if len(value) < 8:
        return False
    if any(c.isalpha() for c in value) and any(c.isdigit() for c in value):
        return True
    mixed = value not in (value.lower(), value.upper(), value.capitalize())
    return (len(value) >= 12 and mixed) or len(value) >= 24


def harmless(value: str, kind: str, name: str) -> bool:
    """True for what stands after a secret's name without being one: None, True, a special token, a variable."""
    bare = value.strip()
    if not bare or _NOTHING.fullmatch(bare, timeout=TIMEOUT):
        return True
    if squeezed(bare) == squeezed(name):  # token=token, [--api-key API_KEY]
        return True
    return kind == "token" and any(p.fullmatch(bare, timeout=TIMEOUT) for p in (_WORDS, _TAG, _NUMBER))


@lru_cache(maxsize=4096)
def squeezed(text: str) -> str:
    """Letters and digits only, in lower case: `X-Api-Key` and `x_api_key` are one."""
    return "".join(c for c in text.lower() if c.isalnum())


def _whole_name(line: str, start: int, end: int) -> tuple[int, int]:
    """The name around a hit, at most 80 characters either way; a `\\n` before it is an escape, not its first letter."""
    first = max(0, start - 80)
    while start > first and (line[start - 1].isalnum() or line[start - 1] in "_-"):
        start -= 1
    if start and line[start - 1] == "\\" and line[start] in "nrt" and start + 1 < end:
        start += 1
    colour = _COLOUR_END.match(line, start) if line[start - 1 : start] == "[" else None
    if colour is not None and colour.end() < end:
        start = colour.end()
    last = min(len(line), end + 80)
    while end < last and (line[end].isalnum() or line[end] in "_-" or line[end : end + 2].strip(".").isalpha()):
        end += 1
    return start, end


class _Reader:
    """Reads the values behind one name in one line."""

    def __init__(self, line: str, name: str, kind: str, inside_json: bool) -> None:
        self.line = line
        self.name = name
        self.header = kind in ("authorization", "cookie")
        self.kind = "token" if self.header else kind
        self.inside_json = inside_json

    def values(self, start: int, end: int) -> Iterator[Span]:
        """The values of the name that stands at `start` to `end`, by what stands behind it."""
        line = self.line
        sign = _SIGN.match(line, end, timeout=TIMEOUT)
        if sign is not None:
            query = line[start - 1 : start] in ("?", "&") and sign["sign"] == "="
            loose = sign["sign"] == ":" and self.name.lower() in _LOOSE
            yield from self._value(sign.end(), query=query, loose=loose)
            return
        pair = _PAIR.match(line, end, timeout=TIMEOUT)
        if pair is not None:
            yield from self._value(pair.end())
            return
        head = line[max(0, start - BEFORE) : start]
        if head[-1:] in ("'", '"', " ", ":") and (before := _VALUE_BEFORE.search(head, timeout=TIMEOUT)) is not None:
            if not harmless(before["value"], self.kind, self.name):
                at = start - len(head)
                yield Span(at + before.start("value"), at + before.end("value"), self.kind)
            return
        if _SETTER.search(head[-12:], timeout=TIMEOUT):
            yield from self._told_value(end)
            return
        flag = self.name.startswith("-")
        listed = _LIST.match(line, end, timeout=TIMEOUT)
        if listed is not None:  # argv as a list, or the header pairs of an ASGI scope
            paired = self.header or "api-key" in self.name.lower() or line[start - 2 : start] in ("b'", 'b"')
            if not (flag or paired) and _BRACKET.search(head[-6:], timeout=TIMEOUT):
                yield from self._second_of_two(listed.end())
            elif flag or paired:
                yield from (s for s in self._value(listed.end()) if not line.startswith("-", s.start))
        elif flag:
            yield from self._flag_values(end)

    def values_at(self, at: int) -> Iterator[Span]:
        """The values that begin at `at`."""
        yield from self._value(at)

    def _told_value(self, end: int) -> Iterator[Span]:
        """`ENV HF_TOKEN X`: what follows after a blank, unless a sentence goes on there."""
        if blank := _BLANK.match(self.line, end, timeout=TIMEOUT):
            spans = list(self._value(blank.end()))
            if spans and self.line[spans[0].start : spans[0].end].lower() not in _PROSE:
                yield from spans

    def _second_of_two(self, at: int) -> Iterator[Span]:
        """`('HF_TOKEN', 'X')`; in a longer list, or beside another variable's name, it is only a list of names."""
        for span in self._value(at):
            value = self.line[span.start : span.end]
            name = (value.isupper() and "_" in value) or kind_of_name(value) is not None
            told = self.name.isupper() or looks_random(value)
            if told and not name and _PAIR_ENDS.match(self.line, span.end, timeout=TIMEOUT):
                yield span

    def _flag_values(self, end: int) -> Iterator[Span]:
        """`--api-key X`, and the further keys that vLLM takes behind that flag (`--api-key X Y`)."""
        first = True
        while blank := _BLANK.match(self.line, end, timeout=TIMEOUT):
            if self.line.startswith("-", blank.end()):
                return
            spans = list(self._value(blank.end()))
            if not spans:
                return
            value = self.line[spans[0].start : spans[-1].end]
            if value in _OPERATORS or value.lower() in _PROSE:
                return
            if not first and ("/" in value or not looks_random(value)):
                return
            yield from spans
            first = False
            end = spans[-1].end
            while end < len(self.line) and self.line[end] in "\\\"'":
                end += 1

    def _value(self, at: int, *, query: bool = False, loose: bool = False) -> Iterator[Span]:
        line = self.line
        opening = _OPENING.match(line, at, timeout=TIMEOUT)
        assert opening is not None  # every part of the pattern is optional
        if opening["quote"] is None:
            start = opening.start("many") if self.kind == "password" else opening.end()
            yield from self._bare(start, query, loose)
            return
        quote = opening["quote"]
        start = opening.end()
        while True:
            end = closing(line, start, quote, self.inside_json)
            stop = len(line) if end is None else end
            keyed = _KEYED.match(line, stop + len(quote), timeout=TIMEOUT) if opening["many"] == "{" else None
            if keyed is not None:  # a table of secrets, each by its owner's name
                owner = line[start:stop]
                quote, start = keyed["quote"], keyed.end()
                end = closing(line, start, quote, self.inside_json)
                stop = len(line) if end is None else end
            scheme = _SCHEME.match(line, start, stop, timeout=TIMEOUT)
            first = scheme.end() if scheme else start
            secret = keyed is None or self._is_entry(owner, line[first:stop])
            if secret and not harmless(line[first:stop], self.kind, self.name):
                yield Span(first, stop, self.kind)
            if end is None or not opening["many"]:
                return
            following = _NEXT.match(line, stop + len(quote), timeout=TIMEOUT)
            if following is None:
                return
            quote, start = following["quote"], following.end()

    def _is_entry(self, owner: str, value: str) -> bool:
        """Whether an entry of a table under a secret's name is one: `credentials` may hold a type and a region too."""
        many = self.name.lower().endswith("s") and squeezed(self.name) != "credentials"
        return many or self.kind == "password" or kind_of_name(owner) is not None or looks_random(value)

    def _bare(self, at: int, query: bool, loose: bool) -> Iterator[Span]:
        """A value without quotes: up to a blank, and not further than the sentence, the query or the list goes."""
        scheme = _SCHEME.match(self.line, at, timeout=TIMEOUT)
        at = scheme.end() if scheme else at
        whole_header = self.header and not scheme
        if _CONSTANT.match(self.line, at, timeout=TIMEOUT):
            return
        run = self._pattern(whole_header).match(self.line, at, timeout=TIMEOUT)
        if run is None:
            return
        value = run[0]
        if whole_header and harmless(value.split(",", 1)[0], self.kind, self.name):
            return
        for mark in ("&", "#") if query else ("&&",):
            value = value.split(mark, 1)[0]
        # The next entry's name may lie beyond the quote that ends a bare value.
        cut = _NEXT_ASSIGNMENT.search(self.line, at, at + len(value) + 70, timeout=TIMEOUT)
        value = value[: cut.start() - at] if cut else value
        trimmed = value.rstrip(",;:)]}>`" if self.kind == "password" else ",;:.)]}>`'")
        if self.kind == "password" and value.endswith(")") and "(" in trimmed:
            trimmed = value
        if harmless(trimmed, self.kind, self.name) or (loose and not looks_random(trimmed)):
            return
        if self.kind == "token" and _CODE.fullmatch(trimmed, timeout=TIMEOUT):
            return
        yield Span(at, at + len(trimmed), self.kind)

    def _pattern(self, whole_header: bool) -> regex.Pattern[str]:
        if whole_header:
            return _REST_OF_HEADER
        if self.kind == "password":
            return _BARE_PASSWORD_IN_JSON if self.inside_json else _BARE_PASSWORD
        return _BARE_IN_JSON if self.inside_json else _BARE

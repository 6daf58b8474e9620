"""Follows a log line by line: what one opens (a private key, an unfinished prompt) stays hidden in the next ones."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from vlogdiag.log.headers import ESCAPES, parse_line
from vlogdiag.snapshot.credentials import find_pairs_value
from vlogdiag.snapshot.detect import detect
from vlogdiag.snapshot.encoded import KEY_END
from vlogdiag.snapshot.placeholders import PLACEHOLDER
from vlogdiag.snapshot.prompts import AFTER_TEXT
from vlogdiag.snapshot.quoting import wrapped
from vlogdiag.snapshot.spans import Span, settle

MAX_LINE = 1 << 20
"""Characters of a line that are looked at; the rest of a longer one is left out, and it says so."""
MAX_OPEN_LINES = 5_000
"""A text that never ends (its closing quote was cut off) stops hiding what follows after this many lines."""
MAX_KEY_LINES = 400
MAX_FOREIGN_LINES = 60
"""Lines of other speakers that may stand between the lines of one private key."""

_KEY_LINE = re.compile(r"[A-Za-z0-9+/]+={0,2}|(?:Proc-Type|DEK-Info|Comment|Version|Hash): .*")
_WORD_AT_END = re.compile(r"([^\s\"'\\,]+)[\s\"'\\,]*$")
_LINE_END = re.compile(r"[\r\n]*\Z")
_RECORD_KINDS = frozenset(["vllm", "json", "uvicorn", "glog", "nccl", "ray", "raylet", "gunicorn"])
"""Headers (`headers.py`) that begin a record of their own: they end a text that runs over several lines."""


class Stream:
    """The state of one log; `give` names a value's placeholder, `remembered` finds values that were seen before."""

    def __init__(
        self,
        give: Callable[[str, str], str],
        remembered: Callable[[str], Iterator[Span]],
        gate: Callable[[str], bool],
        *,
        keep_prompts: bool = False,
    ) -> None:
        self._give = give
        self._remembered = remembered
        self._gate = gate
        self._keep_prompts = keep_prompts
        self._open: str | None = None
        self._header = ""
        self._lines = 0
        self._foreign = 0
        self._pending: str | None = None

    def line(self, text: str) -> str:
        """The line without what must not leave the machine; its end (`\\n`, `\\r\\n` or none) is kept."""
        end = _LINE_END.search(text)
        assert end is not None  # the pattern matches an empty end too
        body, tail = text[: end.start()], text[end.start() :]
        rest = ""
        if len(body) > MAX_LINE:
            # Cut between words: half a key at the cut would no longer look like one.
            cut = max(body.rfind(" ", 0, MAX_LINE), body.rfind(",", 0, MAX_LINE), MAX_LINE - 4096)
            rest = self._give("line", body[cut:])
            body = body[:cut]
        try:
            return self._clean(body) + rest + tail
        except TimeoutError:
            return self._give("line", body) + rest + tail

    def _clean(self, body: str) -> str:
        bare, escapes = _without_escapes(body) if "\x1b" in body else (body, ())
        spans: list[Span] = []
        if self._pending:
            spans += _pending_value(bare) if self._pending == "word" else find_pairs_value(bare, wrapped(bare))
            self._pending = None
        others = self._continue(bare, spans) if self._open else True
        if others and self._gate(bare):
            found = detect(bare, keep_prompts=self._keep_prompts)
            spans += found.spans
            self._pending = found.pending
            if found.open and not self._open:
                self._open, self._lines, self._foreign = found.open, 0, 0
                self._header = parse_line(bare).key
        spans += self._remembered(bare)
        return self._put(body, bare, escapes, settle(spans, bare)) if spans else body

    def _continue(self, bare: str, spans: list[Span]) -> bool:
        """Hide what belongs to the text that is open; False says that there is nothing else in the line."""
        self._lines += 1
        if self._open == "private-key":
            return self._continue_key(bare, spans)
        parsed = parse_line(bare)
        another = parsed.kind in _RECORD_KINDS and parsed.key != self._header
        if another or self._lines > MAX_OPEN_LINES:
            self._open = None
            return True
        payload = parsed.text
        if not payload.strip():
            return False
        kind = self._open or "prompt"
        start = max(bare.rfind(payload), 0)  # a payload that JSON escaped is not found: then the whole line is hidden
        ends = [match.start() for match in AFTER_TEXT.finditer(bare, start)]
        if ends:
            self._open = None
        stop = ends[-1] if ends else len(bare.rstrip())
        if stop > start:
            spans.append(Span(start, stop, kind))
        return bool(ends)

    def _continue_key(self, bare: str, spans: list[Span]) -> bool:
        finish = KEY_END.search(bare)
        head = bare[: finish.start()] if finish else bare
        if finish or self._lines > MAX_KEY_LINES or self._foreign > MAX_FOREIGN_LINES:
            self._open = None
        parsed = parse_line(head)
        payload = parsed.text.strip()
        last = payload.split(" ")[-1]
        for text in (payload, last if parsed.kind in ("bare", "json") else ""):  # behind a header that we do not know
            if text and _KEY_LINE.fullmatch(text):
                at = head.rfind(text)
                spans.append(Span(at, at + len(text), "private-key") if at >= 0 else Span(0, len(head), "private-key"))
                return bool(finish)
        self._foreign += 1
        return True

    def _put(self, body: str, bare: str, escapes: tuple[tuple[int, int], ...], spans: list[Span]) -> str:
        """Placeholders for spans of `bare`, put into `body`, which has terminal escapes at the given offsets too."""
        offsets = [offset for offset, _ in escapes]
        totals = [0]
        for _, length in escapes:
            totals.append(totals[-1] + length)
        out: list[str] = []
        done = 0
        for start, end, kind in spans:
            around = PLACEHOLDER.finditer(bare, max(0, start - 80), end + 80)
            if any(match.start() <= start and end <= match.end() for match in around):
                continue  # text that was cleaned before: `<host-1>` holds no host
            first = start + totals[bisect_right(offsets, start)]
            last = end + totals[bisect_left(offsets, end)]
            out += (body[done:first], self._give(kind, bare[start:end]))
            done = last
        out.append(body[done:])
        return "".join(out)


def _without_escapes(body: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text without terminal escapes, and where (offset in it) how many characters of escapes stood."""
    parts: list[str] = []
    escapes: list[tuple[int, int]] = []
    done = length = 0
    for match in ESCAPES.finditer(body):
        parts.append(body[done : match.start()])
        length += match.start() - done
        escapes.append((length, match.end() - match.start()))
        done = match.end()
    parts.append(body[done:])
    return "".join(parts), tuple(escapes)


def _pending_value(bare: str) -> Iterator[Span]:
    """The value of a flag that stood at the end of the line before (a YAML list, a shell's continued line)."""
    word = _WORD_AT_END.search(bare)
    if word is not None and not word[1].startswith("--") and word[1] not in ("-", "|", "&&"):
        yield Span(*word.span(1), "token")

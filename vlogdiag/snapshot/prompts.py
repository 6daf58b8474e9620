"""Finds what people asked and models answered in a line of text: prompts, outputs, messages, lists of token ids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import regex

from vlogdiag.snapshot.quoting import closing
from vlogdiag.snapshot.spans import START, TIMEOUT, Span, words

# vLLM's entrypoints/logger.py prints "Received request %s: prompt: %r, params: …, prompt_token_ids: …" (0.4 to 0.10),
# "Request %s details: prompt: %r, prompt_token_ids: …" (DEBUG, 0.11 and later) and
# "Generated response %s%s: output: %r, output_token_ids: …, finish_reason: …" (0.10.1 and later).
_REQUEST = regex.compile(
    r"(?:Received request|Request|Generated response|Added request|Finished request|Aborted request)\b"
    r"[^'\"]{0,300}?\b(?P<key>prompt|output|inputs): ?"
)
AFTER_TEXT = regex.compile(
    r"[\"'],\s?(?:params|sampling[ _]params|pooling_params|prefix_pos|prompt_token_ids|prompt_embeds shape"
    r"|output_token_ids|finish_reason|lora_request|multi_modal_data|arrival_time): ?"
)
"""What vLLM prints behind a prompt or an output."""
_QUOTE = regex.compile(r"\\*[\"']")
_FOLLOWS = regex.compile(r"\\*[\"']?\s{0,2}(?:[,.)\]}]|$|\\+[nr]|\"|\r)")

_KEYED = regex.compile(
    START + r"(?<![_.-])(?P<key>prompt|output|output_text|generated_text|content|reasoning|reasoning_content|text"
    r"|delta_text|system_prompt|negative_prompt|user_prompt|prompt_text|input_text|input|inputs|completion|arguments"
    r"|instruction|instructions|query|question|refusal)"
    r"\\*[\"']?\s{0,4}[:=]\s{0,4}(?P<many>\[\s{0,4})?[bfr]?(?P<quote>\\*[\"'])"
)
_KEYED_GATE = re.compile(r"(?:t|s|ing|ion|y|al)\\{0,8}[\"']?\s{0,4}[:=]\s{0,4}(?:\[\s{0,4})?[bfr]?\\{0,8}[\"']")
_MORE = regex.compile(r"\\*[\"']?\s{0,4},\s{0,4}[bfr]?(?P<quote>\\*[\"'])")
_OUTPUTS = words(
    "output output_text generated_text reasoning reasoning_content delta_text completion arguments refusal"
)
_COMMON = words("input inputs output query question text instruction instructions arguments")
"""Words that programs use for other things too: they count where the key is quoted, as in JSON, or a field's name."""
_FIELD = regex.compile(r"[(,] ?")
_LOG_LINE = regex.compile(
    r"(?:\([^()]{1,60}\) ?)?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: {1,2}\d\d-\d\d \d\d:\d\d:\d\d|: {2,})"
    r"|Traceback \(most recent"
)
_PLAIN = regex.compile(
    r"(?:text|string|str|None|auto|json|image_url|audio|object|json_object|application/[\w.+-]+|text/[\w.+-]+)?"
)

_TOKEN_IDS = regex.compile(
    START + r"(?<!_)(?:prompt_token_ids|output_token_ids|token_ids|input_ids|new_token_ids|all_token_ids|all_ids"
    r"|output_ids|prompt_ids|input_token_ids|encoder_prompt_token_ids|spec_token_ids|sampled_token_ids"
    r"|draft_token_ids|prompt)\\*[\"']?\s{0,4}[:=]\s{0,4}"
    r"(?:array\('\w', ?|tensor\(|tuple\(|deque\()?(?P<ids>[\[(][\d\s,\[\]().-]+)"
)


class Prompts(NamedTuple):
    """What a line holds, and the kind of a text that goes on in the next line, if one does."""

    spans: list[Span]
    open: str | None


def find_prompts(line: str, inside_json: bool) -> Prompts:
    """Prompts, outputs, messages' contents and lists of token ids of one line."""
    spans: list[Span] = []
    opened = _texts(line, inside_json, spans) if _KEYED_GATE.search(line) else None
    if "_ids" in line or "prompt" in line:
        spans += _token_ids(line)
    return Prompts(spans, opened)


def _texts(line: str, inside_json: bool, spans: list[Span]) -> str | None:
    request = _REQUEST.search(line, timeout=TIMEOUT) if "equest" in line or "response" in line else None
    in_request = request is not None
    done = 0
    for match in _KEYED.finditer(line, timeout=TIMEOUT):
        if match.start() < done:
            continue
        if request is not None and request.start("key") <= match.start("key"):
            if request.start() >= done:  # else its words are quoted by somebody's prompt
                done, opened = _request_text(line, request, inside_json, spans)
                if opened:
                    return opened
            request = None
            if match.start() < done:
                continue
        found = list(_keyed_texts(line, match, inside_json, in_request))
        spans += found
        done = max([done, *(span.end for span in found)])
    return None


def _request_text(line: str, request: regex.Match[str], inside_json: bool, spans: list[Span]) -> tuple[int, str | None]:
    """Take the text of a request logger's line; the second value is its kind if it goes on in the next line."""
    kind = "output" if request["key"] == "output" else "prompt"
    quote = _QUOTE.match(line, request.end(), timeout=TIMEOUT)
    if quote is None:
        return request.end(), None
    end = _end_of_request_text(line, quote.end(), quote[0], inside_json)
    stop = len(line) if end is None else end
    if stop > quote.end():
        spans.append(Span(quote.end(), stop, kind))
    return stop, kind if end is None else None


def _end_of_request_text(line: str, start: int, quote: str, inside_json: bool) -> int | None:
    """By the quotes, or where they do not tell by what vLLM prints behind a text, the last time that it does."""
    end = closing(line, start, quote, inside_json)
    if end is not None and _FOLLOWS.match(line, end + len(quote), timeout=TIMEOUT):
        return end
    marks = [match.start() for match in AFTER_TEXT.finditer(line, start, timeout=TIMEOUT)]
    return marks[-1] if marks else end


def _keyed_texts(line: str, match: regex.Match[str], inside_json: bool, in_request: bool) -> Iterator[Span]:
    key = match["key"]
    quoted = line[match.start() - 1 : match.start()] in ("'", '"')
    if key in _COMMON and not quoted and not in_request:
        field = line[match.end("key") : match.end("key") + 1] == "="
        if not field or not _FIELD.search(line, max(0, match.start() - 2), match.start(), timeout=TIMEOUT):
            return
    kind = "output" if key in _OUTPUTS else "prompt"
    quote, start = match["quote"], match.end()
    while True:
        end = closing(line, start, quote, inside_json)
        stop = len(line) if end is None else end
        value = line[start:stop]
        if key in ("text", "content") and inside_json and _is_log_line(line, match.start(), value):
            return
        if not _PLAIN.fullmatch(value, timeout=TIMEOUT):
            yield Span(start, stop, kind)
        if end is None or not match["many"]:
            return
        following = _MORE.match(line, stop, timeout=TIMEOUT)
        if following is None:
            return
        quote, start = following["quote"], following.end()


def _is_log_line(line: str, key: int, value: str) -> bool:
    """True where a JSON formatter calls the log line itself "text" or "content": first key of the line's object."""
    brace = line.find("{")
    alone = brace == 0 or line[:brace].endswith((") ", " F ", " P ", "Z "))
    return alone and line[brace + 1 : key].strip() == '"' and bool(_LOG_LINE.match(value[:400], timeout=TIMEOUT))


def _token_ids(line: str) -> Iterator[Span]:
    for match in _TOKEN_IDS.finditer(line, timeout=TIMEOUT):
        text = match["ids"]
        end = max(text.rfind("]"), text.rfind(")"))
        body = text[:end] if end > 0 else text
        stripped = body.strip("[]() ,")
        if stripped:
            first = match.start("ids") + body.index(stripped)
            yield Span(first, first + len(stripped), "token-ids")

"""Decides where in the file a new word goes, with what in front of it, and what goes away with an old one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from vlogdiag.launch.command import LaunchCommand, NotCertain, Site, Word
from vlogdiag.launch.environment import Splice
from vlogdiag.launch.spelling import written

_LINE_BREAK = re.compile(r"([ \t]*\\)?\r?\n[ \t]*$")
_SEPARATOR = re.compile(r"[ \t]*,?(?:[ \t]*\\\r?\n)*\s*(?:-[ \t]+)?")
"""What stands between two words where no comment does: blanks, a continuation, a list's comma or dash."""
_HASH_COMMENT = re.compile(r"[ \t]*,?[ \t]+#[^\n]*")
_TRICK_COMMENT = re.compile(r"[ \t]+`[ \t]*#[^`\n]*`")
_INI_COMMENT = re.compile(r"[ \t]+[;#][^\n]*")


def delete(text: str, command: LaunchCommand, words: Sequence[Word]) -> list[Splice]:
    """Takes words out together with what separated them; comments stay."""
    splices = []
    for number in sorted({word.site for word in words}):
        site = command.sites[number]
        mine = [word for word in words if word.site == number]
        start, end = mine[0].start, mine[-1].end
        before = max((token_end for _, token_end in site.tokens if token_end <= start), default=None)
        after = min((token_start for token_start, _ in site.tokens if token_start >= end), default=None)
        if before is None and after is None and site.quoting in ("yaml item", "json item"):
            raise NotCertain(f"{mine[0].text} is all there is in its list; remove the list by hand")
        splices += [(*span, "") for span in _deleted_spans(text, site, start, end, before, after)]
    return splices


def _deleted_spans(
    text: str, site: Site, start: int, end: int, before: int | None, after: int | None
) -> list[tuple[int, int]]:
    """What goes with the words `text[start:end]`, which stand between the tokens that end and begin there."""
    lead = text[site.start if before is None else before : start]
    block = site.quoting == "yaml item" and text[:start].rstrip(" \t").endswith("-")
    comment = _comment(text, site, end, "\\" in lead)
    opens_line = "\n" in lead or (before is None and not text[text.rfind("\n", 0, start) + 1 : start].strip(" \t-"))
    if comment and opens_line:
        left = end + len(comment.group()) - len(comment.group().lstrip(" \t,"))
        return [(_dash(text, start) if block else start, left)]
    if after is not None and (before is None or (opens_line and not block and "\n" not in text[end:after])):
        return [(_dash(text, start), _dash(text, after)) if block else (start, after)]
    if _SEPARATOR.fullmatch(lead):
        return [(start if before is None else before, end)]
    # A comment stands before the words: it stays.
    if after is not None and _SEPARATOR.fullmatch(text[end:after]):
        return [(_dash(text, start), _dash(text, after)) if block else (start, after)]
    hit = _LINE_BREAK.search(lead) if "`" in lead else re.search(r"\r?\n[ \t-]*$", lead)
    spans = [(start - len(lead) + hit.start() if hit else start, end)]
    continued = re.match(r"[ \t]*\\(?=\r?\n)", lead)
    if after is None and before is not None and continued and "`" not in lead:
        spans.append((before, before + continued.end()))  # nothing follows any more, so the line must not go on
    return spans


def _comment(text: str, site: Site, end: int, continued: bool) -> re.Match[str] | None:
    """The comment behind a word on its line, where the format has such; `continued` lines of a shell know one trick."""
    if "supervisor" in site.layers:
        return _INI_COMMENT.match(text, end)
    if site.quoting == "yaml item" or (site.quoting == "shell" and not continued):
        return _HASH_COMMENT.match(text, end)
    return _TRICK_COMMENT.match(text, end) if site.quoting == "shell" else None


def _dash(text: str, start: int) -> int:
    """Where the `- ` of a block list's item begins."""
    return text.rindex("-", 0, start)


def append(text: str, command: LaunchCommand, new: Sequence[str]) -> Splice:
    """New words behind the last option that may be changed; behind everything where not all arguments are visible."""
    words = command.words[command.arguments_at :]
    hidden = max((k for k, word in enumerate(words) if word.opaque or command.sites[word.site].locked), default=-1)
    option = max((k for k, word in enumerate(words) if word.text.startswith("-")), default=-1)
    if option > hidden:
        number = words[option].site
    else:
        open_sites = [word.site for word in words[max(hidden, 0) :] if not command.sites[word.site].locked]
        number = open_sites[-1] if open_sites else 0
    site = command.sites[number]
    terminator = next((word for word in command.words if word.text == "--" and word.site == number), None)
    if terminator:
        raise NotCertain("the arguments end in '--'; a new option cannot be added behind it")
    at = max((end for _, end in site.tokens), default=site.end)
    gap = gap_before(text, site, at)
    inner = gap_before(text, site, None)
    model = ""
    if site.quoting == "yaml item":
        options = [text[a:b] for a, b in site.tokens if text[a:b].strip("\"'").startswith("-")]
        model = options[-1] if all(option[0] in "\"'" for option in options) and options else ""
    spelled = [written(site, word, model) for word in new]
    joined = gap + spelled[0] + "".join(inner + word for word in spelled[1:])
    if not site.tokens:
        joined = joined[len(gap) :]
    if "\n" in gap and (comment := _comment(text, site, at, "\\" in gap)):
        at = comment.end()
    return at, at, joined


def gap_before(text: str, site: Site, at: int | None) -> str:
    """What goes before a new word: a line of its own where options stand on theirs; `at` None: inside one option."""
    tokens = sorted(site.tokens)
    if site.quoting in ("yaml item", "json item"):
        return _list_gap(text, site, tokens)
    if at is None:
        return " "
    gaps = [(text[end:start], start) for (_, end), (start, _) in pairwise(tokens)]
    continues = any(re.search(r"\\\r?\n", gap) for gap, _ in gaps)
    breaks = [hit.group() for gap, start in gaps if text[start] in "-'\"\\" and (hit := _LINE_BREAK.search(gap))]
    opening = text[site.start : tokens[0][0]] if tokens else ""
    if not breaks and len(tokens) == 1 and opening.strip(" \t") == "\n":
        breaks = [opening.lstrip(" \t")]
    if not breaks:
        return " "
    # Behind a comment line the break that was found lacks the backslash that the line before the comment has.
    return " \\" + breaks[-1] if continues and "\\" not in breaks[-1] else breaks[-1]


def _list_gap(text: str, site: Site, tokens: Sequence[tuple[int, int]]) -> str:
    if tokens and site.quoting == "yaml item" and text[: tokens[-1][0]].rstrip(" \t").endswith("-"):
        dash = _dash(text, tokens[-1][0])
        line_start = text.rfind("\n", 0, dash) + 1
        newline = "\r\n" if "\r\n" in text else "\n"
        return newline + re.sub(r"[^ \t]", " ", text[line_start:dash]) + text[dash : tokens[-1][0]]
    for (_, end), (start, _) in reversed(list(pairwise(tokens))):
        between = text[end:start]
        if re.fullmatch(r"\s*,(\s|\\)*", between):
            return between
    return ", "

"""Carries out changes of a launch command in the text of its file, every other character kept."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from itertools import pairwise

from vlogdiag.catalog import Versions
from vlogdiag.launch.argv import WordChange, carry_out, plan, read_options
from vlogdiag.launch.command import Edits, LaunchCommand, NotCertain, Site, Word, position
from vlogdiag.launch.environment import Splice, environment_splices
from vlogdiag.launch.find import find_commands, the_command
from vlogdiag.launch.inset import spell
from vlogdiag.launch.quoting import quote_plainly, quote_word

_LINE_BREAK = re.compile(r"([ \t]*\\)?\r?\n[ \t]*$")
_SEPARATOR = re.compile(r"[ \t]*,?(?:[ \t]*\\\r?\n)*\s*(?:-[ \t]+)?")
"""What stands between two words where no comment does: blanks, a continuation, a list's comma or dash."""
_HASH_COMMENT = re.compile(r"[ \t]*,?[ \t]+#[^\n]*")
_TRICK_COMMENT = re.compile(r"[ \t]+`[ \t]*#[^`\n]*`")
_INI_COMMENT = re.compile(r"[ \t]+[;#][^\n]*")
_PLAIN_IN_DOUBLE = re.compile(r"[$`\\!']")
"""What a shell would still read inside double quotes, or what a single-quoted text around them cannot hold."""
_SPLITS_OR_GLOBS = re.compile(r"[\s*?\[\]\\]")


def apply(text: str, command: LaunchCommand, edits: Edits, versions: Versions | None = None) -> str:
    """`text` with the edits carried out in `command`, which was found in it.

    Raises NotCertain when the command is not certain, when a change would touch words that others use too, and when
    the result, read again, does not hold exactly the arguments that were meant.
    """
    expected = carry_out(command.known_arguments, _plan(command, edits, versions))
    done = _pass(text, command, edits, versions, appending=False)
    done = splice(done, environment_splices(the_command(find_commands(done, command.kind), done).env, edits))
    result = _pass(done, the_command(find_commands(done, command.kind), done), edits, versions, appending=True)
    _verify(result, command, expected, edits)
    return result


def _plan(command: LaunchCommand, edits: Edits, versions: Versions | None) -> tuple[WordChange, ...]:
    words = command.words[command.arguments_at :]
    locked = [command.sites[word.site].locked for word in words]
    return plan(command.known_arguments, edits, versions, lambda k: locked[k], _joins(command))


def _pass(text: str, command: LaunchCommand, edits: Edits, versions: Versions | None, appending: bool) -> str:
    """Changes and deletions first, what is added after them: where that goes depends on what is left."""
    if not command.certain:
        raise NotCertain(f"line {command.line}: {command.reason}")
    words = command.words[command.arguments_at :]
    splices: list[Splice] = []
    for change in _plan(command, edits, versions):
        if appending and change.start == len(words):
            splices.append(_append(text, command, change.words))
        elif not appending and change.start < len(words):
            splices += _splices(text, command, words, change)
    return splice(text, splices)


def splice(text: str, splices: Sequence[Splice]) -> str:
    """`text` with the pieces replaced; raises NotCertain when they overlap."""
    parts: list[str] = []
    done = 0
    for start, end, new in sorted(splices, key=lambda piece: (piece[0], piece[1])):
        if start < done:
            line, _ = position(text, start)
            raise NotCertain(f"the changes around line {line} overlap")
        parts += [text[done:start], new]
        done = end
    return "".join((*parts, text[done:]))


def unified_diff(old: str, new: str, name: str) -> str:
    """A unified diff that `patch` takes, with `name` on both sides; empty when nothing differs."""
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), name, name)
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def _joins(command: LaunchCommand) -> bool:
    """True when the file mostly writes `--flag=value`."""
    options = [word.text for word in command.words if word.text.startswith("--")]
    joined = sum("=" in text for text in options)
    return joined > len(options) - joined


def _verify(result: str, command: LaunchCommand, expected: tuple[str, ...], edits: Edits) -> None:
    """Reads the result again: the guard against every kind of quoting that was not thought of."""
    again = find_commands(result, command.kind)
    same = [other for other in again if other.certain and _meanings(other.known_arguments) == _meanings(expected)]
    if len(again) != 1 or not same:
        raise NotCertain(f"line {command.line}: the changed command would not be read as meant")
    variables = {entry.name: entry.value for entry in same[0].env.entries}
    wrong = [name for name, value in edits.env_set.items() if variables.get(name) != value]
    wrong += [name for name in edits.env_unset if name in variables]
    if wrong:
        raise NotCertain(f"line {command.line}: the changed file would not give the server {wrong[0]} as meant")


def _meanings(arguments: Sequence[str]) -> dict[str | None, list[tuple[str | None, tuple[str, ...]]]]:
    """Options by name, in order; where options of different names stand among each other does not matter."""
    meanings: dict[str | None, list[tuple[str | None, tuple[str, ...]]]] = {}
    for option in read_options(arguments):
        shown = option.name if option.values else option.flag  # `--x` and `--no-x` have one name
        meanings.setdefault(shown, []).append((option.dotted, tuple(_compact(value) for value in option.values)))
    return meanings


def _splices(text: str, command: LaunchCommand, words: Sequence[Word], change: WordChange) -> list[Splice]:
    old = words[change.start : change.end]
    locked = next((reason for word in old if (reason := command.sites[word.site].locked)), None)
    if locked:
        raise NotCertain(f"{old[0].text} cannot be changed: {locked}")
    pairs = list(zip(old, change.words, strict=False))
    splices = [_respell(text, command.sites[word.site], word, new) for word, new in pairs if word.known != new]
    splices += _delete(text, command, old[len(pairs) :])
    if change.words[len(pairs) :]:
        last = old[-1]
        site = command.sites[last.site]
        more = [_written(site, new) for new in change.words[len(pairs) :]]
        gap = _gap(text, site, None)
        splices.append((last.end, last.end, "".join(gap + word for word in more)))
    return splices


def _respell(text: str, site: Site, word: Word, new: str) -> Splice:
    """The word in its place, in its own quotes where that is possible; at the assignment of a variable of its own."""
    if word.source and word.source.editable:
        raw = text[word.source.start : word.source.end]
        own = Site("shell", word.source.layers)
        return word.source.start, word.source.end, _written(own, new, raw)
    flag, equals, value = new.partition("=")
    if equals and new.startswith("-") and word.raw.startswith(flag + "=") and site.quoting == "shell":
        return word.start, word.end, spell(flag + "=", site.layers) + _written(site, value, word.raw[len(flag) + 1 :])
    return (
        word.start,
        word.end,
        _written(site, new, text[word.start : word.end] if site.quoting == "yaml item" else word.raw),
    )


def _written(site: Site, new: str, raw: str = "") -> str:
    """A word as the site spells it; `raw` is the spelling it replaces, whose quotes are kept where they can be."""
    if "yaml plain" in site.layers and ": " in new:
        new = _compact(new)  # `{"image": 2}` would make a mapping of an unquoted YAML text
    match site.quoting:
        case "json item":
            return spell(json.dumps(new, ensure_ascii=False), site.layers)
        case "yaml item":
            return _yaml_item(spell(new, site.layers), raw)
        case "bare":
            return spell(_bare(new), site.layers)
        case "words":
            return spell(quote_plainly(new), site.layers)
        case "shell":
            if len(raw) > 1 and raw[0] == raw[-1] == '"' and not re.search(r'[$`"\\!]', new):
                return spell(f'"{new}"', site.layers)
            if len(raw) > 1 and raw[0] == raw[-1] == "'" and "'" not in new:
                return spell(f"'{new}'", site.layers)
            inside_single = any(layer in ("shell single quotes", "unit single quotes") for layer in site.layers)
            if inside_single and not _PLAIN_IN_DOUBLE.search(new) and quote_word(new) != new:
                return spell('"' + new.replace('"', '\\"') + '"', site.layers)
            return spell(quote_word(new), site.layers)


def _bare(new: str) -> str:
    """A word inside an unquoted variable: JSON without blanks passes, since quotes stay in it."""
    new = _compact(new) if _SPLITS_OR_GLOBS.search(new) else new
    if not new or _SPLITS_OR_GLOBS.search(new):
        raise NotCertain(f"{new!r} cannot be written inside an unquoted shell variable")
    return new


def _compact(text: str) -> str:
    """JSON without blanks; anything else as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return text


_YAML_PLAIN = re.compile(
    r"^(?!(?:true|false|yes|no|on|off|null|y|n|~)$)[A-Za-z/][A-Za-z0-9_./+%-]*(?:=[A-Za-z0-9_./+-]+)?$", re.IGNORECASE
)


def _yaml_item(new: str, raw: str) -> str:
    """A YAML string: in the quotes of what it replaces, else plain where nothing could take it for something else."""
    if raw.startswith("'") or (not raw.startswith('"') and '"' in new and "'" not in new):
        return "'" + new.replace("'", "''") + "'"
    if raw.startswith('"') or not (
        _YAML_PLAIN.match(new) or re.match(r"^--[a-z][a-z0-9.-]*(=[A-Za-z0-9_./+-]+)?$", new)
    ):
        return json.dumps(new, ensure_ascii=False)
    return new


def _delete(text: str, command: LaunchCommand, words: Sequence[Word]) -> list[Splice]:
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


def _append(text: str, command: LaunchCommand, new: Sequence[str]) -> Splice:
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
    gap = _gap(text, site, at)
    inner = _gap(text, site, None)
    model = ""
    if site.quoting == "yaml item":
        options = [text[a:b] for a, b in site.tokens if text[a:b].strip("\"'").startswith("-")]
        model = options[-1] if all(option[0] in "\"'" for option in options) and options else ""
    spelled = [_written(site, word, model) for word in new]
    joined = gap + spelled[0] + "".join(inner + word for word in spelled[1:])
    if not site.tokens:
        joined = joined[len(gap) :]
    if "\n" in gap and (comment := _comment(text, site, at, "\\" in gap)):
        at = comment.end()
    return at, at, joined


def _gap(text: str, site: Site, at: int | None) -> str:
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

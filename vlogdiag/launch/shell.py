"""Reads from a shell text the vLLM servers that it starts, every word with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from vlogdiag.launch.command import EnvPlace, Kind, LaunchCommand, Site, Source, Word, position
from vlogdiag.launch.container_env import container_environment
from vlogdiag.launch.entry import Found, Nested, find_entry
from vlogdiag.launch.inset import Inset, double_quoted, verbatim
from vlogdiag.launch.nesting import inside
from vlogdiag.launch.quoting import unquote
from vlogdiag.launch.shell_env import shell_environment
from vlogdiag.launch.shell_tree import Span, Tree, array_words, command_words, in_function, parse, unreadable
from vlogdiag.launch.shell_variables import assignments, self_reference, source

_ARRAY = re.compile(r'^"?\$\{(\w+)\[[@*]\]\}"?$')
_VARIABLE = re.compile(r'^"?\$(?:([A-Za-z_]\w*)|\{(\w+)\})"?$')
_MAX_DEPTH = 4
"""`ssh host "bash -c 'vllm serve …'"` is three; deeper nesting is not a launch script."""


@dataclass
class _Reading:
    """The words of one command while they are collected, with the places where they stand."""

    tree: Tree
    command: Node
    words: list[Word] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)

    def add_site(self, site: Site) -> int:
        self.sites.append(site)
        return len(self.sites) - 1


def read_shell(inset: Inset, kind: Kind = "shell", doubt: str | None = None, depth: int = 0) -> list[LaunchCommand]:
    """Every vLLM server that the text starts, in order; `doubt` is handed down from an uncertain outer layer."""
    if depth >= _MAX_DEPTH or "vllm" not in inset.text:
        return []
    tree = parse(inset)
    found: list[LaunchCommand] = []
    for node in tree.commands:
        reading = _read_words(tree, node)
        entry = find_entry(reading.words)
        if isinstance(entry, Nested):
            inner, inner_doubt = inside(inset, inset.starts.index(entry.word.start), entry.word.raw)
            found += read_shell(inner, kind, doubt or entry.doubt or inner_doubt, depth + 1)
        elif entry:
            found.append(_command(reading, entry, kind, doubt))
    return found


def _command(reading: _Reading, found: Found, kind: Kind, doubt: str | None) -> LaunchCommand:
    tree, node = reading.tree, reading.command
    function = in_function(tree, node)
    if function is not None:
        name = tree.text(function).split("(")[0].removeprefix("function").strip()
        doubt = doubt or f"it is built in the function {name}(), line {tree.line(function)}"
    broken, notes = _cut_off(tree, node)
    doubt = doubt or broken
    if unreadable(tree, node):
        doubt = doubt or f"the shell grammar cannot read the lines around line {tree.line(node)}"
    at = found.words[0].start if found.words else reading.sites[0].end
    line, column = position(tree.inset.document, at)
    return LaunchCommand(
        argv=tuple(word.text for word in found.words),
        line=line,
        column=column,
        kind=kind,
        entry=found.entry,
        certain=doubt is None and found.doubt is None,
        reason=doubt or found.doubt,
        image=found.image,
        arguments_at=found.arguments_at,
        words=found.words,
        sites=tuple(reading.sites),
        env=_environment(reading, found),
        notes=notes,
    )


def _environment(reading: _Reading, found: Found) -> EnvPlace:
    """Where the command's variables stand; a command that is an array has them at the line that spreads it."""
    tree = reading.tree
    if found.container:
        return container_environment(tree.inset.document, tree.inset.layers, found.before)
    own = [word for word in found.before if word.site == 0]
    first = found.words[0]
    if first.site != 0:
        first = Word("", *reading.sites[0].tokens[len(own)])
    return shell_environment(tree, reading.command, own, first)


def _cut_off(tree: Tree, node: Node) -> tuple[str | None, tuple[str, ...]]:
    """Options that look continued but are not: a doubt or a note.

    A comment line between continued lines ends the command; a backslash with a blank behind it is an argument.
    """
    whole_statement = node
    while (up := tree.parent(whole_statement)) and (up.end_byte == node.end_byte or up.type == "redirected_statement"):
        whole_statement = up
    end = tree.span(whole_statement)[1]
    text = tree.inset.text
    if hit := re.compile(r"[ \t]*\\[ \t]+(?=\r?\n|#)").match(text, end):
        return (
            f"the backslash at the end of line {tree.inset.line(end)} is followed by a blank, so it continues nothing",
            (),
        )
    hit = re.compile(r"[ \t]*\\?\r?\n(?P<comments>(?:[ \t]*#[^\n]*\n)*)[ \t]*(?=--?[A-Za-z])").match(text, end)
    if not hit:
        return None, ()
    lost = f"the options from line {tree.inset.line(hit.end())} on do not reach the server"
    if hit["comments"]:
        return None, (f"the comment in line {tree.inset.line(text.index('#', end))} ends the command: {lost}",)
    return None, (f"line {tree.inset.line(end)} is not continued: {lost}",)


def _read_words(tree: Tree, command: Node) -> _Reading:
    """The command's words; arrays and strings that the text gives one literal content are spread out in place."""
    reading = _Reading(tree, command)
    spans = command_words(tree, command)
    if not spans:
        return reading
    tokens = tuple(tree.inset.span(*span) for span in spans)
    reading.add_site(Site("shell", tree.inset.layers, tokens[0][0], tokens[-1][1], None, tokens))
    for span in spans:
        raw = tree.inset.text[slice(*span)]
        array, variable = _ARRAY.match(raw), _VARIABLE.match(raw)
        spread = None
        if array:
            spread = _spread_array(reading, array[1])
        elif variable and not raw.startswith('"') and not _is_one_value(_value_of(reading, variable)):
            spread = _spread_string(reading, variable[1] or variable[2])
        if spread is not None:
            reading.words += spread
            continue
        word = _word(tree, span, 0)
        if variable:
            word = replace(word, source=_value_of(reading, variable))
        reading.words.append(word)
    return reading


def _value_of(reading: _Reading, variable: re.Match[str]) -> Source | None:
    return source(reading.tree, reading.command, variable[1] or variable[2])


def _is_one_value(known: Source | None) -> bool:
    """True for the content of `$LEN`, false for that of `$ARGS`, though both are written without quotes."""
    return known is not None and not known.value.startswith("-") and len(known.value.split()) == 1


def _word(tree: Tree, span: Span, site: int) -> Word:
    raw = tree.inset.text[slice(*span)]
    plain = unquote(raw)
    start, end = tree.inset.span(*span)
    return Word(plain.text, start, end, site, plain.literal, None, raw)


def _spread_string(reading: _Reading, name: str) -> list[Word] | None:
    """`$ARGS` without quotes, where ARGS is one literal string and what was appended to it."""
    parts = assignments(reading.tree, reading.command, name)
    if parts is None:
        return None
    tree = reading.tree
    words: list[Word] = []
    for node, locked in parts:
        value = node.children[-1]
        raw = tree.text(value)
        start, _ = tree.span(value)
        if value.type == "raw_string":
            inner = tree.inset.unwrap(start + 1, verbatim(raw[1:-1]), "shell single quotes")
        elif value.type == "string":
            inner = tree.inset.unwrap(start + 1, double_quoted(raw[1:-1]), "shell double quotes")
        elif value.type in ("word", "number"):
            inner = tree.inset.unwrap(start, verbatim(raw), None)
        else:
            return None
        if not inner.text or re.search(r"\$\(|`", inner.text):
            return None
        own = self_reference(name).match(inner.text)
        hits = list(re.compile(r"\S+").finditer(inner.text, own.end() if own else 0))
        used = hits[-1].end() if hits else len(inner.text)
        tokens = tuple(inner.span(*hit.span()) for hit in hits)
        site = reading.add_site(Site("bare", inner.layers, *inner.span(0, used), locked, tokens))
        for hit in hits:
            literal = value.type == "raw_string" or "$" not in hit.group()
            words.append(Word(hit.group(), *inner.span(*hit.span()), site, literal, None, hit.group()))
    return words


def _spread_array(reading: _Reading, name: str) -> list[Word] | None:
    """`"${ARGS[@]}"`, where ARGS is one literal array and what was appended to it."""
    parts = assignments(reading.tree, reading.command, name)
    if parts is None:
        return None
    tree = reading.tree
    words: list[Word] = []
    for node, locked in parts:
        array = node.children[-1]
        spans = array_words(tree, array) if array.type == "array" else None
        if spans is None:
            return None
        opening = tree.span(array)[0]
        start = tree.inset.ends[opening]
        tokens = tuple(tree.inset.span(*span) for span in spans)
        end = tokens[-1][1] if tokens else start
        site = reading.add_site(Site("shell", tree.inset.layers, start, end, locked, tokens))
        for span in spans:
            word = _word(tree, span, site)
            variable = _VARIABLE.match(word.raw)
            words.append(replace(word, source=_value_of(reading, variable)) if variable else word)
    return words

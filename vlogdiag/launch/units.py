"""Reads the vLLM servers that systemd units and supervisor sections start, every word with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from configparser import Error as ConfigError
from configparser import RawConfigParser
from dataclasses import dataclass

from vlogdiag.launch.build import Words, commands
from vlogdiag.launch.command import EnvEntry, EnvPlace, LaunchCommand, NotCertain
from vlogdiag.launch.inset import Inset, Piece, whole
from vlogdiag.launch.logical_lines import logical_lines
from vlogdiag.launch.quoting import split, unquote

_SETTING = re.compile(r"[ \t]*([A-Za-z][\w.-]*)[ \t]*=[ \t]*")
_EXEC_PREFIX = re.compile(r"[@:+!|-]*")
"""systemd.service: `-` ignores failures, `+` and `!` keep privileges, `@` names argv[0]."""
_PAIR = re.compile(r"""([A-Za-z_]\w*)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|'[^']*'|[^,\s]*)""")


def read_systemd(document: str) -> list[LaunchCommand]:
    """The server of a unit's `ExecStart=`."""
    entries: list[EnvEntry] = []
    starts: list[tuple[int, Inset]] = []
    notes: list[str] = []
    section = ""
    for line in logical_lines(document, "#;", joint=" "):
        text = line.inset.text
        if text.lstrip().startswith("["):
            section = text.strip()
            continue
        hit = _SETTING.match(text)
        if not hit or section != "[Service]":
            continue
        value = _rest(line.inset, hit.end(), "%$", "systemd")
        if hit[1] == "Environment":
            entries = [*entries, *_unit_env(value, line.start, line.end)] if value.text.strip() else []
        elif hit[1] == "EnvironmentFile":
            notes.append(f"variables in the file of line {line.inset.line(0)} win over those that the unit sets")
        elif hit[1] == "ExecStart":
            starts = [*starts, (line.start, value)] if value.text.strip() else []
    found: list[LaunchCommand] = []
    for start, value in starts:
        collected = Words(document)
        prefix = _EXEC_PREFIX.match(value.text)
        collected.add_text(_rest(value, prefix.end() if prefix else 0), unit=True)
        env = EnvPlace(tuple(entries), start, "Environment=", "\n", form="systemd word", layers=("systemd",))
        found += commands(collected, "systemd", env, start, notes=tuple(notes))
    return found


def _rest(inset: Inset, start: int, doubled: str = "", layer: str | None = None) -> Inset:
    """`inset` from `start` on, with `%%` and `$$` read as one character."""
    pieces: list[Piece] = []
    text = inset.text[start:].rstrip()
    i = 0
    while i < len(text):
        width = 2 if text[i] in doubled and text[i : i + 2] == text[i] * 2 else 1
        pieces.append((text[i], i, i + width))
        i += width
    return inset.unwrap(start, pieces, layer)


def _unit_env(value: Inset, line_start: int, line_end: int) -> list[EnvEntry]:
    spans = split(value.text, unit=True)
    entries = []
    for k, part in enumerate(spans):
        name, _, text = unquote(value.text[slice(*part)], unit=True).text.partition("=")
        start, end = value.span(*part)
        if len(spans) == 1:
            drop = line_start, line_end
        elif k:
            drop = value.span(*spans[k - 1])[1], end
        else:
            drop = start, value.span(*spans[1])[0]
        entries.append(EnvEntry(name, text, start, end, *drop, "systemd word", ("systemd",)))
    return entries


@dataclass(frozen=True)
class _Setting:
    section: str
    name: str
    value: Inset
    start: int
    """Document offset of the line."""
    end: int
    """Document offset behind the last line's break."""


def read_supervisor(document: str) -> list[LaunchCommand]:
    """The servers of `[program:…]` sections."""
    parser = RawConfigParser(inline_comment_prefixes=(";", "#"), strict=False)  # as supervisor's own options.py sets it
    try:
        parser.read_string(document)
    except ConfigError as error:
        raise NotCertain(f"not readable as a supervisor file: {str(error).splitlines()[0]}") from None
    found: list[LaunchCommand] = []
    settings = list(_settings(document))
    for setting in settings:
        if setting.name != "command" or not setting.section.startswith("program:"):
            continue
        expected = parser.get(setting.section, "command", fallback="")
        if setting.value.text.split() != expected.replace("%%", "%").split():
            raise NotCertain(f"line {setting.value.line(0)}: the layout of this setting is not understood")
        collected = Words(document)
        collected.add_text(setting.value, unknown=("%(",))
        own = [s for s in settings if s.section == setting.section and s.name == "environment"]
        found += commands(collected, "supervisor", _supervisor_env(own, setting), setting.start)
    return found


def _settings(document: str) -> Iterator[_Setting]:
    """Settings with their continued (indented) lines; inline comments left out."""
    base = whole(document)
    section = name = ""
    pieces: list[Piece] = []
    start = end = at = 0
    for raw in (*document.splitlines(keepends=True), "[]"):
        line_at, at = at, at + len(raw)
        text = raw.rstrip("\r\n")
        if not text.strip() or text.lstrip()[0] in "#;":
            continue
        body = re.split(r"\s[;#]", text)[0].rstrip()
        if text[0] in " \t" and name:
            lead = len(body) - len(body.lstrip())
            pieces += [("\n", end - 1, line_at + lead)] if pieces else []
            pieces += [(char, line_at + lead + k, line_at + lead + k + 1) for k, char in enumerate(body.lstrip())]
            end = at
            continue
        if name and pieces:
            yield _Setting(section, name, _rest(base.unwrap(0, pieces, None), 0, "%", "supervisor"), start, end)
        name, pieces = "", []
        if text.startswith("["):
            section = text.strip()[1:-1]
            continue
        hit = re.match(r"([^=:]+?)\s*[=:]\s*", body)
        if hit:
            name, start, end = hit[1].lower(), line_at, at
            pieces = [
                (char, line_at + hit.end() + k, line_at + hit.end() + k + 1) for k, char in enumerate(body[hit.end() :])
            ]


def _supervisor_env(own: list[_Setting], command: _Setting) -> EnvPlace:
    layers = ("supervisor",)
    if not own:
        return EnvPlace(
            (), command.start, "", "", "environment=", "\n", form="supervisor pair", layers=layers, between=","
        )
    setting = own[-1]
    hits = list(_PAIR.finditer(setting.value.text))
    entries = []
    for k, hit in enumerate(hits):
        start, end = setting.value.span(*hit.span())
        if len(hits) == 1:
            drop = setting.start, setting.end
        elif k:
            drop = setting.value.span(*hits[k - 1].span())[1], end
        else:
            drop = start, setting.value.span(*hits[1].span())[0]
        entries.append(EnvEntry(hit[1], hit[2].strip("\"'"), start, end, *drop, "supervisor pair", layers))
    at = entries[-1].end if entries else setting.value.span(0, len(setting.value.text))[1]
    return EnvPlace(tuple(entries), at, ",", form="supervisor pair", layers=layers)

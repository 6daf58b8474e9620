"""Reads the vLLM servers that a Dockerfile's CMD and ENTRYPOINT start, every word with its place."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace

from vlogdiag.launch.build import Words, commands
from vlogdiag.launch.command import EnvEntry, EnvPlace, LaunchCommand, Site
from vlogdiag.launch.inset import Inset, json_string
from vlogdiag.launch.logical_lines import LogicalLine, logical_lines
from vlogdiag.launch.quoting import split, unquote
from vlogdiag.launch.shell import read_shell

_ESCAPE = re.compile(r"\A(?:[ \t]*#[ \t]*\w+=[^\n]*\n)*?[ \t]*#[ \t]*escape[ \t]*=[ \t]*([`\\])", re.IGNORECASE)
_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)[ \t]+")
_HEREDOC = re.compile(
    r"^[ \t]*(RUN|COPY|ADD)\b[^\n]*?<<-?[ \t]*[\"']?(\w+)[\"']?[^\n]*\n(?:.*?\n)??[ \t]*\2[ \t]*$", re.I | re.M | re.S
)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


@dataclass
class _Stage:
    image: str
    entrypoint: LogicalLine | None = None
    cmd: LogicalLine | None = None
    env: list[EnvEntry] = field(default_factory=list)


def read_dockerfile(document: str) -> list[LaunchCommand]:
    """The server of every stage that starts one; of several CMD in a stage the last counts, as for Docker."""
    found: list[LaunchCommand] = []
    for stage in _stages(document):
        found += _of_stage(document, stage)
    return found


def _stages(document: str) -> list[_Stage]:
    escape = _ESCAPE.match(document)
    # The lines of a heredoc are no instructions; blanked, they keep every offset.
    masked = _HEREDOC.sub(lambda hit: re.sub(r"[^\n]", " ", hit.group()), document)
    stages: list[_Stage] = []
    for line in logical_lines(masked, "#", escape[1] if escape else "\\"):
        hit = _INSTRUCTION.match(line.inset.text)
        word = hit[1].upper() if hit else ""
        if word == "FROM" and hit:
            image = [part for part in line.inset.text[hit.end() :].split() if not part.startswith("--")]
            stages.append(_Stage(image[0] if image else ""))
        elif stages and word == "CMD":
            stages[-1].cmd = line
        elif stages and word == "ENTRYPOINT":
            stages[-1].entrypoint = line
            stages[-1].cmd = None  # an ENTRYPOINT resets the CMD of its base image
        elif stages and word == "ENV" and hit:
            stages[-1].env += _env(document, line, hit.end())
    return stages


def _of_stage(document: str, stage: _Stage) -> list[LaunchCommand]:
    lines = [line for line in (stage.entrypoint, stage.cmd) if line is not None]
    if not lines:
        return []
    collected = Words(document)
    at = min(line.start for line in lines)
    env = EnvPlace(tuple(stage.env), at, "ENV ", "\n", form="dockerfile pair")
    for line in lines:
        hit = _INSTRUCTION.match(line.inset.text)
        if hit and not _add_json(collected, line.inset, hit.end()):
            inner = read_shell(_rest(line.inset, hit.end()), "dockerfile")
            return [_with(command, env, stage.image) for command in inner]
    return commands(collected, "dockerfile", env, at, stage.image, stage.entrypoint is not None)


def _with(command: LaunchCommand, env: EnvPlace, image: str) -> LaunchCommand:
    entries = (*env.entries, *command.env.entries)
    return replace(command, image=image, env=replace(env, entries=entries, uncertain=command.env.uncertain))


def _rest(inset: Inset, start: int) -> Inset:
    return inset.unwrap(start, [(char, k, k + 1) for k, char in enumerate(inset.text[start:])], None)


def _add_json(collected: Words, inset: Inset, start: int) -> bool:
    """The exec form; False where Docker, too, would take the text for a shell line."""
    text = inset.text[start:].strip()
    try:
        values = json.loads(text)
    except ValueError:
        return False
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return False
    hits = list(_STRING.finditer(inset.text, start))
    tokens = tuple(inset.span(*hit.span()) for hit in hits)
    opening = inset.ends[inset.text.index("[", start)]
    site = len(collected.sites)
    collected.sites.append(Site("json item", (), opening, tokens[-1][1] if tokens else opening, None, tokens))
    for hit, token in zip(hits, tokens, strict=True):
        collected.add_item(inset.unwrap(hit.start(1), json_string(hit[1]), "json string"), token, site)
    return True


def _env(document: str, line: LogicalLine, start: int) -> list[EnvEntry]:
    """`ENV A=1 B="x y"`, or the old `ENV A all the rest`."""
    inset = line.inset
    rest = _rest(inset, start)
    spans = split(rest.text)
    if not spans:
        return []
    first = rest.text[slice(*spans[0])]
    if "=" not in first:
        if len(spans) < 2:
            return []
        begin, end = rest.span(spans[1][0], len(rest.text.rstrip()))
        value = rest.text[spans[1][0] :].rstrip()
        return [EnvEntry(first, value, begin, end, line.start, line.end, "dockerfile text")]
    entries = []
    for k, part in enumerate(spans):
        name, _, value = rest.text[slice(*part)].partition("=")
        begin, end = rest.span(*part)
        if len(spans) == 1:
            drop = line.start, line.end
        elif k:
            drop = rest.span(*spans[k - 1])[1], end
        else:
            drop = begin, rest.span(*spans[1])[0]
        entries.append(EnvEntry(name, unquote(value).text, begin, end, *drop, "dockerfile pair"))
    return entries

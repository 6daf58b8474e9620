"""Puts together the launch command of a file format that is not itself a shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vlogdiag.launch.command import EnvPlace, Kind, LaunchCommand, Site, Word, position
from vlogdiag.launch.container_env import container_environment
from vlogdiag.launch.entry import Nested, find_entry, server_of_image
from vlogdiag.launch.inset import Inset
from vlogdiag.launch.nesting import inside
from vlogdiag.launch.quoting import split, unquote
from vlogdiag.launch.shell import read_shell


@dataclass
class Words:
    """Words while they are collected, with their places and the texts that a nested shell would read."""

    document: str
    words: list[Word] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    insets: dict[int, tuple[Inset, str | None]] = field(default_factory=dict)

    def add_text(self, inset: Inset, unknown: Sequence[str] = ("$",), unit: bool = False) -> None:
        """Blank-separated words, quotes as in a shell, no shell around; `unknown` mark what would be expanded."""
        spans = split(inset.text, unit)
        if not spans:
            return
        tokens = tuple(inset.span(*part) for part in spans)
        site = len(self.sites)
        self.sites.append(Site("words", inset.layers, tokens[0][0], tokens[-1][1], None, tokens))
        for part, token in zip(spans, tokens, strict=True):
            raw = inset.text[slice(*part)]
            self.insets[token[0]] = inside(inset, part[0], raw, unit)
            literal = not any(mark in raw for mark in unknown)
            self.words.append(Word(unquote(raw, unit).text, *token, site, literal, None, raw))

    def add_item(self, inset: Inset, token: tuple[int, int], site: int) -> None:
        """One item of a list, which is one word as it stands."""
        self.insets[token[0]] = inset, None
        raw = self.document[slice(*token)]
        self.words.append(Word(inset.text.rstrip("\n"), *token, site, "$" not in inset.text, None, raw))


def commands(
    collected: Words,
    kind: Kind,
    env: EnvPlace,
    fallback: int,
    image: str | None = None,
    own_entrypoint: bool = True,
    notes: tuple[str, ...] = (),
) -> list[LaunchCommand]:
    """The server that the collected words start, by themselves or as arguments of `image`.

    `fallback` is the document offset to name where there are no words.
    """
    words = collected.words
    found = None if own_entrypoint or image is None else server_of_image(image, None, words)
    found = found or find_entry(words)
    if isinstance(found, Nested):
        inset, doubt = collected.insets[found.word.start]
        inner = read_shell(inset, kind, found.doubt or doubt)
        return [replace(c, image=image, env=_both(env, c.env), notes=(*c.notes, *notes)) for c in inner]
    if found is None:
        return []
    if found.container:
        env = container_environment(collected.document, collected.sites[found.before[0].site].layers, found.before)
    doubt = found.doubt or (None if found.words else "it has no arguments")
    line, column = position(collected.document, found.words[0].start if found.words else fallback)
    return [
        LaunchCommand(
            argv=tuple(word.text for word in found.words),
            line=line,
            column=column,
            kind=kind,
            entry=found.entry,
            certain=doubt is None,
            reason=doubt,
            image=found.image or image,
            arguments_at=found.arguments_at,
            words=found.words,
            sites=tuple(collected.sites),
            env=env,
            notes=notes,
        )
    ]


def _both(outer: EnvPlace, inner: EnvPlace) -> EnvPlace:
    """The container's variables, and behind them those that its shell line sets, which win."""
    return replace(outer, entries=(*outer.entries, *inner.entries), uncertain=inner.uncertain)

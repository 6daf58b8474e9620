"""Turns an option as somebody typed it into the option that argparse takes it for, per set of releases."""

from __future__ import annotations

import re

from msgspec import Struct

from vlogdiag.catalog.load import catalogue
from vlogdiag.catalog.load import entry_at as entry_at
from vlogdiag.catalog.versions import Versions

EXACT, ABBREVIATION, AMBIGUOUS = "exact", "abbreviation", "ambiguous"
NEVER, REMOVED, FUTURE, TYPO = "never", "removed", "future", "typo"

_NOT_AN_OPTION = re.compile(r"-?\d+(\.\d*)?$|-\.\d+$")
"""argparse takes negative numbers for values as long as no option looks like one; vLLM has none that does."""


class Resolution(Struct, frozen=True):
    """What an option text means to the releases of `where`, which include the newest of those asked about."""

    kind: str
    """exact, abbreviation or ambiguous where the parser knows it; removed, future, never or typo where it does not."""
    canonical: str | None
    """The option's own name: of what it resolves to, of what it was or will be, of the likeliest meaning of a typo."""
    candidates: tuple[str, ...]
    """Ambiguous: what it could mean. Typo: nearest names, best first."""
    where: Versions
    spelling: str | None = None
    """The registered text that it stands for, when that is not the canonical name (`--no-enforce-eager`)."""
    dotted: str | None = None
    """`image` of `--limit-mm-per-prompt.image`."""


def is_option(token: str) -> bool:
    """True when argparse would read the token as an option, not as a value."""
    return token.startswith("-") and token != "-" and not _NOT_AN_OPTION.match(token) and " " not in token.split("=")[0]


def resolve(text: str, versions: Versions) -> Resolution:
    """What `text` (an option, `=value` and all) means to the newest release of `versions`, and to which others of them.

    An empty set asks about every release.
    """
    versions = versions or Versions.all()
    name, _, value = text.partition("=")
    if _is_dash_o(name):
        return _resolve_dash_o(name, value, versions)
    base, dot, rest = name.partition(".")
    underscores, dotted = catalogue().behaviour("underscores"), catalogue().behaviour("dotted")
    if dot:
        versions_here = versions & dotted
        if not versions_here:
            found = _plain(base, versions)
            return Resolution(FUTURE, found.canonical, (), versions, found.spelling, rest)
        found = _plain(base, versions_here, underscores)
        return Resolution(found.kind, found.canonical, found.candidates, found.where, found.spelling, rest)
    return _plain(name, versions, underscores)


def _plain(name: str, versions: Versions, underscores: Versions | None = None) -> Resolution:
    dashed = "--" + name[2:].replace("_", "-") if name.startswith("--") else name
    accepted: dict[tuple[str, str], int] = {}
    ambiguous = 0
    for text, mask in ((name, versions.mask), (dashed, (versions & (underscores or Versions.all())).mask)):
        hits, several = _argparse(text, mask)
        ambiguous |= several
        for key, where in hits.items():
            accepted[key] = accepted.get(key, 0) | where
        if text == dashed:
            break
    newest = 1 << (versions.mask.bit_length() - 1)
    for (kind, spelling), where in accepted.items():
        if where & newest:
            entry = entry_at(spelling, Versions(where))
            canonical = entry.name if entry else spelling
            return Resolution(kind, canonical, (), Versions(where, versions.assumed), spelling)
    if ambiguous & newest:
        masks = catalogue().masks
        names = tuple(sorted(text for text in masks if text.startswith(dashed) and masks[text] & newest))
        return Resolution(AMBIGUOUS, None, names, Versions(ambiguous, versions.assumed))
    covered = ambiguous
    for where in accepted.values():
        covered |= where
    rest = versions - Versions(covered)
    if dashed != name and catalogue().registered(dashed) & newest:
        return Resolution(TYPO, dashed, (dashed,), rest)  # too old to take `_` for `-`
    return _refused(dashed, rest)


def _argparse(text: str, versions: int) -> tuple[dict[tuple[str, str], int], int]:
    """(kind, registered text) to the releases where argparse takes `text` for it; releases where it is ambiguous."""
    exact = catalogue().registered(text) & versions
    hits = {(EXACT, text): exact} if exact else {}
    rest = versions & ~exact
    once = several = 0
    longer = []
    if rest and len(text) > 1:
        for other, mask in catalogue().masks.items():
            if other.startswith(text) and other != text and mask & rest:
                longer.append((other, mask & rest))
                several |= once & mask & rest
                once |= mask & rest
    for other, mask in longer:
        if mask & ~several:
            hits[ABBREVIATION, other] = mask & ~several
    return hits, several


def _refused(name: str, versions: Versions) -> Resolution:
    """Why a text that no release of the set takes is refused."""
    notes = catalogue().notes["flags"].get(name, ())
    if any(note.never for note in notes):
        renamed = next((note.renamed for note in notes if note.renamed), None)
        return Resolution(NEVER, renamed, (renamed,) if renamed else (), versions)
    hits, _ = _argparse(name, Versions.all().mask)
    best = max(hits.items(), key=lambda hit: (hit[0][0] == EXACT, hit[1]), default=None)
    newest = 1 << (versions.mask.bit_length() - 1)
    if best is not None:
        (_, spelling), where = best
        before = where & (newest - 1)
        entry = entry_at(spelling, Versions(before or where))
        since = ~((1 << before.bit_length()) - 1)  # removed: only releases after the last that had it
        part = Versions(versions.mask & since, versions.assumed) if before else versions
        return Resolution(REMOVED if before else FUTURE, entry.name if entry else spelling, (), part, spelling)
    here = [text for text, mask in catalogue().masks.items() if mask & newest]
    from difflib import get_close_matches  # only a name that nobody knows is worth its import

    near = tuple(get_close_matches(name, here, n=3, cutoff=0.75))
    return Resolution(TYPO if near else NEVER, near[0] if near else None, near, versions)


def _is_dash_o(name: str) -> bool:
    return name.startswith("-O") and not name.startswith("--")


def _resolve_dash_o(name: str, value: str, versions: Versions) -> Resolution:
    """`-O`, `-O3`, `-O=3`, `-O.key`: vLLM's own rewriting before argparse (section 2 of the notes, `behaviours`)."""
    level, dotted = catalogue().behaviour("dash-o-level"), catalogue().behaviour("dash-o-dotted")
    newest = Versions(1 << (versions.mask.bit_length() - 1))
    if name.startswith("-O."):
        kind = EXACT if newest & dotted else REMOVED if newest & level else FUTURE
        where = versions & dotted if kind == EXACT else versions - dotted
        return Resolution(kind, "--compilation-config", (), where, "-O", name[3:])
    if newest & level:
        return Resolution(EXACT, "--optimization-level", (), versions & level, "-O")
    before = Versions(catalogue().registered("-O")) - level
    kind = EXACT if newest & before else FUTURE
    return Resolution(kind, "--compilation-config", (), versions & before if kind == EXACT else versions, "-O")

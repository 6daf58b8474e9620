"""Turns a version or a PEP 440 specifier into the set of known vLLM releases that it means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from vlogdiag.catalog.ranges import VersionError, index, range_mask, releases, runs


@dataclass(frozen=True, slots=True)
class Versions:
    """A set of known releases (bit n = `releases()[n]`); `assumed` says that the version itself is not a known one."""

    mask: int
    assumed: bool = field(default=False, compare=False)

    @classmethod
    def all(cls) -> Versions:
        """Every known release: nothing is known about the version."""
        return cls((1 << len(releases())) - 1)

    @classmethod
    def none(cls) -> Versions:
        """No release."""
        return cls(0)

    @classmethod
    def of(cls, text: str) -> Versions:
        """The releases of a range text as the catalogue files write it (`0.4.0..0.17.1`, `0.18.0..`)."""
        return cls(range_mask(text))

    @classmethod
    def parse_spec(cls, text: str) -> Versions:
        """Known releases inside a PEP 440 specifier; alternatives are joined by `||`. May be empty.

        Raises:
            VersionError: the text is not a specifier.
        """
        return cls(_spec_mask(text))

    @classmethod
    def exact(cls, text: str) -> Versions:
        """The release that a version as printed in a log means; never raises for a strange one.

        Local and post versions mean their release; nightly, dev and rc builds the release they lead to (or the next
        known one); newer versions, forks and unreadable texts the newest known; older ones the oldest. All but the
        first kind are `assumed`.
        """
        text = text.strip().removeprefix("v")
        number = index().get(text)
        if number is not None:
            return cls(1 << number)
        from packaging.version import InvalidVersion, Version  # costs milliseconds, needed only for strange versions

        newest = len(releases()) - 1
        try:
            version = Version(text)
        except InvalidVersion:
            return cls(1 << newest, assumed=True)
        number = index().get(version.public)
        if number is None and version.is_postrelease and not version.is_devrelease:
            number = index().get(version.base_version)
        if number is not None:
            return cls(1 << number)
        number = index().get(version.base_version)
        if number is None:
            number = next((n for n, name in enumerate(releases()) if Version(name) >= version), newest)
        return cls(1 << number, assumed=True)

    @classmethod
    def known(cls, text: str) -> Versions:
        """Like `exact` for a version that a person typed: builds of a known release pass, anything else is refused.

        Raises:
            VersionError: the version, or the release that it leads to, is not in the catalogue.
        """
        from packaging.version import InvalidVersion, Version

        try:
            version = Version(text.strip())
        except InvalidVersion:
            raise VersionError(text, f"{text!r} is not a version", releases()[-1]) from None
        guess = cls.exact(text)
        if guess.assumed and version.base_version not in index():
            older = [name for name in releases() if Version(name) <= version]
            raise VersionError(text, f"vLLM {text} is not in the catalogue", older[-1] if older else releases()[0])
        return guess

    def __and__(self, other: Versions) -> Versions:
        return Versions(self.mask & other.mask, self.assumed or other.assumed)

    def __or__(self, other: Versions) -> Versions:
        return Versions(self.mask | other.mask, self.assumed or other.assumed)

    def __sub__(self, other: Versions) -> Versions:
        return Versions(self.mask & ~other.mask, self.assumed)

    def intersection(self, other: Versions) -> Versions:
        """Releases in both sets."""
        return self & other

    def __contains__(self, release: object) -> bool:
        number = index().get(release) if isinstance(release, str) else None
        return number is not None and bool(self.mask >> number & 1)

    def __iter__(self) -> Iterator[str]:
        return (name for number, name in enumerate(releases()) if self.mask >> number & 1)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    @property
    def is_empty(self) -> bool:
        """True when no known release is left."""
        return self.mask == 0

    def within(self, other: Versions) -> bool | None:
        """True when every release lies in `other`, False when none does, None when only a part (or nothing is left)."""
        if self.mask and not self.mask & ~other.mask:
            return True
        return False if self.mask and not self.mask & other.mask else None

    @property
    def single(self) -> str | None:
        """The release, when the set holds exactly one."""
        return next(iter(self)) if len(self) == 1 else None

    @property
    def oldest(self) -> str | None:
        """First release of the set."""
        return next(iter(self), None)

    @property
    def newest(self) -> str | None:
        """Last release of the set."""
        return releases()[self.mask.bit_length() - 1] if self.mask else None

    def spec(self) -> str:
        """The shortest PEP 440 text (`==0.11.0`, `>=0.8.0,<0.11.1`); sets with gaps are alternatives joined by ` || `.

        The empty set, which no specifier can say, is ''.
        """
        names = releases()
        parts = []
        for low, high in runs(self.mask):
            upper = "" if high == len(names) - 1 else f"<{names[high + 1]}"
            if low == high:
                parts.append(f"=={names[low]}")
            elif low == 0 and upper:
                parts.append(upper)
            else:
                parts.append(",".join(filter(None, (f">={names[low]}", upper))))
        return " || ".join(parts)

    def words(self) -> str:
        """The set as people say it: `0.11.0`, `0.8.0 to 0.11.0`, `0.18.0 and newer`."""
        names = releases()
        parts = []
        for low, high in runs(self.mask):
            if low == high:
                parts.append(names[low])
            elif high == len(names) - 1:
                parts.append("every release" if low == 0 else f"{names[low]} and newer")
            else:
                parts.append(f"{names[low]} to {names[high]}")
        return ", ".join(parts) or "no release"


_CLAUSE = re.compile(r"\s*(>=|<=|==|<|>)\s*(\d+(?:\.\d+){0,3})(?:\.post(\d+))?\s*\Z")


def _plain_mask(text: str) -> int | None:
    """`>=0.11,<0.20` without the packaging library, which costs more to import than all else; None: not so plain."""
    mask = (1 << len(releases())) - 1
    for clause in text.split(","):
        found = _CLAUSE.match(clause)
        if found is None:
            return None
        numbers = [int(part) for part in found[2].split(".")]
        wanted = (*numbers, *(0,) * (4 - len(numbers)), int(found[3] or 0))
        allowed = 0
        for number, key in enumerate(_keys()):
            if found[3] is None and key[:4] == wanted[:4] and key[4]:
                # PEP 440: `>1.0` leaves 1.0.post1 out, `<1.0` and `==1.0` do as well; `>=` and `<=` compare plainly.
                inside = found[1] == ">="
            else:
                inside = {
                    ">=": key >= wanted,
                    "<=": key <= wanted,
                    "==": key == wanted,
                    "<": key < wanted,
                    ">": key > wanted,
                }[found[1]]
            allowed |= inside << number
        mask &= allowed
    return mask


@lru_cache(maxsize=1)
def _keys() -> tuple[tuple[int, ...], ...]:
    """Each release as four numbers and its post number."""
    keys = []
    for name in releases():
        base, _, post = name.partition(".post")
        numbers = [int(part) for part in base.split(".")]
        keys.append((*numbers, *(0,) * (4 - len(numbers)), int(post or 0)))
    return tuple(keys)


@lru_cache(maxsize=256)
def _spec_mask(text: str) -> int:
    plain = _plain_mask(text)
    if plain is not None:
        return plain
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # costs milliseconds, needed only for odd ones

    mask = 0
    for part in text.split("||"):
        try:
            wanted = SpecifierSet(part.strip())
        except InvalidSpecifier:
            raise VersionError(text, f"{part.strip()!r} is not a version specifier such as '>=0.11,<0.20'") from None
        for number, name in enumerate(releases()):
            if wanted.contains(name, prereleases=True):
                mask |= 1 << number
    return mask

"""Turns a version, a PEP 440 specifier or a range of releases into the set of known vLLM releases that it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

DATA = Path(__file__).with_name("data")
"""Where the packaged catalogue files lie."""


class CatalogueError(Exception):
    """A catalogue file does not load; `path` and `reason` say which and why."""

    def __init__(self, path: Path | str, reason: str, line: int | None = None) -> None:
        self.path = str(path)
        self.reason = reason
        self.line = line
        super().__init__(f"{path}{f':{line}' if line else ''}: {reason}")


class VersionError(ValueError):
    """The text is no version or specifier of a known release; `nearest` is the closest known one, if any."""

    def __init__(self, text: str, reason: str, nearest: str | None = None) -> None:
        self.text = text
        self.nearest = nearest
        super().__init__(f"{reason}{f' (nearest known: {nearest})' if nearest else ''}")


@lru_cache(maxsize=1)
def releases() -> tuple[str, ...]:
    """Every release that the catalogue covers, oldest first.

    Raises:
        CatalogueError: the packaged list is missing or empty.
    """
    path = DATA / "releases.txt"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(path, str(error)) from error
    names = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not names or len(set(names)) != len(names):
        raise CatalogueError(path, "no releases" if not names else "a release is listed twice")
    return names


@lru_cache(maxsize=1)
def _index() -> dict[str, int]:
    return {name: number for number, name in enumerate(releases())}


def range_mask(text: str, names: tuple[str, ...] | None = None) -> int:
    """Bit mask of `0.4.0..0.17.1`, `0.18.0..`, `..0.10.2`, `0.11.0` or several of them joined by commas.

    `names` are the releases that the bits stand for, by default the catalogue's own.

    Raises:
        VersionError: an end is not a known release, or the ends stand the wrong way round.
    """
    mask = 0
    index = _index() if names is None else {name: number for number, name in enumerate(names)}
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        low = index.get(first) if first else 0
        high = low if not dots else index.get(last) if last else len(index) - 1
        if low is None or high is None or high < low:
            raise VersionError(text, f"{part.strip()!r} is not a range of known releases")
        mask |= (1 << (high + 1)) - (1 << low)
    return mask


def mask_range(mask: int, names: tuple[str, ...] | None = None) -> str:
    """The shortest range text of a mask, the inverse of `range_mask`; ranges up to the newest release stay open."""
    names = releases() if names is None else names
    parts = []
    for low, high in _runs(mask):
        if high == len(names) - 1:
            parts.append(f"{names[low]}..")
        else:
            parts.append(names[low] if low == high else f"{names[low]}..{names[high]}")
    return ",".join(parts)


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    position = 0
    while mask >> position:
        if mask >> position & 1:
            start = position
            while mask >> (position + 1) & 1:
                position += 1
            yield start, position
        position += 1


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
        number = _index().get(text)
        if number is not None:
            return cls(1 << number)
        from packaging.version import InvalidVersion, Version  # costs milliseconds, needed only for strange versions

        newest = len(releases()) - 1
        try:
            version = Version(text)
        except InvalidVersion:
            return cls(1 << newest, assumed=True)
        number = _index().get(version.public)
        if number is None and version.is_postrelease and not version.is_devrelease:
            number = _index().get(version.base_version)
        if number is not None:
            return cls(1 << number)
        number = _index().get(version.base_version)
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
        if guess.assumed and version.base_version not in _index():
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
        number = _index().get(release) if isinstance(release, str) else None
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
        for low, high in _runs(self.mask):
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
        for low, high in _runs(self.mask):
            if low == high:
                parts.append(names[low])
            elif high == len(names) - 1:
                parts.append("every release" if low == 0 else f"{names[low]} and newer")
            else:
                parts.append(f"{names[low]} to {names[high]}")
        return ", ".join(parts) or "no release"


@lru_cache(maxsize=256)
def _spec_mask(text: str) -> int:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

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

"""Turns a range of releases, as the catalogue's files write it, into a bit mask, and a mask back into the text."""

from __future__ import annotations

from collections.abc import Iterator
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
def index() -> dict[str, int]:
    """Release to its bit."""
    return {name: number for number, name in enumerate(releases())}


@lru_cache(maxsize=1024)
def range_mask(text: str, names: tuple[str, ...] | None = None) -> int:
    """Bit mask of `0.4.0..0.17.1`, `0.18.0..`, `..0.10.2`, `0.11.0` or several of them joined by commas.

    `names` are the releases that the bits stand for, by default the catalogue's own.

    Raises:
        VersionError: an end is not a known release, or the ends stand the wrong way round.
    """
    mask = 0
    places = index() if names is None else {name: number for number, name in enumerate(names)}
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        low = places.get(first) if first else 0
        high = low if not dots else places.get(last) if last else len(places) - 1
        if low is None or high is None or high < low:
            raise VersionError(text, f"{part.strip()!r} is not a range of known releases")
        mask |= (1 << (high + 1)) - (1 << low)
    return mask


def mask_range(mask: int, names: tuple[str, ...] | None = None) -> str:
    """The shortest range text of a mask, the inverse of `range_mask`; ranges up to the newest release stay open."""
    names = releases() if names is None else names
    parts = []
    for low, high in runs(mask):
        if high == len(names) - 1:
            parts.append(f"{names[low]}..")
        else:
            parts.append(names[low] if low == high else f"{names[low]}..{names[high]}")
    return ",".join(parts)


def runs(mask: int) -> Iterator[tuple[int, int]]:
    """Unbroken runs of a mask's bits, each as its first and last position."""
    position = 0
    while mask >> position:
        if mask >> position & 1:
            start = position
            while mask >> (position + 1) & 1:
                position += 1
            yield start, position
        position += 1

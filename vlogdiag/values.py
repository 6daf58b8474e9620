"""Turns the numbers that logs print (`2.00 GiB`, `13.9%`, `60s`, `65,536`) into typed quantities and back into text.

`GB` and `GiB` are read alike: vLLM divides by 2**30 whichever of the two it prints (`Model loading took 15.6 GB`), and
torch prints only KiB, MiB, GiB and bytes. Numbers that no machine can mean are unknown (None), not large.
"""

from __future__ import annotations

import math
import re
from enum import Enum

from msgspec import Struct

from vlogdiag.model import Value


class Kind(str, Enum):
    """What a number measures; decides how it is printed and what arithmetic keeps."""

    INT = "int"
    FLOAT = "float"
    SIZE = "size"
    PERCENT = "percent"
    DURATION = "duration"
    TEXT = "text"
    BOOL = "bool"


class Quantity(Struct, frozen=True):
    """A value with its kind: sizes in bytes, percentages 0..1, durations in seconds."""

    value: float | int | str | bool
    kind: Kind

    @property
    def number(self) -> float | int | None:
        """The value as a number; None for text and truth values."""
        if self.kind in (Kind.TEXT, Kind.BOOL) or isinstance(self.value, str):
            return None
        return self.value


class Series(list[Quantity]):
    """Values in order. Of very many the first and the recent ones are kept; count, lowest and highest stay exact."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.lowest: Quantity | None = None
        self.highest: Quantity | None = None
        self.alike = True
        """All were numbers of one kind; else the extremes say nothing."""

    def add(self, value: Quantity, most: int) -> None:
        """Take one more; where `most` are kept the older half makes room for it."""
        if len(self) >= most:
            del self[1 : most // 2]
        self.append(value)
        self.seen += 1
        number = value.number
        if self.lowest is None or self.highest is None:
            self.lowest = self.highest = value
            self.alike = number is not None and self.seen == 1
        elif number is None or self.highest.kind is not value.kind:
            self.alike = False
        elif self.alike:
            if value.value > self.highest.value:  # type: ignore[operator]
                self.highest = value
            elif value.value < self.lowest.value:  # type: ignore[operator]
                self.lowest = value

    def fork(self) -> Series:
        """A twin that goes its own way."""
        twin = Series()
        twin.extend(self)
        twin.seen, twin.lowest, twin.highest, twin.alike = self.seen, self.lowest, self.highest, self.alike
        return twin


KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

# torch prints 17179869184.00 GiB where an unsigned counter ran below zero; no machine holds an exbibyte.
IMPLAUSIBLE_SIZE = 2**60

SIZE_UNITS = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "k": KIB,
    "kb": KIB,
    "kib": KIB,
    "m": MIB,
    "mb": MIB,
    "mib": MIB,
    "g": GIB,
    "gb": GIB,
    "gib": GIB,
    "t": TIB,
    "tb": TIB,
    "tib": TIB,
}
"""Lower-case unit to bytes."""

DURATION_UNITS = {
    "ms": 0.001,
    "msec": 0.001,
    "msecs": 0.001,
    "millisecond": 0.001,
    "milliseconds": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "mins": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "hrs": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
"""Lower-case unit to seconds."""

_INT = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,40})")
_FLOAT = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,40})?(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?")
_WITH_UNIT = re.compile(r"([+-]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-z]*)")
_CLOCK = re.compile(r"([0-9]{1,5}):([0-5][0-9]):([0-5][0-9](?:\.[0-9]{1,9})?)")


def parse_int(text: str) -> int | None:
    """`131072`, `65,536`, `-1`; anything else is None."""
    text = text.strip()
    return int(text.replace(",", "")) if _INT.fullmatch(text) else None


def parse_float(text: str) -> float | None:
    """`0.9`, `1,024.5`, `1e-3`; NaN, infinities and anything else are None."""
    text = text.strip()
    if not _FLOAT.fullmatch(text) or not any(character.isdigit() for character in text.split("e")[0].split("E")[0]):
        return None
    value = float(text.replace(",", ""))
    return value if math.isfinite(value) else None


def parse_size(text: str) -> int | None:
    """`2.00 GiB`, `448.00 KiB`, `12.1GiB`, `14.9 GB`, `5 bytes`, `4G` or a bare count of bytes, to bytes."""
    found = _WITH_UNIT.fullmatch(text.strip())
    if found is None:
        return None
    number = parse_float(found[1])
    factor = SIZE_UNITS.get(found[2].lower()) if found[2] else 1
    if number is None or factor is None:
        return None
    value = number * factor
    return round(value) if abs(value) < IMPLAUSIBLE_SIZE else None


def parse_percent(text: str) -> float | None:
    """`13.9%` to 0.139."""
    text = text.strip()
    number = parse_float(text[:-1]) if text.endswith("%") else None
    # Division by 100 through the decimal text keeps 13.9 % at 0.139 and not 0.13900000000000001.
    return None if number is None else round(number / 100, 12)


def parse_duration(text: str) -> float | None:
    """`60s`, `600327 milliseconds`, `10 minutes`, `1.5 h`, `0:10:00` or a bare count of seconds, to seconds."""
    text = text.strip()
    clock = _CLOCK.fullmatch(text)
    if clock:
        return int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3])
    found = _WITH_UNIT.fullmatch(text)
    if found is None:
        return None
    number = parse_float(found[1])
    factor = DURATION_UNITS.get(found[2].lower()) if found[2] else 1.0
    if number is None or factor is None:
        return None
    value = round(number * factor, 9)
    return value if math.isfinite(value) else None


def parse_bool(text: str) -> bool | None:
    """`true`/`false` in any case; anything else is None."""
    return {"true": True, "false": False}.get(text.strip().lower())


def parse_quantity(text: str, kind: Kind) -> Quantity | None:
    """Read `text` as a quantity of `kind`; None where it is no such thing or cannot be meant."""
    value: float | int | str | bool | None
    if kind is Kind.TEXT:
        value = text
    elif kind is Kind.INT:
        value = parse_int(text)
    elif kind is Kind.FLOAT:
        value = parse_float(text)
    elif kind is Kind.SIZE:
        value = parse_size(text)
    elif kind is Kind.PERCENT:
        value = parse_percent(text)
        if value is None:
            value = parse_float(text)
    elif kind is Kind.DURATION:
        value = parse_duration(text)
    else:
        value = parse_bool(text)
    return None if value is None else Quantity(value, kind)


def guess_quantity(text: str) -> Quantity | None:
    """Read an argument's text by its looks: bool, int, float, else text; `None` and `null` are unknown."""
    if text.strip() in ("None", "null", ""):
        return None
    for kind in (Kind.BOOL, Kind.INT, Kind.FLOAT):
        quantity = parse_quantity(text, kind)
        if quantity is not None:
            return quantity
    return Quantity(text, Kind.TEXT)


def quantity_of(value: object) -> Quantity | None:
    """Wrap a plain Python value (an argument, a fact); None and everything that is no scalar are unknown."""
    if isinstance(value, bool):
        return Quantity(value, Kind.BOOL)
    if isinstance(value, int):
        return Quantity(value, Kind.INT)
    if isinstance(value, float):
        return Quantity(value, Kind.FLOAT) if math.isfinite(value) else None
    if isinstance(value, str):
        return Quantity(value, Kind.TEXT)
    return None


def public(quantity: Quantity | None) -> Value | None:
    """The plain value that a report shows: bytes as int, fractions and seconds as float, the rest as it is."""
    if quantity is None:
        return None
    if quantity.kind is Kind.SIZE and isinstance(quantity.value, float):
        return round(quantity.value)
    if isinstance(quantity.value, float):
        return round(quantity.value, 10)
    return quantity.value


def format_quantity(quantity: Quantity) -> str:
    """Text for people: `16.00 GiB`, `13.9%`, `60 s`, `10 min 0 s`, `131072`, `0.95`."""
    value = quantity.value
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if quantity.kind is Kind.SIZE:
        return _format_size(value)
    if quantity.kind is Kind.PERCENT:
        return _trimmed(value * 100, 1 if abs(value) >= 0.001 or value == 0 else 3) + "%"
    if quantity.kind is Kind.DURATION:
        return _format_duration(value)
    if isinstance(value, int):
        return str(value)
    # Three decimals say enough of a ratio, and small numbers keep three digits that mean something.
    digits = 3 if abs(value) >= 0.1 or value == 0 else min(10, 3 - math.floor(math.log10(abs(value))) - 1)
    return _trimmed(value, digits if abs(value) < 1000 else 1)


def raw(quantity: Quantity) -> str:
    """Text for a flag or variable: sizes as bytes, percentages as fraction, durations as seconds, no rounding noise."""
    value = quantity.value
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if quantity.kind is Kind.SIZE:
        return str(round(value))
    return str(value) if isinstance(value, int) else _trimmed(value, 6 if abs(value) >= 0.001 else 12)


def _trimmed(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _format_size(value: float) -> str:
    # GiB is the largest unit, as in torch's own messages: a reader compares the numbers with the log's.
    for factor, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(value) >= factor:
            return f"{value / factor:.2f} {unit}"
    return f"{round(value)} bytes"


def _format_duration(value: float) -> str:
    if abs(value) < 120:
        return f"{_trimmed(value, 1 if abs(value) >= 1 or value == 0 else 3)} s"
    sign = "-" if value < 0 else ""
    seconds = round(abs(value))
    if seconds < 7200:
        return f"{sign}{seconds // 60} min {seconds % 60} s"
    return f"{sign}{seconds // 3600} h {seconds % 3600 // 60} min"

"""Arithmetic on typed quantities in which the unknown stays unknown and kinds keep their meaning.

Size ± size is a size, size / size a ratio, size * number a size; adding bytes to seconds is unknown. Division by zero,
NaN and overflow are unknown too: no function here raises for a value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from decimal import Decimal

from vlogdiag.values import Kind, Quantity, Series

Maybe = Quantity | None

TRUE = Quantity(True, Kind.BOOL)
FALSE = Quantity(False, Kind.BOOL)

_DIMENSIONS = (Kind.SIZE, Kind.DURATION)
_LARGEST = 1e300
"""Beyond it a double is about to overflow: unknown."""
_NOISE = 1e-9
"""A quotient this near a whole number is that number: 0.95 / 0.01 is 94.99999999999999."""


def boolean(value: bool | None) -> Maybe:
    """Three-valued truth as a quantity."""
    return None if value is None else (TRUE if value else FALSE)


def truth(quantity: Maybe) -> bool | None:
    """Whether a quantity counts as true: numbers by being other than zero, text by not being empty; unknown is None."""
    return None if quantity is None else bool(quantity.value)


def _quantity(value: float | int, kind: Kind) -> Maybe:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if abs(value) > _LARGEST:
        return None
    if kind is Kind.INT and isinstance(value, float):
        value = round(value)
    return Quantity(value, kind)


def _sum_kind(left: Kind, right: Kind) -> Kind | None:
    if left is right:
        return left
    for one, other in ((left, right), (right, left)):
        if one in _DIMENSIONS:
            return one if other in (Kind.INT, Kind.FLOAT) else None
    return Kind.FLOAT


def _product_kind(left: Kind, right: Kind) -> Kind | None:
    if left in _DIMENSIONS and right in _DIMENSIONS:
        return None
    for kind in (left, right):
        if kind in _DIMENSIONS:
            return kind
    return Kind.INT if left is right is Kind.INT else Kind.FLOAT


def _quotient_kind(left: Kind, right: Kind) -> Kind:
    return left if left in _DIMENSIONS and right not in _DIMENSIONS else Kind.FLOAT


def _floor_kind(left: Kind, right: Kind) -> Kind:
    return left if left in _DIMENSIONS and right not in _DIMENSIONS else Kind.INT


_BINARY: dict[str, tuple[Callable[..., float | int], Callable[[Kind, Kind], Kind | None]]] = {
    "+": (operator.add, _sum_kind),
    "-": (operator.sub, _sum_kind),
    "*": (operator.mul, _product_kind),
    "/": (operator.truediv, _quotient_kind),
    "//": (operator.floordiv, _floor_kind),
    "%": (operator.mod, _sum_kind),
}


def binary(sign: str, left: Maybe, right: Maybe) -> Maybe:
    """`left sign right` for + - * / // %."""
    if left is None or right is None:
        return None
    one, other = left.number, right.number
    if one is None or other is None:
        return None
    compute, kind_of = _BINARY[sign]
    kind = kind_of(left.kind, right.kind)
    if kind is None:
        return None
    try:
        return _quantity(compute(one, other), kind)
    except ArithmeticError:
        return None


def negative(quantity: Maybe) -> Maybe:
    """Minus a number."""
    number = None if quantity is None else quantity.number
    return None if quantity is None or number is None else Quantity(-number, quantity.kind)


_ORDER: dict[str, Callable[..., bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(sign: str, left: Maybe, right: Maybe) -> bool | None:
    """`left sign right` for == != < <= > >=; unknown between text and number, or bytes and seconds."""
    if left is None or right is None:
        return None
    if left.kind in (Kind.TEXT, Kind.BOOL) or right.kind in (Kind.TEXT, Kind.BOOL):
        if left.kind is not right.kind or sign not in ("==", "!="):
            return None
    elif _sum_kind(left.kind, right.kind) is None:
        return None
    return _ORDER[sign](left.value, right.value)


def contains(whole: Maybe, part: Maybe) -> bool | None:
    """Whether the text `whole` holds the text `part`, case counting."""
    if whole is None or part is None or not isinstance(whole.value, str) or not isinstance(part.value, str):
        return None
    return part.value in whole.value


def extreme(quantities: Sequence[Maybe], *, largest: bool) -> Maybe:
    """Smallest or largest; unknown as soon as one is unknown or they cannot be compared."""
    best: Maybe = None
    for quantity in quantities:
        number = None if quantity is None else quantity.number
        if quantity is None or number is None:
            return None
        if best is None:
            best = quantity
            continue
        kind = _sum_kind(best.kind, quantity.kind)
        held = best.number
        if kind is None or held is None:
            return None
        best = Quantity(max(held, number) if largest else min(held, number), kind)
    return best


def magnitude(quantity: Maybe) -> Maybe:
    """Absolute value."""
    number = None if quantity is None else quantity.number
    return None if quantity is None or number is None else Quantity(abs(number), quantity.kind)


def whole(quantity: Maybe, to_int: Callable[[float], int]) -> Maybe:
    """Rounded by `to_int` (round, floor, ceil): sizes to bytes, durations to seconds, other numbers to an int."""
    number = None if quantity is None else quantity.number
    if quantity is None or number is None:
        return None
    return Quantity(to_int(number), quantity.kind if quantity.kind in _DIMENSIONS else Kind.INT)


def round_digits(quantity: Maybe, digits: Maybe) -> Maybe:
    """Rounded to decimal digits; the kind stays."""
    number = None if quantity is None else quantity.number
    if quantity is None or number is None or digits is None or not isinstance(digits.value, int):
        return None
    return Quantity(round(number, max(-15, min(15, digits.value))), quantity.kind)


def round_to(quantity: Maybe, step: Maybe, *, up: bool) -> Maybe:
    """The next multiple of `step`, up or down, without binary noise: round_up(0.9412, 0.01) is 0.95."""
    if quantity is None or step is None:
        return None
    number, size = quantity.number, step.number
    kind = _sum_kind(quantity.kind, step.kind)
    if number is None or size is None or size <= 0 or kind is None:
        return None
    if kind is Kind.FLOAT and (step.kind is Kind.INT or quantity.kind is Kind.PERCENT):
        kind = Kind.INT if step.kind is Kind.INT else Kind.PERCENT
    try:
        steps = number / size
        count = math.ceil(steps - _NOISE) if up else math.floor(steps + _NOISE)
        exact = Decimal(str(size)) * count
        return _quantity(int(exact) if exact == exact.to_integral_value() else float(exact), kind)
    except (ArithmeticError, ValueError):
        return None


def series(function: str, values: Sequence[Maybe]) -> Maybe:
    """`first last lowest highest mean sum delta count span` of a series; unknown values are left out.

    `delta` is last minus first, `span` highest minus lowest. Of an empty series only `count` is known.
    """
    if isinstance(values, Series) and values and values.alike:  # a statistic of a whole run, asked for at every line
        if function == "count":
            return Quantity(values.seen, Kind.INT)
        if function in ("lowest", "highest"):
            return values.highest if function == "highest" else values.lowest
        if function == "span":
            return binary("-", values.highest, values.lowest)
    known = [value for value in values if value is not None]
    if function == "count":
        return Quantity(len(known), Kind.INT)
    if not known:
        return None
    if function in ("first", "last"):
        return known[0 if function == "first" else -1]
    if function in ("lowest", "highest"):
        return extreme(known, largest=function == "highest")
    if function == "delta":
        return binary("-", known[-1], known[0])
    if function == "span":
        return binary("-", extreme(known, largest=True), extreme(known, largest=False))
    total: Maybe = known[0]
    for value in known[1:]:
        total = binary("+", total, value)
    if function == "sum":
        return total if total is not None and total.number is not None else None
    return binary("/", total, Quantity(len(known), Kind.INT))


SERIES_FUNCTIONS = ("first", "last", "lowest", "highest", "mean", "sum", "delta", "count", "span")

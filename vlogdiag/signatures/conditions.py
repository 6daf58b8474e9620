"""Turns the source of a condition into a function from scope to quantity, over an allow-list of Python's grammar."""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Protocol

from vlogdiag.catalog import VersionError, Versions
from vlogdiag.signatures import arithmetic
from vlogdiag.signatures.arithmetic import Maybe
from vlogdiag.signatures.literals import take_literals
from vlogdiag.values import Kind, Quantity

MAX_SOURCE = 200
MAX_DEPTH = 24


class ExprError(ValueError):
    """A condition or text that cannot be used: what is wrong, and near which character."""

    def __init__(self, message: str, position: int = 0, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.position = position


class Scope(Protocol):
    """What a condition may ask; None is unknown."""

    def lookup(self, name: str) -> Quantity | None:
        """The value of a capture or dotted name."""

    def vllm_in(self, spec: str) -> bool | None:
        """True if every version that the log allows is inside, False if none is."""

    def in_frames(self, fragment: str) -> bool:
        """Whether the record's traceback frames hold the fragment."""

    def in_text(self, fragment: str) -> bool:
        """Whether the record's text holds the fragment."""

    def series(self, name: str) -> Sequence[Quantity]:
        """All values of a name over the detections, oldest first."""


Evaluator = Callable[[Scope], Maybe]

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}

_UNARY_FUNCTIONS: dict[str, Callable[[Maybe], Maybe]] = {
    "known": lambda value: arithmetic.boolean(value is not None),
    "abs": arithmetic.magnitude,
    "floor": lambda value: arithmetic.whole(value, math.floor),
    "ceil": lambda value: arithmetic.whole(value, math.ceil),
    "lower": lambda value: (
        Quantity(value.value.lower(), Kind.TEXT) if value is not None and isinstance(value.value, str) else None
    ),
}
_BINARY_FUNCTIONS: dict[str, Callable[[Maybe, Maybe], Maybe]] = {
    "round_up": lambda value, step: arithmetic.round_to(value, step, up=True),
    "round_down": lambda value, step: arithmetic.round_to(value, step, up=False),
}
_TEXT_FUNCTIONS = ("vllm_in", "in_frames", "in_text")

FUNCTIONS = (
    *_UNARY_FUNCTIONS,
    *_BINARY_FUNCTIONS,
    *_TEXT_FUNCTIONS,
    "min",
    "max",
    "round",
    *arithmetic.SERIES_FUNCTIONS,
)
"""Everything that can be called."""

_CONSTANTS = {"true": arithmetic.TRUE, "false": arithmetic.FALSE}

_PLACEHOLDER = re.compile(r"(?<![\w.])_[0-9]")


def compile_condition(source: str, names: Callable[[str], bool]) -> tuple[Evaluator, frozenset[str]]:
    """The condition's evaluator and the dotted names that it reads; raises ExprError."""
    source = " ".join(source.split("\n")).strip()
    if not source:
        raise ExprError("empty expression")
    if len(source) > MAX_SOURCE:
        raise ExprError(f"expression longer than {MAX_SOURCE} characters", MAX_SOURCE)
    if _PLACEHOLDER.search(source):
        raise ExprError("names do not begin with _")
    plain, literals = take_literals(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExprError(f"not an expression: {source}", getattr(error, "offset", None) or 0) from error
    builder = _Builder(names, literals)
    evaluator = builder.build(tree.body, 0)
    return evaluator, frozenset(builder.used)


class _Builder:
    """Walks one syntax tree and refuses what is not on the list."""

    def __init__(self, names: Callable[[str], bool], literals: dict[str, Quantity]) -> None:
        self.names = names
        self.literals = literals
        self.used: set[str] = set()

    def build(self, node: ast.expr, depth: int, *, text: bool = False) -> Evaluator:
        """Evaluator of one node; `text` where a string literal may stand."""
        if depth > MAX_DEPTH:
            raise ExprError(f"nested deeper than {MAX_DEPTH}", node.col_offset)
        if isinstance(node, ast.Constant):
            return self.constant(node, text=text)
        if isinstance(node, ast.Name | ast.Attribute):
            return self.name(node)
        if isinstance(node, ast.BinOp):
            return self.operation(node, depth)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node, depth)
        if isinstance(node, ast.BoolOp):
            return self.junction(node, depth)
        if isinstance(node, ast.Compare):
            return self.comparison(node, depth)
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        raise ExprError(f"{type(node).__name__} is not allowed in an expression", node.col_offset)

    def constant(self, node: ast.Constant, *, text: bool) -> Evaluator:
        value = node.value
        if isinstance(value, bool):
            quantity = arithmetic.TRUE if value else arithmetic.FALSE
        elif isinstance(value, int):
            quantity = Quantity(value, Kind.INT)
        elif isinstance(value, float) and math.isfinite(value):
            quantity = Quantity(value, Kind.FLOAT)
        elif isinstance(value, str) and text:
            quantity = Quantity(value, Kind.TEXT)
        elif isinstance(value, str):
            raise ExprError("text stands only beside ==, != and in", node.col_offset)
        else:
            raise ExprError(f"{value!r} is not allowed in an expression", node.col_offset)
        return lambda scope: quantity

    def name(self, node: ast.Name | ast.Attribute) -> Evaluator:
        name = self.dotted(node)
        fixed = self.literals.get(name) or _CONSTANTS.get(name)
        if fixed is not None:
            if not math.isfinite(fixed.number or 0):
                raise ExprError("number out of range", node.col_offset)
            return lambda scope: fixed
        return lambda scope: scope.lookup(name)

    def dotted(self, node: ast.expr) -> str:
        """The dotted name, checked and noted."""
        pieces: list[str] = []
        inner = node
        while isinstance(inner, ast.Attribute):
            pieces.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            raise ExprError("a dot follows names only", node.col_offset)
        name = ".".join([inner.id, *reversed(pieces)])
        if name in self.literals or name in _CONSTANTS:
            return name
        if not self.names(name):
            raise ExprError(f"unknown name {name!r}", node.col_offset)
        self.used.add(name)
        return name

    def operation(self, node: ast.BinOp, depth: int) -> Evaluator:
        sign = _SIGNS.get(type(node.op))
        if sign is None:
            raise ExprError(f"operator {type(node.op).__name__} is not allowed", node.col_offset)
        left, right = self.build(node.left, depth + 1), self.build(node.right, depth + 1)
        return lambda scope: arithmetic.binary(sign, left(scope), right(scope))

    def unary(self, node: ast.UnaryOp, depth: int) -> Evaluator:
        operand = self.build(node.operand, depth + 1)
        if isinstance(node.op, ast.USub):
            return lambda scope: arithmetic.negative(operand(scope))
        if isinstance(node.op, ast.Not):
            return lambda scope: _negated(operand(scope))
        raise ExprError(f"operator {type(node.op).__name__} is not allowed", node.col_offset)

    def junction(self, node: ast.BoolOp, depth: int) -> Evaluator:
        parts = [self.build(value, depth + 1) for value in node.values]
        decisive = isinstance(node.op, ast.Or)

        def evaluate(scope: Scope) -> Maybe:
            truths = [arithmetic.truth(part(scope)) for part in parts]
            if decisive in truths:
                return arithmetic.boolean(decisive)
            return None if None in truths else arithmetic.boolean(not decisive)

        return evaluate

    def comparison(self, node: ast.Compare, depth: int) -> Evaluator:
        """A chain of comparisons: false as soon as one link is, true only if all are."""
        operands = [node.left, *node.comparators]
        links: list[Callable[[Scope], bool | None]] = []
        for index, operator in enumerate(node.ops):
            left, right = operands[index], operands[index + 1]
            if isinstance(operator, ast.In | ast.NotIn):
                links.append(self.membership(left, right, depth, negated=isinstance(operator, ast.NotIn)))
                continue
            sign = _SIGNS.get(type(operator))
            if sign is None:
                raise ExprError(f"operator {type(operator).__name__} is not allowed", node.col_offset)
            equal = sign in ("==", "!=")
            links.append(self.link(sign, left, right, depth, text=equal))

        def evaluate(scope: Scope) -> Maybe:
            truths = [link(scope) for link in links]
            if False in truths:
                return arithmetic.FALSE
            return None if None in truths else arithmetic.TRUE

        return evaluate

    def link(
        self, sign: str, left: ast.expr, right: ast.expr, depth: int, *, text: bool
    ) -> Callable[[Scope], bool | None]:
        one, other = self.build(left, depth + 1, text=text), self.build(right, depth + 1, text=text)
        return lambda scope: arithmetic.compare(sign, one(scope), other(scope))

    def membership(
        self, left: ast.expr, right: ast.expr, depth: int, *, negated: bool
    ) -> Callable[[Scope], bool | None]:
        """`'qwen' in lower(log.model)` and `log.device in ('cuda', 'rocm')`."""
        one = self.build(left, depth + 1, text=True)
        if isinstance(right, ast.Tuple | ast.List):
            members = [self.build(member, depth + 1, text=True) for member in right.elts]

            def inside(scope: Scope) -> bool | None:
                value = one(scope)
                truths = [arithmetic.compare("==", value, member(scope)) for member in members]
                return True if True in truths else None if None in truths else False

        else:
            whole = self.build(right, depth + 1, text=True)

            def inside(scope: Scope) -> bool | None:
                return arithmetic.contains(whole(scope), one(scope))

        if not negated:
            return inside

        def outside(scope: Scope) -> bool | None:
            held = inside(scope)
            return None if held is None else not held

        return outside

    def call(self, node: ast.Call, depth: int) -> Evaluator:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            raise ExprError(f"only these can be called: {', '.join(FUNCTIONS)}", node.col_offset)
        function = node.func.id
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise ExprError(f"{function}() takes plain arguments", node.col_offset)
        if function in _TEXT_FUNCTIONS:
            return self.text_call(function, node)
        if function in arithmetic.SERIES_FUNCTIONS:
            self.count(node, function, 1, 1)
            name = self.dotted(node.args[0])
            return lambda scope: arithmetic.series(function, scope.series(name))
        arguments = [self.build(argument, depth + 1) for argument in node.args]
        if function in _UNARY_FUNCTIONS:
            self.count(node, function, 1, 1)
            unary = _UNARY_FUNCTIONS[function]
            return lambda scope: unary(arguments[0](scope))
        if function in _BINARY_FUNCTIONS:
            self.count(node, function, 2, 2)
            binary = _BINARY_FUNCTIONS[function]
            return lambda scope: binary(arguments[0](scope), arguments[1](scope))
        if function == "round":
            self.count(node, function, 1, 2)
            if len(arguments) == 1:
                return lambda scope: arithmetic.whole(arguments[0](scope), round)
            return lambda scope: arithmetic.round_digits(arguments[0](scope), arguments[1](scope))
        self.count(node, function, 2, 20)
        return lambda scope: arithmetic.extreme([each(scope) for each in arguments], largest=function == "max")

    def count(self, node: ast.Call, function: str, least: int, most: int) -> None:
        if not least <= len(node.args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise ExprError(f"{function}() takes {wanted} arguments, got {len(node.args)}", node.col_offset)

    def text_call(self, function: str, node: ast.Call) -> Evaluator:
        """vllm_in, in_frames, in_text: one string literal."""
        argument = node.args[0] if len(node.args) == 1 else None
        if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str) or not argument.value:
            raise ExprError(f"{function}() takes one text in quotes", node.col_offset)
        text = argument.value
        if function == "in_frames":
            return lambda scope: arithmetic.boolean(scope.in_frames(text))
        if function == "in_text":
            return lambda scope: arithmetic.boolean(scope.in_text(text))
        try:
            Versions.parse_spec(text)
        except VersionError as error:
            raise ExprError(f"{text!r} is no PEP 440 specifier", node.col_offset) from error
        return lambda scope: arithmetic.boolean(scope.vllm_in(text))


def _negated(value: Maybe) -> Maybe:
    held = arithmetic.truth(value)
    return None if held is None else arithmetic.boolean(not held)

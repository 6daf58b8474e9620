"""Reads the options of `vllm serve` out of a vLLM source tree, executing nothing: the second, independent reading.

It walks the syntax trees of the functions that build the parser and of the dataclasses that newer releases generate
options from. What it cannot read (a computed default, choices taken from a registry) is UNKNOWN and is not compared.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNKNOWN = object()
"""This reading cannot tell."""

BUILDERS = {"add_cli_args", "make_arg_parser", "subparser_init", "add_cli_args_for_vlm", "_add_cli_args"}
OWNERS = {None, "EngineArgs", "AsyncEngineArgs", "FrontendArgs", "BaseFrontendArgs", "ServeSubcommand"}


@dataclass
class Option:
    """One option as the text of the source has it."""

    name: str
    also: list[str] = field(default_factory=list)
    off: list[str] = field(default_factory=list)
    default: Any = UNKNOWN
    choices: Any = UNKNOWN


class Source:
    """The syntax trees that matter of one release, with classes and type aliases by name."""

    def __init__(self, root: Path) -> None:
        vllm = root / "vllm"
        self.builders = [vllm / "engine/arg_utils.py", *sorted((vllm / "entrypoints").rglob("cli_args.py"))]
        self.builders += [path for path in (vllm / "entrypoints/cli/serve.py",) if path.is_file()]
        self.scripts = None if len(self.builders) > 2 or not (vllm / "scripts.py").is_file() else vllm / "scripts.py"
        configs = [vllm / "config.py"] if (vllm / "config.py").is_file() else sorted((vllm / "config").rglob("*.py"))
        self.trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (*configs, *self.builders)}
        self.classes: dict[str, ast.ClassDef] = {}
        self.names: dict[str, ast.expr] = {}
        for tree in self.trees.values():
            for node in _module_level(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.names.setdefault(node.targets[0].id, node.value)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                    self.names.setdefault(node.target.id, node.value)
        text = (vllm / "engine/arg_utils.py").read_text(encoding="utf-8")
        self.generated_pairs = "def get_kwargs" in text and "BooleanOptionalAction" in text
        self.mutated = set(re.findall(r'\["(\w+)"\]\["choices"\]', text))
        self.inverses = any(
            "class EnableDisableAction" in path.read_text(encoding="utf-8")
            for path in (vllm / "utils/argparse_utils.py",)
            if path.is_file()
        )

    def fields(self, name: str) -> dict[str, tuple[ast.expr | None, ast.expr | None]]:
        """Fields of a dataclass with its bases': name to (annotation, default)."""
        node = self.classes.get(name)
        if node is None:
            return {}
        result: dict[str, tuple[ast.expr | None, ast.expr | None]] = {}
        for base in node.bases:
            if isinstance(base, ast.Name):
                result.update(self.fields(base.id))
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                if "ClassVar" not in ast.unparse(item.annotation) and "InitVar" not in ast.unparse(item.annotation):
                    result[item.target.id] = (item.annotation, item.value)
            elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
                result.setdefault(item.targets[0].id, (None, item.value))
        return result

    def value(self, node: ast.expr | None, depth: int = 0) -> Any:
        """A default as a value, or UNKNOWN."""
        if node is None or depth > 8:
            return UNKNOWN
        try:
            return _jsonable(ast.literal_eval(node))
        except (ValueError, SyntaxError):
            pass
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.value(self.names[node.id], depth + 1)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = self.fields(node.value.id).get(node.attr)
            return self.value(found[1], depth + 1) if found else UNKNOWN
        if isinstance(node, ast.Attribute) and node.attr == "value":
            return self.value(node.value, depth + 1)
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        return UNKNOWN

    def _called(self, node: ast.Call, depth: int) -> Any:
        name = ast.unparse(node.func)
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if name == "get_field" and len(node.args) == 2:
            owner, attribute = ast.unparse(node.args[0]), ast.literal_eval(node.args[1])
            found = self.fields(owner).get(attribute)
            return self.value(found[1], depth + 1) if found else UNKNOWN
        if name in ("Field", "field"):
            if "default" in given or node.args:
                return self.value(given.get("default", node.args[0] if node.args else None), depth + 1)
            factory = ast.unparse(given["default_factory"]) if "default_factory" in given else ""
            made = {"dict": {}, "list": [], "set": [], "lambda: []": [], "lambda: {}": {}}
            return made.get(factory, UNKNOWN)
        return UNKNOWN

    def literals(self, node: ast.expr | None, depth: int = 0) -> list[Any] | None:
        """All values of the `Literal` types inside an annotation; None when there are none (or any text is taken)."""
        if node is None or depth > 8:
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.literals(ast.parse(node.value, mode="eval").body, depth + 1)
        if isinstance(node, ast.Name):
            return self.literals(self.names.get(node.id), depth + 1)
        if isinstance(node, ast.BinOp):
            return self._joined((node.left, node.right), depth)
        if isinstance(node, ast.Subscript):
            head = ast.unparse(node.value).rpartition(".")[2]
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if head == "Literal":
                values = []
                for item in inner:
                    nested = self.literals(item, depth + 1) if not isinstance(item, ast.Constant) else None
                    values += nested if nested else [item.value] if isinstance(item, ast.Constant) else []
                return values
            if head in ("Optional", "Union", "SkipValidation", "Annotated"):
                return self._joined(inner, depth)
        return None

    def _joined(self, nodes: Iterable[ast.expr], depth: int) -> list[Any] | None:
        found = [self.literals(node, depth + 1) for node in nodes]
        return [value for values in found if values for value in values] or None


def _module_level(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in tree.body:
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            yield from node.body
            yield from getattr(node, "orelse", [])


def _jsonable(value: Any) -> Any:
    if isinstance(value, (tuple, set)):
        return [_jsonable(item) for item in value]
    return value


def read(root: Path) -> dict[str, Option]:
    """Every option of the release under `root`, by name."""
    source = Source(root)
    options: dict[str, Option] = {"--help": Option("--help", ["-h"])}
    for function, owner, only in _functions(source):
        kwargs, loops = _kwargs_variables(function, owner), _loops(function)
        for call in ast.walk(function):
            if not (
                isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
            ):
                continue
            if only and ast.unparse(call.func.value) != only:
                continue
            for option in _option(source, call, kwargs, loops):
                options.setdefault(option.name, option)
    return options


def _functions(source: Source) -> Iterator[tuple[ast.FunctionDef, str | None, str | None]]:
    for path in source.builders:
        for node in source.trees[path].body:
            if isinstance(node, ast.FunctionDef) and node.name in BUILDERS:
                yield node, None, None
            elif isinstance(node, ast.ClassDef) and node.name in OWNERS:
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and item.name in BUILDERS:
                        # a method that newer classes inherit speaks for the class that is really used
                        yield item, "FrontendArgs" if node.name == "BaseFrontendArgs" else node.name, None
    if source.scripts:
        for node in ast.walk(ast.parse(source.scripts.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield node, None, "serve_parser"


def _kwargs_variables(function: ast.FunctionDef, owner: str | None) -> dict[str, tuple[str, str | None]]:
    """Local names that hold `get_kwargs(Class)` or one field of it."""
    result: dict[str, tuple[str, str | None]] = {}
    for node in ast.walk(function):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        value, key = node.value, None
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            value, key = value.value, str(value.slice.value)
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "get_kwargs":
            name = ast.unparse(value.args[0])
            result[node.targets[0].id] = (owner or name if name == "cls" else name, key)
    return result


def _loops(function: ast.FunctionDef) -> dict[str, list[str]]:
    """Loop variables over a written-out list of option names: variable to names."""
    result: dict[str, list[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.For) and isinstance(node.iter, (ast.List, ast.Tuple)):
            targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
            for item in node.iter.elts:
                values = item.elts if isinstance(item, ast.Tuple) else [item]
                for target, value in zip(targets, values, strict=False):
                    if isinstance(value, ast.Constant) and str(value.value).startswith("--"):
                        result.setdefault(ast.unparse(target), []).append(str(value.value))
    return result


def _option(
    source: Source, call: ast.Call, kwargs: dict[str, tuple[str, str | None]], loops: dict[str, list[str]]
) -> Iterator[Option]:
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    spread = next((keyword.value for keyword in call.keywords if keyword.arg is None), None)
    if texts and not texts[0].startswith("-"):
        return
    if not texts or any(isinstance(arg, (ast.JoinedStr, ast.Starred)) for arg in call.args):
        for owner, key in kwargs.values():  # the loop over a dataclass's fields
            if key is None and any(isinstance(arg, ast.JoinedStr) for arg in call.args):
                for name in source.fields(owner):
                    yield _generated(source, [f"--{name.replace('_', '-')}"], owner, name, {})
        yield from (_named([text]) for text in loops.get(ast.unparse(call.args[0]), ()))
        return
    if isinstance(spread, ast.Dict):  # **{**model_kwargs["field"], "default": None}
        given.update(
            {str(ast.literal_eval(key)): value for key, value in zip(spread.keys, spread.values, strict=True) if key}
        )
        spread = next((value for key, value in zip(spread.keys, spread.values, strict=True) if key is None), None)
    target = _target(spread, kwargs)
    if target:
        yield _generated(source, texts, *target, given)
        return
    option = _named(texts)
    action = ast.unparse(given["action"]).strip("'\"") if "action" in given else ""
    if "default" in given:
        option.default = source.value(given["default"])
    elif spread is None:
        option.default = {"store_true": False, "store_false": True}.get(action)
    if "choices" in given:
        option.choices = source.value(given["choices"])
    elif spread is None:
        option.choices = None
    if action.endswith("BooleanOptionalAction"):
        option.off = _negations(source, texts)
    yield option


def _target(spread: ast.expr | None, kwargs: dict[str, tuple[str, str | None]]) -> tuple[str, str] | None:
    """(class, field) that `**model_kwargs["field"]` or `**field_kwargs` stands for."""
    if (
        isinstance(spread, ast.Subscript)
        and isinstance(spread.value, ast.Name)
        and isinstance(spread.slice, ast.Constant)
    ):
        owner = kwargs.get(spread.value.id)
        return (owner[0], str(spread.slice.value)) if owner else None
    if isinstance(spread, ast.Name):
        owner = kwargs.get(spread.id)
        return (owner[0], owner[1]) if owner and owner[1] else None
    return None


def _named(texts: list[str]) -> Option:
    name = next((text for text in texts if text.startswith("--")), texts[0])
    return Option(name, [text for text in texts if text != name])


def _negations(source: Source, texts: list[str]) -> list[str]:
    off = ["--no-" + text[2:] for text in texts if text.startswith("--")]
    if source.inverses:
        for one, other in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
            off += [other + text[len(one) :] for text in texts if text.startswith(one)]
    return sorted(off)


def _generated(source: Source, texts: list[str], owner: str, target: str, given: dict[str, ast.expr]) -> Option:
    annotation, default = source.fields(owner).get(target, (None, None))
    option = _named(texts)
    option.default = source.value(given.get("default", default))
    words = ast.unparse(annotation) if annotation is not None else ""
    parts = set(re.findall(r"[\w.]+", words))
    action = ast.unparse(given["action"]) if "action" in given else ""
    generated = "bool" in parts and "str" not in parts and source.generated_pairs and not action
    if generated or action.endswith("BooleanOptionalAction"):
        option.off = _negations(source, texts)
    if "choices" in given:
        option.choices = source.value(given["choices"])
    elif (literals := source.literals(annotation)) and "str" not in parts and target not in source.mutated:
        option.choices = sorted(set(literals), key=str)
    return option

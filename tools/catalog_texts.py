"""Reads a vLLM source tree's environment variables and metric names out of its text, executing nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_METRIC = re.compile(r"vllm:[a-z][a-z0-9_]*[a-z0-9]")
_UNREAD = ("benchmarks", "third_party", "model_executor", "kernels", "compilation")
"""Folders that neither export metrics nor read the server's variables, but mention both."""


def declared_variables(root: Path) -> dict[str, Any]:
    """`VLLM_*` keys of `environment_variables` in vllm/envs.py, with the default that its type block writes (or None).

    {} before 0.4.2, which had no such file: `scattered_variables` reads those.
    """
    path = root / "vllm/envs.py"
    if not path.is_file():
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typed: dict[str, Any] = {}
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.target.id == "environment_variables" and isinstance(node.value, ast.Dict):
                names += [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
            elif node.value is not None:
                typed[node.target.id] = _literal(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "environment_variables.update":
            for inner in ast.walk(node):
                if isinstance(inner, ast.Dict):
                    names += [key.value for key in inner.keys if isinstance(key, ast.Constant)]
    return {name: typed.get(name) for name in sorted(set(names)) if name.startswith("VLLM_")}


def scattered_variables(root: Path) -> dict[str, Any]:
    """`VLLM_*` variables that any module reads straight from the environment, with the default it falls back to."""
    found: dict[str, Any] = {}
    for _, tree in _modules(root, "VLLM_"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.getenv", "os.environ.get") and node.args:
                name = _variable(node.args[0])
                default = _literal(node.args[1]) if len(node.args) > 1 else None
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
                name, default = _variable(node.slice), None
            else:
                continue
            if name and found.get(name) is None:
                found[name] = default
    return dict(sorted(found.items()))


def _variable(node: ast.expr) -> str | None:
    text = node.value if isinstance(node, ast.Constant) else node.id if isinstance(node, ast.Name) else None
    return text if isinstance(text, str) and text.startswith("VLLM_") else None


def metrics(root: Path) -> dict[str, tuple[str, bool]]:
    """Metric names as /metrics prints them, each with its kind (`metric`: unknown) and whether it is hidden."""
    found: dict[str, tuple[str, bool]] = {}
    for path, tree in _modules(root, "[\"']vllm:[a-z]"):
        if path == root / "vllm/engine/metrics.py" and not _v0_alive(root):
            continue
        constants = _constants(tree)
        for name, kind, hidden in _mentions(tree, "metric", False, constants):
            if kind == "counter" and not name.endswith("_total"):
                name += "_total"  # as prometheus_client does
            before = found.get(name, ("metric", True))
            found[name] = (kind if before[0] == "metric" else before[0], before[1] and hidden)
    return dict(sorted(found.items()))


def _v0_alive(root: Path) -> bool:
    """Whether the V0 engine still uses `vllm/engine/metrics.py`: 0.11.x ships that file, and nothing imports it."""
    return "vllm.engine.metrics" in (root / "vllm/engine/llm_engine.py").read_text(encoding="utf-8")


def _modules(root: Path, mention: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((root / "vllm").rglob("*.py")):
        if path.relative_to(root / "vllm").parts[0] in _UNREAD:
            continue
        text = path.read_text(encoding="utf-8")
        if re.search(mention, text):
            yield path, ast.parse(text)


def _constants(tree: ast.Module) -> dict[str, str]:
    """`NAME = "vllm:…"` of modules and classes: the last part of the name to the metric."""
    result = {}
    for node in ast.walk(tree):
        if (
            (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.targets[0], ast.Name)
            )
            and isinstance(node.value.value, str)
            and _METRIC.fullmatch(node.value.value)
        ):
            result[node.targets[0].id] = node.value.value
    return result


def _mentions(node: ast.AST, kind: str, hidden: bool, constants: dict[str, str]) -> Iterator[tuple[str, str, bool]]:
    if isinstance(node, ast.Compare) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return  # a name that is looked for, or a docstring
    if isinstance(node, ast.If) and "show_hidden" in ast.unparse(node.test):
        for child in node.body:
            yield from _mentions(child, kind, True, constants)
        for child in node.orelse:
            yield from _mentions(child, kind, hidden, constants)
        return
    if isinstance(node, ast.Call):
        callee = ast.unparse(node.func).lower()
        kind = next((word for word in ("histogram", "counter", "gauge") if word in callee), kind)
        if callee == "info":  # prometheus_client appends _info to the name of an Info, a gauge in what it prints
            names = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
            yield from ((f"{name}_info", "gauge", hidden) for name in map(_literal, names) if name)
            return
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _METRIC.fullmatch(node.value):
        yield node.value, kind, hidden
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = constants.get(node.id if isinstance(node, ast.Name) else node.attr)
        if name:
            yield name, kind, hidden
    for child in ast.iter_child_nodes(node):
        yield from _mentions(child, kind, hidden, constants)


def _literal(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return list(value) if isinstance(value, (tuple, set)) else value

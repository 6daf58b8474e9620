"""The house: imports point one way, heavy libraries are imported in one place, only the edges touch the world (DESIGN 3)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "vlogdiag"
ROOMS = [
    "model",
    "values",
    "catalog",
    "log",
    "signatures",
    "live",
    "diagnosis",
    "launch",
    "solver",
    "corroboration",
    "rule_cache",
    "loading",
    "pipeline",
    "timeline",
    "comparison",
    "report",
    "snapshot",
    "numbering",
    "serving",
    "recording",
    "scan",
    "session",
    "checking",
    "tail",
    "export",
    "hooks",
    "tail_screen",
    "cli_common",
    "cli_output",
    "cli_compare",
    "cli_fix",
    "cli_flags",
    "cli_rules",
    "cli_scan",
    "cli_snapshot",
    "cli_tail",
    "cli_whatif",
    "cli",
    "__main__",
]
"""A room imports only from rooms before it."""
ONLY_IN = {
    "pynvml": {"live"},
    "hyperscan": {"log", "snapshot"},
    "stringzilla": {"log"},
    "typer": {"cli", "cli_common", "__main__"},
    "rich": {"report", "tail_screen", "cli", "cli_common"},
    "apprise": {"hooks"},
}
"""Libraries that one room wraps; the commands may use typer and rich too."""


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module == "vlogdiag":
                yield from (f"vlogdiag.{alias.name}" for alias in node.names)
            else:
                yield node.module


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = [p for p in sorted(PACKAGE.rglob("*.py")) if p != PACKAGE / "__init__.py"]


def test_every_room_is_listed() -> None:
    assert {room_of(p) for p in FILES} == set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_arrows_point_one_way(path: Path) -> None:
    room = room_of(path)
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "vlogdiag" and rest and rest != "__version__":
            other = rest.split(".")[0]
            assert ROOMS.index(other) <= ROOMS.index(room), f"{room} imports {name}"
        if top in ONLY_IN:
            assert room in ONLY_IN[top] or (room.startswith("cli_") and top in ("typer", "rich")), f"{room}: {name}"


def test_the_package_imports_no_tools_and_no_tests() -> None:
    assert not [(p, n) for p in FILES for n in imports(p) if n.split(".")[0] in ("tools", "tests")]


def test_no_relative_imports():
    """A relative import would slip past the rule above."""
    wrong = [
        f"{path.name}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert wrong == []


PURE = ("model", "values", "signatures", "diagnosis", "corroboration", "pipeline", "report")
"""Rooms between the bytes and the renderers: the same input gives the same findings."""
WORLD = {
    "open": "reads a file",
    "input": "asks a terminal",
    "print": "writes to a terminal",
}
MODULES = {"os", "subprocess", "socket", "time", "random", "requests", "urllib", "pynvml", "psutil", "shutil", "sys", "threading", "asyncio"}  # fmt: skip


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) in PURE], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_room_inside_touches_the_world(path):
    """No file, clock, environment, terminal or chance between sources and renderers."""
    wrong = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            wrong += [
                f"{path.name}:{node.lineno} imports {a.name}" for a in node.names if a.name.split(".")[0] in MODULES
            ]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in MODULES:
            wrong.append(f"{path.name}:{node.lineno} imports {node.module}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORLD:
            wrong.append(f"{path.name}:{node.lineno} {WORLD[node.func.id]}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("read_text", "write_text", "read_bytes", "now", "today"):  # fmt: skip
            wrong.append(f"{path.name}:{node.lineno} calls {node.func.attr}")
    assert wrong == []


def test_only_the_commands_exit():
    wrong = [
        f"{path.name}:{node.lineno}"
        for path in FILES
        if not room_of(path).startswith(("cli", "__main__")) and path.name != "nvml_worker.py"  # a program of its own
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Name) and node.id == "SystemExit")
        or (
            isinstance(node, ast.Attribute)
            and node.attr in ("exit", "_exit")
            and isinstance(node.value, ast.Name)
            and node.value.id in ("sys", "os")
        )
    ]
    assert wrong == []


def test_no_exception_is_swallowed_whole():
    """`except Exception: pass` hides what it was not meant for."""
    wrong = [
        f"{path.name}:{handler.lineno}"
        for path in FILES
        for handler in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(handler, ast.ExceptHandler)
        and (
            handler.type is None
            or (isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException"))
        )
        and all(isinstance(line, ast.Pass) for line in handler.body)
    ]
    assert wrong == []

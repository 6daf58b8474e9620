"""The house: imports between rooms point one way, and what is heavy or optional is imported in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "vlogdiag"
ROOMS = """
    model values catalog log signatures live diagnosis launch solver corroboration rule_cache loading pipeline timeline
    comparison report snapshot numbering serving recording scan session checking tail export hooks tail_screen
    cli_common cli_compare cli_fix cli_flags cli_rules cli_scan cli_snapshot cli_tail cli_whatif cli __main__
""".split()
"""A room imports only from rooms before it."""
ONLY_IN = {
    "pynvml": {"live"},
    "hyperscan": {"log", "snapshot"},
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

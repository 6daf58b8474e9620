"""Finds the script fixes that ship with the rules: names, and the text of one."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS = (_PACKAGE / "rules" / "scripts", _PACKAGE.parent / "rules" / "scripts")
"""In a wheel, and in a checkout."""
_ENDINGS = (".py", ".yaml")


class UnknownScript(LookupError):  # noqa: N818 - reads as what happened
    """There is no script fix of that name; the text names the nearest ones."""


def script_names() -> tuple[str, ...]:
    """Names of the script fixes, without endings (`resize_images`)."""
    return tuple(sorted(path.stem for path in _files()))


def script_file(name: str) -> Path:
    """The file of a script fix; its ending may be given or not. Raises UnknownScript."""
    stem = Path(name).stem if name.endswith(_ENDINGS) else name
    for path in _files():
        if path.stem == stem and (stem == name or path.name == name):
            return path
    near = get_close_matches(stem, script_names(), n=1)
    raise UnknownScript(f"no script named {name!r}" + (f"; did you mean {near[0]}?" if near else ""))


def read_script(name: str) -> str:
    """The text of a script fix. Raises UnknownScript."""
    return script_file(name).read_text(encoding="utf-8")


def _files() -> tuple[Path, ...]:
    for folder in _FOLDERS:
        if folder.is_dir():
            return tuple(sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS and path.is_file()))
    return ()

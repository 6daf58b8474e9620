"""Executes the parser code of one vLLM source tree with every heavy import replaced, and prints its options as JSON.

Runs as its own process, since it takes over the import system: `python tools/catalog_execute.py FOLDER`, the folder
that holds `vllm/`.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import importlib
import inspect
import io
import json
import os
import re
import sys
import types
from pathlib import Path
from typing import Any

from catalog_stubs import FAILED, Finder

HOME = "/home/of-the-reader"
"""Stands in for the home folder; written back as `~`."""


class _Captured(BaseException):
    pass


def serve_parser(root: Path) -> tuple[argparse.ArgumentParser, str]:
    """The parser behind `vllm serve` (before that existed, behind the API server's module), and where it was built."""
    modules = root / "vllm"
    if (modules / "entrypoints/cli/serve.py").is_file():
        serve = importlib.import_module("vllm.entrypoints.cli.serve")
        subparsers = _flexible()(prog="vllm").add_subparsers()
        return serve.ServeSubcommand().subparser_init(subparsers), "vllm.entrypoints.cli.serve"
    if (modules / "scripts.py").is_file():
        scripts = importlib.import_module("vllm.scripts")
        captured: list[argparse.ArgumentParser] = []

        def stop(self: argparse.ArgumentParser, *_: Any, **__: Any) -> Any:
            captured.append(self)
            raise _Captured

        _flexible().parse_args = stop  # type: ignore[method-assign]
        with contextlib.suppress(_Captured):
            scripts.main()
        (subparsers,) = (a for a in captured[0]._actions if isinstance(a, argparse._SubParsersAction))
        return subparsers.choices["serve"], "vllm.scripts"
    return module_parser(root), "vllm.entrypoints.openai.cli_args"


def module_parser(root: Path) -> argparse.ArgumentParser:
    """The parser behind `python -m vllm.entrypoints.openai.api_server`."""
    for path in sorted((root / "vllm/entrypoints").rglob("cli_args.py")):  # it moved three times so far
        if "def make_arg_parser" in path.read_text(encoding="utf-8"):
            make = importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts)).make_arg_parser
            return make(_flexible()()) if inspect.signature(make).parameters else make()
    raise LookupError("no make_arg_parser in this release")


def _flexible() -> type[argparse.ArgumentParser]:
    for name in ("vllm.utils.argparse_utils", "vllm.utils"):
        found = getattr(_module(name), "FlexibleArgumentParser", None)
        if inspect.isclass(found):
            return found
    return argparse.ArgumentParser


def _module(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            return None
        raise


def describe(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """Every option that the parser registers, hidden spellings included."""
    spellings: dict[int, list[str]] = {}
    actions: dict[int, argparse.Action] = {}
    for text, action in parser._option_string_actions.items():
        spellings.setdefault(id(action), []).append(text)
        actions[id(action)] = action
    deprecated = {id(action) for action in getattr(parser, "_deprecated", ())}
    return [
        _describe(action, spellings[key], key in deprecated or bool(getattr(action, "deprecated", False)))
        for key, action in actions.items()
    ]


_DEPRECATED_HELP = re.compile(
    r"\s*\W*(deprecated\b|\S+ (is|are) deprecated\b|this (option|argument|flag|parameter) is deprecated\b)", re.I
)


def _describe(action: argparse.Action, spellings: list[str], deprecated: bool) -> dict[str, Any]:
    pair = isinstance(action, argparse.BooleanOptionalAction)
    negative = getattr(action, "negative_option_strings", None)
    if pair and negative is None:
        negative = {text for text in spellings if text.startswith("--no-")}
        if all(text in negative for text in spellings):
            negative = {text for text in spellings if "--no-" + text[2:] not in spellings}
    off = sorted(negative or ())
    on = [text for text in spellings if text not in off]
    name = next((text for text in on if text.startswith("--")), on[0])
    boolean = type(action).__name__ == "StoreBoolean"
    nargs = action.nargs
    if pair:
        kind = "pair"
    elif nargs == 0:
        kind = "switch"
    elif nargs in ("*", "+") or isinstance(nargs, int):
        kind = "list"
    else:
        kind = "optional" if nargs == "?" else "value"
    default, known = plain(action.default)
    return {
        "name": name,
        "also": [text for text in on if text != name],
        "off": off,
        "kind": kind,
        "type": None if kind in ("pair", "switch") else "bool" if boolean else type_name(action.type),
        "default": default,
        "default_known": known,
        "choices": None if boolean or not action.choices else [plain(c)[0] for c in action.choices if c is not None],
        "deprecated": deprecated
        or "Deprecated" in type(action).__name__
        or bool(_DEPRECATED_HELP.match(str(action.help or ""))),
        "help": str(action.help or "")[:200],
    }


def plain(value: Any) -> tuple[Any, bool]:
    """A default as JSON, and whether that says it all; objects that only the running server has are null."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is argparse.SUPPRESS or value is inspect.Parameter.empty:
        return None, True
    if value is None or isinstance(value, (bool, int, float, str)):
        return value, True
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        return [item for item, _ in items], all(known for _, known in items)
    if isinstance(value, dict):
        pairs = {str(key): plain(item) for key, item in value.items()}
        return {key: item for key, (item, _) in pairs.items()}, all(known for _, known in pairs.values())
    return None, False


def type_name(convert: Any) -> str | None:
    """What texts a converter takes, found by trying: names of functions changed too often to go by."""
    if convert is None:
        return "str"
    takes = {
        text: _takes(convert, text)
        for text in ("3", "1.5", "4k", "auto", "abc", "a=1", '{"a": 1}', "{}", "{bad}", "true")
    }
    if takes["abc"]:
        return "str" if takes["{bad}"] else "text-or-json"
    if takes['{"a": 1}'] or takes["{}"]:
        return "pairs-or-json" if takes["a=1"] else "json"
    if takes["a=1"]:
        return "pairs"
    if takes["4k"]:
        return "size-or-auto" if takes["auto"] else "size"
    if takes["true"]:
        return "bool"
    return "float" if takes["1.5"] else "int" if takes["3"] else None


def _takes(convert: Any, text: str) -> bool:
    try:
        convert(text)
    except (argparse.ArgumentTypeError, TypeError, ValueError, KeyError, SyntaxError):
        return False
    return True


def main() -> None:
    """Print one JSON object: options, the module that built the parser, modules that failed."""
    root = Path(sys.argv[1]).resolve()
    sys.meta_path.insert(0, Finder(root))
    sys.setrecursionlimit(5000)
    os.environ.clear()
    os.environ["HOME"] = HOME
    with contextlib.redirect_stdout(io.StringIO()):
        importlib.import_module("vllm.engine.arg_utils").NEEDS_HELP = True  # else newer ones skip the descriptions
        sys.argv = ["vllm", "serve"]  # some releases look at this to decide what they add
        serve, built_by = serve_parser(root)
        sys.argv = ["api_server.py"]
        module = module_parser(root)
        options = describe(serve)
        for option in options:
            # --config is taken out of the words before argparse sees them, by both
            if option["name"] not in module._option_string_actions and option["name"] != "--config":
                option["by"] = "serve"
        known = {option["name"] for option in options}
        options += [{**option, "by": "module"} for option in describe(module) if option["name"] not in known]
        envs = variables(root)
    needed = [
        name
        for name in FAILED
        if name.rpartition(".")[2] in ("arg_utils", "cli_args", "serve", "argparse_utils", "envs")
    ]
    if needed:
        sys.exit("; ".join(f"{name} failed: {FAILED[name]}" for name in needed))
    print(json.dumps({"built_by": built_by, "options": options, "envs": envs, "failed": FAILED}, indent=1))


def variables(root: Path) -> dict[str, Any]:
    """Variables of `vllm/envs.py` with the values that they have when nothing is set; {} before that file existed."""
    if not (root / "vllm/envs.py").is_file():
        return {}
    readers = importlib.import_module("vllm.envs").environment_variables
    result: dict[str, Any] = {}
    for name, reader in sorted(readers.items()):
        if name.startswith("VLLM_"):
            try:
                values = [plain(reader())[0] for _ in range(2)]
            except Exception as error:  # a default that needs the machine (a GPU, a file)
                FAILED[f"envs.{name}"] = f"{type(error).__name__}: {error}"
                values = [None, None]
            value = values[0] if values[0] == values[1] else None  # a random one is no default
            result[name] = value.replace(HOME, "~") if isinstance(value, str) else value
    return result


if __name__ == "__main__":
    main()

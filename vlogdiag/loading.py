"""Finds rules on disk and turns them into a Rulebook and fact rules; alone below `cli` it reads rule files."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vlogdiag import catalog, rule_cache
from vlogdiag.diagnosis.engine import Rulebook
from vlogdiag.diagnosis.facts import KEEP, FactRule, quantity_of
from vlogdiag.model import Level, RuleCount
from vlogdiag.signatures.faults import Fault, RuleError
from vlogdiag.signatures.kept import kept
from vlogdiag.signatures.language import TemplateError
from vlogdiag.signatures.templates import compile_pattern

__all__ = ["Rules", "load", "rule_files", "rules_folder"]

NOT_SIGNATURES = {"facts.yaml"}
NOT_FAMILIES = {"scripts"}


class Rules(Struct, frozen=True):
    """Everything that rules say: signatures for matching, patterns for facts, and how many of each kind."""

    book: Rulebook
    facts: tuple[FactRule, ...]
    count: RuleCount


def rules_folder() -> Path:
    """The shipped rules: inside the package when installed from a wheel, beside it in a checkout."""
    inside = Path(__file__).parent / "rules"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "rules"


def rule_files(folder: Path) -> list[Path]:
    """Signature files of a rules folder: `<family>/<id>.yaml`."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):  # listed at every start: three times as fast as `rglob`
        folders[:] = [name for name in folders if name not in NOT_FAMILIES]
        found += [
            f"{place}{os.sep}{name}"
            for name in names
            if name.endswith((".yaml", ".yml")) and name not in NOT_SIGNATURES
        ]
    return [Path(path) for path in sorted(found, key=lambda path: path.split(os.sep))]  # noqa: PTH206


def load(extra: Sequence[Path] = (), *, shipped: Path | None = None, examples: bool = False) -> Rules:
    """Load the shipped rules and those of `extra` folders (a user's own), all faults of all files at once.

    What was read is kept (`rule_cache`), so that the next start need not read and check some two hundred files again;
    `examples` asks for the rules' examples too, which are never kept.

    Raises:
        RuleError: with every fault's file, line and column.
    """
    folder = shipped or rules_folder()
    own = rule_files(folder)
    named = (path for place in extra for path in ([place] if place.is_file() else rule_files(place)))
    # One file may be reached by two names, or be shipped: it is one rule.
    users = list({path.resolve(): path for path in reversed(list(named))}.values())[::-1]
    facts = folder / "facts.yaml"
    key = rule_cache.key((*own, facts), users)
    if not examples:
        found = rule_cache.read(key)
        if isinstance(found, Rules):
            return found
    rules = _read(folder, own, users, facts)
    rule_cache.write(key, replace(rules, book=Rulebook(tuple(map(kept, rules.book.signatures)))))
    return rules


def _read(folder: Path, own: Sequence[Path], users: Sequence[Path], facts: Path) -> Rules:
    from vlogdiag.signatures.schema import load_rules

    texts = [(str(path), _text(path)) for path in (*own, *users)]
    signatures = load_rules(
        texts,
        knows_flag=catalog.knows_flag,
        knows_env=catalog.knows_env,
        knows_script=script_stems(folder).__contains__,
        is_user={str(path) for path in users}.__contains__,
    )
    facts_text = _text(facts)
    digest = hashlib.sha256("\0".join(text for _, text in (*texts, ("", facts_text))).encode()).hexdigest()[:16]
    return Rules(Rulebook(signatures), parse_facts(facts_text, str(facts)), RuleCount(len(own), len(users), digest))


def script_stems(folder: Path) -> frozenset[str]:
    """Names of the script fixes in a rules folder."""
    place = folder / "scripts"
    return frozenset(p.stem for p in place.iterdir() if p.is_file()) if place.is_dir() else frozenset()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RuleError((Fault(str(path), 1, 1, reason),)) from error


def parse_facts(text: str, path: str) -> tuple[FactRule, ...]:
    """`facts.yaml`: a list of `line`, with optional `set` (constants) and `keep`.

    Raises:
        RuleError: with every fault's line.
    """
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        entries = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise RuleError((Fault(path, line, column, str(getattr(error, "problem", error))),)) from error
    if not isinstance(entries, list) or root is None:
        raise RuleError((Fault(path, 1, 1, "a list of facts is expected"),))
    faults: list[Fault] = []
    found: list[FactRule] = []
    for entry, node in zip(entries, root.value, strict=True):
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        try:
            found.append(_fact(entry))
        except (TemplateError, ValueError) as error:
            faults.append(Fault(path, line, column, str(error)))
    if faults:
        raise RuleError(tuple(faults))
    return tuple(found)


def _fact(entry: Any) -> FactRule:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("line"), str):
        raise ValueError("a fact needs `line`")
    unknown = set(entry) - {"line", "set", "keep", "level"}
    if unknown:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r}")
    keep = entry.get("keep", "last")
    if keep not in KEEP:
        raise ValueError(f"keep is one of {', '.join(KEEP)}")
    constants = {
        name: value for name, raw in (entry.get("set") or {}).items() if (value := quantity_of(raw)) is not None
    }
    level = entry.get("level")
    if level is not None and (not isinstance(level, str) or level.upper() not in Level.__members__):
        raise ValueError(f"level is one of {', '.join(name.lower() for name in Level.__members__)}")
    return FactRule(compile_pattern(entry["line"]), constants, keep, Level[level.upper()] if level else None)


def user_folders(env: Mapping[str, str] = os.environ) -> Iterable[Path]:
    """The platform's configuration folder for a user's own rules, where it exists; none when `CI` is set."""
    if env.get("CI"):
        return ()
    try:
        folder = Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "vlogdiag" / "rules"
    except RuntimeError:  # a user without a home, as containers have them
        return ()
    if sys.platform != "linux":
        import platformdirs

        folder = Path(platformdirs.user_config_dir("vlogdiag")) / "rules"
    return (folder,) if folder.is_dir() else ()

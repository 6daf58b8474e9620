"""Writes what a command can write: the rule index, the names that rules may use, JSON Schema, help texts.

`python tools/docs.py` writes, `--check` says what would change (status 1). A test runs the check.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HELP = re.compile(r"(<!-- help: (.*?) -->\n)(.*?)(<!-- /help -->)", re.S)


def rule_index() -> str:
    """docs/rules.md: every signature with meaning, remedies and versions."""
    from vlogdiag.loading import load
    from vlogdiag.model import Role
    from vlogdiag.report.safe import markdown_inline

    signatures = load(examples=True).book.signatures
    causes = [s for s in signatures if s.role is Role.CAUSE]
    lines = [
        "# Signatures",
        "",
        f"{len(signatures)} signatures, {len(causes)} of them causes; written by `make docs`, do not edit.",
        "`vlogdiag rules show ID` prints one with its examples.",
    ]
    for family in sorted({s.family for s in signatures}):
        lines += ["", f"## {family}", "", "| id | severity | meaning | remedies | versions |", "|---|---|---|---|---|"]
        for s in sorted((s for s in signatures if s.family == family), key=lambda s: s.id):
            kind = s.severity.word if s.role is Role.CAUSE else s.role.value
            remedies = "; ".join(dict.fromkeys(_title(f.title.source) for f in s.fixes)) or "none of its own"
            refined = f" (refines `{s.refines}`)" if s.refines else ""
            versions = s.vllm or "all"
            cells = (
                f"`{s.id}`{refined}",
                kind,
                markdown_inline(_title(s.title.source)),
                markdown_inline(remedies),
                f"`{versions}`" if s.vllm else versions,
            )
            lines.append(
                "| "
                + " | ".join(
                    cell.replace("\n", " ").replace("|", "\\|") if "\\|" not in cell else cell for cell in cells
                )
                + " |"
            )
    return "\n".join(lines) + "\n"


def _title(source: str) -> str:
    """A title without its holes, for people who have no log."""
    return re.sub(r"\[\[.*?\]\]", "", re.sub(r"\{[^{}]*\}", "…", source)).strip()


def names() -> str:
    """docs/names.md: what conditions and texts may ask about."""
    from vlogdiag.signatures.names import NAMES

    lines = [
        "# Names in conditions and texts",
        "",
        "Written by `make docs`. Besides these: the rule's own captures, and `args.` with any vLLM argument.",
        "",
        "| name | kind | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}` | {entry.kind.value} | {entry.meaning} |" for name, entry in NAMES.items()]
    return "\n".join(lines) + "\n"


def schema() -> str:
    """docs/signature.schema.json, for editors."""
    from vlogdiag.signatures.schema import json_schema

    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def help_texts(text: str) -> str:
    """README with the help of each command between its marks as the program prints it."""
    from typer.testing import CliRunner

    from vlogdiag.cli import app

    def fill(match: re.Match[str]) -> str:
        words = match[2].split()
        result = CliRunner().invoke(
            app, [*words[1:], "--help"], env={"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
        )
        shown = "\n".join(line.rstrip() for line in result.stdout.strip().splitlines())
        return f"{match[1]}```text\n{shown}\n```\n{match[4]}"

    return HELP.sub(fill, text)


def documents() -> Iterator[tuple[Path, str]]:
    """Every written file and what it should hold."""
    yield ROOT / "docs/rules.md", rule_index()
    yield ROOT / "docs/names.md", names()
    yield ROOT / "docs/signature.schema.json", schema()
    readme = ROOT / "README.md"
    yield readme, help_texts(readme.read_text(encoding="utf-8"))


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = [path for path, text in documents() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what `make docs` writes")
        return 1 if stale else 0
    for path, text in documents():
        if path in stale:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main())

"""`vlogdiag rules`: list, show, test the signatures, begin a new one from a log line, print schema and script fixes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from vlogdiag.cli_common import (
    BLIND,
    FOUND,
    USAGE,
    NoUserRules,
    RulesOption,
    colored,
    fail,
    load_or_exit,
    whole_number,
    width,
)

rules_app = typer.Typer(
    help="List, show, test and write signatures.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

OPTIONAL = re.compile(r"\[\[.*?\]\]")
"""Parts of a title that appear when their number is known."""
MARKS = {2: "error", 1: "warning", 0: "info"}


@rules_app.command("list")
def list_rules(
    family: Annotated[str | None, typer.Option(help="Only this family.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    rules: RulesOption = None,
    user_rules: NoUserRules = None,
) -> None:
    """Every signature: id, family, severity, what it means."""
    loaded = load_or_exit(rules, user_rules)
    chosen = [s for s in sorted(loaded.book.signatures, key=lambda s: (s.family, s.id)) if family in (None, s.family)]
    if not chosen:
        fail(f"no signature of family {family!r}", BLIND)
    if json:
        import msgspec

        rows = [
            {
                "id": s.id,
                "family": s.family,
                "severity": s.severity.word,
                "role": s.role.value,
                "title": s.title.source,
                "refines": s.refines,
            }
            for s in chosen
        ]
        print(msgspec.json.encode(rows).decode())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    for name in ("family", "id", "", "meaning"):
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    for s in chosen:
        table.add_row(
            Text(s.family),
            Text(s.id),
            Text(s.role.value if s.role.value != "cause" else s.severity.word),
            Text(OPTIONAL.sub("", s.title.source)),
        )
    Console(width=width(), color_system="standard" if colored(False) else None, highlight=False).print(table)


@rules_app.command("show")
def show_rule(
    ident: Annotated[str, typer.Argument(metavar="ID")],
    rules: RulesOption = None,
    user_rules: NoUserRules = None,
) -> None:
    """One signature as its file says it, with its path."""
    loaded = load_or_exit(rules, user_rules)
    signature = loaded.book.by_id.get(ident)
    if signature is None:
        import difflib

        near = difflib.get_close_matches(ident, loaded.book.by_id, n=1)
        fail(
            f"no signature {ident!r}" + (f"; did you mean {near[0]}?" if near else "; see `vlogdiag rules list`"), BLIND
        )
    print(f"# {signature.path}")
    print(Path(signature.path).read_text(encoding="utf-8"), end="")


@rules_app.command("test")
def test_rules(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH]...", help="Rule files or folders; all shipped rules without it."),
    ] = None,
    rules: RulesOption = None,
) -> None:
    """Run the examples: each `fires` must fire its rule and no other cause, no `quiet` may."""
    from vlogdiag.checking import check_examples
    from vlogdiag.loading import rules_folder
    from vlogdiag.report.words import plural
    from vlogdiag.signatures.checks import check_rules

    shipped = rules_folder().resolve()
    extra = [p for p in paths or () if not _inside(p.resolve(), shipped)]
    loaded = load_or_exit([*(rules or ()), *extra], False, examples=True)
    wanted = None
    if paths:
        roots = [p.resolve() for p in paths]
        wanted = [s.id for s in loaded.book.signatures if any(_inside(Path(s.path).resolve(), root) for root in roots)]
        if not wanted:
            fail(f"{paths[0]}: no rules there", BLIND)
    faults = check_examples(loaded, wanted)
    for fault in faults:
        print(f"{fault.path}:{fault.line}:{fault.column}: {fault.message}")
    untouched = [line for s in loaded.book.signatures if wanted and s.id in wanted for line in _untouched(Path(s.path))]
    for text in untouched:
        print(text)
    remarks = [r for r in check_rules(loaded.book.signatures) if r.serious and (wanted is None or r.rule in wanted)]
    for remark in remarks:
        print(remark)
    chosen = [s for s in loaded.book.signatures if wanted is None or s.id in wanted]
    examples = sum(len(s.examples) for s in chosen)
    wrong = len(faults) + len(remarks) + len(untouched)
    print(
        f"{plural(len(chosen), 'rule')}, {plural(examples, 'example')}: "
        + (plural(wrong, "fault") if wrong else "all as they should be")
    )
    raise typer.Exit(FOUND if wrong else 0)


def _untouched(path: Path) -> list[str]:
    """The words of `rules new` that nobody has replaced by their own."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [
        f"{path}:{number}:1: still the words of `rules new`; write your own: {words}"
        for number, line in enumerate(lines, 1)
        for words in ("Say in one sentence what broke", "Say what to change", "the command to type")
        if words in line
    ]


def _inside(path: Path, root: Path) -> bool:
    return path == root or root in path.parents


@rules_app.command("new")
def new_rule(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The rule file to write: FAMILY/ID.yaml.")],
    origin: Annotated[str, typer.Option("--from", metavar="LOG:LINE", help="The log line that proves the cause.")],
) -> None:
    """Begin a signature from a log line: its record becomes the first example, its numbers become holes."""
    from vlogdiag.model import FAMILIES
    from vlogdiag.recording import record_at
    from vlogdiag.signatures.draft import draft_rule
    from vlogdiag.signatures.keys import ID

    if path.suffix != ".yaml" or not re.fullmatch(ID, path.stem):
        fail(f"{path}: a rule file is called like its id: lower-case letters, digits and hyphens, then .yaml", USAGE)
    family = path.absolute().parent.name
    if family not in FAMILIES:
        fail(f"{path}: the folder is the family, one of {', '.join(FAMILIES)}", USAGE)
    try:
        there = path.exists()
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", BLIND)
    if there:
        fail(f"{path}: exists already", USAGE)
    log, _, number = origin.rpartition(":")
    if not log or not whole_number(number):
        fail(f"--from {origin[:200]}: write LOG:LINE, for example vllm.log:1234", USAGE)
    try:
        found = record_at(Path(log), int(number))
    except OSError as error:
        fail(f"{log}: {error.strerror or error}", BLIND)
    if found is None:
        fail(f"{log}: has no line {number}, or it is blank", BLIND)
    record, line, text = found
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(draft_rule(path.stem, family, record, line, text))
    except OSError as error:
        fail(f"{error.filename or path}: {error.strerror or error}", BLIND)
    print(f"wrote {path}; say the cause in one sentence, give fixes, then run: vlogdiag rules test {path}")


@rules_app.command("schema")
def schema() -> None:
    """The JSON Schema of the rule format, for editors."""
    import msgspec

    from vlogdiag.signatures.schema import json_schema

    print(msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode())


@rules_app.command("script")
def script(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of the script; without it, the list.")
    ] = None,
) -> None:
    """Print a script fix (what a finding calls `vlogdiag rules script NAME`)."""
    from vlogdiag.launch.scripts import read_script, script_names

    names = script_names()
    if name is None:
        for each in names:
            print(each)
        return
    if name not in names:
        fail(f"no script {name!r}; there are: {', '.join(names)}", BLIND)
    print(read_script(name), end="")

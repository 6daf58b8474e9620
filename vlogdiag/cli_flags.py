"""`vlogdiag flags`: check a launch line against a vLLM release, show a name's history, compare two releases."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vlogdiag.cli_common import BLIND, FOUND, USAGE, complain, fail

if TYPE_CHECKING:
    from vlogdiag.catalog import ArgProblem, Versions
    from vlogdiag.catalog.changes import Diff
    from vlogdiag.catalog.history import History

flags_app = typer.Typer(
    help="What vLLM version X knows; check a launch line or script before starting it.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@contextmanager
def _complaints() -> Iterator[None]:
    """A version nobody knows ends with 2, a catalogue that does not load with 3."""
    from vlogdiag.catalog import CatalogueError, VersionError

    try:
        yield
    except VersionError as error:
        fail(str(error), USAGE)
    except CatalogueError as error:
        fail(f"the catalogue does not load: {error}", BLIND)


@flags_app.command("check")
def check(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT | -- COMMAND...",
            help="A launch file ('-' for standard input), or after -- the words of the command itself.",
        ),
    ],
    vllm_version: Annotated[str, typer.Option(metavar="X", help="The vLLM release to check against.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for what is accepted and useless too.")] = False,
    json: AsJson = False,
) -> None:
    """List what the release refuses, accepts without effect, or calls deprecated, and what to write instead."""
    from vlogdiag.catalog import NoCommandError, Versions, check_argv

    with _complaints():
        versions = Versions.known(vllm_version)
        line: int | None = None
        if len(words) == 1 and not Path(words[0]).exists() and words[0].split()[:1] == ["vllm"]:
            words = words[0].split()  # behind `--`, or quoted as one word
            if len(words) == 1:
                fail("vllm: names no server; write the command's words, as in -- vllm serve MODEL", BLIND)
        if len(words) == 1:
            problems, line = _check_script(words[0], versions)
        else:
            try:
                problems = check_argv(words, versions)
            except NoCommandError as error:
                fail(str(error), BLIND)
    refused = [problem for problem in problems if problem.verdict == "refused"]
    if json:
        _print_json(
            {
                "format": "vlogdiag.flags-check/1",
                "vllm_version": versions.single,
                "assumed": versions.assumed,
                "line": line,
                "problems": [_problem(problem) for problem in problems],
                "summary": {"refused": len(refused), "warnings": len(problems) - len(refused)},
            }
        )
    else:
        _print_problems(problems, versions)
    raise typer.Exit(FOUND if refused or (strict and problems) else 0)


def _check_script(path: str, versions: Versions) -> tuple[tuple[ArgProblem, ...], int]:
    from vlogdiag.launch import NotCertain, check_command, find_commands, the_command

    try:
        text = (sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()).decode("utf-8", "replace")
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", BLIND)
    try:
        commands = find_commands(text, name="" if path == "-" else path)
        if len(commands) != 1:
            the_command(commands, text)
    except NotCertain as error:
        fail(f"{path}: {error}", BLIND)
    for note in (commands[0].reason, *commands[0].notes):
        if note:
            complain(f"{path}:{commands[0].line}: {note}")
    return check_command(commands[0], versions), commands[0].line


def _problem(problem: ArgProblem) -> dict[str, Any]:
    from vlogdiag.launch.secrets import mask_value

    return {
        "argument": problem.argument,
        "value": _shown_value(problem),
        "verdict": problem.verdict,
        "reason": mask_value(problem.reason),
        "instead": problem.instead,
    }


def _shown_value(problem: ArgProblem) -> str | None:
    from vlogdiag.launch.secrets import MASK, is_secret_option, mask_value

    if problem.value is None:
        return None
    return MASK if is_secret_option(problem.argument) else mask_value(problem.value)


def _print_problems(problems: Sequence[ArgProblem], versions: Versions) -> None:
    from vlogdiag.launch.secrets import mask_value

    release = f"vLLM {versions.single}" + (" (assumed)" if versions.assumed else "")
    for problem in problems:
        _say(f"{problem.verdict}: {' '.join(filter(None, (problem.argument, _shown_value(problem))))}")
        _say(f"  {mask_value(problem.reason)}")
        if problem.instead:
            _say(f"  instead: {problem.instead}")
    refused = sum(problem.verdict == "refused" for problem in problems)
    if not problems:
        _say(f"{release} takes every option of this command.")
    else:
        _say(f"{release}: {refused} refused, {len(problems) - refused} accepted but useless or deprecated.")


@flags_app.command(
    "show",
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="--option, VLLM_VARIABLE, vllm:metric or /endpoint.")],
    json: AsJson = False,
) -> None:
    """Print a name's history: since when, until when, its values and defaults, what replaced it."""
    with _complaints():
        from vlogdiag.catalog.history import history, nearest

        found = history(name)
        if found is None:
            near = nearest(name)
            fail(f"no vLLM release knows {name}" + (f" (nearest: {', '.join(near)})" if near else ""), USAGE)
        if json:
            _print_json(_history_json(found))
        else:
            _print_history(found)


def _print_history(found: History) -> None:
    from vlogdiag.catalog import Versions

    answer = found.answer
    state = answer.present.words() if answer.present else "never existed" if answer.never else "not vLLM's own"
    of = f" (of {answer.name})" if answer.name != found.name else ""
    _say(f"{found.name}{of}: {state}")
    for entry in found.shapes:
        _say(f"  {Versions(entry.where).words()}: {_shape(entry)}")
    for note in found.notes:
        effect = "" if note.effective else "without effect"
        instead = note.renamed or note.instead
        parts = [
            effect,
            "deprecated" if note.deprecated else "",
            note.note or "",
            f"instead: {instead}" if instead else "",
        ]
        where = "" if note.never else f"{Versions(note.where).words()}: "
        _say(f"  {where}{'; '.join(filter(None, parts)) or 'exists'} [{note.source}]")


def _shape(entry: Any) -> str:
    import json

    kinds = {"pair": "switch", "list": "values", "optional": "switch or value"}
    parts = [" ".join(filter(None, (entry.type, kinds.get(entry.kind, entry.kind))))]
    if entry.off:
        parts.append(f"off: {', '.join(entry.off)}")
    if entry.also:
        parts.append(f"also {', '.join(entry.also)}")
    if entry.default is not None:
        parts.append(f"default {json.dumps(entry.default, ensure_ascii=False)}")
    if entry.choices:
        parts.append(f"one of {', '.join(str(choice) for choice in entry.choices)}")
    for word in ("deprecated", "hidden"):
        if getattr(entry, word):
            parts.append(word)
    if entry.by:
        parts.append("only vllm serve" if entry.by == "serve" else "only the API server's module")
    return ", ".join(parts)


def _history_json(found: History) -> dict[str, Any]:
    from vlogdiag.catalog import Versions

    answer = found.answer
    return {
        "format": "vlogdiag.flag/1",
        "name": found.name,
        "of": answer.name,
        "what": found.what,
        "present": answer.present.spec() or None,
        "since": answer.since,
        "until": answer.until,
        "never": answer.never,
        "shapes": [
            {
                "versions": Versions(entry.where).spec(),
                "kind": entry.kind,
                "type": entry.type,
                "default": entry.default,
                "choices": entry.choices,
                "also": entry.also,
                "off": entry.off,
                "deprecated": entry.deprecated,
                "hidden": entry.hidden,
                "by": entry.by,
            }
            for entry in found.shapes
        ],
        "notes": [
            {
                "versions": Versions(note.where).spec(),
                "note": note.note,
                "instead": note.renamed or note.instead,
                "effective": note.effective,
                "deprecated": note.deprecated,
                "source": note.source,
            }
            for note in found.notes
        ],
    }


@flags_app.command("diff")
def compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The release that you have.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The release that you want.")],
    json: AsJson = False,
) -> None:
    """Print what an upgrade adds, removes and changes: options, variables and metrics."""
    with _complaints():
        from vlogdiag.catalog import Versions, diff

        found = diff(Versions.known(old), Versions.known(new))
        if json:
            changed = [{"name": c.name, "what": c.what, "old": c.old, "new": c.new} for c in found.changed]
            parts = {"added": found.added, "removed": found.removed, "changed": changed}
            _print_json({"format": "vlogdiag.flags-diff/1", "old": found.old, "new": found.new, **parts})
        else:
            _print_diff(found)


def _print_diff(found: Diff) -> None:
    import json

    _say(f"vLLM {found.old} to {found.new}")
    for title, names in (("removed", found.removed), ("added", found.added)):
        for name in names:
            _say(f"  {title} {name}{_replacement(name, found) if title == 'removed' else ''}")
    for change in found.changed:
        old, new = (json.dumps(value, ensure_ascii=False) for value in (change.old, change.new))
        _say(f"  {change.name}: {change.what} {old} -> {new}")
    if not (found.added or found.removed or found.changed):
        _say("  nothing changed")


def _replacement(name: str, found: Diff) -> str:
    from vlogdiag.catalog import Versions, env, flag, metric

    ask = flag if name.startswith("-") else metric if name.startswith("vllm:") else env
    instead = ask(name, Versions.exact(found.new)).replacement
    return f" (instead: {instead})" if instead else ""


def _say(line: str) -> None:
    from vlogdiag.report.safe import plain

    indent = len(line) - len(line.lstrip())
    print(" " * indent + plain(line.lstrip(), cap=1 << 16, wrapped=False))


def _print_json(value: Any) -> None:
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(value)).decode())

"""`vlogdiag compare BEFORE AFTER`: is the cause gone, did a new one come, what did the change cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vlogdiag.cli_common import (
    BLIND,
    FOUND,
    USAGE,
    NoUserRules,
    RulesOption,
    fail,
    known_version,
    load_or_exit,
    one_log,
)

if TYPE_CHECKING:
    from vlogdiag.comparison import Comparison
    from vlogdiag.loading import Rules
    from vlogdiag.log.discover import LogPath
    from vlogdiag.timeline import Timeline


def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="Log of the run before the change.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Log of the run after it.")],
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    rules: RulesOption = None,
    user_rules: NoUserRules = None,
    vllm_version: Annotated[
        str | None, typer.Option(metavar="X", help="vLLM's version, where the logs do not say it.")
    ] = None,
) -> None:
    """Compare two logs, before and after a change; status 0 when it is better or equal and nothing is wrong."""
    from vlogdiag.comparison import compare as hold

    known_version(vllm_version)
    loaded = load_or_exit(rules, user_rules)
    logs = (one_log(before), one_log(after))
    if all(log.is_stdin for log in logs):
        fail("standard input can be read only once", USAGE)
    old, new = (_read(log, loaded, vllm_version) for log in logs)
    found = hold(old, new)
    if json:
        import msgspec

        print(msgspec.json.encode({"format": "vlogdiag.comparison/1", **_plain(found)}).decode())
    else:
        _print(found)
    raise typer.Exit(0 if found.ok else FOUND)


def _read(log: LogPath, rules: Rules, version: str | None) -> Timeline:
    from vlogdiag.log.discover import SourceError
    from vlogdiag.scan import whole_log
    from vlogdiag.timeline import read_timeline

    try:
        timeline = read_timeline(log.name, whole_log(log), rules, version=version)
    except SourceError as error:
        fail(str(error), BLIND)
    if timeline.result is None or not timeline.result.summary.recognised:
        fail(f"{log.name}: nothing in it was recognised as vLLM's log", BLIND)
    return timeline


def _plain(found: Comparison) -> dict[str, object]:
    return {
        "ok": found.ok,
        "verdict": found.verdict,
        "gone": list(found.gone),
        "new": list(found.new),
        "stayed": list(found.stayed),
        "figures": [{"name": r.name, "before": r.before, "after": r.after, "better": r.better} for r in found.rows],
    }


def _print(found: Comparison) -> None:
    from vlogdiag.report.safe import plain

    print(plain(found.verdict))
    if not found.rows:
        return
    name = max(len(r.name) for r in found.rows)
    before = max(6, *(len(r.before) for r in found.rows))
    after = max(5, *(len(r.after) for r in found.rows))
    print(f"  {'':<{name}}  {'before':>{before}}  {'after':>{after}}")
    words = {True: "better", False: "worse", None: ""}
    for r in found.rows:
        print(f"  {r.name:<{name}}  {r.before:>{before}}  {r.after:>{after}}  {words[r.better]}".rstrip())

"""`vlogdiag fix`: a report's remedy as a unified diff of the user's own launch file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vlogdiag.cli_common import BLIND, USAGE, colored, complain, fail

if TYPE_CHECKING:
    from vlogdiag.catalog import Versions
    from vlogdiag.launch.repair import Repair
    from vlogdiag.model import Finding, Fix, Report

NOTHING = 1
"""Exit status: there is nothing to change in the launch file."""

Log = Annotated[str, typer.Argument(metavar="LOG", help="The server's log; '-' for standard input.")]
Script = Annotated[
    Path,
    typer.Option(
        "--script",
        metavar="FILE",
        help="Shell script, compose file, Kubernetes manifest, Dockerfile, systemd unit or supervisor file.",
    ),
]


def fix(
    log: Log,
    script: Script,
    number: Annotated[
        int | None,
        typer.Option("--fix", min=1, metavar="N", help="Which fix, as `scan` numbers them (default: first)."),
    ] = None,
    finding: Annotated[
        str | None, typer.Option("--finding", metavar="ID", help="Which finding (default: the first with such a fix).")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Change the file; a backup is kept beside it.")] = False,
    vllm_version: Annotated[
        str | None, typer.Option("--vllm-version", metavar="X", help="Instead of the version in the log.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON (vlogdiag.fix/1).")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours.")] = False,
) -> None:
    """Print the remedy as a diff of your own launch file; nothing else in the file changes."""
    from vlogdiag.launch import NotCertain, find_commands, the_command
    from vlogdiag.launch.repair import disagreements, repair
    from vlogdiag.launch.write import WriteRefused, replace_file

    given = _given_version(vllm_version)
    old = _read(script)
    text = old.decode("utf-8", "surrogateescape")
    report = _diagnose(log, vllm_version)
    chosen, remedy = _choose(report, finding, number)
    versions = given or _versions(report, chosen)
    try:
        command = the_command(find_commands(text, name=script.name), text)
        result = repair(text, command, remedy, versions)
    except NotCertain as error:
        fail(f"{script}: {error}", BLIND)
    outcome = Outcome(script, command.kind, command.line, chosen, remedy, text, result, command.image, command.notes)
    _explain(outcome, versions)
    # A file that has the remedy already is the log's own, mended since.
    for one in () if result.text == text else disagreements(command, remedy, _arguments(report, chosen), versions):
        complain(f"{script}: is it the file of this log? {one}")
    backup = None
    if write and result.text != text:
        try:
            backup = replace_file(script, old, result.text.encode("utf-8", "surrogateescape"))
        except WriteRefused as error:
            fail(str(error), BLIND)
        complain(f"{script} written; as it was: {backup}")
    if as_json:
        print(json.dumps(outcome.plain(backup), ensure_ascii=True, indent=2))
    else:
        _print_diff(outcome, no_color)
    if result.text == text:
        complain(f"nothing to change: {script} has it already")
        raise typer.Exit(NOTHING)


@dataclass(frozen=True)
class Outcome:
    """What came out: which file, which remedy, the text before and after."""

    script: Path
    kind: str
    line: int
    finding: Finding
    remedy: Fix
    before: str
    repair: Repair
    image: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def diff(self) -> str:
        """The diff with secrets masked."""
        from vlogdiag.launch import mask_text, secret_values, unified_diff

        secrets = secret_values(self.before) | secret_values(self.repair.text)
        return mask_text(unified_diff(self.before, self.repair.text, str(self.script)), secrets)

    @property
    def masked(self) -> bool:
        """True when the shown diff is not the real one, so that `patch` would not take it."""
        from vlogdiag.launch import unified_diff

        return self.diff != unified_diff(self.before, self.repair.text, str(self.script))

    def plain(self, backup: Path | None) -> dict[str, Any]:
        """The content of `vlogdiag.fix/1`."""
        return {
            "format": "vlogdiag.fix/1",
            "script": str(self.script),
            "kind": self.kind,
            "line": self.line,
            "finding": self.finding.id,
            "fix": self.remedy.title,
            "changed": self.before != self.repair.text,
            "diff": self.diff,
            "secrets_masked": self.masked,
            "corrections": [asdict(correction) for correction in self.repair.corrections],
            "written": backup is not None,
            "backup": str(backup) if backup else None,
        }


def _given_version(text: str | None) -> Versions | None:
    from vlogdiag.catalog import VersionError, Versions

    if text is None:
        return None
    try:
        return Versions.known(text)
    except VersionError as error:
        fail(str(error), USAGE)


def _read(script: Path) -> bytes:
    try:
        content = script.read_bytes()
    except OSError as error:
        fail(f"{script}: {error.strerror or error}", BLIND)
    if b"\0" in content:
        fail(f"{script} is not a text file", BLIND)
    return content


def _diagnose(log: str, version: str | None) -> Report:
    from vlogdiag.scan import diagnose_paths

    report = diagnose_paths([log], version=version)
    if len(report.sources) > 1:
        fail(f"{log} holds {len(report.sources)} logs: give one of them", USAGE)
    if report.findings:
        return report
    for source in report.sources:
        if source.error:
            fail(f"{source.path}: {source.error}" if source.path else source.error, BLIND)
        if not source.recognised and not any(run.vllm_version for run in source.runs):
            fail(f"{source.path}: nothing in it was recognised as vLLM's log", BLIND)
    return report


def _choose(report: Report, ident: str | None, number: int | None) -> tuple[Finding, Fix]:
    """The finding and the fix that were asked for; exits where there is none."""
    from vlogdiag.launch.repair import edits_command, missing_values

    findings = [f for f in report.findings if ident in (None, f.id)]
    if not findings:
        if ident is not None:
            found = ", ".join(dict.fromkeys(f.id for f in report.findings)) or "none"
            fail(f"--finding {ident}: not in this log (found: {found})", USAGE)
        fail("nothing to change: no finding in this log", NOTHING)
    fitting = [f for f in findings if any(edits_command(fix) for fix in f.fixes)]
    finding = (fitting or findings)[0]
    if number is not None:
        if number > len(finding.fixes):
            fail(f"--fix {number}: {finding.id} has {len(finding.fixes)} fixes", USAGE)
        chosen = finding.fixes[number - 1]
        if not edits_command(chosen):
            fail(f"fix {number} of {finding.id} changes no launch command: {_otherwise(chosen)}", NOTHING)
        if missing := missing_values(chosen):
            fail(f"fix {number} of {finding.id} wants a value that the log does not give: {', '.join(missing)}", BLIND)
        return finding, chosen
    ready = [f for f in finding.fixes if edits_command(f) and f.disposition == "apply" and not missing_values(f)]
    if ready:
        return finding, ready[0]
    first = next((k for k, f in enumerate(finding.fixes, 1) if edits_command(f)), None)
    if first is None:
        problem = "no fix of it changes the launch command"
    elif wanted := ", ".join(missing_values(finding.fixes[first - 1])):
        problem = f"its fix wants a value that the log does not give: {wanted}"
    else:
        question = finding.fixes[first - 1].question or "whether it applies to you"
        problem = f"check first: {question}; then choose with --fix {first}"
    return fail(f"{finding.id}: {problem}", NOTHING)


def _otherwise(fix: Fix) -> str:
    """What a fix that is no edit of the launch command asks for."""
    said = {"run": fix.run, "script": fix.script, "upgrade": fix.upgrade, "request": fix.request}
    return next((f"{name}: {text}" for name, text in said.items() if text), fix.title)


def _versions(report: Report, finding: Finding) -> Versions:
    """The versions that the finding's run may have; every release where the log does not say."""
    from vlogdiag.catalog import Versions

    for source in report.sources:
        for run in source.runs:
            if source.path == finding.source and run.run == finding.run:
                if run.vllm_version:
                    return Versions.exact(run.vllm_version)
                if run.versions_possible:
                    return Versions.parse_spec(run.versions_possible)
    return Versions.all()


def _arguments(report: Report, finding: Finding) -> Mapping[str, Any]:
    """The arguments of the finding's run, as its log printed them."""
    runs = (run for source in report.sources if source.path == finding.source for run in source.runs)
    return next((run.args for run in runs if run.run == finding.run), {})


def _explain(outcome: Outcome, versions: Versions) -> None:
    """On standard error: which remedy, and why each other option was touched."""
    remedy = outcome.remedy
    complain(f"{outcome.finding.id}: {remedy.title}" + (f" ({remedy.trade_off})" if remedy.trade_off else ""))
    for one in outcome.repair.corrections:
        spelled = " ".join(filter(None, (one.argument, one.value)))
        instead = f"; instead: {one.instead}" if one.instead and one.done != "replaced" else ""
        complain(f"{one.done} {spelled} ({one.verdict} by vLLM {one.versions}): {one.reason}{instead}")
    if any(one.done == "left" and one.versions != versions.words() for one in outcome.repair.corrections):
        complain(
            f"by the log, the version may be {versions.words()}; name yours with --vllm-version to have this decided"
        )
    for note in outcome.notes:
        complain(f"{outcome.script}: {note}")
    tag = _image_version(outcome.image)
    if tag and not versions & tag:
        complain(f"{outcome.script} starts vLLM {tag.words()}, but the log is of {versions.words()}")
    if outcome.masked:
        complain("secrets are shown as ***, so this diff is for reading; --write changes the file")


def _image_version(image: str | None) -> Versions | None:
    """The release that an image's tag names (`vllm/vllm-openai:v0.11.0`), if it is a known one."""
    from vlogdiag.catalog import Versions, releases

    tag = (image or "").partition("@")[0].rpartition(":")[2].removeprefix("v")
    return Versions.exact(tag) if tag in releases() else None


def _print_diff(outcome: Outcome, no_color: bool) -> None:
    diff = outcome.diff
    if colored(no_color):
        from vlogdiag.report.safe import plain

        styles = {"+": "32", "-": "31", "@": "36"}
        for line in diff.splitlines():
            style = styles.get(line[:1])
            shown = plain(line, cap=1 << 20, wrapped=False)
            print(f"\x1b[{style}m{shown}\x1b[0m" if style else shown)
        return
    sys.stdout.flush()
    data = diff.encode("utf-8", "surrogateescape")
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is not None:
        buffer.write(data)
        buffer.flush()
    else:
        sys.stdout.write(os.fsdecode(data))

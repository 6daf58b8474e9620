"""Shows every fix of a report as the user's own command with the change in it, from the arguments in the log."""

from __future__ import annotations

from msgspec.structs import replace

from vlogdiag.catalog import Versions
from vlogdiag.launch.argv import args_to_edits, rewrite_argv
from vlogdiag.launch.printing import command_from_args, format_command
from vlogdiag.model import Finding, Fix, Report, RunSummary

__all__ = ["with_commands"]

UNKNOWN = "?"
"""What `advice` writes for a number that the log does not give: such a fix is no command yet."""


def with_commands(report: Report) -> Report:
    """The report with `Fix.command` filled in wherever the log printed the arguments; secrets are left out."""
    runs = {(source.path, run.run): run for source in report.sources for run in source.runs}
    findings = tuple(_with_commands(f, runs.get((f.source, f.run))) for f in report.findings)
    return replace(report, findings=findings)


def _with_commands(finding: Finding, run: RunSummary | None) -> Finding:
    if run is None or not run.args or run.model is None:
        return finding
    versions = Versions.exact(run.vllm_version) if run.vllm_version else Versions.all()
    return replace(finding, fixes=tuple(_command(fix, run, versions) for fix in finding.fixes))


def _command(fix: Fix, run: RunSummary, versions: Versions) -> Fix:
    changes = bool(fix.flags or fix.remove_flags or fix.env)
    if not changes or UNKNOWN in fix.flags.values() or UNKNOWN in fix.env.values():
        return fix
    argv = command_from_args(run.args, run.model)
    edits = args_to_edits(fix.flags, fix.remove_flags, fix.env)
    entry, words = argv[:2], argv[2:]
    rewritten = (*entry, *rewrite_argv(words, edits, versions))
    before = "".join(f"{name}={value} " for name, value in sorted(edits.env_set.items()))
    return replace(fix, command=before + format_command(rewritten))

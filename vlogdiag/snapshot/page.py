"""Turns a snapshot into one Markdown page shaped like vLLM's form for bug reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vlogdiag.launch.printing import command_from_args, format_command
from vlogdiag.model import Finding, Report, Severity
from vlogdiag.report import words
from vlogdiag.report.fold import fold
from vlogdiag.report.paste import pastes
from vlogdiag.report.safe import markdown_code, markdown_fence, markdown_inline, plain
from vlogdiag.report.verdict import verdicts
from vlogdiag.snapshot.assemble import Snapshot
from vlogdiag.snapshot.page_environment import environment_lines
from vlogdiag.snapshot.page_gpus import gpu_table
from vlogdiag.snapshot.traceback_of import root_traceback

GITHUB_LIMIT = 65_536
"""Characters that GitHub takes in one issue or comment."""
LIMIT = 60_000
"""What the page keeps to, so that its author can write something too."""

MAX_FINDINGS = 6
MAX_MISSING = 40
MAX_LINE = 600
_WIDE = 4_000
_MARKS = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.INFO: "ℹ️"}


def render_page(snapshot: Snapshot, *, bundle: str | None = None) -> str:
    """The page, in GitHub's Markdown, ending in a newline; `bundle` is the archive's file name, to be attached.

    Log text stands in fences longer than any run of backticks in it, everything else is escaped.
    """
    for budget in (1.0, 0.5, 0.25, 0.1):
        text = "\n\n".join(block for block in _blocks(snapshot, bundle, budget) if block) + "\n"
        if len(text) <= LIMIT:
            return text
    return text[: LIMIT - 200].rsplit("\n", 1)[0] + "\n\n(cut here: the rest stands in the bundle)\n"


def _blocks(snapshot: Snapshot, bundle: str | None, budget: float) -> Iterator[str]:
    yield "### Your current environment"
    yield _details(
        "Collected by <code>vlogdiag snapshot</code>", _fence("\n".join(environment_lines(snapshot)), 14_000, budget)
    )
    yield "### 🐛 Describe the bug"
    yield from _verdict(snapshot.report)
    yield from _command(snapshot, budget)
    yield from _root(snapshot, budget)
    yield from _findings(snapshot.report, budget)
    table = gpu_table(snapshot)
    if table:
        yield "#### GPUs"
        yield table
    yield from _missing(snapshot, budget)
    yield from _attachment(snapshot, bundle)
    yield "### Before submitting a new issue..."
    yield "- [ ] I have searched the existing issues and the documentation."


def _verdict(report: Report | None) -> Iterator[str]:
    if report is None or not report.sources:
        yield "(What did you do, what did you expect, and what happened instead?)"
        return
    for verdict in verdicts(report):
        yield f"**{markdown_inline(verdict.text)}** ({markdown_inline(' · '.join(words.log_parts((verdict.source,))))})"


def _command(snapshot: Snapshot, budget: float) -> Iterator[str]:
    launch = snapshot.data("launch")
    command = launch.get("command")
    environment = launch.get("environment")
    lines = []
    if launch.get("environment_of", "").startswith("process") and isinstance(environment, Mapping):
        lines += [f"{name}={value}" for name, value in environment.items() if name not in ("PATH", "LD_LIBRARY_PATH")]
    said = "The server's command and environment, as its process has them"
    if not isinstance(command, str):
        run = (
            snapshot.report.sources[0].runs[-1]
            if snapshot.report and snapshot.report.sources and snapshot.report.sources[0].runs
            else None
        )
        if run is None or not run.args:
            return
        command = format_command(command_from_args(run.args, run.model))
        said = "By the arguments that the log prints"
        lines = []
    yield "#### How it was started"
    yield f"{said}:"
    yield _fence("\n".join([*lines, command]), 8_000, budget, info="sh")


def _root(snapshot: Snapshot, budget: float) -> Iterator[str]:
    report, log = snapshot.report, snapshot.log
    lead = _lead(report)
    if lead is None or log is None:
        return
    text = root_traceback(log, lead)
    if text:
        where = words.span(lead.first.line, None) or ""
        yield f"#### The root error ({where} of the log)" if where else "#### The root error"
        yield _fence(text, 12_000, budget)


def _lead(report: Report | None) -> Finding | None:
    """The first finding that is an error; else the first one."""
    findings = report.findings if report is not None else ()
    return next((f for f in findings if f.severity is Severity.ERROR), next(iter(findings), None))


def _findings(report: Report | None, budget: float) -> Iterator[str]:
    if report is None:
        return
    yield "#### What vlogdiag found"
    folded = fold(report.findings)
    shown = folded[: max(1, int(MAX_FINDINGS * budget))]
    if not folded:
        yield "Nothing that it has a signature for."
    for each in shown:
        lead = each.lead
        facts = [
            f"`{lead.id}`",
            f"{lead.confidence.word} confidence",
            f"line {lead.first.line}" if lead.first.line else "",
        ]
        said = [
            f"{_MARKS[each.severity]} **{markdown_inline(lead.title)}** ({', '.join(f for f in facts if f)})",
            markdown_inline(lead.cause),
        ]
        if lead.consequences:
            said.append(f"Then: {', '.join(markdown_inline(c.title) for c in lead.consequences[:4])}.")
        yield from said
        fix = next((f for f in lead.fixes if f.disposition == "apply"), None)
        if fix is not None:
            texts = [paste.text for paste in pastes(fix)]
            yield f"Suggested: {markdown_inline(fix.title)}"
            if texts:
                yield _fence("\n".join(texts), 2_000, budget, info="sh")
        if lead.known_bug:
            yield f"Known bug: {markdown_inline(lead.known_bug)}"
    if len(folded) > len(shown):
        yield f"{len(folded) - len(shown)} more in the bundle's `findings.txt`."
    if report.unexplained:
        rows = [
            f"line {item.line} (×{item.count}): {item.text}" for item in report.unexplained[: max(3, int(12 * budget))]
        ]
        yield f"Errors that no signature explains ({len(report.unexplained)}):"
        yield _fence("\n".join(row[:MAX_LINE] for row in rows), 6_000, budget)


def _missing(snapshot: Snapshot, budget: float) -> Iterator[str]:
    if not snapshot.unavailable:
        return
    items = snapshot.unavailable[: max(5, int(MAX_MISSING * budget))]
    rows = [f"- {markdown_inline(item.source)}: {markdown_inline(item.reason)}" for item in items]
    if len(snapshot.unavailable) > len(items):
        rows.append(f"- {len(snapshot.unavailable) - len(items)} more in the bundle's manifest")
    yield _details("What could not be collected", "\n".join(rows))


def _attachment(snapshot: Snapshot, bundle: str | None) -> Iterator[str]:
    if not snapshot.redaction:
        yield "Nothing was redacted."
    elif snapshot.redacted:
        counts = ", ".join(f"{count}× {kind}" for kind, count in sorted(snapshot.redacted.items()))
        kept = " Prompts were kept." if snapshot.prompts_kept else ""
        yield f"Replaced before this was written: {counts}. Equal values have equal placeholders.{kept}"
    if bundle:
        yield f"The log or its relevant parts, the readings and everything else: {markdown_code(bundle)} (attach it)."


def _details(summary: str, body: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _fence(text: str, limit: int, budget: float, *, info: str = "text") -> str:
    """A fenced block of at most `limit` characters, long lines and long texts cut in the middle."""
    room = int(limit * budget)
    lines = [plain(line, cap=_WIDE) for line in text.split("\n")]
    lines = [line if len(line) <= MAX_LINE * 3 else line[: MAX_LINE * 3 - 1] + "…" for line in lines]
    return markdown_fence("\n".join(_fitted(lines, room)), info, cap=_WIDE)


def _fitted(lines: Sequence[str], room: int) -> list[str]:
    if sum(len(line) + 1 for line in lines) <= room:
        return list(lines)
    head: list[str] = []
    tail: list[str] = []
    left = room - 40
    low, high = 0, len(lines)
    while low < high:
        line = lines[low] if len(head) <= len(tail) else lines[high - 1]
        left -= len(line) + 1
        if left < 0:
            break
        if len(head) <= len(tail):
            head.append(line)
            low += 1
        else:
            tail.insert(0, line)
            high -= 1
    return [*head, f"[… {high - low} lines]", *tail]

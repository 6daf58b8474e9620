"""What the kernel said of GPUs, memory and buses: Xid, NVRM, OOM kills, PCIe errors, segmentation faults."""

from __future__ import annotations

import re

from vlogdiag.model import Unavailable
from vlogdiag.snapshot.collect.base import Collected, Context
from vlogdiag.snapshot.collect.commands import Output, run_command

NAME = "kernel_log"
LIMIT = 4.0
MAX_LINES = 2000
MAX_OUTPUT = 24 << 20
"""A kernel's ring buffer holds a few MiB at most; the journal of a boot may hold more."""
COMMANDS = (
    ("dmesg", "--time-format", "iso", "--color=never"),
    ("dmesg",),
    ("journalctl", "-k", "-b", "--no-pager", "-o", "short-iso"),
)
"""Tried in this order: old and small dmesgs know no options; the journal may be readable where the buffer is not."""
INTERESTING = re.compile(
    r"\bXid\b|NVRM|nvidia|amdgpu|amdkfd|oom-kill|oom_reaper|Out of memory|Killed process|invoked oom-killer"
    r"|\bAER\b|PCIe Bus Error|Hardware Error|\bMCE\b|mce:|segfault|traps:|hung_task|blocked for more than|nvme"
    r"|I/O error|EXT4-fs error|No space left",
    re.I,
)
_REFUSED = re.compile(
    r"not permitted|permission denied|no permission|insufficient permissions|not seeing messages", re.I
)


def collect(context: Context) -> Collected:
    """The lines that matter, newest last; "not permitted" where the kernel's log is closed to this user."""
    reasons: list[str] = []
    for argv in COMMANDS:
        answer = run_command(argv, limit=LIMIT, environment=context.environment, max_output=MAX_OUTPUT)
        if isinstance(answer, Unavailable):
            reasons.append(f"{argv[0]}: {answer.reason}")
            continue
        if answer.status not in (0, None):
            reasons.append(f"{argv[0]}: {_reason(answer)}")
            continue
        if argv[0] == "journalctl" and _REFUSED.search(answer.text[:2000]) and answer.text.count("\n") < 20:
            reasons.append("journalctl: not permitted")
            continue
        lines = [line for line in answer.text.splitlines() if INTERESTING.search(line)][-MAX_LINES:]
        files = {"kernel.txt": "".join(f"{line}\n" for line in lines)} if lines else {}
        return Collected(NAME, {"source": argv[0], "lines": len(lines), "of": answer.text.count("\n")}, files)
    return Collected(NAME, unavailable=(Unavailable("kernel log", "; ".join(dict.fromkeys(reasons))),))


def _reason(answer: Output) -> str:
    if _REFUSED.search(answer.text):
        return "not permitted"
    lines = answer.text.strip().splitlines()
    return lines[0][:200] if lines else f"ended with status {answer.status}"

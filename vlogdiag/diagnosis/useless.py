"""Names the user's own options that the run's version takes and ignores."""

from __future__ import annotations

from vlogdiag import catalog
from vlogdiag.diagnosis.facts import Facts

__all__ = ["useless_arguments"]

MAX_SAID = 3


def useless_arguments(facts: Facts) -> tuple[str, ...]:
    """One sentence for each option that the user gave and that has no effect in every possible version of the run."""
    said = []
    versions = facts.versions
    if not facts.args or len(versions) > 40:  # nothing is known of the version: nothing can be said
        return ()
    for name, value in facts.args.items():
        if value is False:
            continue
        option = "--" + name.replace("_", "-")
        answer = catalog.flag(option, versions)
        if answer.exists is True and answer.effective is False:
            why = f": {answer.note}" if answer.note else ""
            said.append(f"{option} has no effect in vLLM {versions.words()}{why}")
    return tuple(said[:MAX_SAID])

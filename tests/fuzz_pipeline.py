"""Coverage-guided fuzzing of records, templates and rule reading: `python tests/fuzz_pipeline.py -max_total_time=3600`."""

from __future__ import annotations

import contextlib
import sys

import atheris

with atheris.instrument_imports(include=["vlogdiag"]):
    from vlogdiag.loading import load
    from vlogdiag.pipeline import Pipeline
    from vlogdiag.signatures.faults import RuleError
    from vlogdiag.signatures.schema import load_rules

RULES = load()


def one(data: bytes) -> None:
    """A log, cut in two somewhere, and the same bytes as a rule file."""
    if not data:
        return
    cut = data[0] * len(data) // 256
    whole, halves = Pipeline(RULES, source="x"), Pipeline(RULES, source="x")
    whole.feed(data)
    halves.feed(data[:cut])
    halves.feed(data[cut:])
    if whole.close() != halves.close():
        raise RuntimeError("a cut changed the result")
    with contextlib.suppress(RuleError):
        load_rules([("rules/startup/x.yaml", data.decode("utf-8", "replace"))])


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()

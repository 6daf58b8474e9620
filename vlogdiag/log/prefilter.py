"""Finds, in a chunk of whole lines, the places worth reading: one Hyperscan database of plain literals.

A place is a literal without which no rule, fact or mark can match. Statistics lines hold many such literals, so they
count only where a cheap literal says that they matter: KV usage in the nineties, a queue, preemptions, no throughput
(`matters` is the same question for one line, asked on every path). Without the library everything is a place.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

__all__ = ["STATISTICS", "Gates", "Prefilter", "is_statistics", "matters"]

STRUCTURE = (
    "ERROR",
    "CRITICAL",
    "Traceback (most recent call last)",
    "Fatal Python error: ",
    "terminate called after throwing an instance of ",
    "usage: vllm",
    "usage: api_server",
    "Error: ",
    "Exception: ",
    "vllm serve",
    "vllm.entrypoints",
    "[repeated ",
)
"""Marks of structure: error levels, tracebacks, launch commands."""

STATISTICS = (
    "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, "
    "Deferred: 0 reqs, Preemptions: 0, GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%, "
    "MM cache hit rate: 0.0%",
    "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Swapped: 0 reqs, Pending: 0 reqs, "
    "GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%.",
)
"""What statistics lines look like (vllm-messages 2.2): a gate that stands in them says nothing by itself."""

LOUD = (
    *(f"Waiting: {digit}" for digit in range(1, 10)),
    *(f"Pending: {digit}" for digit in range(1, 10)),
    *(f"KV cache usage: 9{digit}." for digit in range(10)),
    "KV cache usage: 100",
    "Preemptions: ",
    "generation throughput: 0.0 tokens/s",
)
DENSE = 400
"""With a hit for every so many bytes, reading all of it costs less than cutting windows."""
MATTERS = re.compile(
    r"(?:Waiting|Pending): [1-9]|KV cache usage: (?:9\d\.|100)|Preemptions: |generation throughput: 0\.0 tokens/s"
)
SHAPE = re.compile(r"(?:Engine \d{3}: |\d+ Engines Aggregated: )?Avg prompt throughput: ")


def is_statistics(text: str) -> bool:
    """Whether a message (header stripped) is one of vLLM's periodic statistics lines."""
    return SHAPE.match(text) is not None


def matters(text: str) -> bool:
    """Whether a statistics line says something that a rule may want to know."""
    return MATTERS.search(text) is not None


@cache
def _library() -> Any:
    """The module, or None where it cannot be loaded."""
    try:
        import hyperscan
    except ImportError:
        return None
    return hyperscan


class Prefilter:
    """Literals compiled once (milliseconds), scanned over chunks; `scan` may run in several threads at once."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Prefilter:
        return self

    def __init__(self, literals: Iterable[str]) -> None:
        self._literals = literals
        self._lock = threading.Lock()
        self._database: Any = None
        self._scratch = threading.local()

    @staticmethod
    def available() -> bool:
        """Whether Hyperscan is installed on this platform; it is loaded when something is large enough to need it."""
        return find_spec("hyperscan") is not None

    def compile(self) -> None:
        """Build the database; `scan` does so itself when it is first used: short logs never need it."""
        with self._lock:
            if self._database is not None:
                return
            hyperscan = _library()
            # What stands in every statistics line, or in more of them than matter ("usage: 9" of 9.6 %), says nothing.
            ordinary = "\n".join((*STATISTICS, *LOUD))
            wanted = self._literals = frozenset(self._literals)  # it may be an iterator, which gives them only once
            chosen = {text for text in wanted if text not in ordinary}
            expressions = sorted(text.encode() for text in chosen.union(STRUCTURE, LOUD))
            database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            database.compile(
                expressions=expressions,
                ids=list(range(len(expressions))),
                elements=len(expressions),
                flags=0,
                literal=True,
            )
            self._database = database

    def scan(self, chunk: bytes) -> Sequence[int] | None:
        """Offsets inside lines worth reading, ascending; None when they are so many that all of it is worth reading."""
        hyperscan = _library()
        if hyperscan is None:
            return None
        if self._database is None:
            self.compile()
        scratch = getattr(self._scratch, "value", None)
        if scratch is None:
            scratch = self._scratch.value = hyperscan.Scratch(self._database)
        found: list[int] = []
        append = found.append
        enough = len(chunk) // DENSE + 64

        def hit(_ident: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            append(end - 1)
            return len(found) > enough

        try:
            self._database.scan(chunk, match_event_handler=hit, scratch=scratch)
        except hyperscan.ScanTerminated:
            return None
        found.sort()  # reported by end, so nearly sorted
        return found


class Gates:
    """Which of many literals a record's text holds; with Hyperscan one pass, without it one look per literal."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Gates:
        return self

    def __init__(self, literals: Iterable[str], *, library: bool = True) -> None:
        self._literals = tuple(sorted(set(literals)))
        self._database: Any = None
        self._library = library and len(self._literals) > FEW
        self._looked = 0

    def found(self, text: str) -> frozenset[str]:
        """Literals in `text`."""
        if self._database is None and self._library and self._looked >= WORTH:
            self._library = _library() is not None
        if not self._library or self._looked < WORTH:
            self._looked += len(text)
            return frozenset(literal for literal in self._literals if literal in text)
        if self._database is None:
            hyperscan = _library()
            self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            self._database.compile(
                expressions=[literal.encode() for literal in self._literals],
                ids=list(range(len(self._literals))),
                elements=len(self._literals),
                flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(self._literals),
                literal=True,
            )
        seen: list[str] = []
        append, literals = seen.append, self._literals
        self._database.scan(
            text.encode("utf-8", "surrogatepass"),
            match_event_handler=lambda ident, _start, _end, _flags, _context: append(literals[ident]),
        )
        return frozenset(seen)


WORTH = 30_000
"""Characters after which compiling the literals pays: a short log is done before that."""
FEW = 8
"""Up to this many literals, looking for each costs less than a scan."""

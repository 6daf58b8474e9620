"""A log to a picture: the terminal report as SVG, for the README.

usage: python tools/screenshot.py LOG OUT.svg [--width 100]
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI

from vlogdiag.model import Report
from vlogdiag.report.layout import Look
from vlogdiag.report.terminal import document

# rich's own frame loads its font from a server: a picture in a README must not, and the hosts that show it refuse to.
# Some viewers fold the blanks that indent a row unless told to keep them.
FRAME = (
    re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    .replace(
        "font-family: Fira Code, monospace", "font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
    )
    .replace('<g class="{unique_id}-matrix">', '<g class="{unique_id}-matrix" xml:space="preserve">')
)


def picture(report: Report, *, width: int, title: str) -> str:
    """The coloured report as SVG; the same report gives the same bytes."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=width,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    for row in document(report, Look(width=width)):
        console.print(row, soft_wrap=True)
    return console.export_svg(title=title, theme=MONOKAI, code_format=FRAME, unique_id="vlogdiag")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("out", type=Path)
    parser.add_argument("--width", type=int, default=100)
    args = parser.parse_args(argv)
    from vlogdiag.scan import diagnose_paths

    report = diagnose_paths([args.log])
    args.out.write_text(picture(report, width=args.width, title=f"vlogdiag scan {args.log}"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

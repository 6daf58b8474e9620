"""`python -m vlogdiag` is `vlogdiag`."""

from vlogdiag.cli import main

main()

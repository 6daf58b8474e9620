"""vlogdiag: what broke first in a vLLM server, the lines that prove it, and the one change to make."""

__version__ = "0.1.0"

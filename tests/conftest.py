"""What several test files share."""

from __future__ import annotations

import signal
import threading

import pytest

from vlogdiag.loading import Rules, load


@pytest.fixture(scope="session")
def shipped() -> Rules:
    """The rules that vlogdiag ships, with their examples."""
    return load(examples=True)


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: a test run in a shell's background ignores it, and so would its children."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

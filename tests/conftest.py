"""What several test files share."""

from __future__ import annotations

import pytest

from vlogdiag.loading import Rules, load


@pytest.fixture(scope="session")
def shipped() -> Rules:
    """The rules that vlogdiag ships, with their examples."""
    return load(examples=True)

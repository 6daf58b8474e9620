"""Loads a script fix the way a proxy imports it: by its file, as a module of its own."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from vlogdiag.launch.scripts import script_file


def load(name: str) -> ModuleType:
    """The script as a fresh module."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", script_file(name))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

"""What vLLM knows, by version: flags, environment variables, metrics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vlogdiag.catalog.argv import NoCommandError, check_argv
    from vlogdiag.catalog.changes import Change, Diff, diff
    from vlogdiag.catalog.explain import ArgProblem, explain_unrecognized, explain_value
    from vlogdiag.catalog.lookup import (
        FlagAnswer,
        choices,
        counterpart,
        default,
        endpoint,
        env,
        env_default,
        flag,
        knows_env,
        knows_flag,
        metric,
        most_values,
        takes_value,
    )
    from vlogdiag.catalog.names import Resolution, resolve
    from vlogdiag.catalog.optionvalues import spell_mapping, value_allowed
    from vlogdiag.catalog.ranges import CatalogueError, VersionError, releases
    from vlogdiag.catalog.versions import Versions

__all__ = [
    "ArgProblem",
    "CatalogueError",
    "Change",
    "Diff",
    "FlagAnswer",
    "NoCommandError",
    "Resolution",
    "VersionError",
    "Versions",
    "check_argv",
    "choices",
    "counterpart",
    "default",
    "diff",
    "endpoint",
    "env",
    "env_default",
    "explain_unrecognized",
    "explain_value",
    "flag",
    "knows_env",
    "knows_flag",
    "metric",
    "most_values",
    "releases",
    "resolve",
    "spell_mapping",
    "takes_value",
    "value_allowed",
]

_HOMES = {
    "versions": ("Versions",),
    "ranges": ("CatalogueError", "VersionError", "releases"),
    "names": ("Resolution", "resolve"),
    "argv": ("NoCommandError", "check_argv"),
    "explain": ("ArgProblem", "explain_unrecognized", "explain_value"),
    "optionvalues": ("spell_mapping", "value_allowed"),
    "changes": ("Change", "Diff", "diff"),
}
"""Module to the names it holds; every other name of `__all__` is in `lookup`."""


def __getattr__(name: str) -> Any:
    """Import a module when its first name is used: a scan that meets no launch line pays for no judging."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "lookup")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found

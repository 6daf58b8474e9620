"""What vLLM knows, by version: flags, environment variables, metrics."""

from vlogdiag.catalog.argv import ArgProblem, NoCommandError, check_argv, explain_unrecognized, explain_value
from vlogdiag.catalog.changes import Change, Diff, diff
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
    spell_mapping,
    takes_value,
    value_allowed,
)
from vlogdiag.catalog.names import Resolution, resolve
from vlogdiag.catalog.versions import CatalogueError, VersionError, Versions, releases

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
    "releases",
    "resolve",
    "spell_mapping",
    "takes_value",
    "value_allowed",
]

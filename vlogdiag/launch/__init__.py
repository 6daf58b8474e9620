"""A user's launch file: the vLLM command in it found, read and rewritten, every other byte kept."""

from vlogdiag.launch.argv import args_to_edits, parse_args, rewrite_argv
from vlogdiag.launch.check import check_command
from vlogdiag.launch.command import Edits, LaunchCommand, NotCertain
from vlogdiag.launch.edit import apply, unified_diff
from vlogdiag.launch.find import find_commands, guess_kind, the_command
from vlogdiag.launch.printing import command_from_args, format_command
from vlogdiag.launch.secrets import mask_text, secret_values

__all__ = [
    "Edits",
    "LaunchCommand",
    "NotCertain",
    "apply",
    "args_to_edits",
    "check_command",
    "command_from_args",
    "find_commands",
    "format_command",
    "guess_kind",
    "mask_text",
    "parse_args",
    "rewrite_argv",
    "secret_values",
    "the_command",
    "unified_diff",
]

"""A user's launch file: the vLLM command in it found, read and rewritten, every other byte kept."""

from vlogdiag.launch.argv import parse_args
from vlogdiag.launch.command import Edits, LaunchCommand, NotCertain
from vlogdiag.launch.find import find_commands, guess_kind, the_command

__all__ = ["Edits", "LaunchCommand", "NotCertain", "find_commands", "guess_kind", "parse_args", "the_command"]

"""The frozen types of a launch command: its words, where in the file they stand, and the changes asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Kind = Literal["shell", "compose", "kubernetes", "dockerfile", "systemd", "supervisor"]
Entry = Literal["vllm serve", "api_server"]
Quoting = Literal["shell", "bare", "words", "yaml item", "json item"]
"""`bare`: inside an unquoted variable, where quotes would be taken for part of the word."""


class NotCertain(Exception):  # noqa: N818 - it is an answer, and reads as one
    """The launch command cannot be found or changed with certainty; the text says why and where."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the file that holds words of the command, all written in one manner."""

    quoting: Quoting
    layers: tuple[str, ...] = ()
    start: int = 0
    end: int = 0
    """Document span inside which the words stand; `end` is where a word may be added if there is none yet."""
    locked: str | None = None
    """Why words here must not be changed: they stand under a condition, or others use them too."""
    tokens: tuple[tuple[int, int], ...] = ()
    """Spans of everything that stands here as a word, `"${ARGS[@]}"` included, whose content stands elsewhere."""


@dataclass(frozen=True, slots=True)
class Source:
    """The literal assignment that gives a variable its value."""

    value: str
    start: int
    end: int
    layers: tuple[str, ...]
    editable: bool
    """True when the launch command is the only user of the variable (`echo` aside)."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the command: quotes removed, variables left as `$VAR`."""

    text: str
    start: int
    end: int
    site: int = 0
    literal: bool = True
    """False when the shell (compose, systemd …) would still expand something in it."""
    source: Source | None = None
    raw: str = ""
    """The spelling, in the innermost layer."""

    @property
    def known(self) -> str:
        """The word with a variable replaced by its literal value, where the file says it."""
        return self.source.value if self.source else self.text

    @property
    def opaque(self) -> bool:
        """True when this may stand for any number of words: an unquoted variable, `"$@"`, `"${ARGS[@]}"`."""
        if self.literal or self.source:
            return False
        spread = self.raw.strip('"')
        return spread.startswith("$") and (not self.raw.startswith('"') or spread == "$@" or "[@]" in spread)


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """One variable that the launch file sets for the server."""

    name: str
    value: str
    start: int
    end: int
    """Document span that `form` renders anew."""
    drop_start: int
    drop_end: int
    """Document span to delete so that the variable is not set any more."""
    form: str
    """A key of `environment.FORMS`."""
    layers: tuple[str, ...] = ()
    drop_text: str = ""
    """What stands in the deleted span's place, where nothing would be a fault."""


@dataclass(frozen=True, slots=True)
class EnvPlace:
    """The variables that the file sets for the command, and where a new one goes."""

    entries: tuple[EnvEntry, ...] = ()
    at: int | None = None
    """Document offset for new variables, or None: no such place. Written are `opening`, for each variable `before`,
    its form and `after` (joined by `between`), then `closing`; line breaks inside a form are followed by `indent`."""
    before: str = ""
    after: str = ""
    opening: str = ""
    closing: str = ""
    between: str = ""
    indent: str = ""
    form: str = "shell assignment"
    layers: tuple[str, ...] = ()
    unset_at: int | None = None
    """Where the shell can be told to unset a variable that the file inherits; None: nowhere."""
    unset_before: str = ""
    unset_after: str = ""
    cleared: tuple[str, ...] = ()
    """Variables that the file already unsets for the command."""
    fixed: tuple[str, ...] = ()
    """Variables whose value the file takes from elsewhere (a secret, a config map)."""
    uncertain: tuple[str, ...] = ()
    """Variables that the file also sets under conditions: a new setting wins over these, but they cannot be unset."""


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """One command that starts a vLLM server, as a file spells it."""

    argv: tuple[str, ...]
    """From the program on; of an image with its own entry point only the arguments."""
    line: int
    column: int
    """1-based position of the first word of `argv`."""
    kind: Kind
    entry: Entry
    certain: bool = True
    reason: str | None = None
    """Why it is not certain."""
    image: str | None = None
    """Container image, tag included, where the file names one."""
    arguments_at: int = 0
    """Index in `argv` of the first argument after the entry."""
    words: tuple[Word, ...] = field(default=(), repr=False)
    sites: tuple[Site, ...] = field(default=(), repr=False)
    env: EnvPlace = field(default=EnvPlace(), repr=False)
    notes: tuple[str, ...] = ()
    """What a reader of the file should know: options cut off by a comment, arguments that are not visible here."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the server's parser sees: `argv` without program and entry."""
        return self.argv[self.arguments_at :]

    @property
    def server_argv(self) -> tuple[str, ...]:
        """A whole command with known variables filled in; what an image's entry point contributes is put in front."""
        if self.arguments_at:
            return tuple(word.known for word in self.words)
        api_server = ("python3", "-m", "vllm.entrypoints.openai.api_server")
        return (*(("vllm", "serve") if self.entry == "vllm serve" else api_server), *self.known_arguments)

    @property
    def known_arguments(self) -> tuple[str, ...]:
        """`arguments`, with variables replaced where the file gives them exactly one literal value."""
        return tuple(word.known for word in self.words[self.arguments_at :])


@dataclass(frozen=True, slots=True)
class Edits:
    """What to change: options to set (True: a bare switch), options to remove, variables to set and to unset."""

    set: Mapping[str, str | bool] = field(default_factory=lambda: MappingProxyType({}))
    remove: tuple[str, ...] = ()
    env_set: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    env_unset: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """True when there is anything to change."""
        return bool(self.set or self.remove or self.env_set or self.env_unset)


def position(document: str, offset: int) -> tuple[int, int]:
    """1-based line and column of a character of the document."""
    return document.count("\n", 0, offset) + 1, offset - document.rfind("\n", 0, offset)

"""Finds in the words of a command where vLLM's server starts and its own arguments begin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vlogdiag.launch.command import Entry, Word

_SERVER_MODULE = "vllm.entrypoints.openai.api_server"
_SERVER_FILE = re.compile(r"(^|/)vllm/entrypoints/openai/api_server\.py$")
_CLI_MODULE = re.compile(r"^vllm(\.entrypoints\.cli\.main|\.scripts)?$")
_PYTHON = re.compile(r"^python(\d+(\.\d+)?)?$")
_SHELL = re.compile(r"^(ba|z|da|k|a)?sh$")
_SERVER_IMAGE = re.compile(r"vllm-(openai|tpu|cpu)[a-z0-9.-]*([:@]|$)", re.IGNORECASE)
"""Images whose entry point is the server itself, so that what follows are its arguments."""

_WRAPPERS = """
exec nohup env command time nice ionice setsid stdbuf numactl taskset sudo doas gosu su-exec tini dumb-init chrt
unbuffer timeout uv uvx poetry pdm pipenv hatch conda mamba micromamba srun salloc mpirun apptainer singularity docker
podman nerdctl docker-compose nsys ncu systemd-run xargs ray kubectl prlimit chroot start-stop-daemon dotenv op doppler
"""
"""Programs known to run the command that follows among their words."""
_TALKERS = """
echo printf grep egrep fgrep rg pgrep pkill killall kill ps cat which type man logger log info warn test [ [[ sed awk
cd ls rm touch notify-send curl wget alias
"""
"""Programs for which the words `vllm serve` are only data."""
_RUNS_TEXT = "tmux screen ssh su script runuser watch parallel"
"""Programs that hand one of their words to a shell."""
_DOCKER_SWITCHES = """
-d --detach -i --interactive -t --tty -it -ti -dit -itd -di -dt --rm --privileged --init --read-only -P --publish-all -q
--no-healthcheck --oom-kill-disable --sig-proxy --quiet --disable-content-trust --use-api-socket
"""
"""`docker run` options that take no value."""

WRAPPERS = frozenset(_WRAPPERS.split())
TALKERS = frozenset(_TALKERS.split())
RUNS_TEXT = frozenset(_RUNS_TEXT.split())
DOCKER_SWITCHES = frozenset(_DOCKER_SWITCHES.split())


@dataclass(frozen=True, slots=True)
class Found:
    """Where the server starts: its words (possibly rearranged), and how sure that is."""

    words: tuple[Word, ...]
    arguments_at: int
    entry: Entry
    doubt: str | None = None
    image: str | None = None
    before: tuple[Word, ...] = ()
    """The words in front: wrappers, or everything up to the image."""
    container: bool = False
    """True when the words themselves start the container (`docker run`)."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A word that a shell will read as a command line of its own."""

    word: Word
    doubt: str | None = None


def name_of(program: str) -> str:
    """`/opt/venv/bin/vllm` → `vllm`."""
    return program.rsplit("/", 1)[-1]


def find_entry(words: Sequence[Word]) -> Found | Nested | None:
    """The server in one command's words, or the word that a shell would read in turn, or nothing."""
    if not words:
        return None
    first = name_of(words[0].known)
    if first in TALKERS:
        return None
    if first in ("docker", "podman", "nerdctl") and (run := _container(words)):
        return run
    direct = _direct(words)
    if direct:
        doubt = None
        if direct[0] > 0 and first not in WRAPPERS and not _SHELL.match(first):
            doubt = f"it is started through '{first}', which may change its arguments"
        at, arguments_at, entry = direct
        return Found(tuple(words[at:]), arguments_at - at, entry, doubt, None, tuple(words[:at]))
    return _nested(words, first)


def _direct(words: Sequence[Word]) -> tuple[int, int, Entry] | None:
    texts = [word.known for word in words]
    for i, text in enumerate(texts):
        following = texts[i + 1] if i + 1 < len(texts) else ""
        if name_of(text) == "vllm" and following == "serve":
            return i, i + 2, "vllm serve"
        if text == "-m" and following == _SERVER_MODULE:
            return _program(texts, i), i + 2, "api_server"
        if text == "-m" and _CLI_MODULE.match(following) and texts[i + 2 : i + 3] == ["serve"]:
            return _program(texts, i), i + 3, "vllm serve"
        if _SERVER_FILE.search(text):
            return _program(texts, i), i + 1, "api_server"
    return None


def _program(texts: Sequence[str], at: int) -> int:
    """Index of the interpreter before `-m`: the nearest one to the left, else `at` itself."""
    return next((i for i in range(at - 1, -1, -1) if _PYTHON.match(name_of(texts[i])) or texts[i].startswith("$")), at)


def _nested(words: Sequence[Word], first: str) -> Nested | None:
    for i, word in enumerate(words[:-1]):
        if _SHELL.match(name_of(word.text)):
            for option, text in zip(words[i + 1 :], words[i + 2 :], strict=False):
                if not option.text.startswith("-"):
                    break
                if "c" in option.text and not option.text.startswith("--"):
                    return Nested(text)
    if first in RUNS_TEXT or first == "eval":
        for word in words[1:]:
            if "vllm" in word.text and " " in word.text:
                return Nested(word, "it is built with eval" if first == "eval" else None)
    return None


def _container(words: Sequence[Word]) -> Found | Nested | None:
    """`docker run [options] IMAGE [arguments]`, `--entrypoint` included."""
    texts = [word.known for word in words]
    if "run" not in texts[1:3]:
        return None
    i = texts.index("run") + 1
    entrypoint: Word | None = None
    while i < len(texts) and texts[i].startswith("-"):
        if texts[i] == "--entrypoint" and i + 1 < len(texts):
            entrypoint = words[i + 1]
        elif texts[i].startswith("--entrypoint="):
            word = words[i]
            entrypoint = Word(texts[i].partition("=")[2], word.start, word.end, word.site, word.literal, None, word.raw)
        i += 1 if "=" in texts[i] or texts[i] in DOCKER_SWITCHES else 2
    if i >= len(texts):
        return None
    found = server_of_image(texts[i], entrypoint, words[i + 1 :])
    return replace(found, before=tuple(words[: i + 1]), container=True) if isinstance(found, Found) else found


def server_of_image(image: str, entrypoint: Word | None, rest: Sequence[Word]) -> Found | Nested | None:
    """The server that `image` starts with these arguments."""
    words = [entrypoint, *rest] if entrypoint and entrypoint.text else list(rest)
    direct = _direct(words)
    if direct:
        at, arguments_at, entry = direct
        return Found(tuple(words[at:]), arguments_at - at, entry, None, image)
    if nested := _nested(words, name_of(words[0].text) if words else ""):
        return nested
    if entrypoint is None and _SERVER_IMAGE.search(image):
        by_option = any(word.text == "--model" or word.text.startswith("--model=") for word in rest)
        return Found(tuple(rest), 0, "api_server" if by_option else "vllm serve", None, image)
    return None

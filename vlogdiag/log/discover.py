"""Turns the paths that somebody typed into the logs to read, rotated siblings joined in their true order."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from msgspec import Struct

STDIN = "-"
FOLDER_PATTERN = "*.log*"
COMPRESSED = (".gz", ".zst", ".bz2", ".xz")
"""Suffixes that log rotation adds when it compresses; what a file really holds is decided by its first bytes."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# A number of more than three digits is a process id or a port, not a place in a rotation.
_COUNT = re.compile(r"(?P<base>.+)\.(?P<count>\d{1,3})\Z")
# `-20261130` (logrotate dateext), `.2026-11-30_12-00` (Python's timed handler), `.20261130-120000` (kubelet)
_DATE = re.compile(
    r"(?P<base>.+)[-._](?P<date>20\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01]))(?P<rest>(?:[-_.:T]?\d)*)Z?\Z"
)


class SourceError(Exception):
    """A path that cannot be read at all, and why, in one sentence."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class LogPath(Struct, frozen=True):
    """One log: its name for reports, and the files that hold it, oldest first."""

    name: str
    parts: tuple[Path, ...] = ()
    """Empty for standard input."""
    notices: tuple[str, ...] = ()
    """What was left out on purpose, one sentence each."""

    @property
    def is_stdin(self) -> bool:
        """True when the bytes come from standard input."""
        return not self.parts


class Rotation(Struct, frozen=True):
    """What the end of a file name says: which log it belongs to, and its place there (greater = newer)."""

    base: str
    kind: str
    """'current', 'count' or 'date'; places of different kinds cannot be compared."""
    place: tuple[int, ...] = ()
    compressed: bool = False


def discover(paths: Sequence[str]) -> tuple[list[LogPath], list[SourceError]]:
    """Find the logs behind `paths`, in the order given; what cannot be read comes back as errors beside them.

    A named file is one log. In a folder (searched deeply for `*.log*`, hidden names skipped) and among the matches of a
    glob, rotated siblings form one log, oldest part first. A file that was reached twice is read once.
    """
    search = _Search()
    for path in paths:
        search.add(path)
    return search.logs, search.errors


def rotation_of(name: str) -> Rotation:
    """Read a file name's rotation suffix: `vllm.log.2.gz` is place -2 of `vllm.log`; without one it is 'current'."""
    stem = name
    for suffix in COMPRESSED:
        stem = stem.removesuffix(suffix)
    compressed = stem != name
    if date := _DATE.match(stem):
        digits = date["date"].replace("-", "")
        rest = tuple(int(number) for number in re.findall(r"\d+", date["rest"]))
        return Rotation(date["base"], "date", (int(digits), *rest), compressed)
    if count := _COUNT.match(stem):
        return Rotation(count["base"], "count", (-int(count["count"]),), compressed)
    return Rotation(stem, "current", (), compressed)


def error_reason(error: OSError | ValueError) -> str:
    """Say in words for people why the operating system refused a path."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, IsADirectoryError):
        return "is a folder"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror.lower()}"
    return f"cannot be read: {error}"


def printable(path: str | Path) -> str:
    """Spell a path so that it can be encoded; bytes that are no UTF-8 become replacement characters."""
    return _SURROGATE.sub("\ufffd", str(path))


class _Search:
    """The logs found so far, and which files they have taken."""

    def __init__(self) -> None:
        self.logs: list[LogPath] = []
        self.errors: list[SourceError] = []
        self._taken: set[tuple[int, int]] = set()
        self._stdin = False

    def add(self, path: str) -> None:
        """Add what one argument stands for."""
        if path == STDIN:
            if self._stdin:
                self._fail(path, "standard input can be read only once")
            else:
                self._stdin = True
                self.logs.append(LogPath(STDIN))
            return
        if not path:
            self._fail(path, "the path is empty")
            return
        try:
            status = Path(path).stat()
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            if missing and glob.has_magic(path):
                self._add_glob(path)
            elif missing and Path(path).is_symlink():
                self._fail(path, "is a link to a file that does not exist")
            else:
                self._fail(path, error_reason(error))
            return
        if stat.S_ISDIR(status.st_mode):
            self._add_folder(path)
        elif self._readable(path, status):
            self._take([Path(path)], status)

    def _add_glob(self, pattern: str) -> None:
        matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - pathlib refuses absolute patterns
        if not matches:
            self._fail(pattern, "matches no file")
        files = [Path(match) for match in matches if not Path(match).is_dir()]
        # `**` names the folders and, separately, all that is in them.
        folders = [] if "**" in pattern else [match for match in matches if Path(match).is_dir()]
        self._add_found(files)
        for folder in folders:
            self._add_folder(folder)

    def _add_folder(self, folder: str) -> None:
        before = len(self.errors)
        found = list(self._walk(folder))
        self._add_found(found)
        if not found and len(self.errors) == before:
            self._fail(folder, f"the folder holds no file named {FOLDER_PATTERN}")

    def _walk(self, folder: str) -> Iterator[Path]:
        def refused(error: OSError) -> None:
            self._fail(str(error.filename), error_reason(error))

        for parent, folders, files in os.walk(folder, onerror=refused):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                if not name.startswith(".") and fnmatch(name.lower(), FOLDER_PATTERN):
                    yield Path(parent, name)

    def _add_found(self, files: Iterable[Path]) -> None:
        """Add files that were found rather than named: groups of rotated siblings."""
        readable: dict[Path, os.stat_result] = {}
        # Real files before links: `current.log -> vllm-20261201.log` is the same log under a second name.
        for path in sorted(files, key=lambda path: (path.is_symlink(), path)):
            try:
                status = path.stat()
            except (OSError, ValueError) as error:
                self._fail(printable(path), error_reason(error))
                continue
            if stat.S_ISFIFO(status.st_mode):  # to open it would wait for whoever writes into it
                self._fail(printable(path), "is a pipe; it is read only if it is named itself")
                continue
            if self._readable(str(path), status) and self._fresh(status):
                readable[path] = status
        for name, parts, notices in _grouped(readable):
            self.logs.append(LogPath(printable(name), tuple(parts), tuple(notices)))

    def _take(self, parts: list[Path], status: os.stat_result) -> None:
        if self._fresh(status):
            self.logs.append(LogPath(printable(parts[0]), tuple(parts)))

    def _fresh(self, status: os.stat_result) -> bool:
        """Remember a file; False when it was taken before."""
        identity = (status.st_dev, status.st_ino)
        if identity in self._taken:
            return False
        self._taken.add(identity)
        return True

    def _readable(self, path: str, status: os.stat_result) -> bool:
        if stat.S_ISSOCK(status.st_mode) or stat.S_ISBLK(status.st_mode):
            self._fail(path, "is neither a file nor a pipe")
            return False
        if not os.access(path, os.R_OK):
            self._fail(path, error_reason(PermissionError()))
            return False
        return True

    def _fail(self, path: str, reason: str) -> None:
        self.errors.append(SourceError(printable(path), reason))


def _grouped(files: dict[Path, os.stat_result]) -> Iterator[tuple[Path, list[Path], list[str]]]:
    """Yield (name, parts oldest first, notices) for every log among `files`, ordered by name."""
    families: dict[Path, list[tuple[Rotation, Path]]] = {}
    for path in files:
        rotation = rotation_of(path.name)
        base = path.with_name(rotation.base)
        if rotation.kind == "current" and rotation.compressed and base in files:
            base = path  # `vllm.log.gz` beside `vllm.log` has no known place: a log of its own
        families.setdefault(base, []).append((rotation, path))
    for base, members in sorted(families.items()):
        if _is_rotation(base, members):
            yield _one_log(base, members, files)
        else:
            for _, path in sorted(members, key=lambda member: member[1]):
                yield path, [path], []


def _is_rotation(base: Path, members: list[tuple[Rotation, Path]]) -> bool:
    """Decide whether files whose names differ in a number or a date are one log cut in pieces.

    `run.1` and `run.2` are two runs unless there is a `run`, or the name in front ends in `.log`; numbers that start
    at 0 beside no current file are ranks (`worker.log.0` to `.7`).
    """
    current = any(rotation.kind == "current" for rotation, _ in members)
    if current:
        return True
    return base.name.lower().endswith(".log") and not any(rotation.place == (0,) for rotation, _ in members)


def _one_log(
    base: Path, members: list[tuple[Rotation, Path]], files: dict[Path, os.stat_result]
) -> tuple[Path, list[Path], list[str]]:
    """Order the parts of one log, and leave out a compressed copy whose original still stands beside it."""
    notices = []
    kept: list[tuple[Rotation, Path]] = []
    plain = {(rotation.kind, rotation.place) for rotation, _ in members if not rotation.compressed}
    for rotation, path in members:
        if rotation.compressed and (rotation.kind, rotation.place) in plain:
            notices.append(f"{printable(path)} was left out: its uncompressed original stands beside it")
        else:
            kept.append((rotation, path))
    # Counted beside dated parts: the rotation's naming was changed one day, and the older scheme's files are older.
    youngest = {
        kind: max(files[path].st_mtime for rotation, path in kept if rotation.kind == kind)
        for kind in {rotation.kind for rotation, _ in kept}
    }

    def age(member: tuple[Rotation, Path]) -> tuple[bool, float, str, tuple[int, ...], Path]:
        rotation, path = member
        return rotation.kind == "current", youngest[rotation.kind], rotation.kind, rotation.place, path

    parts = [path for _, path in sorted(kept, key=age)]
    return (base if len(parts) > 1 else parts[0]), parts, notices

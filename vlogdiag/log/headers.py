"""Turns one line of a log into who said it, when, at which level and what: every vLLM header age, every wrapper.

Two tables do the work: `_wrappers` are what container runtimes, log shippers and syslog put before a line, `OTHERS` are
what a program's own logger puts there. Wrappers are stripped first, as often as they are found; the innermost header
gives the level. Sources: vLLM `logger.py`, `logging_utils/formatter.py`, `logging_utils/lazy.py` (0.4.0 to 0.33.0),
torch `c10/util/Logging.cpp`, Ray's `ray._private.ray_logging`, containerd's CRI log format, Docker's json-file driver.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from vlogdiag.model import Level

__all__ = ["Parsed", "Stamp", "parse_line"]

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
"""ANSI control sequences (CSI, OSC, two-byte escapes)."""

MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
LEVELS = {
    "DEBUG": Level.DEBUG,
    "TRACE": Level.DEBUG,
    "INFO": Level.INFO,
    "NOTICE": Level.INFO,
    "WARN": Level.WARNING,
    "WARNING": Level.WARNING,
    "ERROR": Level.ERROR,
    "CRITICAL": Level.CRITICAL,
    "FATAL": Level.CRITICAL,
}
LETTERS = {
    "D": Level.DEBUG,
    "I": Level.INFO,
    "W": Level.WARNING,
    "E": Level.ERROR,
    "F": Level.CRITICAL,
    "C": Level.CRITICAL,
}

MAX_PREFIX = 80
"""A vLLM header is accepted behind at most this much foreign text (`VLLM_LOGGING_PREFIX`, wrappers not in the table)."""
MAX_JSON = 1 << 20
"""Lines longer than this are not tried as JSON: a wrapper never splits a record into lines of a megabyte."""
DOCKER_PART = 16 * 1024
"""Bytes of a line that Docker's json-file driver writes at once (moby `daemon/logger/copier.go`, `defaultBufSize`)."""
MAX_HEAD = 400
"""Headers are looked for in this much of a line."""


class Stamp(Struct, frozen=True, gc=False):
    """A point of time as a log spells it: no year in vLLM's own format."""

    month: int
    day: int
    second: float
    """Seconds since midnight."""
    year: int | None
    text: str


class Parsed(Struct, frozen=True, gc=False):
    """One line taken apart. `level` is the innermost logger's; a line without header has none."""

    text: str
    host: str | None = None
    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    engine: int | None = None
    level: Level | None = None
    kind: str = "bare"
    stamp: Stamp | None = None
    """The program's own time."""
    outer: Stamp | None = None
    """The wrapper's time, perhaps in another zone."""
    source: str | None = None
    repeats: int = 1
    partial: bool = False
    """The runtime cut the line here; the next one continues it."""
    key: str = ""
    """The header as printed: lines of one record share it."""


def parse_line(raw: str) -> Parsed:
    """Take one line (no line end, no `\\r` inside) apart.

    Never raises; what is not understood stays in `text`, with `kind` 'bare' and no level.
    """
    text = ESCAPES.sub("", raw) if "\x1b" in raw else raw
    if text and text[0] in "(IWEDC":  # vLLM's own line, unwrapped: the case that must be fast
        quick = _quick(text) or _quick_uvicorn(text)
        if quick is not None:
            return quick
    found = Parsed(text)
    for _ in range(5):
        inner = _unwrap(found)
        if inner is None:
            break
        found = inner
    found = _process(found)
    if found.text.startswith('{"') and found.kind != "json":  # `(APIServer pid=1) {"message": …}`: a formatter inside
        found = _process(_unwrap_json(found) or found)
    return _header(found)


# --- wrappers ---------------------------------------------------------------------------------------------------------

ISO = (
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
LOOKS_LIKE_LOG = r"(?=\(|\{|\[|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|Traceback|  |NVRM|$)"


@cache
def _wrappers() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """(name, what stands before the line); groups: host, time, pid of the *unit* (not used as the speaker's pid).

    Compiled when first needed, as `_others` is: most logs are vLLM's own lines and nothing else.
    """
    return (
        ("cri", re.compile(ISO + r" (?:stdout|stderr) (?P<flag>[FP])(?: |$)")),
        (
            "rfc5424",
            re.compile(r"<\d{1,3}>1 " + ISO + r" (?P<host>\S+) (?P<unit>\S+) (?P<pid>\S+) \S+ (?:-|\[[^\]]*\]) ?"),
        ),
        ("journald-iso", re.compile(ISO + r" (?P<host>[\w.<>-]+) (?P<unit>[\w./@:-]+?)(?:\[(?P<pid>\d+)\])?: ")),
        ("loki", re.compile(ISO + r"\s+\{[^{}]{0,300}\}\s")),
        (
            "severity",
            re.compile(
                r"(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL)\s+" + ISO + r"\s+(?:\[[^\]]{0,200}\]\s+)?"
            ),
        ),
        (
            "timestamps",
            re.compile(ISO + r"\s(?![-\d]|\s*(?:INFO|WARNING|ERROR|DEBUG|CRITICAL|SUCC)\s+\S+:\d+ --|\s*-)"),
        ),
        (
            "syslog",
            re.compile(
                r"(?P<mon>[A-Z][a-z]{2}) (?P<day>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d)(?:\.\d+)? "
                r"(?P<host>[\w.<>-]+) (?P<unit>[\w./@:-]+?)(?:\[(?P<pid>\d+)\])?: "
            ),
        ),
        ("kubectl", re.compile(r"\[pod/(?P<host>[^/\]\s]+)/(?P<unit>[^\]\s]+)\] ?")),
        ("bracketed-time", re.compile(r"\[" + ISO + r"\]\s" + LOOKS_LIKE_LOG)),
        ("pm2", re.compile(r"\d{1,4}\|(?P<host>[A-Za-z0-9][\w.-]{0,80}?)\s*\| ")),
        ("compose", re.compile(r"(?P<host>[A-Za-z0-9][\w.-]{0,80}?)\s*\| (?!\d+/\d+ \[)")),
        (
            "stern",
            re.compile(
                r"(?P<host>[a-z0-9][a-z0-9.-]{0,80}-[a-z0-9]{0,9}\d[a-z0-9]{0,9}) (?!exited )(?P<unit>[a-z][a-z0-9-]{0,40})(?: +› | {1,8})(?! )(?=\S)"
            ),
        ),
        ("uptime", re.compile(r"\[ *\d{1,9}\.\d{6}\] (?=\S)")),
    )


STARTS = {
    "[0-9]": ("cri", "journald-iso", "loki", "timestamps", "pm2", "compose", "stern"),
    "[A-Z]": ("severity", "syslog", "compose"),
    "[a-z]": ("compose", "stern"),
    r"\[": ("kubectl", "bracketed-time", "uptime"),
    "<": ("rfc5424",),
}
"""First character of a line to the wrappers that may begin with it: a log of another program tries few for each line."""


@lru_cache(maxsize=256)
def _wrappers_behind(first: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    names = next((names for start, names in STARTS.items() if re.match(start, first)), ())
    return tuple((name, pattern) for name, pattern in _wrappers() if name in names)


def _unwrap(found: Parsed) -> Parsed | None:
    text = found.text
    if not text:
        return None
    if text[0] == "{" and text.rstrip().endswith("}") and len(text) <= MAX_JSON:
        return _unwrap_json(found)
    head = text[:MAX_HEAD]
    for name, pattern in _wrappers_behind(head[0]):
        match = pattern.match(head)
        if match is None:
            continue
        groups = match.groupdict()
        kind = "kernel" if groups.get("unit") == "kernel" or name == "uptime" else found.kind
        return replace(
            found,
            text=text[match.end() :],
            host=groups.get("host") or found.host,
            outer=_stamp_of(groups) or found.outer,
            partial=groups.get("flag") == "P",
            kind=kind,
        )
    return None


def _stamp_of(groups: dict[str, str | None]) -> Stamp | None:
    clock = groups.get("clock")
    if clock is None:
        return None
    year = groups.get("year")
    name = groups.get("mon")
    month = MONTHS.get(name, 0) if name else int(groups.get("month") or 0)
    day = int(groups.get("day") or 0)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    spelled = f"{year}-{month:02d}-{day:02d} {clock}" if year else f"{month:02d}-{day:02d} {clock}"
    return Stamp(month, day, _seconds(clock), int(year) if year else None, spelled)


def _seconds(clock: str) -> float:
    hours, minutes, seconds = clock.replace(",", ".").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


ISO_TEXT = re.compile(ISO)


def _iso_stamp(value: object) -> Stamp | None:
    match = ISO_TEXT.match(value) if isinstance(value, str) else None
    return _stamp_of(match.groupdict()) if match else None


def _unwrap_json(found: Parsed) -> Parsed | None:
    """Docker json-file, fluent-bit, cloud exports, journald's JSON and JSON loggers; None if it is something else."""
    try:
        data = json.loads(found.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    outer = (
        _iso_stamp(data.get("time") or data.get("timestamp") or data.get("@timestamp") or data.get("ts")) or found.outer
    )
    payload = data.get("jsonPayload")
    if isinstance(payload, dict):
        data = {**data, **payload}
    host = _text(data.get("_HOSTNAME") or data.get("container_name") or data.get("pod_name") or data.get("host"))
    resource = data.get("resource")
    labels = data.get("kubernetes") or (resource.get("labels") if isinstance(resource, dict) else None)
    if isinstance(labels, dict):
        host = _text(labels.get("pod_name") or labels.get("pod")) or host
    for name in ("log", "textPayload", "message", "msg", "MESSAGE", "@message", "line", "event"):
        message = data.get(name)
        if isinstance(message, str):
            break
    else:
        return None
    # Docker itself cuts a line where its buffer is full, and leaves the newline out; shippers strip every newline.
    partial = (
        name == "log"
        and len(message) >= DOCKER_PART // 4
        and not message.endswith("\n")
        and data.keys() <= {"log", "stream", "time", "attrs"}
        and len(message.encode("utf-8", "surrogatepass")) >= DOCKER_PART
    )
    message = message.rstrip("\n")
    if "levelname" in data or ("level" in data and ("logger" in data or "name" in data)):
        level = LEVELS.get(str(data.get("levelname") or data.get("level")).upper())
        own = _iso_stamp(data.get("asctime")) or outer
        process = _text(data.get("processName"))
        pid = data.get("process")
        extra = data.get("exc_info")
        if isinstance(extra, str) and extra:
            message = f"{message}\n{extra}"
        inner = _process(Parsed(message, host=host or found.host, outer=outer))
        place = _text(data.get("filename") or data.get("pathname"))
        number = data.get("lineno")
        return replace(
            inner,
            process=inner.process or (process if process not in (None, "MainProcess") else None),
            pid=inner.pid if inner.pid is not None else (pid if isinstance(pid, int) else None),
            level=level,
            kind="json",
            stamp=own,
            source=f"{place.rsplit('/', 1)[-1]}:{number}"
            if place and isinstance(number, int)
            else _text(data.get("name")),
            key="",
        )
    return replace(found, text=message, host=host or found.host, outer=outer, partial=partial)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


# --- process prefixes -------------------------------------------------------------------------------------------------

PROCESS = re.compile(
    r"\((?:(?P<name>[A-Za-z_][\w.:-]{0,60}) )?(?:rank=(?P<rank>\d{1,5}) )?"
    r"(?:(?P<place>[A-Z]{2,4}\d{1,4}(?:_[A-Z]{2,4}\d{1,4}){0,5}) )?pid=(?P<pid>\d{1,9})(?:, ip=(?P<ip>[\w.:<>-]{1,60}))?\) ?"
)
REPEATED = re.compile(r" \[repeated (\d{1,6})x across cluster\](?: \(Ray deduplicates.{0,300})?$")
RANK = re.compile(r"\[rank(\d{1,5})\]:? ?")
PLACE = re.compile(r"(TP|PP|DP|EP)(\d{1,4})")
NUMBERED = re.compile(r"^(?:VllmWorker|Worker)-(\d{1,4})$")
ENGINE = re.compile(r"^EngineCore_(?:DP)?(\d{1,4})$")


def _process(found: Parsed) -> Parsed:
    """Take `(Worker_TP1 pid=7)`, Ray's `(RayWorkerWrapper pid=7, ip=…)` and `[rank1]:` off, the innermost winning."""
    text = found.text
    if not text or text[0] not in "([":
        return found
    name, pid, rank, engine, host, repeats = (
        found.process,
        found.pid,
        found.rank,
        found.engine,
        found.host,
        found.repeats,
    )
    start = 0
    for _ in range(3):
        match = PROCESS.match(text, start)
        if match is not None:
            name = match["name"] or name
            pid = int(match["pid"])
            host = match["ip"] or host
            place = match["place"] or name or ""
            rank = int(match["rank"]) if match["rank"] else _rank(place, rank)
            numbered = ENGINE.match(name or "")
            engine = int(numbered[1]) if numbered else engine
            if match["place"]:
                name = f"{name}_{match['place']}"
            start = match.end()
            continue
        ranked = RANK.match(text, start)
        if ranked is None:
            break
        rank = int(ranked[1])
        start = ranked.end()
    if not start:
        return found
    rest = text[start:]
    again = REPEATED.search(rest, max(0, len(rest) - 400)) if "across cluster]" in rest else None
    if again:
        repeats = int(again[1])
        rest = rest[: again.start()]
    return replace(found, text=rest, process=name, pid=pid, rank=rank, engine=engine, host=host, repeats=repeats)


def _rank(place: str, known: int | None) -> int | None:
    """Rank by a process name: tensor-parallel if it has one, else pipeline, else the number at its end."""
    places = dict(PLACE.findall(place))
    for kind in ("TP", "PP"):
        if kind in places:
            return int(places[kind])
    numbered = NUMBERED.match(place)
    return int(numbered[1]) if numbered else known


# --- headers ----------------------------------------------------------------------------------------------------------

VLLM = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<stamp>(?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)) "
    r"(?:\[(?P<new>[\w./<>-]{1,120}:\d{1,6})\]|(?P<old>[\w./<>-]{1,120}:\d{1,6})\]) ?"
)
LEVEL = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d ")
UVICORN = r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|TRACE): {1,9}(?=\S|$)"
GLOG = (
    r"\[?(?P<letter>[WEIF])(?:(?P<date>\d{3,4}) (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,9})?))?(?: +(?P<pid>\d{1,9}))? "
    r"(?P<source>[\w./+-]{1,120}:\d{1,6})\] ?"
)
NCCL = (
    r"(?:\[?[\d-]{10} [\d:]{8}\]? )?(?:(?P<host>[\w.<>-]{1,80}):(?P<pid>\d{1,9}):\d{1,9} \[(?P<rank>\d{1,4})\] )?"
    r"(?P<source>[\w./]{1,80}:\d{1,6} )?NCCL (?P<level>INFO|WARN|ERROR) "
)
RAY = (
    r"(?P<stamp>"
    + ISO
    + r")\s+(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|SUCC)\s+(?P<source>[\w./-]{1,120}:\d{1,6}) -- "
)
RAYLET = (
    r"\[(?P<stamp>"
    + ISO
    + r") (?P<letter>[DIWEFC]) (?P<pid>\d{1,9}) \d{1,9}\] (?:\((?P<name>\w{1,40})\) )?(?P<source>[\w./-]{1,120}:\d{1,6}): "
)
NGINX = r"(?P<year>\d{4})/(?P<month>\d\d)/(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d) \[(?P<level>\w{1,12})\] (?P<pid>\d{1,9})#\d{1,9}: (?:\*\d+ )?"
GUNICORN = r"\[(?P<stamp>" + ISO + r"(?: [+-]\d{4})?)\] \[(?P<pid>\d{1,9})\] \[(?P<level>[A-Z]{4,8})\] "
PYTHON = (
    r"\[?(?P<stamp>"
    + ISO
    + r")\]? ?[-|:]? ?\[?(?:(?P<name>[\w.]{1,60})\]? ?[-|:] ?\[?)?(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\]?\s*[-|:]? ?"
)
BASIC = r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?P<source>[\w.]{1,80}):"
KERNEL = r"(?:kernel: )?(?:\[ *\d+\.\d+\] )?(?=NVRM: |Out of memory: |oom-kill:|Memory cgroup out of memory)"
SHELL = r"(?:\$|\+{1,3}|[#>]|(?:\([\w.-]{1,40}\) ?)?[\w.-]{1,40}@[\w.-]{1,60}[:\s][^$#\n]{0,120}[$#]) +(?=\S)"
PROGRESS = re.compile(r"^.{0,120}?(?:\d{1,3}%(?: Completed)? ?\||\| ?\d+/\d+ \[|\d+it \[)")
NGINX_LEVELS = {
    "emerg": Level.CRITICAL,
    "alert": Level.CRITICAL,
    "crit": Level.CRITICAL,
    "error": Level.ERROR,
    "warn": Level.WARNING,
}

_seen: dict[str, Parsed] = {}
"""Header text to what it says: a header repeats for every line of its second, so reading it once pays (bounded)."""


def _quick(text: str) -> Parsed | None:
    end = text.find("] ", 0, 160)
    if end < 0:
        if len(text) > 160 or text[-1] != "]":
            return None
        end = len(text) - 1  # an empty line of a message, its trailing blank stripped
    key = text[: end + 1]
    known = _seen.get(key)
    if known is None:
        level = LEVEL.search(key)
        if level is None:
            return None
        speaker, header = _speaker(key[: level.start()]), _own_header(key[level.start() :])
        if speaker is None or header is None:
            return None
        known = replace(speaker, level=header.level, kind="vllm", stamp=header.stamp, source=header.source, key=key)
        if len(_seen) > 20_000:
            _seen.clear()
        _seen[key] = known
    rest = text[end + 2 :]
    if "across cluster]" in rest:
        again = REPEATED.search(rest, max(0, len(rest) - 400))
        if again:
            return replace(known, text=rest[: again.start()], repeats=int(again[1]))
    # Spelled out: `replace` costs five times as much, and this runs for nearly every line.
    return Parsed(
        rest,
        known.host,
        known.process,
        known.pid,
        known.rank,
        known.engine,
        known.level,
        "vllm",
        known.stamp,
        None,
        known.source,
        1,
        False,
        key,
    )


@lru_cache(4_096)
def _speaker(prefix: str) -> Parsed | None:
    """Whose a line is by what stands before its level; None if something else stands there too."""
    found = _process(Parsed(prefix))
    return None if found.text else found


@lru_cache(4_096)
def _own_header(header: str) -> Parsed | None:
    """vLLM's header from its level to its `]`, which all ranks print alike in the same second."""
    match = VLLM.match(header)
    return None if match is None or match.end() < len(header) else _vllm(Parsed(header), match, header)


def _quick_uvicorn(text: str) -> Parsed | None:
    """`(APIServer pid=7) INFO:     10.0.0.1:4711 - "POST …"`: most lines of most logs."""
    end = text.find("INFO:     ", 0, 80)
    if end < 0:
        return None
    key = text[:end]
    known = _speaker(key)
    if known is None:
        return None
    return Parsed(
        text[end + 10 :],
        known.host,
        known.process,
        known.pid,
        known.rank,
        known.engine,
        Level.INFO,
        "uvicorn",
        None,
        None,
        None,
        1,
        False,
        "",
    )


def _vllm(found: Parsed, match: re.Match[str], key: str) -> Parsed:
    month, day = int(match["month"]), int(match["day"])
    stamp = (
        Stamp(month, day, _seconds(match["clock"]), None, match["stamp"])
        if 1 <= month <= 12 and 1 <= day <= 31
        else None
    )
    return replace(
        found,
        text=found.text[match.end() :],
        level=LEVELS[match["level"]],
        kind="vllm",
        stamp=stamp,
        source=match["new"] or match["old"],
        key=key,
    )


def _header(found: Parsed) -> Parsed:
    text = found.text
    head = text[:MAX_HEAD]
    if found.kind == "json" or not head:
        return found
    first = head[0]
    if first == " " or first == "\t":
        # A frame of a traceback, unless a shipper put more than its time before vLLM's header (`… 11:38:23  >> INFO …`).
        match = _behind_prefix(head) if found.outer is not None and "] " in head else None
        if match is None:
            return found
    else:
        match = VLLM.match(head) or _behind_prefix(head)
    if match is not None:
        return _vllm(replace(found, text=text), match, f"{found.process}:{found.pid}:{match.group().strip()}")
    for kind, pattern in _others():
        match = pattern.match(head)
        if match is not None:
            return _other(found, kind, match)
    if ("|" in head or "it [" in head) and PROGRESS.match(head):
        return replace(found, kind="progress", level=Level.INFO, text=text.strip())
    return found


def _behind_prefix(head: str) -> re.Match[str] | None:
    """`VLLM_LOGGING_PREFIX` (0.6.4 and later) and wrappers nobody told us of: foreign text, then vLLM's header."""
    if "]" not in head:
        return None
    match = VLLM.search(head, 1, MAX_PREFIX + 60)
    if match is None or match.start() > MAX_PREFIX or (match.start() and head[match.start() - 1] not in " \t])|:>"):
        return None
    before = head[: match.start()]
    return None if any(mark in before for mark in "'\"`") else match


@cache
def _others() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(pattern)) for kind, pattern in OTHERS)


OTHERS = (
    ("uvicorn", UVICORN),
    ("glog", GLOG),
    ("nccl", NCCL),
    ("ray", RAY),
    ("raylet", RAYLET),
    ("nginx", NGINX),
    ("gunicorn", GUNICORN),
    ("python", PYTHON),
    ("python", BASIC),
    ("kernel", KERNEL),
    ("shell", SHELL),
)
"""(kind, how its lines begin), tried in this order."""


def _other(found: Parsed, kind: str, match: re.Match[str]) -> Parsed:
    groups = match.groupdict()
    level: Level | None = None
    if groups.get("letter"):
        level = LETTERS[groups["letter"]]
    elif kind == "nginx":
        level = NGINX_LEVELS.get(groups["level"], Level.INFO)
    elif groups.get("level"):
        level = LEVELS.get(groups["level"], Level.INFO)
    stamp = None
    if kind == "glog" and groups.get("date"):
        date = groups["date"]
        month, day = int(date[:-2]), int(date[-2:])
        if 1 <= month <= 12 and 1 <= day <= 31:
            stamp = Stamp(month, day, _seconds(groups["clock"]), None, f"{month:02d}-{day:02d} {groups['clock']}")
    elif groups.get("clock"):
        stamp = _stamp_of(groups)
    rank = groups.get("rank")
    pid = groups.get("pid") if kind == "nccl" else None
    # "NCCL WARN" stays: it says whose words they are, as people quote them.
    begin = match.start("level") - len("NCCL ") if kind == "nccl" else match.end()
    return replace(
        found,
        text=found.text[begin:],
        kind="kernel" if found.kind == "kernel" else kind,
        level=level,
        stamp=stamp,
        source=(groups.get("source") or "").strip() or None,
        rank=int(rank) if rank else found.rank,
        pid=int(pid) if pid else found.pid,
        process=groups.get("name") or found.process,
        key=f"{found.process}:{found.pid}:{match.group().strip()}",
    )

"""Finds host names in a line of text; well-known public places stay, so that links in messages survive."""

from __future__ import annotations

import re
from collections.abc import Iterator

import regex

from vlogdiag.snapshot.people import NOBODY
from vlogdiag.snapshot.spans import START, TIMEOUT, Span, words

_NAME = r"(?P<host>[A-Za-z0-9][A-Za-z0-9_.-]{0,252})"

_URL = regex.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+-]{1,20})://(?:[^\s/\"'@]{1,200}(?:@[^\s/\"'@]{0,100}){0,3}@)?" + _NAME
)
_NO_AUTHORITY = words("""
    s3 s3a gs gcs hf oss cos abfs abfss wasbs modelscope runai file data ipc unix shm inproc env urn docker oci
    """)
"""URL schemes with no host behind the slashes."""

_TIMES = (
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,\d]{0,10}(?:Z|[+-]\d\d:?\d\d)?)"
)
_BEFORE_UNIT = (
    regex.compile(_TIMES + " " + _NAME + r" (?=[\w./@:-]{1,60}?(?:\[\d{1,9}\])?:(?: |$))"),
    regex.compile(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?[+-]\d\d:?\d\d| [A-Z]{2,5})? "
        + _NAME
        + r" (?=[\w./@:-]{1,60}?\[\d{1,9}\]:)"
    ),
    regex.compile(r"<\d{1,3}>1 \S{10,40} " + _NAME + " "),
)
"""The column of syslog, journald and RFC 5424."""
_TIME_FIRST = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:|\d{4}-\d\d-\d\d[T ]\d\d:")

_NCCL = regex.compile(START + _NAME + r":\d{1,9}:\d{1,9} (?=\[\d)")
"""`host:pid:tid [0] NCCL INFO …`."""

_KEY = regex.compile(
    START + r"(?P<key>(?:--)?(?i:_?host(?:[-_]?name)?|node(?:[-_]?name)?|master[-_]?addr(?:ess)?|machine|fqdn"
    r"|data[-_]parallel[-_]address|node[-_]ip(?:[-_]address)?|x-forwarded-(?:host|server)|vllm_host_ip|server[-_]name"
    r"|head[-_]node(?:[-_](?:ip|address))?))"
    r"(?P<sign>\\*[\"']?\s{0,4}[=:]\s{0,4}(?:b?\\*[\"'])?|(?<=--[\w-]{0,40})\s)" + _NAME
)
_HEADER_KEYS = words("hostname host nodename node_name fqdn x-forwarded-host")
"""Names that a host's name follows after a colon without quotes; the others stand before colons in sentences too."""
_PLACE_WORD = re.compile(r"host|node|addr|machine|fqdn|server")

_SENTENCE = regex.compile(
    r"(?i:connect(?:ing)? to host|to host|resolve(?: host(?:name)?)?:?|resolving(?: host)?|unknown host:?|hostname:?"
    r"|getaddrinfo(?: \w{1,12})? for|name or service not known:?|service not known for"
    r"|no address associated with hostname:?|on host|on node|from host|from node|ssh)"
    r"\s{1,2}(?P<quote>\\*[\"'(`])?" + _NAME + r"(?P<port>:\d{1,5}\b)?"
)
_SENTENCE_WORD = re.compile(r"host|resolv|getaddrinfo|not known| node |ssh ")
_NGINX = regex.compile(r"\bserver: " + _NAME + r", (?=request:)")

_DOMAIN = r"internal|local|lan|corp|intranet|localdomain|invalid|com|net|org|edu|gov|cn|eu|co\.[a-z]{2}"
_WHOLE = regex.compile(
    START + r"(?<![@./_-])(?P<host>(?:[A-Za-z0-9_][A-Za-z0-9_-]{0,62}\.){1,8}(?:" + _DOMAIN + r"))(?![\w(-]|\.\w)"
)
"""A whole name with its domain; Python's dotted names end otherwise, or have neither a third label nor a digit."""
_DOMAIN_WORD = re.compile(r"\.(?:" + _DOMAIN + r")(?!\w)")
_NUMBERED = regex.compile(
    START + r"(?P<host>(?:ip|ec2|host|node|vm)-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?:\.[A-Za-z0-9-]{1,63}){0,6})(?![\w-])"
)

_PUBLIC = words("""
    huggingface.co hf.co hf-mirror.com github.com github.io githubusercontent.com ghcr.io vllm.ai pytorch.org
    readthedocs.io readthedocs.org pydantic.dev nvidia.com nvcr.io ray.io python.org modelscope.cn modelscope.ai
    openai.com anthropic.com google.com googleapis.com amd.com intel.com kubernetes.io docker.com docker.io
    stackoverflow.com arxiv.org wikipedia.org json-schema.org schema.org w3.org apache.org opensource.org example.com
    example.org aliyun.com microsoft.com aka.ms astral.sh numpy.org grafana.com prometheus.io opentelemetry.io
    fastapi.tiangolo.com slack.com mozilla.org
    """)
"""Public places whose names say nothing of the user; a name below one of them is public too."""
_NO_HOST = words("""
    localhost localhost.localdomain host hostname ip node name name. none null true false any all auto default unknown
    example server address port url model vllm api http https tcp stdout stderr debug info warning warn error error.
    critical fatal notice trace kernel memory ram gpu cpu cuda device the a an is not to of in on at for from with and
    or by this that your it was has driver os str string bytes int self kubernetes.default.svc host.docker.internal
    gateway.docker.internal metadata.google.internal root.internal your-host your_host x86_64 aarch64 arm64 pinned
    offload ssd swap side resolve connect connection failed failure timed unreachable down up key process
    """)
_COMMON = words("""
    ubuntu debian centos admin administrator runner jovyan ray conda vllm-openai model models data work workspace test
    tests dev prod code python docker cache opt main master worker workers engine core inference serve serving torch llm
    qwen llama deepseek mistral gemma openai proxy client cluster head gpu-node ec2-user azureuser vscode service
    services staff guest build ollama triton nvidia amd intel linux local remote demo sample bench user1 root
    """)
_VERSION = regex.compile(r"v?\d+(?:\.\d+){1,5}(?:\.?(?:rc|a|b|post|dev|\+)\w{0,20})?")
_FILE = regex.compile(r".*\.(?:py|so|cpp|cc|cu|cuh|h|hpp|rs|go|json|yaml|yml|txt|log|md|sh|toml|safetensors)")


def find_hosts(line: str, lowered: str) -> Iterator[Span]:
    """Every host name that its place or its domain gives away; `lowered` is the line in lower case."""
    if "://" in line:
        for match in _URL.finditer(line, timeout=TIMEOUT):
            if match["scheme"].lower() not in _NO_AUTHORITY:
                yield from _host(match, in_url=True)
    if _TIME_FIRST.search(line, 0, 120):
        for pattern in _BEFORE_UNIT:
            found = pattern.search(line, 0, 400, timeout=TIMEOUT)
            if found:
                yield from _host(found)
    if "NCCL" in line:
        yield from _all(_NCCL, line)
    if _PLACE_WORD.search(lowered):
        yield from _behind_keys(line)
    if _SENTENCE_WORD.search(lowered):
        for match in _SENTENCE.finditer(line, timeout=TIMEOUT):
            name = match["host"].strip(".-")
            if match["quote"] or match["port"] or any(c in ".-" or c.isdigit() for c in name):
                yield from _host(match)  # another bare word after "host" is prose
    if _DOMAIN_WORD.search(lowered):
        for match in _WHOLE.finditer(line, timeout=TIMEOUT):
            name = match["host"]
            long_name = name.count(".") >= 2 and not name.endswith((".local", ".net"))
            if long_name or "-" in name or any(c.isdigit() for c in name):
                yield from _host(match)
    if lowered.count("-") >= 4:
        yield from _all(_NUMBERED, line)


def distinctive(value: str) -> bool:
    """True for a name that can be looked for everywhere: one that no log uses as a word of its own."""
    lower = value.lower()
    return len(value) >= 4 and not value.isdigit() and lower not in _NO_HOST | NOBODY | _COMMON


def _behind_keys(line: str) -> Iterator[Span]:
    for match in _KEY.finditer(line, timeout=TIMEOUT):
        prose = ":" in match["sign"] and not any(quote in match["sign"] for quote in "\"'")
        if not prose or match["key"].lower() in _HEADER_KEYS:
            yield from _host(match)
    if "server: " in line:
        yield from _all(_NGINX, line)


def _all(pattern: regex.Pattern[str], line: str) -> Iterator[Span]:
    for match in pattern.finditer(line, timeout=TIMEOUT):
        yield from _host(match)


def _host(match: regex.Match[str], *, in_url: bool = False) -> Iterator[Span]:
    name = match["host"].rstrip(".-_")
    lower = name.lower()
    if not name or lower in _NO_HOST or name.isdigit() or _is_public(lower):
        return
    if _VERSION.fullmatch(name, timeout=TIMEOUT) or (not in_url and _FILE.fullmatch(lower, timeout=TIMEOUT)):
        return  # addresses are addresses.py's, which tells them from versions
    yield Span(match.start("host"), match.start("host") + len(name), "host")


def _is_public(host: str) -> bool:
    return any(host == known or host.endswith("." + known) for known in _PUBLIC)

"""Finds network and hardware addresses in a line of text, and leaves versions, times and PCI bus ids alone."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

import regex

from vlogdiag.snapshot.spans import START, TIMEOUT, Span

_IPV4 = regex.compile(r"(?:" + START + r"|(?<=(?<![A-Za-z])[vV]))(?<!\.)(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
_VERSION_BEFORE = regex.compile(
    r"(?:[=<>~!]=\s?\\*[\"']?|(?<![A-Za-z])[vV]|\.so\."
    r"|(?i:version|release|\bver)\\*[\"']?\s{0,2}[:=(.]?\s{0,2}\\*[\"']?"
    r"|[a-z][\w-]{1,40}-cu\d\d\\*[\"']?[\s:=,|]{1,40}\\*[\"']?)$"
)
"""Right before a version of four numbers: `==12.8.4.1`, `libcublas.so.12.8.4.1`, `nvidia-curand-cu12 10.3.9.90`."""
_PERHAPS_VERSION = regex.compile(
    r"(?:(?<![\w/])(?:torch|cuda|cudnn|nccl|driver)(?:[-_](?:cuda|cu\d+|openai|runtime|toolkit))?"
    r"[\"'\])]*[\s:=,@]{1,20}[\"'(]?|[<>]\s?|[a-z]-)$"
)
"""Enough to call four numbers a version where they could be anybody's, not where they lie in a private network."""

_KEPT = tuple(ipaddress.ip_network(n) for n in ("0.0.0.0/8", "127.0.0.0/8", "255.0.0.0/8"))
_PRIVATE = tuple(
    ipaddress.ip_network(n)
    for n in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
)

_IPV6 = regex.compile(
    START + r"(?<![_:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4}|(?:\d{1,3}\.){3}\d{1,3})?"
    r"(?:%[\w.-]{1,15})?(?![\w:])"
)
_FIRST_GROUP = regex.compile(r"(?:[23fF][0-9A-Fa-f]{3}|64):")
_MAC = regex.compile(
    START + r"(?<![_:-])(?:(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2})(?![\w:-])"
)
_SERIAL = regex.compile(r"(?i:serial(?: number| no\.?)?)\s{0,40}[:=]\s{0,4}(?P<serial>[A-Za-z0-9-]{6,40})(?!\w)")

# Cheap searches that hold wherever the pattern of the same kind can match.
_FOUR_NUMBERS = re.compile(r"\d\.\d{1,3}\.\d{1,3}\.\d")
_SIX_PAIRS = re.compile(r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}")


def find_addresses(line: str, lowered: str) -> Iterator[Span]:
    """Every IP address but those of this machine itself, every hardware address and serial number."""
    colons = line.count(":")
    if line.count(".") >= 3 and _FOUR_NUMBERS.search(line):
        yield from _version_4(line)
    if "::" in line or colons >= 6:
        yield from _version_6(line)
    if (colons >= 5 or line.count("-") >= 5) and _SIX_PAIRS.search(line):
        yield from (Span(*m.span(), "mac") for m in _MAC.finditer(line, timeout=TIMEOUT) if m[0].strip("0:-"))
    if "serial" in lowered:
        for match in _SERIAL.finditer(line, timeout=TIMEOUT):
            if any(c.isdigit() for c in match["serial"]):
                yield Span(*match.span("serial"), "serial")


def _version_4(line: str) -> Iterator[Span]:
    for match in _IPV4.finditer(line, timeout=TIMEOUT):
        try:
            address = ipaddress.IPv4Address(match[0])
        except ValueError:  # a part above 255 or with leading zeros: a version or a build number
            continue
        if any(address in network for network in _KEPT):
            continue
        before = line[max(0, match.start() - 80) : match.start()]
        if _VERSION_BEFORE.search(before, timeout=TIMEOUT):
            continue
        private = any(address in network for network in _PRIVATE)
        after = line[match.end() : match.end() + 2]
        served = after.startswith(":") and after[1:].isdigit()
        if not private and not served and _PERHAPS_VERSION.search(before.lower(), timeout=TIMEOUT):
            continue
        yield Span(*match.span(), "ip")


def _version_6(line: str) -> Iterator[Span]:
    for match in _IPV6.finditer(line, timeout=TIMEOUT):
        text = match[0].partition("%")[0]
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:  # a time, a PCI bus id, a name of C++
            continue
        if address.is_loopback or address.is_unspecified:
            continue
        if "::" in text and not text.startswith("::ffff:") and not _FIRST_GROUP.match(text):
            continue  # `ab::cd` is a name of C++ sooner than an address
        yield Span(*match.span(), "ip")

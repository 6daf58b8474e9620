"""Makes placeholders in the columns of a log's headers readable for parsers that expect a name or address there."""

from __future__ import annotations

import re

_TIME = rb"(?:[A-Z][a-z]{2} [ \d]\d|\d{4}-\d\d-\d\d)[T ]\d\d:\d\d:\d\d\S{0,16}"
_COLUMNS = (
    (re.compile(rb"^(" + _TIME + rb" )<(host-\d{1,9})> ", re.M), rb"\1\2 "),
    (re.compile(rb"^(.{0,200}?pid=\d{1,9}, ip=)<ip-(\d{1,9})>", re.M), rb"\1ip.\2"),
    (re.compile(rb"(^|[ \]])<(host-\d{1,9})>(:\d{1,9}:\d{1,9} \[\d)", re.M), rb"\1\2\3"),
)
"""Syslog's and journald's host, Ray's `ip=`, NCCL's `host:pid:tid`."""


def parseable(data: bytes) -> bytes:
    """Lines of a cleaned log with `host-1` and `ip.1` in their headers' columns; texts are left alone."""
    for pattern, replacement in _COLUMNS if b"<host-" in data or b"ip=<ip-" in data else ():
        data = pattern.sub(replacement, data)
    return data

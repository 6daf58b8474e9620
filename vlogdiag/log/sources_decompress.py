"""Turns compressed blocks into what was compressed, by content and with bounded memory."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import zstandard

Decompress = Callable[[Iterator[bytes], int], Iterator[bytes]]

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
BZIP2 = b"BZh"
XZ = b"\xfd7zXZ\x00"

_PIECE = 64 << 10
"""Compressed bytes handed to a decoder whose output can be limited."""
_ZSTD_PIECE = 256
"""The zstd binding cannot limit its output and four bytes may stand for 128 KiB: this stays at 8 MiB."""
_XZ_MEMORY = 256 << 20
"""xz -9 asks for 65 MiB; a file that asks for more than this was made to hurt."""
_PADDING = b"\0"
"""Block devices and some archivers pad a compressed file with zeros; gzip and xz ignore them too."""


class BrokenStreamError(Exception):
    """A stream of bytes ends too early or is damaged; everything before was yielded."""


class _Member(Protocol):
    """One member, frame or stream of a compressed file."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def feed(self, data: bytes, most: int) -> Iterator[bytes]: ...


def decompressor_for(head: bytes) -> Decompress | None:
    """Choose by a file's first six bytes how to decompress it: a function of its blocks and the size of a piece.

    The function yields pieces of at most about that size and raises BrokenStreamError behind the last good one.
    """
    for magic, name, make in _FORMATS:
        if _starts_member(head, magic):
            return partial(_decompressed, name, magic, make)
    return None


def _decompressed(
    name: str, magic: bytes, make: Callable[[], _Member], blocks: Iterator[bytes], size: int
) -> Iterator[bytes]:
    """Undo a compression that may consist of several members one after the other, as `cat a.gz b.gz` makes them."""
    member: _Member | None = make()
    rest = b""
    for block in blocks:
        data = rest + block
        rest = b""
        while data:
            if member is None:
                data = data.lstrip(_PADDING)
                if not data:
                    break
                if len(data) < len(magic) and magic.startswith(data):
                    rest = data
                    break
                if not _starts_member(data, magic):
                    raise BrokenStreamError(f"has other bytes behind its {name} data")
                member = make()
            try:
                yield from member.feed(data, size)
            except (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError, EOFError, ValueError) as error:
                raise BrokenStreamError(f"its {name} data is damaged ({_plain(error)})") from error
            if not member.eof:
                break
            data = member.unused_data
            member = None
    if member is not None or rest:
        raise BrokenStreamError(f"its {name} data ends in the middle")


def _starts_member(data: bytes, magic: bytes) -> bool:
    # A zstd file may hold skippable frames, 0x184D2A50 to 5F little-endian (RFC 8878 section 3.1.2).
    skippable = magic == ZSTD and data[1:4] == b"\x2a\x4d\x18" and data[0] & 0xF0 == 0x50
    return data.startswith(magic) or skippable


def _plain(error: BaseException) -> str:
    text = str(error).replace("\n", " ")
    return text.split("while decompressing data: ", 1)[-1]


class _Gzip:
    """A gzip member; the bytes in front of a damaged place are saved one by one."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self._left = b""

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data + self._left

    def feed(self, data: bytes, most: int) -> Iterator[bytes]:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            todo: bytes | memoryview = view[start : start + _PIECE]
            while True:
                # zlib keeps nothing of a call that fails, although it had decoded much: begin again from this copy.
                before = self._inner.copy()
                try:
                    text = self._inner.decompress(todo, most)
                except zlib.error:
                    yield from _saved(before, todo)
                    raise
                if text:
                    yield text
                todo = self._inner.unconsumed_tail
                if not todo and len(text) < most:
                    break
            if self._inner.eof:
                self._left = bytes(view[start + _PIECE :])
                return


def _saved(member: zlib._Decompress, data: bytes | memoryview) -> Iterator[bytes]:
    """Feed a damaged piece in ever smaller steps until nothing more comes out; bounded like any other piece."""
    view = memoryview(data)
    step = 1 << 10
    position = 0
    while position < len(view):
        before = member.copy()
        try:
            text = member.decompress(view[position : position + step])
        except zlib.error:
            if step == 1:
                return
            member, step = before, 1
            continue
        if text:
            yield text
        position += step


class _Zstd:
    """A zstd frame, a skippable one included."""

    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor().decompressobj()
        self._left = b""

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inner.unused_data) + self._left

    def feed(self, data: bytes, most: int) -> Iterator[bytes]:
        view = memoryview(data)
        for start in range(0, len(view), _ZSTD_PIECE):
            text = self._inner.decompress(view[start : start + _ZSTD_PIECE])
            if len(text) <= most:
                if text:
                    yield text
            else:
                yield from (text[begin : begin + most] for begin in range(0, len(text), most))
            if self._inner.eof:
                self._left = bytes(view[start + _ZSTD_PIECE :])
                return


class _Limited:
    """A bzip2 or xz stream: decoders that buffer their input and say whether they need more."""

    def __init__(self, inner: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._inner = inner
        self._left = b""

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data + self._left

    def feed(self, data: bytes, most: int) -> Iterator[bytes]:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            text = self._inner.decompress(view[start : start + _PIECE], most)
            while text or not (self._inner.needs_input or self._inner.eof):
                yield text
                if self._inner.needs_input or self._inner.eof:
                    break
                text = self._inner.decompress(b"", most)
            if self._inner.eof:
                self._left = bytes(view[start + _PIECE :])
                return


_FORMATS: tuple[tuple[bytes, str, Callable[[], _Member]], ...] = (
    (GZIP, "gzip", _Gzip),
    (ZSTD, "zstd", _Zstd),
    (BZIP2, "bzip2", lambda: _Limited(bz2.BZ2Decompressor())),
    (XZ, "xz", lambda: _Limited(lzma.LZMADecompressor(memlimit=_XZ_MEMORY))),
)

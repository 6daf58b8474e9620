"""Turns a file's raw blocks into UTF-8 log bytes: decompressed and transcoded by their first bytes, memory bounded."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from vlogdiag.log.sources_decompress import BrokenStreamError, decompressor_for

ZIP = b"PK\x03\x04"
_LONGEST_MAGIC = 6


def decoded(blocks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the text of `blocks` as UTF-8, in chunks of about `size` bytes.

    gzip, zstd, bzip2 and xz are undone, UTF-16 with a byte-order mark is transcoded, a UTF-8 mark is dropped. Anything
    else, NUL bytes and broken UTF-8 included, passes as it is; plain blocks pass uncopied. Raises BrokenStreamError at
    the end of what could be read.
    """
    head, blocks = _peek(blocks, _LONGEST_MAGIC)
    if head.startswith(ZIP):
        raise BrokenStreamError("is a zip archive: unpack it first")
    if decompress := decompressor_for(head):
        blocks = _gathered(decompress(blocks, size), size)
        head, blocks = _peek(blocks, len(codecs.BOM_UTF8))
    if head.startswith(codecs.BOM_UTF16_LE):
        return _transcoded(blocks, "utf-16-le", codecs.BOM_UTF16_LE)
    if head.startswith(codecs.BOM_UTF16_BE):
        return _transcoded(blocks, "utf-16-be", codecs.BOM_UTF16_BE)
    if head.startswith(codecs.BOM_UTF8):
        return _without(blocks, codecs.BOM_UTF8)
    return blocks


def is_encoded(head: bytes) -> bool:
    """Tell whether a file that begins with `head` needs `decoded`; such a file cannot be read from its end."""
    marks = (ZIP, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF8)
    return head.startswith(marks) or decompressor_for(head) is not None


def is_followable(head: bytes) -> bool:
    """Tell whether the bytes added to a file that begins with `head` are log text as they stand."""
    utf_16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return not utf_16 and decompressor_for(head) is None


def _peek(blocks: Iterator[bytes], need: int) -> tuple[bytes, Iterator[bytes]]:
    """Return the first `need` bytes (fewer at the end) and an iterator that yields everything again."""
    taken = b""
    failure: BrokenStreamError | None = None
    try:
        while len(taken) < need:
            block = next(blocks, None)
            if block is None:
                break
            taken = taken + block if taken else block
    except BrokenStreamError as error:
        failure = error
    return taken[:need], _again(taken, failure, blocks)


def _again(taken: bytes, failure: BrokenStreamError | None, blocks: Iterator[bytes]) -> Iterator[bytes]:
    if taken:
        yield taken
    if failure is not None:
        raise failure
    yield from blocks


def _without(blocks: Iterator[bytes], mark: bytes) -> Iterator[bytes]:
    first = next(blocks)[len(mark) :]
    if first:
        yield first
    yield from blocks


def _transcoded(blocks: Iterator[bytes], encoding: str, mark: bytes) -> Iterator[bytes]:
    """Decode in a streaming way; half a character is held over, lone surrogates and a last odd byte become U+FFFD."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in _without(blocks, mark):
        if text := decoder.decode(block):
            yield text.encode()
    if text := decoder.decode(b"", final=True):
        yield text.encode()


def _gathered(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Join small pieces, so that what is done once a chunk is not done once a piece."""
    kept: list[bytes] = []
    total = 0
    failure: BrokenStreamError | None = None
    while True:
        try:
            piece = next(pieces, None)
        except BrokenStreamError as error:
            piece, failure = None, error
        if piece is None:
            break
        kept.append(piece)
        total += len(piece)
        if total >= size:
            yield b"".join(kept)
            kept, total = [], 0
    if kept:
        yield b"".join(kept)
    if failure is not None:
        raise failure

"""Checks a chat request before vLLM sees it: pictures countable, small enough and decodable, text not too long.

Where it goes: into the proxy in front of vLLM, before the body of `/v1/chat/completions` is forwarded:

    from validate_request import Limits, token_counter, validate_chat_request
    limits = Limits(max_pictures=4, max_text_tokens=8192)
    count = token_counter("/models/Qwen3-VL-8B")            # the model's own tokenizer, or an estimate
    error = validate_chat_request(body, limits, count)
    if error:
        return error, 400

Needs Pillow to look into pictures; HEIC needs `pillow-heif`. The tokenizer is used where `tokenizers` and the model's
tokenizer.json are there; without it the text is estimated, rather too long than too short. Set `max_pictures` as
`--limit-mm-per-prompt` has it, and `max_text_tokens` so that text and pictures fit `--max-model-len`.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError

try:
    from pillow_heif import register_heif_opener
except ImportError:
    HEIC = False
else:
    register_heif_opener()
    HEIC = True


@dataclass(frozen=True)
class Limits:
    """What a request may hold."""

    max_pictures: int = 4
    max_picture_bytes: int = 20 * 1024 * 1024
    max_picture_pixels: int = 16_777_216
    """4096x4096, the most that a Qwen3-VL model keeps; larger ones are scaled down anyway, at the cost of memory."""
    max_text_tokens: int = 16_384
    max_messages: int = 200
    allow_addresses: bool = True
    """Whether pictures may be given as an http address, which vLLM would fetch."""


class _Refused(ValueError):  # noqa: N818
    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


def validate_chat_request(
    body: Any, limits: Limits | None = None, count_tokens: Callable[[str], int] | None = None
) -> dict[str, Any] | None:
    """None for a request that may go on, else the body of a 400 answer in OpenAI's form."""
    limits = limits or Limits()
    try:
        _check(body, limits, count_tokens or estimate_tokens)
    except _Refused as error:
        return {
            "error": {"message": str(error), "type": "invalid_request_error", "param": error.param, "code": 400},
        }
    return None


def _check(body: Any, limits: Limits, count_tokens: Callable[[str], int]) -> None:
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages:
        raise _Refused("'messages' must be a list with at least one message", "messages")
    if len(messages) > limits.max_messages:
        raise _Refused(f"{len(messages)} messages, the limit is {limits.max_messages}", "messages")
    texts: list[str] = []
    pictures: list[tuple[str, str]] = []
    for where, part in _parts(messages):
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("text", "input_text"):
            if not isinstance(part.get("text"), str):
                raise _Refused("a text part needs a 'text' that is a string", where)
            texts.append(part["text"])
        elif kind in ("image_url", "input_image"):
            picture = part.get("image_url")
            address = picture.get("url") if isinstance(picture, dict) else picture
            if not isinstance(address, str):
                raise _Refused("a picture needs an 'image_url' with a 'url'", where)
            pictures.append((where, address))
        elif kind is None:
            raise _Refused("every part of a message needs a 'type'", where)
    if len(pictures) > limits.max_pictures:
        raise _Refused(f"{len(pictures)} pictures in one request, the limit is {limits.max_pictures}", "messages")
    # The text first: it costs microseconds, a picture milliseconds.
    tokens = sum(count_tokens(text) for text in texts)
    if tokens > limits.max_text_tokens:
        raise _Refused(f"the text has about {tokens} tokens, the limit is {limits.max_text_tokens}", "messages")
    for number, (where, address) in enumerate(pictures, start=1):
        _check_picture(address, number, where, limits)


def _parts(messages: list[Any]) -> Iterator[tuple[str, Any]]:
    for k, message in enumerate(messages):
        if not isinstance(message, dict):
            raise _Refused("every message must be an object", f"messages[{k}]")
        content = message.get("content")
        if isinstance(content, str):
            yield f"messages[{k}].content", content
        elif isinstance(content, list):
            yield from ((f"messages[{k}].content[{j}]", part) for j, part in enumerate(content))
        elif content is not None:
            raise _Refused("'content' must be a string or a list of parts", f"messages[{k}].content")


def _check_picture(address: str, number: int, where: str, limits: Limits) -> None:
    if address[:5].lower() != "data:":
        if address.split(":", 1)[0].lower() not in ("http", "https") or not limits.allow_addresses:
            raise _Refused(f"picture {number}: only base64 data is accepted", where)
        return
    head, _, text = address.partition(",")
    if not head.lower().endswith(";base64"):
        raise _Refused(f"picture {number}: a data: address must be base64", where)
    if len(text) * 3 // 4 > limits.max_picture_bytes + 2:
        raise _Refused(f"picture {number}: more than {limits.max_picture_bytes} bytes", where)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _Refused(f"picture {number}: broken base64", where) from None
    problem = picture_problem(data, limits)
    if problem:
        raise _Refused(f"picture {number}: {problem}", where)


def picture_problem(data: bytes, limits: Limits | None = None) -> str | None:
    """Why a picture is refused; None for one that can be decoded and is small enough."""
    limits = limits or Limits()
    if not data:
        return "empty"
    if len(data) > limits.max_picture_bytes:
        return f"{len(data)} bytes, the limit is {limits.max_picture_bytes}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is the one that counts
        try:
            with Image.open(io.BytesIO(data)) as image:
                if image.width * image.height > limits.max_picture_pixels:
                    return f"{image.width}x{image.height} pixels, the limit is {limits.max_picture_pixels} in all"
                image.draft("RGB", (64, 64))  # a JPEG need not be decoded in full size to see whether it is whole
                image.load()
        except UnidentifiedImageError:
            if data[4:8] == b"ftyp" and not HEIC:
                return "HEIC is not accepted here; send JPEG or PNG (or install pillow-heif in the proxy)"
            return "not a picture in a known format"
        except Image.DecompressionBombError as error:
            return f"too large: {error}"
        except (OSError, ValueError, SyntaxError, EOFError) as error:  # what Pillow's decoders raise on broken files
            return f"cannot be decoded ({error})"
    return None


def estimate_tokens(text: str) -> int:
    """Tokens of a text without its tokenizer, rather too many: one a CJK character, one for three others."""
    wide = sum(1 for char in text if char >= "\u2e80")
    return wide + math.ceil((len(text) - wide) / 3)


def token_counter(model: str | None = None) -> Callable[[str], int]:
    """The model's tokenizer (a folder with tokenizer.json) as a counter; the estimate where there is none."""
    if model is not None and (Path(model) / "tokenizer.json").is_file():
        try:
            from tokenizers import Tokenizer
        except ImportError:
            return estimate_tokens
        tokenizer = Tokenizer.from_file(str(Path(model) / "tokenizer.json"))
        return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
    return estimate_tokens

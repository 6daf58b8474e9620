"""Scales pictures down to a pixel budget before they reach vLLM: fewer tokens, less memory while they are encoded.

Where it goes: into the proxy in front of vLLM, on the body of `/v1/chat/completions` before it is forwarded:

    from resize_images import PictureRefused, resize_messages
    try:
        body["messages"] = resize_messages(body["messages"], max_pixels=1024 * 1024)
    except PictureRefused as error:
        return {"error": {"message": str(error), "type": "invalid_request_error", "code": 400}}, 400

Needs Pillow; HEIC and HEIF (iPhone photos) need `pillow-heif` too, and leave as JPEG, which vLLM can read. The aspect
ratio stays, the camera's rotation (EXIF) is carried out, pictures that are small enough and upright are passed on byte
for byte. Pictures that would unpack to more than `max_input_pixels` are refused before they are decoded. Pictures given
as an http address are left alone: vLLM fetches them itself.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import warnings
from typing import Any

from PIL import Image, ImageOps, UnidentifiedImageError

try:
    from pillow_heif import register_heif_opener
except ImportError:
    HEIC = False
else:
    register_heif_opener()
    HEIC = True

MAX_PIXELS = 1024 * 1024
"""About 1,000 tokens of a Qwen3-VL model. The model's own limit is 16 times that: this one is yours to choose."""
MAX_INPUT_PIXELS = 64_000_000
"""Larger pictures are refused: 64 megapixels are 200 MB when decoded, and a bomb of a few KB can claim thousands."""
MAX_INPUT_BYTES = 32 * 1024 * 1024
ORIENTATION = 0x0112
"""The EXIF tag that says how the camera was held; 1 is upright."""
_PASSED_ON = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
"""Formats that every vLLM can decode; anything else is written anew."""


class PictureRefused(ValueError):  # noqa: N818
    """The picture cannot or must not be decoded; the text is fit for the client."""


def resize_image(
    data: bytes, max_pixels: int = MAX_PIXELS, max_input_pixels: int = MAX_INPUT_PIXELS, quality: int = 90
) -> tuple[bytes, str]:
    """The picture with at most `max_pixels`, and its MIME type. Raises PictureRefused."""
    if len(data) > MAX_INPUT_BYTES:
        raise PictureRefused(f"the picture has {len(data)} bytes, the limit is {MAX_INPUT_BYTES}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is the one that counts
        try:
            image = Image.open(io.BytesIO(data))
            if image.width * image.height > max_input_pixels:
                raise PictureRefused(
                    f"the picture has {image.width}x{image.height} pixels, the limit is {max_input_pixels} in all"
                )
            return _resized(image, data, max_pixels, quality)
        except PictureRefused:
            raise
        except UnidentifiedImageError:
            raise PictureRefused(_unreadable(data)) from None
        except Image.DecompressionBombError as error:
            raise PictureRefused(f"the picture is too large: {error}") from None
        except (OSError, ValueError, SyntaxError, EOFError) as error:  # what Pillow's decoders raise on broken files
            raise PictureRefused(f"the picture cannot be decoded: {error}") from None


def _unreadable(data: bytes) -> str:
    if data[4:8] == b"ftyp" and not HEIC:
        return "HEIC pictures are not accepted here; send JPEG or PNG (or install pillow-heif in the proxy)"
    return "the data is not a picture in a known format"


def _resized(image: Image.Image, data: bytes, max_pixels: int, quality: int) -> tuple[bytes, str]:
    kind = image.format or ""
    upright = image.getexif().get(ORIENTATION, 1) in (0, 1)
    fits = image.width * image.height <= max_pixels
    if fits and upright and kind in _PASSED_ON and getattr(image, "n_frames", 1) == 1:
        image.load()  # a file that breaks off must fail here, not in the server
        return data, _PASSED_ON[kind]
    size = image.size
    if not fits:
        scale = math.sqrt(max_pixels / (image.width * image.height))
        size = max(1, math.floor(image.width * scale)), max(1, math.floor(image.height * scale))
        image.draft("RGB", size)  # lets a JPEG be decoded at a half, quarter or eighth of its size
    image.seek(0)
    if image.mode.startswith("I"):  # 16 bits a channel: convert() would cut off what is above 255
        image = image.point(lambda value: value * (1 / 256)).convert("L")
    transparent = "A" in image.getbands() or "transparency" in image.info
    image = image.convert("RGBA" if transparent else "RGB")
    if image.size != size:
        image = image.resize(size, Image.Resampling.LANCZOS)
    image = ImageOps.exif_transpose(image)
    out = io.BytesIO()
    if transparent or kind == "PNG":
        image.save(out, "PNG")
        return out.getvalue(), "image/png"
    image.save(out, "JPEG", quality=quality)
    return out.getvalue(), "image/jpeg"


def resize_data_url(url: str, **limits: Any) -> str:
    """A `data:image/…;base64,…` address with the picture in it resized; any other address as it is."""
    head, comma, body = url.partition(",")
    if not comma or not head.lower().startswith("data:"):
        return url
    if not head.lower().endswith(";base64"):
        raise PictureRefused("a data: address must be base64")
    try:
        data = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise PictureRefused("the picture's base64 is broken") from None
    new, mime = resize_image(data, **limits)
    return url if new is data else f"data:{mime};base64,{base64.b64encode(new).decode()}"


def resize_messages(messages: Any, **limits: Any) -> Any:
    """OpenAI chat messages with every base64 picture resized; the messages given stay as they are.

    Raises PictureRefused.
    """
    if not isinstance(messages, list):
        return messages
    return [_resized_message(message, limits) for message in messages]


def _resized_message(message: Any, limits: dict[str, Any]) -> Any:
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    return {**message, "content": [_resized_part(part, limits) for part in message["content"]]}


def _resized_part(part: Any, limits: dict[str, Any]) -> Any:
    """`{"type": "image_url", "image_url": {"url": …}}`, or with the address itself (also as `input_image`)."""
    if not isinstance(part, dict) or part.get("type") not in ("image_url", "input_image"):
        return part
    picture = part.get("image_url")
    if isinstance(picture, str):
        return {**part, "image_url": resize_data_url(picture, **limits)}
    if isinstance(picture, dict) and isinstance(picture.get("url"), str):
        return {**part, "image_url": {**picture, "url": resize_data_url(picture["url"], **limits)}}
    return part

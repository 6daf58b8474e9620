"""Estimates how many prompt tokens a picture costs a Qwen2-VL, Qwen2.5-VL or Qwen3-VL model, from its size in pixels.

Where it goes: beside the proxy in front of vLLM, to count a request before it is sent and to cap `max_tokens`, so that
prompt and answer stay within `--max-model-len`:

    from token_estimate import image_tokens, family_of
    room = max_model_len - text_tokens - sum(image_tokens(w, h, family_of(model)) for w, h in sizes)
    body["max_tokens"] = min(body.get("max_tokens", 1024), room)

or on the command line: `python token_estimate.py --family qwen3-vl 1920x1080 photo.jpg`. Needs nothing but Python;
Pillow only to read the size of a file.

The models cut a picture into patches after scaling both sides to a multiple of 28 (Qwen2-VL, Qwen2.5-VL: patches of 14,
merged two by two) or 32 pixels (Qwen3-VL: patches of 16); a merged patch is one token. The scaling keeps the area
between `min_pixels` and `max_pixels` of the checkpoint's preprocessor_config.json; pass yours if
`--mm-processor-kwargs` sets others.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from dataclasses import dataclass

MAX_RATIO = 200
"""The processors refuse a picture whose long side is more than 200 times its short one."""
MARKERS = 2
"""`<|vision_start|>` and `<|vision_end|>` around every picture."""


@dataclass(frozen=True)
class Family:
    """How one generation of models scales pictures; the limits are those of its published checkpoints."""

    factor: int
    min_pixels: int
    max_pixels: int


FAMILIES = {
    "qwen2-vl": Family(28, 56 * 56, 16384 * 28 * 28),
    "qwen2.5-vl": Family(28, 56 * 56, 16384 * 28 * 28),
    "qwen3-vl": Family(32, 256 * 256, 16384 * 32 * 32),
}


def family_of(model: str) -> str | None:
    """The family of a model name or path (`Qwen/Qwen3-VL-8B-Instruct`), None for any other model."""
    hit = re.search(r"qwen[-_]?(2\.5|2|3)[-_]?vl", model, re.IGNORECASE)
    return f"qwen{hit[1]}-vl" if hit else None


def scaled_size(
    width: int, height: int, family: str = "qwen3-vl", min_pixels: int | None = None, max_pixels: int | None = None
) -> tuple[int, int]:
    """Width and height that the model sees. Raises ValueError for sizes that its processor refuses."""
    kind = FAMILIES[family]
    factor = kind.factor
    least = min_pixels or kind.min_pixels
    most = max_pixels or kind.max_pixels
    if width < 1 or height < 1:
        raise ValueError(f"a picture of {width}x{height} has no pixels")
    if max(width, height) > MAX_RATIO * min(width, height):
        raise ValueError(f"{width}x{height} is longer than {MAX_RATIO} times its short side")
    new_width, new_height = round(width / factor) * factor, round(height / factor) * factor
    if new_width * new_height > most:
        shrink = math.sqrt(width * height / most)
        new_width = max(factor, math.floor(width / shrink / factor) * factor)
        new_height = max(factor, math.floor(height / shrink / factor) * factor)
    elif new_width * new_height < least:
        grow = math.sqrt(least / (width * height))
        new_width = math.ceil(width * grow / factor) * factor
        new_height = math.ceil(height * grow / factor) * factor
    return new_width, new_height


def image_tokens(
    width: int,
    height: int,
    family: str | None = "qwen3-vl",
    min_pixels: int | None = None,
    max_pixels: int | None = None,
) -> int:
    """Prompt tokens of one picture, its two markers included; an unknown family is counted like the dearest one."""
    if family is None:
        return max(image_tokens(width, height, name, min_pixels, max_pixels) for name in FAMILIES)
    new_width, new_height = scaled_size(width, height, family, min_pixels, max_pixels)
    return (new_width // FAMILIES[family].factor) * (new_height // FAMILIES[family].factor) + MARKERS


def pixels_for(tokens: int, family: str = "qwen3-vl") -> int:
    """The pixel budget (`max_pixels`) with which no picture costs more than `tokens`."""
    return max(1, tokens - MARKERS) * FAMILIES[family].factor ** 2


def _size_of(text: str) -> tuple[int, int]:
    hit = re.fullmatch(r"(\d+)x(\d+)", text)
    if hit:
        return int(hit[1]), int(hit[2])
    from PIL import Image

    with Image.open(text) as image:
        return image.size


def main(argv: list[str] | None = None) -> int:
    """Prints the tokens of each size or file."""
    parser = argparse.ArgumentParser(description="Tokens of pictures for Qwen-VL models.")
    parser.add_argument("--family", choices=sorted(FAMILIES), default="qwen3-vl")
    parser.add_argument("--min-pixels", type=int)
    parser.add_argument("--max-pixels", type=int)
    parser.add_argument("pictures", nargs="+", metavar="WIDTHxHEIGHT|FILE")
    options = parser.parse_args(argv)
    status = 0
    for picture in options.pictures:
        try:
            size = _size_of(picture)
            tokens = image_tokens(*size, options.family, options.min_pixels, options.max_pixels)
        except (OSError, ValueError, ImportError) as error:
            print(f"{picture}: {error}", file=sys.stderr)
            status = 1
            continue
        print(f"{picture}: {size[0]}x{size[1]}, {tokens} tokens")
    return status


if __name__ == "__main__":
    sys.exit(main())

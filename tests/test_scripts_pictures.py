"""The picture scripts on real pictures: PNG, JPEG, WebP, HEIC, GIF, rotated, transparent, broken, and a bomb."""

from __future__ import annotations

import base64
import io
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pillow_heif
import pytest
from PIL import Image
from scripts_loader import load

pillow_heif.register_heif_opener()

resize = load("resize_images")
validate = load("validate_request")


def picture(width: int, height: int, kind: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    """A picture whose upper left corner is red, the rest blue."""
    colours = {
        "RGB": ("blue", "red"),
        "RGBA": ((0, 0, 255, 128), (255, 0, 0, 255)),
        "L": (40, 200),
        "CMYK": ((255, 255, 0, 0), (0, 255, 255, 0)),
    }
    base, corner = colours[mode]
    image = Image.new(mode, (width, height), base)
    image.paste(corner, (0, 0, width // 4, height // 4))
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def is_red(pixel: Any) -> bool:
    return pixel[0] > 180 and pixel[2] < 90


@pytest.mark.parametrize(
    ("kind", "mime"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("WEBP", "image/jpeg"),
        ("HEIF", "image/jpeg"),
        ("BMP", "image/jpeg"),
        ("TIFF", "image/jpeg"),
    ],
)
def test_a_large_picture_comes_out_within_the_budget_with_its_aspect(kind: str, mime: str) -> None:
    new, found = resize.resize_image(picture(1600, 800, kind), max_pixels=200_000)
    image = opened(new)
    assert (found, Image.MIME[image.format]) == (mime, mime)
    assert image.width * image.height <= 200_000
    assert image.width / image.height == pytest.approx(2.0, rel=0.01)
    assert image.width * image.height > 195_000
    assert is_red(image.convert("RGB").getpixel((5, 5))) and not is_red(
        image.convert("RGB").getpixel((image.width - 5, 5))
    )


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_small_upright_picture_is_passed_on_byte_for_byte(kind: str) -> None:
    data = picture(300, 200, kind)
    assert resize.resize_image(data)[0] is data


def test_a_small_heic_becomes_a_jpeg_that_vllm_can_read() -> None:
    new, mime = resize.resize_image(picture(300, 200, "HEIF"))
    assert (mime, opened(new).format, opened(new).size) == ("image/jpeg", "JPEG", (300, 200))


@pytest.mark.parametrize(
    ("orientation", "corner"),
    [
        (2, (0.9, 0.1)),
        (3, (0.9, 0.9)),
        (4, (0.1, 0.9)),
        (5, (0.1, 0.1)),
        (6, (0.9, 0.1)),
        (7, (0.9, 0.9)),
        (8, (0.1, 0.9)),
    ],
)
def test_the_cameras_rotation_is_carried_out(orientation: int, corner: tuple[float, float]) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = opened(resize.resize_image(picture(800, 400, "JPEG", exif=exif), max_pixels=80_000)[0])
    assert (image.width < image.height) == (orientation >= 5)
    assert is_red(image.getpixel((int(corner[0] * image.width), int(corner[1] * image.height))))
    assert image.getexif().get(0x0112, 1) == 1


def test_where_a_photo_was_taken_is_not_passed_on_with_a_resized_one() -> None:
    exif = Image.Exif()
    exif[0x010F] = "Camera maker"
    assert b"Camera maker" not in resize.resize_image(picture(800, 400, "JPEG", exif=exif), max_pixels=80_000)[0]


def test_transparency_survives() -> None:
    for kind in ("PNG", "WEBP"):
        new, mime = resize.resize_image(
            picture(800, 400, kind, "RGBA", **({"lossless": True} if kind == "WEBP" else {})), max_pixels=80_000
        )
        assert (mime, opened(new).mode) == ("image/png", "RGBA")
        assert 120 <= opened(new).getpixel((300, 100))[3] <= 136


def test_print_colours_become_screen_colours() -> None:
    image = opened(resize.resize_image(picture(800, 400, "JPEG", "CMYK"), max_pixels=80_000)[0])
    assert (image.mode, is_red(image.getpixel((5, 5)))) == ("RGB", True)


def test_sixteen_bits_are_scaled_not_cut() -> None:
    image = Image.new("I;16", (400, 400), 128 * 256)
    out = io.BytesIO()
    image.save(out, "PNG")
    new = opened(resize.resize_image(out.getvalue(), max_pixels=10_000)[0])
    assert abs(new.convert("L").getpixel((5, 5)) - 128) <= 2


def test_of_an_animation_the_first_picture_is_kept() -> None:
    frames = [Image.new("RGB", (400, 200), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    new = opened(resize.resize_image(out.getvalue(), max_pixels=10_000)[0])
    assert is_red(new.convert("RGB").getpixel((5, 5)))
    assert getattr(new, "n_frames", 1) == 1


def test_a_very_long_picture_keeps_at_least_one_pixel() -> None:
    assert opened(resize.resize_image(picture(20_000, 4), max_pixels=500)[0]).size[1] >= 1


def bomb(side: int = 50_000) -> bytes:
    """A PNG of a few KB that claims side x side pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 100_000))
        + chunk(b"IEND", b"")
    )


BROKEN = {
    "bomb that Pillow itself refuses": (bomb(50_000), "pixels|too large"),
    "bomb below Pillow's limit": (bomb(9_000), "9000x9000 pixels"),
    "cut JPEG": (picture(800, 800, "JPEG")[:2000], "cannot be decoded"),
    "cut PNG": (picture(1600, 1600)[:60], "cannot be decoded"),
    "cut HEIC": (picture(400, 400, "HEIF")[:300], "cannot be decoded|not a picture"),
    "text": (b"<html>404</html>", "not a picture"),
    "nothing": (b"", "not a picture|empty"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_bad_picture_is_refused_with_a_reason_for_the_client(case: str) -> None:
    data, words = BROKEN[case]
    with pytest.raises(resize.PictureRefused, match=words):
        resize.resize_image(data)
    problem = validate.picture_problem(data)
    assert problem is not None


def test_a_file_that_is_too_long_is_refused_unread() -> None:
    with pytest.raises(resize.PictureRefused, match="bytes, the limit"):
        resize.resize_image(b"\0" * (resize.MAX_INPUT_BYTES + 1))


def test_without_pillow_heif_a_heic_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resize, "HEIC", False)
    monkeypatch.setattr(validate, "HEIC", False)
    data = b"\0\0\0\x18ftypheic" + b"\0" * 200
    with pytest.raises(resize.PictureRefused, match="HEIC pictures are not accepted here"):
        resize.resize_image(data)
    assert "HEIC is not accepted here" in (validate.picture_problem(data) or "")


# --- chat messages ---


def url(data: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


def message(*pictures: Any, text: str = "what is this?") -> dict[str, Any]:
    return {
        "role": "user",
        "content": [
            {"type": "text", "text": text},
            *({"type": "image_url", "image_url": {"url": p, "detail": "high"}} for p in pictures),
        ],
    }


def test_pictures_in_messages_are_resized_and_the_rest_stays() -> None:
    large, small = url(picture(2000, 1000)), url(picture(20, 10))
    before = [{"role": "system", "content": "be brief"}, message(large, small, "https://example.com/a.jpg")]
    after = resize.resize_messages(before, max_pixels=50_000)
    assert after[0] is before[0]
    assert [part.get("text") for part in after[1]["content"]] == ["what is this?", None, None, None]
    new = after[1]["content"][1]["image_url"]
    assert new["detail"] == "high"
    assert opened(base64.b64decode(new["url"].partition(",")[2])).size == (316, 158)
    assert after[1]["content"][2]["image_url"]["url"] == small
    assert after[1]["content"][3]["image_url"]["url"] == "https://example.com/a.jpg"
    assert before[1]["content"][1]["image_url"]["url"] == large


def test_both_spellings_of_a_picture_part_are_known() -> None:
    large = url(picture(2000, 1000))
    for part in ({"type": "input_image", "image_url": large}, {"type": "image_url", "image_url": large}):
        after = resize.resize_messages([{"role": "user", "content": [part]}], max_pixels=50_000)
        assert len(after[0]["content"][0]["image_url"]) < len(large)


@pytest.mark.parametrize("odd", [None, "x", [], [None, 3, {"content": 4}, {"content": [None, {"type": "image_url"}]}]])
def test_odd_messages_are_left_to_the_server(odd: Any) -> None:
    assert resize.resize_messages(odd) == odd


@pytest.mark.parametrize("address", ["data:image/png;base64,???", "data:image/png,abc", "data:image/png;base64,QUJD"])
def test_a_broken_data_address_is_refused(address: str) -> None:
    with pytest.raises(resize.PictureRefused):
        resize.resize_data_url(address)


# --- validation ---

GOOD = url(picture(100, 100))
LIMITS = validate.Limits(max_pictures=2, max_picture_bytes=50_000, max_picture_pixels=1_000_000, max_text_tokens=50)

VALID = {
    "text": {"messages": [{"role": "user", "content": "hello"}]},
    "two pictures": {"messages": [message(GOOD, url(picture(90, 90, "JPEG"), "image/jpeg"))]},
    "heic": {"messages": [message(url(picture(90, 90, "HEIF"), "image/heic"))]},
    "webp": {"messages": [message(url(picture(90, 90, "WEBP"), "image/webp"))]},
    "address": {"messages": [message("https://example.com/a.png")]},
    "assistant without content": {"messages": [{"role": "assistant", "content": None, "tool_calls": []}]},
    "unknown part": {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
}


@pytest.mark.parametrize("case", VALID)
def test_a_good_request_may_go_on(case: str) -> None:
    assert validate.validate_chat_request(VALID[case], LIMITS) is None


INVALID = {
    "no object": ([], "'messages' must be a list", "messages"),
    "no messages": ({"messages": []}, "at least one message", "messages"),
    "message is no object": ({"messages": ["hi"]}, "must be an object", "messages[0]"),
    "content is a number": ({"messages": [{"content": 3}]}, "string or a list", "messages[0].content"),
    "too many pictures": (
        {"messages": [message(GOOD), message(GOOD, GOOD)]},
        "3 pictures in one request, the limit is 2",
        "messages",
    ),
    "too much text": ({"messages": [{"content": "word " * 100}]}, "about 167 tokens, the limit is 50", "messages"),
    "too much Chinese text": ({"messages": [{"content": "图" * 51}]}, "about 51 tokens, the limit is 50", "messages"),
    "too many pixels": (
        {"messages": [message(url(picture(1001, 1000)))]},
        "picture 1: 1001x1000 pixels",
        "messages[0].content[1]",
    ),
    "too many bytes": (
        {"messages": [message(url(b"\0" * 60_000))]},
        "picture 1: more than 50000 bytes",
        "messages[0].content[1]",
    ),
    "bomb": ({"messages": [message(url(bomb(50_000)))]}, "picture 1: ", "messages[0].content[1]"),
    "cut picture": (
        {"messages": [message(GOOD, url(picture(300, 300, "JPEG")[:700]))]},
        "picture 2: cannot be decoded",
        "messages[0].content[2]",
    ),
    "no picture": ({"messages": [message(url(b"GIF8 no"))]}, "picture 1: not a picture", "messages[0].content[1]"),
    "broken base64": (
        {"messages": [message("data:image/png;base64,a!")]},
        "picture 1: broken base64",
        "messages[0].content[1]",
    ),
    "file address": (
        {"messages": [message("file:///etc/passwd")]},
        "only base64 data is accepted",
        "messages[0].content[1]",
    ),
    "picture without address": (
        {"messages": [{"content": [{"type": "image_url"}]}]},
        "needs an 'image_url'",
        "messages[0].content[0]",
    ),
    "text that is none": (
        {"messages": [{"content": [{"type": "text", "text": 3}]}]},
        "a string",
        "messages[0].content[0]",
    ),
    "part without type": ({"messages": [{"content": [{}]}]}, "needs a 'type'", "messages[0].content[0]"),
    "too many messages": ({"messages": [{"content": "a"}] * 201}, "201 messages", "messages"),
}


@pytest.mark.parametrize("case", INVALID)
def test_a_bad_request_gets_a_400_that_says_where_and_why(case: str) -> None:
    body, words, where = INVALID[case]
    error = validate.validate_chat_request(body, LIMITS)
    assert error is not None
    assert words in error["error"]["message"]
    assert {**error["error"], "message": ""} == {
        "message": "",
        "type": "invalid_request_error",
        "param": where,
        "code": 400,
    }


def test_addresses_can_be_forbidden() -> None:
    limits = validate.Limits(allow_addresses=False)
    assert validate.validate_chat_request(VALID["address"], limits) is not None


def test_the_models_tokenizer_counts_where_there_is_one(tmp_path: Path, fake_tokenizers: None) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    count = validate.token_counter(str(tmp_path))
    assert count("one two three") == 3
    assert validate.validate_chat_request({"messages": [{"content": "a " * 49}]}, LIMITS, count) is None
    assert validate.validate_chat_request({"messages": [{"content": "a " * 51}]}, LIMITS, count) is not None


def test_without_a_tokenizer_the_length_is_estimated(tmp_path: Path) -> None:
    assert validate.token_counter(None)("abcdef") == 2
    assert validate.token_counter(str(tmp_path))("abcdef") == 2


@pytest.fixture
def fake_tokenizers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The interface of the tokenizers library that the script uses, with blanks between tokens."""

    class Encoding:
        def __init__(self, text: str) -> None:
            self.ids = text.split()

    class Tokenizer:
        @classmethod
        def from_file(cls, path: str) -> Tokenizer:
            assert Path(path).name == "tokenizer.json"
            return cls()

        def encode(self, text: str, add_special_tokens: bool) -> Encoding:
            return Encoding(text)

    module = ModuleType("tokenizers")
    module.Tokenizer = Tokenizer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tokenizers", module)
    yield

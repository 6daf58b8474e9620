"""Numbers as logs print them: read with their unit, written back for people and for flags."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlogdiag.values import (
    GIB,
    KIB,
    MIB,
    Kind,
    Quantity,
    format_quantity,
    guess_quantity,
    parse_bool,
    parse_duration,
    parse_float,
    parse_int,
    parse_percent,
    parse_quantity,
    parse_size,
    public,
    quantity_of,
    raw,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.00 GiB", 2 * GIB),
        ("448.00 KiB", 448 * KIB),
        ("565.31 MiB", round(565.31 * MIB)),
        ("12.1GiB", round(12.1 * GIB)),
        ("4G", 4 * GIB),
        ("32k", 32 * KIB),
        ("5 bytes", 5),
        ("1 byte", 1),
        ("0 bytes", 0),
        ("1,024.00 MiB", GIB),
        ("1073741824", GIB),
        (" 2.00 GiB ", 2 * GIB),
        ("1.2 TiB", round(1.2 * 2**40)),
    ],
)
def test_sizes_are_read_with_every_unit_that_torch_and_vllm_print(text: str, expected: int) -> None:
    assert parse_size(text) == expected


def test_gb_in_vllms_messages_is_gib() -> None:
    # worker/model_runner.py printed "Loading model weights took 14.9888 GB" after dividing by 2**30.
    assert parse_size("14.9 GB") == parse_size("14.9 GiB") == round(14.9 * GIB)


def test_a_negative_remainder_is_kept() -> None:
    # "Available KV cache memory: -0.53 GiB" is how a budget overrun looks.
    assert parse_size("-0.53 GiB") == round(-0.53 * GIB)


@pytest.mark.parametrize("text", ["17179869184.00 GiB", "1e30 GiB", "-17179869184.00 GiB", "2000000 TiB"])
def test_sizes_that_no_machine_holds_are_unknown(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "two GiB", "2.00 XiB", "1.2.3 GiB", "nan GiB", "inf", "2.00 GiB free", "- 2 GiB", "1,2 GiB", "٣ GiB"],
)
def test_what_is_no_size_is_unknown(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60s", 60),
        ("60", 60),
        ("600327 milliseconds", 600.327),
        ("10 minutes", 600),
        ("1.5 h", 5400),
        ("300 sec", 300),
        ("2 mins", 120),
        ("250ms", 0.25),
        ("0:30:00", 1800),
        ("1:00:00.5", 3600.5),
        ("5m", 300),
    ],
)
def test_durations_are_seconds(text: str, expected: float) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "s", "ten minutes", "1:70:00", "5 GiB", "60 s ago", "1e999 s"])
def test_what_is_no_duration_is_unknown(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("131072", 131072), ("65,536", 65536), ("-1", -1), ("1,048,576", 2**20), ("+5", 5)]
)
def test_ints_with_and_without_separators(text: str, expected: int) -> None:
    assert parse_int(text) == expected


@pytest.mark.parametrize("text", ["", "1.0", "65,53", "1,2345", "0x10", "1_000", "1" * 41, "١٢"])
def test_what_is_no_int_is_unknown(text: str) -> None:
    assert parse_int(text) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("0.9", 0.9), ("1,024.5", 1024.5), ("1e-3", 0.001), (".5", 0.5), ("-2", -2.0), ("5.", 5.0)]
)
def test_floats(text: str, expected: float) -> None:
    assert parse_float(text) == expected


@pytest.mark.parametrize("text", ["", ".", "nan", "inf", "-inf", "1e999", "e5", "0.9x", "1.2.3"])
def test_nan_infinity_and_nonsense_are_unknown(text: str) -> None:
    assert parse_float(text) is None


def test_percent_is_a_fraction_without_binary_noise() -> None:
    assert parse_percent("13.9%") == 0.139
    assert parse_percent("100.0%") == 1.0
    assert parse_percent("13.9") is None
    assert parse_percent("%") is None


def test_truth_values_in_any_case() -> None:
    assert parse_bool("True") is True
    assert parse_bool("false") is False
    assert parse_bool("yes") is None


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("8", Kind.INT, Quantity(8, Kind.INT)),
        ("0.9", Kind.FLOAT, Quantity(0.9, Kind.FLOAT)),
        ("79.1 GiB", Kind.SIZE, Quantity(round(79.1 * GIB), Kind.SIZE)),
        ("95%", Kind.PERCENT, Quantity(0.95, Kind.PERCENT)),
        ("0.95", Kind.PERCENT, Quantity(0.95, Kind.PERCENT)),
        ("60s", Kind.DURATION, Quantity(60.0, Kind.DURATION)),
        ("cuda", Kind.TEXT, Quantity("cuda", Kind.TEXT)),
        ("true", Kind.BOOL, Quantity(True, Kind.BOOL)),
        ("8.5", Kind.INT, None),
        ("much", Kind.SIZE, None),
    ],
)
def test_a_value_is_read_by_its_kind(text: str, kind: Kind, expected: Quantity | None) -> None:
    assert parse_quantity(text, kind) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("True", Quantity(True, Kind.BOOL)),
        ("8", Quantity(8, Kind.INT)),
        ("0.9", Quantity(0.9, Kind.FLOAT)),
        ("auto", Quantity("auto", Kind.TEXT)),
        ("None", None),
        ("null", None),
        ("", None),
    ],
)
def test_an_arguments_text_is_guessed_by_its_looks(text: str, expected: Quantity | None) -> None:
    assert guess_quantity(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, Kind.BOOL),
        (8, Kind.INT),
        (0.9, Kind.FLOAT),
        ("x", Kind.TEXT),
        (None, None),
        (math.nan, None),
        ([1], None),
    ],
)
def test_plain_python_values_get_their_kind(value: object, expected: Kind | None) -> None:
    quantity = quantity_of(value)
    assert (quantity.kind if quantity else None) == expected


@pytest.mark.parametrize(
    ("quantity", "human", "machine"),
    [
        (Quantity(16 * GIB, Kind.SIZE), "16.00 GiB", "17179869184"),
        (Quantity(448 * KIB, Kind.SIZE), "448.00 KiB", "458752"),
        (Quantity(736.86 * MIB, Kind.SIZE), "736.86 MiB", "772653711"),
        (Quantity(1536 * GIB, Kind.SIZE), "1536.00 GiB", "1649267441664"),
        (Quantity(5, Kind.SIZE), "5 bytes", "5"),
        (Quantity(-2 * GIB, Kind.SIZE), "-2.00 GiB", "-2147483648"),
        (Quantity(0.139, Kind.PERCENT), "13.9%", "0.139"),
        (Quantity(0.95, Kind.PERCENT), "95%", "0.95"),
        (Quantity(0.0001, Kind.PERCENT), "0.01%", "0.0001"),
        (Quantity(0.0, Kind.PERCENT), "0%", "0"),
        (Quantity(60.0, Kind.DURATION), "60 s", "60"),
        (Quantity(0.25, Kind.DURATION), "0.25 s", "0.25"),
        (Quantity(600.327, Kind.DURATION), "10 min 0 s", "600.327"),
        (Quantity(9000, Kind.DURATION), "2 h 30 min", "9000"),
        (Quantity(131072, Kind.INT), "131072", "131072"),
        (Quantity(0.95, Kind.FLOAT), "0.95", "0.95"),
        (Quantity(0.9500000001, Kind.FLOAT), "0.95", "0.95"),
        (Quantity(0.1 + 0.2, Kind.FLOAT), "0.3", "0.3"),
        (Quantity(32.0, Kind.FLOAT), "32", "32"),
        (Quantity(1 / 3, Kind.FLOAT), "0.333", "0.333333"),
        (Quantity(0.00012345, Kind.FLOAT), "0.000123", "0.00012345"),
        (Quantity(12345.678, Kind.FLOAT), "12345.7", "12345.678"),
        (Quantity("auto", Kind.TEXT), "auto", "auto"),
        (Quantity(True, Kind.BOOL), "true", "true"),
    ],
)
def test_text_for_people_and_for_flags(quantity: Quantity, human: str, machine: str) -> None:
    assert format_quantity(quantity) == human
    assert raw(quantity) == machine


def test_reports_show_plain_values() -> None:
    assert public(Quantity(1.5 * GIB, Kind.SIZE)) == 1610612736
    assert isinstance(public(Quantity(1.5 * GIB, Kind.SIZE)), int)
    assert public(Quantity(0.1 + 0.2, Kind.FLOAT)) == 0.3
    assert public(Quantity("x", Kind.TEXT)) == "x"
    assert public(None) is None


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64) | st.integers(-(10**12), 10**12)


@given(NUMBERS, st.sampled_from([Kind.INT, Kind.FLOAT, Kind.SIZE, Kind.PERCENT, Kind.DURATION]))
def test_every_number_can_be_written_without_exponent(value: float, kind: Kind) -> None:
    assert format_quantity(Quantity(value, kind))
    assert "e" not in raw(Quantity(value, kind))


@given(st.integers(0, 2**50))
def test_a_size_survives_printing_to_a_hundredth_of_its_unit(value: int) -> None:
    read = parse_size(format_quantity(Quantity(value, Kind.SIZE)))
    assert read is not None
    assert abs(read - value) <= max(1, value // 100)


@given(st.text(max_size=40), st.sampled_from(list(Kind)))
def test_reading_never_raises(text: str, kind: Kind) -> None:
    parse_quantity(text, kind)
    guess_quantity(text)

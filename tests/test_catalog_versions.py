"""Versions, specifiers and ranges mean the releases that a person would say they mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlogdiag.catalog import VersionError, Versions, releases
from vlogdiag.catalog.ranges import mask_range, range_mask

SETS = st.integers(min_value=1, max_value=(1 << len(releases())) - 1)


@pytest.mark.parametrize(
    ("text", "release", "assumed"),
    [
        ("0.11.0", "0.11.0", False),
        ("v0.11.0", "0.11.0", False),
        ("0.8.5.post1", "0.8.5.post1", False),
        ("0.11.0.post2", "0.11.0", False),
        ("0.11.0+cpu", "0.11.0", False),
        ("0.6.4.post1+cu118", "0.6.4.post1", False),
        ("0.11.1rc1.dev5+g123abcd", "0.11.1", True),
        ("0.11.0rc2", "0.11.0", True),
        ("0.10.3.dev12+gabc", "0.11.0", True),
        ("0.99.0", releases()[-1], True),
        ("1.2.3.mycompany", releases()[-1], True),
        ("dev", releases()[-1], True),
        ("", releases()[-1], True),
        ("0.3.3", "0.4.0", True),
    ],
)
def test_a_version_as_printed_means_one_release_and_says_when_that_is_assumed(
    text: str, release: str, assumed: bool
) -> None:
    found = Versions.exact(text)
    assert (found.single, found.assumed) == (release, assumed)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("0.18.7", "0.18.1"),
        ("banana", releases()[-1]),
        ("0.99.0", releases()[-1]),
        ("0.3.3", "0.4.0"),
        ("0.10.3", "0.10.2"),
    ],
)
def test_a_typed_version_that_nobody_released_is_refused_with_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(VersionError) as refused:
        Versions.known(text)
    assert refused.value.nearest == nearest
    assert nearest in str(refused.value)


def test_a_typed_nightly_build_of_a_known_release_passes_as_assumed() -> None:
    assert Versions.known("0.11.1rc1.dev5+g123").assumed


@pytest.mark.parametrize(
    ("text", "first", "last", "count"),
    [
        ("==0.11.0", "0.11.0", "0.11.0", 1),
        (">=0.8.0,<0.8.3", "0.8.0", "0.8.2", 3),
        (">=0.32", "0.32.0", releases()[-1], len(Versions.of("0.32.0.."))),
        ("<0.4.2", "0.4.0", "0.4.1", 3),
        ("~=0.9.0", "0.9.0", "0.9.2", 4),
        ("==0.4.0 || ==0.33.0", "0.4.0", "0.33.0", 2),
        ("", "0.4.0", releases()[-1], len(releases())),
    ],
)
def test_a_specifier_means_the_known_releases_inside_it(text: str, first: str, last: str, count: int) -> None:
    found = Versions.parse_spec(text)
    assert (found.oldest, found.newest, len(found)) == (first, last, count)


def test_a_specifier_for_no_known_release_is_the_empty_set() -> None:
    found = Versions.parse_spec("<0.4")
    assert found.is_empty
    assert (found.single, found.oldest, found.newest, found.spec()) == (None, None, None, "")


def test_a_text_that_is_no_specifier_is_refused() -> None:
    with pytest.raises(VersionError):
        Versions.parse_spec("0.11 or so")


@pytest.mark.parametrize(
    ("where", "spec", "words"),
    [
        ("0.11.0", "==0.11.0", "0.11.0"),
        ("0.8.0..0.11.0", ">=0.8.0,<0.11.1", "0.8.0 to 0.11.0"),
        ("..0.17.1", "<0.18.0", "0.4.0 to 0.17.1"),
        ("0.18.0..", ">=0.18.0", "0.18.0 and newer"),
        ("..", ">=0.4.0", "every release"),
        ("..0.16.0,0.33.0", "<0.17.0 || ==0.33.0", "0.4.0 to 0.16.0, 0.33.0"),
    ],
)
def test_a_set_is_said_in_the_shortest_way(where: str, spec: str, words: str) -> None:
    assert (Versions.of(where).spec(), Versions.of(where).words()) == (spec, words)


@given(SETS)
def test_the_specifier_of_a_set_gives_the_set_back(mask: int) -> None:
    assert Versions.parse_spec(Versions(mask).spec()) == Versions(mask)


@given(SETS)
def test_the_range_text_of_a_set_gives_the_set_back(mask: int) -> None:
    assert range_mask(mask_range(mask)) == mask


@given(SETS, SETS)
def test_within_says_all_none_or_a_part(one: int, other: int) -> None:
    answer = Versions(one).within(Versions(other))
    inside = [release in Versions(other) for release in Versions(one)]
    assert answer is (True if all(inside) else False if not any(inside) else None)


@pytest.mark.parametrize("text", ["0.11", "0.5.0..0.4.0", "nonsense", "0.4.0...0.5.0"])
def test_a_range_of_unknown_or_reversed_ends_is_refused(text: str) -> None:
    with pytest.raises(VersionError):
        range_mask(text)


def test_an_assumed_version_stays_assumed_when_sets_are_combined() -> None:
    assert (Versions.exact("0.99.0") & Versions.all()).assumed
    assert (Versions.exact("0.99.0") - Versions.of("0.4.0")).assumed
    assert not (Versions.exact("0.11.0") | Versions.exact("0.12.0")).assumed

"""The catalogue's files: small, written in one way only, and refused with file, line and reason when they are broken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from vlogdiag.catalog import CatalogueError, releases
from vlogdiag.catalog.load import Catalogue, catalogue, read_notes
from vlogdiag.catalog.ranges import DATA
from vlogdiag.catalog.store import Entry, Table, format_line, format_table, parse_line

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import catalog_merge

TABLES = ("flags.tsv", "envs.tsv", "metrics.tsv")


def _comment(text: str) -> str:
    return "\n".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))


@pytest.mark.parametrize("name", TABLES)
def test_reading_and_writing_a_table_gives_the_same_bytes(name: str) -> None:
    text = (DATA / name).read_text(encoding="utf-8")
    entries = [entry for found in Table(text, name).values() for entry in found]
    assert format_table(entries, _comment(text)) == text
    assert catalog_merge.fold(catalog_merge.expand(text, releases()), releases(), _comment(text)) == text


def test_the_catalogue_is_under_400_kilobytes() -> None:
    files = [*DATA.iterdir(), DATA.with_name("notes.yaml")]
    assert sum(path.stat().st_size for path in files if path.is_file()) < 400_000


def test_releases_are_final_ones_in_order_and_none_is_a_hole() -> None:
    assert list(releases()) == sorted(releases(), key=Version)
    assert not any(Version(name).is_prerelease for name in releases())
    for table in (catalogue().flags, catalogue().envs, catalogue().metrics):
        held = 0
        for entries in table.values():
            for entry in entries:
                held |= entry.where
        assert held == (1 << len(releases())) - 1


@pytest.mark.parametrize("name", TABLES)
def test_a_name_has_one_shape_per_release(name: str) -> None:
    for entries in Table((DATA / name).read_text(encoding="utf-8"), name).values():
        seen = 0
        for entry in entries:
            assert not seen & entry.where, entry
            seen |= entry.where


def test_a_spelling_belongs_to_one_option_per_release() -> None:
    for text in catalogue().masks:
        seen = 0
        for entry in catalogue().spelled(text):
            assert not seen & entry.where, text
            seen |= entry.where


def test_an_option_text_is_found_the_same_with_and_without_reading_everything() -> None:
    slow: dict[str, list[Entry]] = {}
    for entries in catalogue().flags.values():
        for entry in entries:
            for text in entry.spellings:
                slow.setdefault(text, []).append(entry)
    for text, found in slow.items():
        assert sorted(catalogue().spelled(text), key=repr) == sorted(found, key=repr)
        assert catalogue().registered(text) == catalogue().masks[text]
    assert catalogue().spelled("auto") == ()


TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=6)
JSON = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.just(0.5), TEXTS, st.lists(TEXTS, max_size=2))
ENTRIES = st.builds(
    Entry,
    name=st.sampled_from(["--a", "--b", "-c"]),
    where=st.integers(1, (1 << len(releases())) - 1),
    kind=st.sampled_from(["switch", "value", "list"]),
    also=st.lists(TEXTS, max_size=2).map(tuple),
    off=st.lists(TEXTS, max_size=2).map(tuple),
    type=st.one_of(st.none(), st.just("int")),
    default=JSON,
    choices=st.one_of(st.none(), st.lists(JSON, min_size=1, max_size=2).map(tuple)),
    deprecated=st.booleans(),
    by=st.one_of(st.none(), st.just("serve")),
    hidden=st.booleans(),
)


@given(ENTRIES)
def test_a_line_gives_its_entry_back(entry: Entry) -> None:
    assert parse_line(format_line(entry)) == entry


def test_a_new_release_extends_open_ranges_and_leaves_closed_ones() -> None:
    old, new = ("1.0", "1.1"), ("1.0", "1.1", "1.2")
    held = catalog_merge.expand("--a\t1.0..\tvalue\tdefault=1\n--b\t1.0..\tswitch\n--c\t1.0\tswitch\n", old)
    held["1.2"] = {"--a": Entry("--a", 0, "value", default=1), "--d": Entry("--d", 0, "switch")}
    assert catalog_merge.fold(held, new, "x") == (
        "# x\n--a\t1.0..\tvalue\tdefault=1\n--b\t1.0..1.1\tswitch\n--c\t1.0\tswitch\n--d\t1.2..\tswitch\n"
    )
    assert list(catalog_merge.differences(held["1.1"], held["1.2"])) == ["added --d", "removed --b"]


def test_a_changed_default_is_reported_with_both_values() -> None:
    before = {"--a": Entry("--a", 0, "value", default=0.9)}
    after = {"--a": Entry("--a", 0, "value", default=0.92)}
    assert list(catalog_merge.differences(before, after)) == ["--a: default 0.9 -> 0.92"]


BROKEN = [
    ("", "holds no entries"),
    ("--a\n", "2: a line without columns"),
    ("--a\t0.4.0..\tgadget\n", "2: unknown kind 'gadget'"),
    ("--a\t0.4.0..\tvalue\tcolour=1\n", "2: unknown column 'colour'"),
    ("--a\t0.4.0..\tvalue\tdefault={\n", "2: Expecting property name"),
    ("--a\t0.4.0..\tvalue\tchoices=1\n", "2: "),
    ("--a\t9.9.9..\tvalue\n", "2: '9.9.9..' is not a range"),
    ("--a\t0.4.0..\n", "2: not enough values"),
]


@pytest.mark.parametrize(("line", "reason"), BROKEN)
def test_a_broken_table_is_refused_with_file_line_and_reason(line: str, reason: str) -> None:
    with pytest.raises(CatalogueError) as refused:
        dict(Table(f"# a comment\n{line}", "flags.tsv"))["--a"]
    assert "flags.tsv" in str(refused.value)
    assert reason in str(refused.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_missing_or_unreadable_file_is_refused_with_its_path(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "flags.tsv").write_bytes(content)
    with pytest.raises(CatalogueError) as refused:
        Catalogue(tmp_path, tmp_path / "notes.yaml").flags["--a"]
    assert refused.value.path == str(tmp_path / "flags.tsv")


NOTES = [
    ("flags: [", "while parsing"),
    ("flag: {}", "sections must be"),
    ("flags: {--a: [{note: x}]}", "flags.--a: a note without a source"),
    ("flags: {--a: [{source: x, color: red}]}", "flags.--a: keys must be among"),
    ("flags: {--a: [{source: x, where: 9.9.9..}]}", "flags.--a: '9.9.9..' is not a range"),
    ("flags: {--a: 5}", "flags.--a: keys must be among"),
]


@pytest.mark.parametrize(("text", "reason"), NOTES)
def test_broken_notes_are_refused_with_name_and_reason(text: str, reason: str) -> None:
    with pytest.raises(CatalogueError) as refused:
        read_notes(text, "notes.yaml")
    assert reason in str(refused.value)


def test_every_note_is_about_a_known_name_or_says_that_it_is_not() -> None:
    """A misspelt name in the notes would never be found by anybody."""
    notes = catalogue().notes
    for name, found in notes["flags"].items():
        assert name in catalogue().masks or any(note.never for note in found), name
    for name in notes["values"]:
        assert name in catalogue().flags, name
    for name, found in notes["envs"].items():
        assert name in catalogue().envs or all(note.foreign for note in found), name
    for name, found in notes["metrics"].items():
        assert name in catalogue().metrics or all(note.never for note in found), name

"""Look-ups answer for the whole set of versions, or say for which part; options are resolved as argparse does it."""

from __future__ import annotations

import pytest

from vlogdiag import catalog
from vlogdiag.catalog import Versions
from vlogdiag.catalog.load import catalogue


def at(release: str) -> Versions:
    return Versions.exact(release)


def test_an_option_that_only_a_part_of_the_set_has_is_neither_there_nor_absent() -> None:
    answer = catalog.flag("--swap-space", Versions.of("0.17.0..0.18.0"))
    assert (answer.exists, answer.since, answer.until) == (None, "0.4.0", "0.17.1")


def test_an_alias_answers_with_the_options_own_name() -> None:
    assert catalog.flag("-tp", at("0.11.0")).name == "--tensor-parallel-size"
    assert catalog.flag("-q", at("0.24.0")).note == catalog.flag("--quantization", at("0.24.0")).note


def test_a_default_that_differs_over_the_set_is_unknown() -> None:
    assert catalog.default("--gpu-memory-utilization", Versions.of("0.19.0..0.20.0")) is None
    assert catalog.default("--gpu-memory-utilization", Versions.of("0.18.0..0.19.1")) == 0.9


def test_a_default_of_an_option_that_a_part_of_the_set_lacks_is_unknown() -> None:
    assert catalog.default("--swap-space", Versions.of("0.17.0..0.18.0")) is None


def test_no_versions_at_all_give_no_answer() -> None:
    assert catalog.flag("--swap-space", Versions.none()).exists is None
    assert catalog.default("--swap-space", Versions.none()) is None
    assert catalog.value_allowed("--swap-space", "4", Versions.none()) is None


def test_a_value_that_a_part_of_the_set_takes_is_neither_allowed_nor_refused() -> None:
    assert catalog.value_allowed("--max-model-len", "auto", Versions.of("0.13.0..0.14.0")) is None


@pytest.mark.parametrize(
    ("name", "value", "release", "allowed"),
    [
        ("--gpu-memory-utilization", "0.9", "0.11.0", True),
        ("--gpu-memory-utilization", 0.9, "0.11.0", True),
        ("--gpu-memory-utilization", "lots", "0.11.0", False),
        ("--tensor-parallel-size", "2", "0.11.0", True),
        ("--tensor-parallel-size", "2.5", "0.11.0", False),
        ("--limit-mm-per-prompt", {"image": 1}, "0.11.0", True),
        ("--mm-processor-kwargs", "a=1", "0.11.0", False),
        ("--swap-space", "4", "0.18.0", None),
        ("--nonsense", "4", "0.18.0", None),
        ("--tensor-parallel", "2", "0.11.0", True),
    ],
)
def test_values_are_held_against_what_the_option_reads(
    name: str, value: object, release: str, allowed: bool | None
) -> None:
    assert catalog.value_allowed(name, value, at(release)) is allowed


@pytest.mark.parametrize(
    ("name", "release", "takes"),
    [
        ("--enforce-eager", "0.8.5", False),
        ("--no-enforce-eager", "0.11.0", False),
        ("--max-model-len", "0.11.0", True),
        ("--cuda-graph-sizes", "0.11.0", True),
        ("--enable-chunked-prefill", "0.8.4", None),
        ("--nonsense", "0.11.0", None),
    ],
)
def test_whether_a_value_follows_is_known(name: str, release: str, takes: bool | None) -> None:
    assert catalog.takes_value(name, at(release)) is takes


def test_choices_are_those_of_the_release() -> None:
    assert catalog.choices("--kv-cache-dtype", at("0.4.0")) == ("auto", "fp8_e5m2")
    assert catalog.choices("--kv-cache-dtype", at("0.33.0")) is None
    assert catalog.choices("--kv-cache-dtype", Versions.of("0.4.0..0.4.2")) is None


RESOLUTIONS = [
    ("--max-model-len", "0.11.0", "exact", "--max-model-len"),
    ("--max-model-len=4096", "0.11.0", "exact", "--max-model-len"),
    ("-tp", "0.11.0", "exact", "--tensor-parallel-size"),
    ("--tensor_parallel_size", "0.11.0", "exact", "--tensor-parallel-size"),
    ("--tensor_par", "0.11.0", "abbreviation", "--tensor-parallel-size"),
    ("--no-enforce", "0.11.0", "abbreviation", "--enforce-eager"),
    ("--max", "0.11.0", "ambiguous", None),
    ("--swap-space", "0.18.0", "removed", "--swap-space"),
    ("--swap_space", "0.18.0", "removed", "--swap-space"),
    ("--async-scheduling", "0.9.2", "future", "--async-scheduling"),
    ("--disable-log-requests", "0.20.0", "removed", "--disable-log-requests"),
    ("--max-model-length", "0.11.0", "typo", "--max-model-len"),
    ("--tensor-paralel-size", "0.11.0", "typo", "--tensor-parallel-size"),
    ("--gpu-mem-util", "0.11.0", "never", "--gpu-memory-utilization"),
    ("--completely-made-up-thing", "0.11.0", "never", None),
    ("--disable-log-requests", "0.33.0", "exact", "--enable-log-requests"),
    ("--preemption_mode", "0.5.0", "exact", "--preemption_mode"),
    ("--max_model_len", "0.5.0", "typo", "--max-model-len"),
    ("--limit-mm-per-prompt.image", "0.8.5", "future", "--limit-mm-per-prompt"),
    ("--limit_mm_per_prompt.image=2", "0.11.0", "exact", "--limit-mm-per-prompt"),
    ("-O.level=3", "0.11.0", "exact", "--compilation-config"),
    ("-O.level=3", "0.13.0", "removed", "--compilation-config"),
    ("-O2", "0.13.0", "exact", "--optimization-level"),
    ("-O", "0.6.4", "future", "--compilation-config"),
]


@pytest.mark.parametrize(("text", "release", "kind", "canonical"), RESOLUTIONS)
def test_an_option_text_is_taken_as_argparse_takes_it(
    text: str, release: str, kind: str, canonical: str | None
) -> None:
    found = catalog.resolve(text, at(release))
    assert (found.kind, found.canonical) == (kind, canonical)


def test_a_resolution_says_for_which_part_of_the_set_it_holds() -> None:
    asked = Versions.of("0.17.0..0.18.0")
    gone = catalog.resolve("--swap-space", asked)
    assert (gone.kind, gone.where.words()) == ("removed", "0.18.0")
    there = catalog.resolve("--kv-offloading-size", Versions.of("0.10.2..0.11.1"))
    assert (there.kind, there.where.words()) == ("exact", "0.11.1")


def test_a_set_around_an_options_life_is_told_about_its_removal_not_its_arrival() -> None:
    found = catalog.resolve("--task", Versions.all() - catalog.flag("--task", Versions.all()).present)
    assert (found.kind, found.where.words()) == ("removed", "0.13.0 and newer")


def test_a_prefix_that_is_unique_only_in_older_releases_is_ambiguous_now() -> None:
    assert catalog.resolve("--device", at("0.8.5")).kind == "exact"
    assert catalog.resolve("--device", at("0.33.0")).kind == "ambiguous"


def test_a_counterpart_must_exist_in_every_asked_release() -> None:
    assert catalog.counterpart("--cudagraph-capture-sizes", at("0.10.0")) == "--cuda-graph-sizes"
    assert catalog.counterpart("--cudagraph-capture-sizes", Versions.of("0.8.5..0.10.0")) is None
    assert catalog.counterpart("--request-timeout", Versions.all()) is None


def test_every_replacement_of_the_notes_is_an_option_of_those_releases() -> None:
    """A note that sends people to an option that is not there would be the fault that this tool exists to find."""
    for name, notes in catalogue().notes["flags"].items():
        for note in notes:
            words = (note.renamed or note.instead or "").split()
            for word in words:
                if word.startswith("--"):
                    option = word.strip("(),").partition("=")[0].partition(".")[0]
                    found = catalog.flag(option, Versions(note.where))
                    assert found.exists or _released_later(note.instead, found), (
                        name,
                        option,
                        Versions(note.where).words(),
                    )


def _released_later(instead: str | None, found: catalog.FlagAnswer) -> bool:
    """`nothing, or --kv-offloading-size` may name what a part of the releases lacks, if the words begin with `nothing`."""
    return instead is not None and instead.startswith("nothing") and found.exists is None


def test_unknown_names_are_unknown() -> None:
    assert not catalog.knows_flag("--nonsense")
    assert not catalog.knows_env("VLLM_NONSENSE")
    assert catalog.knows_flag("--no-enable-prefix-caching")
    assert catalog.knows_env("VLLM_USE_V1")
    assert catalog.env("VLLM_NONSENSE", Versions.all()).exists is False


def test_what_changed_between_two_releases_is_listed() -> None:
    found = catalog.diff(at("0.17.1"), at("0.18.0"))
    assert "--swap-space" in found.removed
    assert "--swap-space" not in found.added
    found = catalog.diff(at("0.19.1"), at("0.20.0"))
    defaults = {(change.name, change.old, change.new) for change in found.changed if change.what == "default"}
    assert ("--gpu-memory-utilization", 0.9, 0.92) in defaults
    assert catalog.diff(at("0.20.0"), at("0.20.0")) == catalog.Diff("0.20.0", "0.20.0", (), (), ())

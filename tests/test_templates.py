"""Patterns that look like the log line: what they match, what they capture, what they refuse, what they cost."""

from __future__ import annotations

import time

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from vlogdiag.signatures.language import template_parts
from vlogdiag.signatures.pieces import cut
from vlogdiag.signatures.templates import (
    PatternTimeout,
    TemplateError,
    compile_pattern,
    is_gate,
)
from vlogdiag.values import GIB, MIB, Kind, Quantity, public


def captures(source: str, text: str) -> dict[str, object] | None:
    """Plain captures of a template in a text; None where it does not match."""
    found = compile_pattern(source).search(text)
    return None if found is None else {name: public(value) for name, value in found.captures.items()}


TOO_LONG = (
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is "
    "larger than the available KV cache memory (9.83 GiB). Based on the available memory, the estimated maximum model length is 80512."
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.89 GiB is "
    "free. Including non-PyTorch memory, this process has 21.80 GiB memory in use. Of the allocated memory 19.21 GiB is allocated by "
    "PyTorch, and 736.86 MiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        (
            "max seq len ({wanted:int}), ({needed:size} KV cache is needed, which is larger than the available KV cache memory ({left:size})",
            TOO_LONG,
            {"wanted": 131072, "needed": 16 * GIB, "left": round(9.83 * GIB)},
        ),
        ("the estimated maximum model length is {fits:int}", TOO_LONG, {"fits": 80512}),
        (
            "Tried to allocate {asked:size}. GPU {gpu:int} has a total capacity of {total:size} of which {free:size} is free. ... "
            "allocated memory {allocated:size} is allocated by PyTorch, and {reserved:size} is reserved",
            OOM,
            {
                "asked": round(2.1 * GIB),
                "gpu": 0,
                "total": round(23.69 * GIB),
                "free": round(1.89 * GIB),
                "allocated": round(19.21 * GIB),
                "reserved": round(736.86 * MIB),
            },
        ),
        (
            "KV cache usage: {usage:percent}, Prefix cache",
            "Waiting: 3 reqs, GPU KV cache usage: 13.9%, Prefix cache hit rate: 0.0%",
            {"usage": 0.139},
        ),
        (
            "Timeout(ms)={limit:int}) ran for {ran:duration} before timing out",
            "Timeout(ms)=600000) ran for 600327 milliseconds before timing out.",
            {"limit": 600000, "ran": 600.327},
        ),
        ("took {load:duration} to load", "It took 12.5 seconds to load", {"load": 12.5}),
        ("took {load:duration} to load", "It took 0:10:00 to load", {"load": 600.0}),
        ("shut down after {load:duration} of silence", "shut down after 300 of silence", {"load": 300.0}),
        (
            "(free {free:GiB}/{total:GiB} GiB) on startup",
            "device (free 3.5/23.69 GiB) on startup",
            {"free": round(3.5 * GIB), "total": round(23.69 * GIB)},
        ),
        ("needs {need:MiB} of encoder cache", "needs 512 of encoder cache", {"need": 512 * MIB}),
        ("GPU KV cache size: {tokens:int} tokens", "GPU KV cache size: 65,536 tokens", {"tokens": 65536}),
        (
            "Available KV cache memory: {left:size}",
            "Available KV cache memory: -0.53 GiB",
            {"left": round(-0.53 * GIB)},
        ),
        (
            "{model:word} is not a multimodal model",
            "x\nValueError: Qwen/Qwen3-8B is not a multimodal model",
            {"model": "Qwen/Qwen3-8B"},
        ),
        ("cannot import name {name:word} from", "ImportError: cannot import name 'foo' from 'bar'", {"name": "'foo'"}),
        (
            "unrecognized arguments: {flags:text}",
            "vllm: error: unrecognized arguments: --a 1 --b  \nnext",
            {"flags": "--a 1 --b"},
        ),
        (
            "{what:text} is not supported here",
            "one\nThe thing of mine is not supported here",
            {"what": "The thing of mine"},
        ),
        ("usage of {:percent} with {n:int} queued", "usage of 95.0% with 7 queued", {"n": 7}),
        ("limit_mm = {{image: {n:int}}} only", "limit_mm = {image: 4} only", {"n": 4}),
    ],
)
def test_a_template_reads_what_vllm_prints(source: str, text: str, expected: dict[str, object]) -> None:
    assert captures(source, text) == expected


def test_captures_know_what_they_measure() -> None:
    found = compile_pattern("allocate {asked:size}, usage {share:percent}, rank {rank:int}, model {name:word}").search(
        "allocate 2.10 GiB, usage 95.0%, rank 3, model Qwen"
    )
    assert found is not None
    assert {name: value.kind for name, value in found.captures.items() if value} == {
        "asked": Kind.SIZE,
        "share": Kind.PERCENT,
        "rank": Kind.INT,
        "name": Kind.TEXT,
    }


def test_a_number_that_cannot_be_meant_is_unknown_and_the_rest_still_matches() -> None:
    assert captures(
        "has {used:size} memory in use, {left:size} left", "has 17179869184.00 GiB memory in use, 1.00 GiB left"
    ) == {
        "used": None,
        "left": GIB,
    }


def test_offsets_point_into_the_searched_text() -> None:
    text = "x" * 10_000 + " max seq len (8) here"
    found = compile_pattern("max seq len ({wanted:int})").search(text)
    assert found is not None
    assert text[found.start : found.end] == "max seq len (8)"


class TestBlanks:
    def test_runs_of_blanks_match_runs_of_blanks(self) -> None:
        assert captures("model length is {n:int} now", "model length is \t 8 now") == {"n": 8}
        assert captures("model length is   {n:int} now", "model length is 8 now") == {"n": 8}

    def test_a_blank_never_matches_a_newline(self) -> None:
        assert captures("model length is {n:int} now", "model length is\n8 now") is None

    def test_a_blank_is_needed(self) -> None:
        assert captures("model length is {n:int} now", "model length is8 now") is None

    def test_a_newline_takes_the_blanks_around_it_and_a_carriage_return(self) -> None:
        assert captures("first line\nsecond {n:int}", "first line  \r\n    second 2") == {"n": 2}


class TestGaps:
    def test_a_gap_stays_on_its_line(self) -> None:
        assert captures("begins here ... {n:int} ends", "begins here \n 5 ends") is None

    def test_a_gap_takes_as_little_as_will_do(self) -> None:
        assert captures("begins here ... rank {n:int}", "begins here a rank 1 b rank 2") == {"n": 1}

    def test_a_gap_may_be_empty_between_blanks(self) -> None:
        assert captures("begins here ... rank {n:int}", "begins here rank 1") == {"n": 1}

    def test_a_gap_reaches_two_hundred_characters(self) -> None:
        assert captures("begins here...ends {n:int}", "begins here" + "-" * 200 + "ends 1") == {"n": 1}
        assert captures("begins here...ends {n:int}", "begins here" + "-" * 201 + "ends 1") is None

    def test_beside_a_newline_a_gap_takes_the_rest_of_a_long_line(self) -> None:
        assert captures("begins here...\n...ends {n:int}", "begins here" + "-" * 1500 + "\nand ends 1") == {"n": 1}

    def test_a_full_stop_before_a_gap_is_a_full_stop(self) -> None:
        assert captures("is free....rank {n:int}", "is free. So rank 3") == {"n": 3}
        assert captures("is free....rank {n:int}", "is free, so rank 3") is None

    def test_literal_dots_have_their_own_spelling(self) -> None:
        assert captures("loading model {name:word}{...}", "loading model Qwen/Qwen2.5-VL...") == {
            "name": "Qwen/Qwen2.5-VL"
        }

    def test_gaps_at_the_ends_say_nothing(self) -> None:
        assert captures("...begins here {n:int}...", "it begins here 5 and on") == {"n": 5}

    def test_a_number_after_a_gap_is_a_whole_number(self) -> None:
        assert captures("capacity is...{n:int} tokens", "capacity is v1.5 and 12 tokens") == {"n": 12}


class TestHoles:
    def test_an_int_is_not_the_beginning_of_a_longer_number(self) -> None:
        assert captures("rank of GPU {n:int}", "rank of GPU 0.5") is None
        assert captures("rank of GPU {n:int}", "rank of GPU 5.") == {"n": 5}

    def test_an_int_is_not_the_end_of_a_longer_number(self) -> None:
        assert captures("{n:int} tokens stored", "v1.25 tokens stored") is None
        assert captures("{n:int} tokens stored", "(25 tokens stored") == {"n": 25}

    def test_a_comma_after_an_int_hole_is_no_separator(self) -> None:
        assert captures("image size [{h:int},{w:int}]", "image size [1,200]") == {"h": 1, "w": 200}

    def test_a_word_ends_at_what_follows(self) -> None:
        assert captures("device {name:word}, rank {n:int}", "device cuda:0, rank 1") == {"name": "cuda:0", "n": 1}

    def test_a_full_stop_after_a_word_is_not_the_dot_inside_it(self) -> None:
        assert captures("loaded model {name:word}.", "loaded model Qwen/Qwen2.5-VL. Done") == {
            "name": "Qwen/Qwen2.5-VL"
        }

    def test_a_leading_word_is_a_whole_word(self) -> None:
        assert captures("{name:word} is missing from the model", "a" * 250 + " is missing from the model") is None

    def test_a_word_longer_than_two_hundred_characters_does_not_match(self) -> None:
        assert captures("device {name:word}, rank", "device " + "a" * 200 + ", rank") == {"name": "a" * 200}
        assert captures("device {name:word}, rank", "device " + "a" * 201 + ", rank") is None

    def test_text_is_bounded(self) -> None:
        found = captures("arguments: {rest:text}", "arguments: " + "a" * 3000)
        assert found == {"rest": "a" * 2000}

    def test_nan_is_matched_and_unknown(self) -> None:
        assert captures("loss is {loss:float} at last", "loss is nan at last") == {"loss": None}

    @pytest.mark.parametrize("unit", ["GiB", "GB", "gib", "G", " GiB"])
    def test_a_size_needs_its_unit(self, unit: str) -> None:
        assert captures("budget is {b:size} here", f"budget is 2{unit} here") == {"b": 2 * GIB}
        assert captures("budget is {b:size} here", "budget is 2 here") is None

    def test_a_unit_is_not_the_beginning_of_a_word(self) -> None:
        assert captures("budget is {b:size}", "budget is 2 GPUs") is None


@pytest.mark.parametrize(
    ("source", "gate"),
    [
        ("max seq len ({wanted:int}) is larger", "max seq len ("),
        ("{n:int} tokens of the model's max", "tokens of the model"),
        ('why "quoted text" breaks gates', "breaks gates"),
        ("café is not plain enough", "is not plain enough"),
        ("a <b> & c longest piece", "c longest piece"),
        ("one  two three", "two three"),
        ("first line\nsecond line here", "second line here"),
        ("gap ends... the gate, too", "the gate, too"),
        ("`gpu_memory_utilization` when", "`gpu_memory_utilization` when"),
    ],
)
def test_the_gate_is_the_longest_literal_that_no_encoder_changes(source: str, gate: str) -> None:
    assert compile_pattern(source).gate == gate


@given(st.text(min_size=6, max_size=40))
def test_a_gate_survives_json_and_html(text: str) -> None:
    import html
    import json

    if is_gate(text):
        assert json.dumps(text)[1:-1] == text == html.escape(text)


def test_a_text_without_the_gate_cannot_match() -> None:
    pattern = compile_pattern("KV cache is needed {n:int}")
    assert pattern.gate not in "KV  cache is needed 5"
    assert pattern.search("KV  cache is needed 5") is None


@pytest.mark.parametrize(
    ("source", "message", "position"),
    [
        ("short {n:int}", "no gate", 0),
        ("{n:int}", "no gate", 0),
        ("", "no gate", 0),
        ("...", "no gate", 0),
        ("'quote' of 'here'", "no gate", 0),
        ("tokens {n:integer} here", "unknown hole type 'integer'", 7),
        ("tokens {N:int} here", "hole name 'N'", 7),
        ("tokens {n} here", "`{` opens a hole", 7),
        ("tokens {n:int here", "`{` opens a hole", 7),
        ("tokens n:int} here", "a literal brace is written `}}`", 12),
        ("tokens {n:int} and {n:int} here", "appears twice", 19),
        ("tokens {a:text} and {b:text} here", "at most one `text`", 20),
        ("tokens {a:int}{b:int} here", "two holes need literal text", 14),
        ("tokens {a:word}... here", "leaves open where the hole ends", 15),
        ("tokens here ...{a:word}", "leaves open where the hole ends", 15),
        ("needed {n:size} GiB more", "a size hole reads its unit", 15),
        ("ran for {n:duration} milliseconds more", "a duration hole reads its unit", 20),
        ("usage at {n:percent}% now", "a percent hole reads its unit", 20),
    ],
)
def test_a_template_that_cannot_be_meant_is_refused_with_its_place(source: str, message: str, position: int) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_pattern(source, where="rule.yaml:3")
    assert message in str(caught.value)
    assert str(caught.value).startswith("rule.yaml:3: ")
    assert caught.value.position == position


class TestRegex:
    def test_groups_carry_their_type_in_their_name(self) -> None:
        pattern = compile_pattern(
            r"shapes (?P<left__word>\d+x\d+) and (?P<free__size>[\d.]+ [GM]iB)", regex=True, literal="shapes"
        )
        found = pattern.search("shapes 576x1024 and 2.00 GiB")
        assert found is not None
        assert found.captures == {"left": Quantity("576x1024", Kind.TEXT), "free": Quantity(2 * GIB, Kind.SIZE)}
        assert pattern.holes == ("left", "free")

    def test_a_group_that_took_no_part_is_unknown(self) -> None:
        found = compile_pattern(r"value(?: (?P<n__int>\d+))? missing", regex=True, literal="missing").search(
            "value missing"
        )
        assert found is not None
        assert found.captures == {"n": None}

    def test_only_near_its_literal(self) -> None:
        pattern = compile_pattern(r"rank (?P<n__int>\d+)", regex=True, literal="NCCL watchdog")
        assert pattern.search("rank 3") is None
        assert pattern.search("rank 3" + " " * 5000 + "NCCL watchdog") is None
        assert pattern.search("rank 3 of NCCL watchdog") is not None

    def test_running_into_the_time_limit_is_said_and_not_no_match(self) -> None:
        pattern = compile_pattern(r"(?:(?:a|aa)+b)+c", regex=True, literal="marker")
        with pytest.raises(PatternTimeout):
            pattern.search("marker " + "a" * 3000)

    @pytest.mark.parametrize(
        ("source", "literal", "message"),
        [
            ("abc", None, "must state its `literal:`"),
            ("abc", "abc", "cannot be a gate"),
            ("abc", 'with "quotes"', "cannot be a gate"),
            ("(abc", "literal", "not a regular expression"),
            (r"(?P<N>\d)", "literal", "group 'N'"),
            (r"(?P<n__number>\d)", "literal", "group 'n__number'"),
            (r"(?P<n__int>\d)(?P<n__size>\d)", "literal", "two types"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, source: str, literal: str | None, message: str) -> None:
        with pytest.raises(TemplateError, match=message.replace("(", r"\(").replace("`", "`")):
            compile_pattern(source, regex=True, literal=literal)

    def test_a_template_takes_no_literal(self) -> None:
        with pytest.raises(TemplateError, match="belongs to `regex:`"):
            compile_pattern("plain template", literal="plain")


class TestWindows:
    PATTERN = compile_pattern("begins ... the gate is here {n:int}")

    def test_the_gate_is_found_anywhere_in_a_long_text(self) -> None:
        text = "x" * 300_000 + " begins with the gate is here 7"
        found = self.PATTERN.search(text)
        assert found is not None
        assert found.captures["n"] == Quantity(7, Kind.INT)

    def test_a_later_occurrence_matches_where_the_first_does_not(self) -> None:
        text = "the gate is here" + " " * 10_000 + "begins and the gate is here 9"
        found = self.PATTERN.search(text)
        assert found is not None
        assert found.captures["n"] == Quantity(9, Kind.INT)

    def test_the_first_of_several_matches_wins(self) -> None:
        found = self.PATTERN.search("begins or the gate is here 1\n" + "-" * 9000 + "begins or the gate is here 2")
        assert found is not None
        assert found.captures["n"] == Quantity(1, Kind.INT)

    @given(
        st.lists(
            st.sampled_from(["the gate is here", " begins ", "the gate is here 5", "-" * 1000, "\n", "5"]), max_size=30
        )
    )
    @settings(max_examples=50)
    def test_windows_find_what_a_search_of_the_whole_text_finds(self, fragments: list[str]) -> None:
        text = "".join(fragments)
        found = self.PATTERN.search(text)
        assert (found and (found.start, found.end)) == slow_twin("begins ... the gate is here {n:int}", text)


def slow_twin(source: str, text: str) -> tuple[int, int] | None:
    """Span of a template by one expression with an atomic group for each gap, over the whole text."""
    head, *later = cut(template_parts(source))
    expression = head.expression + "".join(
        rf"(?>[^\n]{{{piece.least},{piece.limit}}}?{piece.expression})" for piece in later
    )
    found = regex.compile(expression).search(text)
    return found.span() if found else None


FRAGMENTS = ["gateway", "a", "b", " ", "  ", "\n", "12", "3.5 GiB", "13.9%", ".", ",", "x" * 150]


@given(
    st.lists(
        st.sampled_from(
            ["gateway", "a", "b", " ", "...", " ... ", "\n", "{x:int}", "{y:word}", "{z:text}", "{s:size}", ".", ","]
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.sampled_from(FRAGMENTS), max_size=25),
)
@settings(max_examples=400)
def test_searching_piece_by_piece_finds_what_one_expression_finds(source: list[str], fragments: list[str]) -> None:
    template, text = "gateway" + "".join(source), "gateway" + "".join(fragments)
    try:
        pattern = compile_pattern(template)
    except TemplateError:
        return
    found = pattern.search(text)
    expected = slow_twin(template, text) if pattern.gate in text else None  # the gate stands as it is, blanks too
    assert (found and (found.start, found.end)) == expected


HOSTILE = {
    "the first piece repeated": "aaaaaa" * 12_000 + "needle",
    "pieces in turn": "aaaaaa bbbbbb " * 5_000 + "needle",
    "digits": "aaaaaa " + "1" * 60_000 + "needle",
    "separators": "aaaaaa " + "1,111" * 12_000 + "needle",
    "gates only": "needle " * 10_000,
    "one long word": "needle" + "x" * 64_000,
    "blanks": "aaaaaa" + " " * 64_000 + "needle",
    "newlines": "aaaaaa\n" * 9_000 + "needle",
}
COSTLY = (
    "aaaaaa ... bbbbbb ... cccccc ... needle {n:int}",
    "{w:word} aaaaaa {v:word} bbbbbb {u:word} needle",
    "aaaaaa {x:word}a{y:word}b{z:word} needle",
    "{t:text} needle is never here",
    "aaaaaa {a:int} {b:int} {c:float} {d:size} needle",
    "aaaaaa...\n...bbbbbb...\n...needle {n:int}",
)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("source", COSTLY)
def test_hostile_text_costs_no_more_than_its_length(source: str, name: str) -> None:
    text = HOSTILE[name]
    began = time.process_time()
    compile_pattern(source).search(text)
    # The bound is structural (holes bounded, gaps atomic); an exponential or quadratic search would take minutes here.
    assert time.process_time() - began < 5


TYPES = st.sampled_from(["int", "float", "size", "percent", "duration", "word", "text", "GiB"])
SAMPLES = {
    "int": "65,536",
    "float": "0.95",
    "size": "2.00 GiB",
    "percent": "13.9%",
    "duration": "60 s",
    "word": "Qwen/Qwen2.5-VL",
    "text": "some words, and more",
    "GiB": "79.10",
}
LITERALS = st.sampled_from([" is needed by the model (", " [rank of it: ", " | ", "; ", " and then again = "])


@given(st.lists(st.tuples(TYPES, LITERALS), min_size=1, max_size=5))
def test_a_message_written_from_a_template_is_matched_by_it(pieces: list[tuple[str, str]]) -> None:
    seen_text = False
    source = text = "The beginning of it: "
    expected = 0
    for index, (type_, literal) in enumerate(pieces):
        if type_ == "text" and seen_text:
            continue
        seen_text = seen_text or type_ == "text"
        source += f"{{hole_{index}:{type_}}}{literal}"
        text += SAMPLES[type_] + literal
        expected += 1
    found = compile_pattern(source).search("INFO noise before\n" + text + "noise after")
    assert found is not None
    assert len(found.captures) == expected
    assert None not in found.captures.values()


@given(st.text(max_size=60))
def test_reading_a_template_raises_nothing_but_template_errors(source: str) -> None:
    try:
        pattern = compile_pattern(source)
    except TemplateError:
        return
    pattern.search(source)


@given(st.text(alphabet="{}:.int size\n'abc", max_size=40))
def test_reading_what_nearly_is_a_template_raises_nothing_but_template_errors(source: str) -> None:
    try:
        pattern = compile_pattern("literal text " + source)
    except TemplateError:
        return
    assert pattern.gate in pattern.source.replace("{{", "{").replace("}}", "}").replace("{...}", "...")
    pattern.search("literal text " + source)


def test_a_literal_template_matches_wherever_its_gate_stands(shipped):
    """Time rules take the gate for the match there."""
    patterns = {p for s in shipped.book.signatures for p in s.patterns if p.is_literal}
    assert len(patterns) > 100
    for pattern in patterns:
        for text in (pattern.gate, f"x{pattern.gate}y", f"3 {pattern.gate} 4", f"first\n{pattern.gate}\nlast"):
            assert pattern.search(text) is not None, (pattern.source, text)

"""Conditions and texts of rules: the unknown stays unknown, kinds keep their meaning, nothing outside the list gets in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlogdiag.signatures.expr import FUNCTIONS, ExprError, parse_expr, parse_text
from vlogdiag.signatures.names import LIVE_ROOTS, NAMES, ROOTS, is_argument, names_for
from vlogdiag.values import GIB, Kind, Quantity, format_quantity, quantity_of


@dataclass
class FakeScope:
    """A scope that answers from tables."""

    values: Mapping[str, Quantity | None] = field(default_factory=dict)
    lists: Mapping[str, Sequence[Quantity]] = field(default_factory=dict)
    versions: Mapping[str, bool | None] = field(default_factory=dict)
    frames: str = ""
    text: str = ""

    def lookup(self, name: str) -> Quantity | None:
        return self.values.get(name)

    def vllm_in(self, spec: str) -> bool | None:
        return self.versions.get(spec)

    def in_frames(self, fragment: str) -> bool:
        return fragment in self.frames

    def in_text(self, fragment: str) -> bool:
        return fragment in self.text

    def series(self, name: str) -> Sequence[Quantity]:
        return self.lists.get(name, ())


def size(gib: float) -> Quantity:
    return Quantity(round(gib * GIB), Kind.SIZE)


SCOPE = FakeScope(
    values={
        "wanted": Quantity(131072, Kind.INT),
        "needed": size(16),
        "available": size(9.83),
        "ran": Quantity(600.0, Kind.DURATION),
        "usage": Quantity(0.95, Kind.PERCENT),
        "ratio": Quantity(0.25, Kind.FLOAT),
        "name": Quantity("Qwen/Qwen3-VL-8B", Kind.TEXT),
        "zero": Quantity(0, Kind.INT),
        "huge": Quantity(10**40, Kind.INT),
        "args.gpu_memory_utilization": Quantity(0.9, Kind.FLOAT),
        "args.enforce_eager": Quantity(True, Kind.BOOL),
        "args.dtype": Quantity("auto", Kind.TEXT),
        "card.total": size(79.1),
        "log.device": Quantity("cuda", Kind.TEXT),
    },
    lists={"used": [Quantity(n, Kind.INT) for n in (3, 1, 5)], "sizes": [size(1), size(3)]},
    versions={">=0.11": True, "<0.11": False},
    frames="vllm/model_executor/models/qwen3_vl.py visual",
    text="CUDA out of memory",
)
HOLES = (
    "wanted",
    "needed",
    "available",
    "ran",
    "usage",
    "ratio",
    "name",
    "zero",
    "huge",
    "used",
    "sizes",
    "none",
    "missing",
)
KNOWN = names_for(HOLES)


def value(source: str, scope: FakeScope = SCOPE) -> object:
    found = parse_expr(source, names=KNOWN).evaluate(scope)
    return None if found is None else found.value


def kind(source: str) -> Kind | None:
    found = parse_expr(source, names=KNOWN).evaluate(SCOPE)
    return None if found is None else found.kind


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("7 / 2", 3.5),
        ("-wanted", -131072),
        ("wanted - 131072", 0),
        ("2 < 3 < 4", True),
        ("2 < 3 > 4", False),
        ("1 == 1.0", True),
        ("1 != 2", True),
        ("not 1 > 2", True),
        ("1 > 2 or 2 > 1", True),
        ("1 > 2 and 2 > 1", False),
        ("true and not false", True),
        ("True", True),
        ("args.enforce_eager", True),
        ("args.enforce_eager == true", True),
        ("args.dtype == 'auto'", True),
        ("'Qwen' in name", True),
        ("'qwen' in name", False),
        ("'qwen' in lower(name)", True),
        ("'llama' not in lower(name)", True),
        ("log.device in ('cuda', 'rocm')", True),
        ("log.device not in ('cpu', 'xpu')", True),
        ("wanted in (8, 131072)", True),
        ("known(wanted)", True),
        ("known(missing)", False),
        ("known(missing + 1)", False),
        ("vllm_in('>=0.11')", True),
        ("vllm_in('<0.11')", False),
        ("in_frames('visual')", True),
        ("in_frames('audio')", False),
        ("in_text('out of memory')", True),
        ("min(3, 1, 2)", 1),
        ("max(needed, available) == needed", True),
        ("abs(-3)", 3),
        ("round(2.6)", 3),
        ("round(2.345, 1)", 2.3),
        ("floor(2.9)", 2),
        ("ceil(2.1)", 3),
        ("round_up(0.9412, 0.01)", 0.95),
        ("round_up(0.95, 0.01)", 0.95),
        ("round_up(0.29, 0.01)", 0.29),
        ("round_down(0.9488, 0.01)", 0.94),
        ("round_down(wanted, 1000)", 131000),
        ("round_up(5, 16)", 16),
        ("first(used)", 3),
        ("last(used)", 5),
        ("lowest(used)", 1),
        ("highest(used)", 5),
        ("mean(used)", 3),
        ("sum(used)", 9),
        ("delta(used)", 2),
        ("count(used)", 3),
        ("span(used)", 4),
        ("count(none)", 0),
        ("wanted > 1 and\n  wanted < 200000", True),
    ],
)
def test_conditions_mean_what_they_say(source: str, expected: object) -> None:
    assert value(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("4GiB", Quantity(4 * GIB, Kind.SIZE)),
        ("4 GiB", Quantity(4 * GIB, Kind.SIZE)),
        ("1.5GB", Quantity(3 * GIB // 2, Kind.SIZE)),
        ("60s", Quantity(60.0, Kind.DURATION)),
        ("10 min", Quantity(600.0, Kind.DURATION)),
        ("250 ms", Quantity(0.25, Kind.DURATION)),
        ("2h", Quantity(7200.0, Kind.DURATION)),
        ("5%", Quantity(0.05, Kind.PERCENT)),
        ("13.9%", Quantity(0.139, Kind.PERCENT)),
        ("usage > 95 % and true", Quantity(False, Kind.BOOL)),
        ("usage >= 95%", Quantity(True, Kind.BOOL)),
        ("(5%)", Quantity(0.05, Kind.PERCENT)),
        ("5% * 2", Quantity(0.1, Kind.FLOAT)),
        ("wanted % 5", Quantity(2, Kind.INT)),
        ("7%4", Quantity(3, Kind.INT)),
        ("7 % wanted", Quantity(7, Kind.INT)),
        ("'4GiB' in name", Quantity(False, Kind.BOOL)),
    ],
)
def test_numbers_carry_units(source: str, expected: Quantity) -> None:
    assert parse_expr(source, names=KNOWN).evaluate(SCOPE) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("needed - available", Kind.SIZE),
        ("needed + 5", Kind.SIZE),
        ("2 * needed", Kind.SIZE),
        ("needed * usage", Kind.SIZE),
        ("needed / 2", Kind.SIZE),
        ("needed // 2", Kind.SIZE),
        ("needed / available", Kind.FLOAT),
        ("needed // available", Kind.INT),
        ("wanted * available / needed", Kind.FLOAT),
        ("ran + 60s", Kind.DURATION),
        ("ran / 60s", Kind.FLOAT),
        ("wanted / needed", Kind.FLOAT),
        ("wanted * 2", Kind.INT),
        ("wanted / 2", Kind.FLOAT),
        ("usage - 5%", Kind.PERCENT),
        ("1 - usage", Kind.FLOAT),
        ("-needed", Kind.SIZE),
        ("abs(needed)", Kind.SIZE),
        ("round_up(needed, 1GiB)", Kind.SIZE),
        ("round_up(ratio, 1)", Kind.INT),
        ("round_up(usage, 0.01)", Kind.PERCENT),
        ("floor(ran)", Kind.DURATION),
        ("floor(ratio)", Kind.INT),
        ("max(wanted, ratio)", Kind.FLOAT),
        ("mean(sizes)", Kind.SIZE),
    ],
)
def test_kinds_survive_arithmetic(source: str, expected: Kind) -> None:
    assert kind(source) is expected


@pytest.mark.parametrize(
    "source",
    [
        "missing",
        "missing + 1",
        "-missing",
        "missing > 3",
        "missing == missing",
        "not missing",
        "missing in name",
        "'x' in missing",
        "lower(missing)",
        "lower(wanted)",
        "1 / zero",
        "1 // zero",
        "1 % zero",
        "needed / zero",
        "huge * huge * huge * huge * huge * huge * huge * huge",
        "needed + ran",
        "needed > ran",
        "needed * available",
        "needed + usage",
        "name + 1",
        "-name",
        "name > 3",
        "name == 3",
        "args.enforce_eager == 1",
        "args.enforce_eager + 1",
        "min(1, missing)",
        "max(needed, ran)",
        "abs(name)",
        "round_up(1, zero)",
        "round_up(1, -1)",
        "round_up(missing, 1)",
        "round_up(needed, 1s)",
        "mean(none)",
        "lowest(none)",
        "vllm_in('>=0.30')",
        "3 in name",
    ],
)
def test_what_cannot_be_known_is_unknown(source: str) -> None:
    assert value(source) is None


THREE: tuple[bool | None, ...] = (True, False, None)
TRUTHS = {True: "true", False: "false", None: "missing"}


@pytest.mark.parametrize(("left", "right"), list(itertools.product(THREE, THREE)))
def test_and_or_follow_kleene(left: bool | None, right: bool | None) -> None:
    both, either = value(f"{TRUTHS[left]} and {TRUTHS[right]}"), value(f"{TRUTHS[left]} or {TRUTHS[right]}")
    assert both is (False if False in (left, right) else None if None in (left, right) else True)
    assert either is (True if True in (left, right) else None if None in (left, right) else False)


def test_a_chain_is_false_as_soon_as_one_link_is() -> None:
    assert value("3 < 2 < missing") is False
    assert value("1 < 2 < missing") is None


def logical(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["a", "b", "c", "true", "false", "x > 1", "x == y"])
    if depth == 0:
        return leaf
    inner = logical(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda s: f"(not {s})"),
    )


PLAIN = ("a", "b", "c", "x", "y")
ASSIGNMENTS = st.fixed_dictionaries(
    {
        "a": st.sampled_from(THREE),
        "b": st.sampled_from(THREE),
        "c": st.sampled_from(THREE),
        "x": st.sampled_from([0, 1, 2, None]),
        "y": st.sampled_from([0, 1, 2, None]),
    }
)


def truth(source: str, values: Mapping[str, object]) -> bool | None:
    scope = FakeScope({name: quantity_of(each) for name, each in values.items()})
    return parse_expr(source, names=names_for(PLAIN)).truth(scope)


@given(logical(2), logical(2), ASSIGNMENTS)
def test_de_morgan_holds_with_unknowns(left: str, right: str, values: Mapping[str, object]) -> None:
    assert truth(f"not ({left} and {right})", values) is truth(f"(not {left}) or (not {right})", values)
    assert truth(f"not not ({left})", values) is truth(left, values)


@given(logical(3), ASSIGNMENTS)
def test_what_is_decided_in_spite_of_unknowns_stays_so_when_they_become_known(
    source: str, values: Mapping[str, object]
) -> None:
    # A rule that fired with half the facts must fire with all of them: known answers never flip.
    decided = truth(source, values)
    if decided is None:
        return
    unknown = [name for name, each in values.items() if each is None]
    options = [(True, False) if name in "abc" else (0, 1, 2) for name in unknown]
    for filling in itertools.product(*options):
        assert truth(source, {**values, **dict(zip(unknown, filling, strict=True))}) is decided


@given(st.floats(0, 1e6, allow_nan=False), st.sampled_from([0.01, 0.05, 0.5, 1, 16, 256]))
def test_round_up_is_the_next_multiple(number: float, step: float) -> None:
    scope = FakeScope({"x": Quantity(number, Kind.FLOAT), "y": quantity_of(step)})
    up = parse_expr("round_up(x, y)", names=names_for(PLAIN)).evaluate(scope).number
    down = parse_expr("round_down(x, y)", names=names_for(PLAIN)).evaluate(scope).number
    assert up is not None
    assert down is not None
    noise = 1e-6 * max(1.0, number)
    assert number - noise <= up < number + step + noise
    assert number - step - noise < down <= number + noise
    assert math.isclose(up / step, round(up / step), abs_tol=1e-6)
    assert len(str(up)) <= 12


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "empty"),
        ("1 +", "not an expression"),
        ("(" * 300, "longer than 200"),
        ("(" * 150 + "1" + ")" * 40, "not an expression"),
        ("-" * 60 + "1", "nested deeper"),
        ("1 + " * 60 + "1", "longer than 200"),
        ("wnated > 1", "unknown name 'wnated'"),
        ("args > 1", "unknown name 'args'"),
        ("args.x.y > 1", "unknown name 'args.x.y'"),
        ("log.nothing > 1", "unknown name 'log.nothing'"),
        ("gpu.used > 1", "unknown name 'gpu.used'"),
        ("metrics.waiting > 1", "unknown name 'metrics.waiting'"),
        ("wanted.real", "unknown name 'wanted.real'"),
        ("name.upper()", "only these can be called"),
        ("__import__('os')", "only these can be called"),
        ("eval('1')", "only these can be called"),
        ("(1).real", "a dot follows names only"),
        ("name[0]", "Subscript is not allowed"),
        ("2 ** 3", "operator Pow"),
        ("2 @ 3", "operator MatMult"),
        ("~1", "operator Invert"),
        ("1 << 9", "operator LShift"),
        ("1 if true else 2", "IfExp is not allowed"),
        ("[x for x in name]", "ListComp is not allowed"),
        ("lambda: 1", "Lambda is not allowed"),
        ("(wanted := 1)", "NamedExpr is not allowed"),
        ("f'{wanted}'", "JoinedStr is not allowed"),
        ("{1: 2}", "Dict is not allowed"),
        ("(1, 2)", "Tuple is not allowed"),
        ("None", "None is not allowed"),
        ("b'x' == name", "is not allowed"),
        ("1j", "is not allowed"),
        ("...", "is not allowed"),
        ("'text'", "text stands only beside"),
        ("'a' + 'b'", "text stands only beside"),
        ("'a' < name", "text stands only beside"),
        ("name is 'a'", "operator Is"),
        ("min(1)", "takes 2 to 20 arguments"),
        ("round_up(1)", "takes 2 arguments"),
        ("known()", "takes 1 arguments"),
        ("known(*used)", "plain arguments"),
        ("min(a=1, b=2)", "plain arguments"),
        ("first(1)", "a dot follows names only"),
        ("first(nothing)", "unknown name 'nothing'"),
        ("vllm_in(name)", "one text in quotes"),
        ("vllm_in('newer')", "no PEP 440 specifier"),
        ("in_text('')", "one text in quotes"),
        ("_0 + 4GiB", "names do not begin with _"),
        ("__class__", "unknown name"),
        ("1e999", "is not allowed"),
        ("1e999GiB", "out of range"),
    ],
)
def test_what_is_not_on_the_list_is_refused(source: str, message: str) -> None:
    with pytest.raises(ExprError) as caught:
        parse_expr(source, names=KNOWN, where="rule.yaml:7")
    assert message in str(caught.value)
    assert str(caught.value).startswith("rule.yaml:7: ")


def test_an_expression_knows_the_names_it_reads() -> None:
    expr = parse_expr("known(wanted) and lowest(used) > args.max_num_seqs * 4GiB / card.total", names=KNOWN)
    assert expr.names == {"wanted", "used", "args.max_num_seqs", "card.total"}


class TestNames:
    def test_readings_are_refused_where_existence_is_decided(self) -> None:
        for root in LIVE_ROOTS:
            some = next(name for name in NAMES if name.startswith(root + "."))
            assert not names_for(())(some)
            assert names_for((), live=True)(some)

    def test_every_name_has_a_root_a_kind_and_a_meaning(self) -> None:
        for name, entry in NAMES.items():
            assert name.split(".")[0] in ROOTS
            assert isinstance(entry.kind, Kind)
            assert len(entry.meaning) > 2

    def test_any_argument_may_be_named(self) -> None:
        assert is_argument("args.max_model_len")
        assert not is_argument("args.")
        assert not is_argument("args.max-model-len")
        assert not is_argument("log.model")

    def test_readings_have_the_field_names_of_the_model(self) -> None:
        import msgspec

        from vlogdiag.model import Gpu, HostState, ServerMetrics

        for type_, root in ((Gpu, "gpu"), (ServerMetrics, "metrics"), (HostState, "host")):
            for each in msgspec.structs.fields(type_):
                listing = str(each.type).startswith("tuple") and each.name != "throttle"
                assert listing or each.name in ("uuid", "bus_id") or f"{root}.{each.name}" in NAMES, each.name


class TestText:
    def render(self, source: str, *, raw: bool = False, scope: FakeScope = SCOPE) -> str | None:
        return parse_text(source, names=KNOWN).render(scope, raw=raw)

    def test_people_read_units(self) -> None:
        assert self.render("{wanted} tokens need {needed} of KV cache; {available} is left.") == (
            "131072 tokens need 16.00 GiB of KV cache; 9.83 GiB is left."
        )

    def test_flags_get_plain_numbers(self) -> None:
        source = "{round_up(args.gpu_memory_utilization + (needed - available) / card.total, 0.01)}"
        assert self.render(source, raw=True) == "0.98"
        assert self.render("{needed}", raw=True) == "17179869184"
        assert self.render("{args.enforce_eager}", raw=True) == "true"

    def test_a_hole_can_fix_its_form(self) -> None:
        assert self.render("{needed:raw} is {needed:h}") == "17179869184 is 16.00 GiB"
        assert self.render("{needed:h} is {needed}", raw=True) == "16.00 GiB is 17179869184"

    def test_an_unknown_hole_makes_the_text_unknown(self) -> None:
        assert self.render("{missing} of {needed}") is None

    def test_an_optional_part_is_left_out_when_unknown(self) -> None:
        source = "The cache is too small[[, {missing} tokens fit]][[ of {wanted}]]."
        assert self.render(source) == "The cache is too small of 131072."

    def test_braces_are_written_twice(self) -> None:
        assert self.render('{{"image": {zero}}}', raw=True) == '{"image": 0}'

    def test_a_brace_or_colon_in_quotes_belongs_to_the_expression(self) -> None:
        assert self.render("{in_text('a}: b')}") == "false"

    def test_single_brackets_are_plain(self) -> None:
        assert self.render("shape [{wanted}, 4096]") == "shape [131072, 4096]"
        assert self.render("a]] b") == "a]] b"

    def test_a_text_without_holes_is_itself(self) -> None:
        text = parse_text("nothing to fill in", names=KNOWN)
        assert text.render(SCOPE) == "nothing to fill in"
        assert text.names == frozenset()

    def test_a_text_knows_the_names_it_reads(self) -> None:
        assert parse_text("{wanted}[[ of {card.total}]]", names=KNOWN).names == {"wanted", "card.total"}

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("{wanted", "is not closed"),
            ("wanted}", "a literal brace is written `}}`"),
            ("{}", "empty expression"),
            ("{nope}", "unknown name 'nope'"),
            ("[[ {wanted}", "`[[` is not closed"),
            ("[[ {wanted} [[ {wanted} ]] ]]", "`[[` inside `[[`"),
            ("[[ nothing ]]", "without a hole"),
            ("{wanted:x}", "not an expression"),
        ],
    )
    def test_a_text_that_cannot_be_meant_is_refused(self, source: str, message: str) -> None:
        with pytest.raises(ExprError) as caught:
            parse_text(source, names=KNOWN, where="rule")
        assert message in str(caught.value)


WORDS = st.sampled_from(
    [
        *HOLES,
        *FUNCTIONS,
        "args.x",
        "card.total",
        "(",
        ")",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "<",
        "==",
        "in",
        "not",
        "and",
        "or",
        ",",
        "'x'",
        "4GiB",
        "60 s",
        "5%",
        "3",
        "0",
        "0.5",
        "[",
        "]",
        "{",
        "}",
        ":raw",
        ".",
        "if",
        "else",
        "[[",
        "]]",
    ]
)
SOURCES = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=14).map(" ".join))


@given(SOURCES)
@settings(max_examples=500)
def test_no_source_does_anything_but_give_a_value_or_an_expr_error(source: str) -> None:
    for parse in (parse_expr, parse_text):
        try:
            parsed = parse(source, names=KNOWN)
        except ExprError:
            continue
        if hasattr(parsed, "evaluate"):
            found = parsed.evaluate(SCOPE)
            assert found is None or isinstance(format_quantity(found), str)
        else:
            assert isinstance(parsed.render(SCOPE), str | None)


NUMBER_KINDS = st.sampled_from([Kind.INT, Kind.FLOAT, Kind.SIZE, Kind.PERCENT, Kind.DURATION])
QUANTITIES = st.one_of(
    st.none(),
    st.tuples(st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False), NUMBER_KINDS).map(
        lambda t: Quantity(*t)
    ),
    st.text(max_size=5).map(lambda t: Quantity(t, Kind.TEXT)),
    st.booleans().map(lambda t: Quantity(t, Kind.BOOL)),
)
SHAPES = st.sampled_from(
    [f"x {sign} y" for sign in ("+", "-", "*", "/", "//", "%", "<", ">=", "==", "!=", "in")]
    + [f"{name}(x)" for name in ("abs", "round", "floor", "ceil", "known", "lower", "mean", "sum", "span")]
    + [
        "round_up(x, y)",
        "round_down(x, y)",
        "min(x, y)",
        "max(x, y)",
        "round(x, y)",
        "-x",
        "not x",
        "x * y * x / y - x",
    ]
    + ["min(x, y) * x // max(x, y) % y"]
)


@given(SHAPES, QUANTITIES, QUANTITIES)
@settings(max_examples=800)
def test_no_value_makes_evaluation_raise_or_gives_nan(source: str, x: Quantity | None, y: Quantity | None) -> None:
    scope = FakeScope({"x": x, "y": y}, lists={"x": [each for each in (x, y) if each]})
    found = parse_expr(source, names=names_for(PLAIN)).evaluate(scope)
    if found is not None:
        assert not isinstance(found.value, float) or math.isfinite(found.value)
        format_quantity(found)

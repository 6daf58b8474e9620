"""Nothing that a log says can steer a terminal, a Markdown page or a build server."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_samples import ATTACK, UNHURRIED
from rich.text import Text

from vlogdiag.report.safe import markdown_code, markdown_fence, markdown_inline, markup, plain, workflow

ANYTHING = st.text(alphabet=st.characters(), max_size=60) | st.lists(
    st.sampled_from(
        ["::", "error", "##", "vso[", "[", "`", "|", "<", "&", "\\", "#", "@me", "\n", " ", "1.", "-", "*", "_"]
    ),
    max_size=12,
).map("".join)


@pytest.mark.parametrize(
    ("hazard", "text", "shown"),
    [
        ("escape sequence", "\x1b[31mred", r"\x1b[31mred"),
        ("C1 control, one byte in old terminals", "\x9b31m", r"\x9b31m"),
        ("bell and backspace", "a\x07\x08", r"a\x07\x08"),
        ("carriage return overwrites the line", "good\rbad", r"good\x0dbad"),
        ("bidi override turns text round", "a\u202eb", r"a\u202eb"),
        ("bidi isolate", "\u2066a\u2069", r"\u2066a\u2069"),
        ("zero width hides a difference", "ad\u200bmin", r"ad\u200bmin"),
        ("soft hyphen", "ad\u00admin", r"ad\xadmin"),
        ("byte order mark", "\ufeffa", r"\ufeffa"),
        ("letter drawn as nothing", "a\u3164b", r"a\u3164b"),
        ("tag characters spell hidden words", "a\U000e0041", r"a\U000e0041"),
        ("line separator", "a\u2028b", r"a\u2028b"),
        ("half a character", "a\ud800b", r"a\ud800b"),
        ("nul and delete", "\x00\x7f", r"\x00\x7f"),
        ("line break", "a\nb\r\nc\n", "a b c"),
        ("tab and no-break space", "a\tb\u00a0c", "a b c"),
        ("marks piled on one letter", "e" + "\u0301" * 6, "e" + "\u0301" * 4 + r"\u0301\u0301"),
        ("emoji that asks for colour", "\u26a0\ufe0f", "\u26a0"),
        ("GitHub command", "::error file=a::b", r"\::error file=a::b"),
        ("GitHub command behind blanks", "  ::set-env name=a::b", r"  \::set-env name=a::b"),
        ("Azure command within a line", "x ##vso[task.complete]", r"x #\#vso[task.complete]"),
        ("Azure log command", "##[error]x", r"#\#[error]x"),
        ("innocent C++ name", "what(): c10::Error at ## x", "what(): c10::Error at ## x"),
        ("innocent words", "KV-Cache 9,83 GiB — 中文 ✓", "KV-Cache 9,83 GiB — 中文 ✓"),
    ],
)
def test_plain_shows_each_hazard_as_text(hazard: str, text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"), [("… × ≥ °", "... x >=  deg "), ("中", r"\u4e2d"), ("😀", r"\U0001f600"), ("plain", "plain")]
)
def test_plain_for_a_terminal_without_unicode_is_ascii(text: str, shown: str) -> None:
    assert plain(text, ascii_only=True) == shown


def test_plain_is_bounded_also_where_escapes_make_text_longer() -> None:
    assert len(plain("x" * 5_000_000)) == 1000
    assert len(plain("\x1b" * 5000, cap=100)) == 100
    assert plain("x" * 101, cap=100).endswith("x…")


@UNHURRIED
@given(ANYTHING, st.booleans())
@example(ATTACK, True)
def test_plain_never_holds_a_control_character_or_a_command(text: str, ascii_only: bool) -> None:
    shown = plain(text, ascii_only=ascii_only)
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not re.search(r"##\w*\[", shown)
    assert not re.search(r"(?:^|\s)::", shown)
    assert shown.isascii() or not ascii_only


def test_workflow_leaves_a_line_without_commands_alone() -> None:
    assert workflow("a :: b") == r"a \:: b"
    assert workflow("std::vector ## heading") == "std::vector ## heading"


def test_markup_in_a_log_is_text_for_rich() -> None:
    shown = markup("[red]x[/red] [link=https://evil.example]y[/link] :boom:", "bold")
    assert shown == Text("[red]x[/red] [link=https://evil.example]y[/link] :boom:", style="bold")
    assert not shown.spans


def rendered(markdown: str) -> str:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown)


def words_of(page: str) -> str:
    """The text that a reader sees: comments and tags gone, entities read, blanks folded."""
    bare = re.sub(r"<[^>]*>", "", page.replace("<!-- -->", ""))
    return " ".join(html.unescape(bare).split())


@UNHURRIED
@given(ANYTHING)
@example(ATTACK)
@example("1. item")
@example("# heading")
@example("- item")
@example("===")
@example("&lt;b&gt; &#64;")
@example("![a](https://evil.example/p.png) <img src=x> <https://evil.example>")
def test_markdown_inline_reads_as_the_text_and_nothing_else(text: str) -> None:
    page = rendered(markdown_inline(text))
    assert words_of(page) == " ".join(plain(text).split())
    assert set(re.findall(r"<(\w+)", page)) <= {"p"}


@UNHURRIED
@given(ANYTHING)
@example(ATTACK)
def test_markdown_inline_holds_in_a_table_cell_and_a_heading(text: str) -> None:
    marked = markdown_inline(text)
    table = rendered(f"| a | b |\n|---|---|\n| {marked} | end |")
    assert set(re.findall(r"<(\w+)", table)) <= {"table", "thead", "tbody", "tr", "th", "td"}
    assert words_of(table) == " ".join(f"a b {plain(text)} end".split())
    assert words_of(rendered(f"## x {marked} x")) == " ".join(f"x {plain(text)} x".split())


@pytest.mark.parametrize(
    "text", ["@everyone", "a@b.example", "#1", "org/repo#12", "GH-7", "https://x.example", "www.x.example"]
)
def test_markdown_inline_breaks_what_github_links_by_itself(text: str) -> None:
    assert "<!-- -->" in markdown_inline(text)


@UNHURRIED
@given(ANYTHING)
@example("`")
@example("``` x")
@example(" ")
def test_markdown_code_is_one_code_span(text: str) -> None:
    page = rendered(f"a {markdown_code(text)} b")
    if plain(text).strip():
        assert re.fullmatch(r"<p>a <code>(.*)</code> b</p>\n", page)
        assert " ".join(words_of(page).split()) == " ".join(f"a {plain(text)} b".split())


def test_markdown_code_in_a_table_keeps_its_bar() -> None:
    page = rendered(f"| a |\n|---|\n| {markdown_code('x|y', cell=True)} |")
    assert "<code>x|y</code>" in page


@UNHURRIED
@given(st.lists(ANYTHING, min_size=1, max_size=4).map("\n".join))
@example("```\n````\n</code>")
def test_markdown_fence_cannot_be_closed_from_inside(text: str) -> None:
    page = rendered(markdown_fence(text) + "\n\nafter")
    body = "\n".join(plain(line, wrapped=False) for line in text.split("\n"))
    assert page == f'<pre><code class="language-text">{html.escape(body)}\n</code></pre>\n<p>after</p>\n'.replace(
        "&#x27;", "'"
    )

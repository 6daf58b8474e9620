"""The page that goes into an issue: whole where it matters, and harmless whatever a log holds."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace
from report_samples import ALL, ATTACK, HEALTHY, KV, KV_FINDING, OOM, SEVERAL, UNHURRIED, hostile

from vlogdiag.model import Fix, Report
from vlogdiag.report.markdown import render
from vlogdiag.report.safe import plain

KV_PAGE = """\
### `vllm.log`: died 15:05:58 while profiling memory: KV cache room, 2 changes to try

vLLM 0.11.0 · Qwen/Qwen3-VL-8B-Instruct · 90 lines

#### ✗ The KV cache cannot hold one request of the configured length

`kv-cache-too-small` · error, fatal · 04-03 15:05:56 · seen twice

131072 tokens need 16.00 GiB of KV cache; 9.83 GiB is left.

```text
61: ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, \
which is larger than the available KV cache memory (9.83 GiB). Based on the available memory, the estimated maximum \
model length is 80512. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
40: Available KV cache memory: 9.83 GiB
assumed: --gpu-memory-utilization 0.9 (default of 0.11.0)
```

Then: Engine core initialization failed (line 88), API server shut down (line 90).

1. **Serve the longest context that fits** (longer prompts are refused)

   ```sh
   --max-model-len 80512
   ```

2. **Keep the KV cache in 8 bits** (slightly different answers)

   ```sh
   --kv-cache-dtype fp8
   ```

3. **Give vLLM more of the GPU** (less is left for other processes)

   Check first: how much memory do other processes hold? (nvidia-smi)

   ```sh
   --gpu-memory-utilization 0.95
   ```

- <https://docs.vllm.ai/en/v0.11.0/configuration/conserving_memory.html>
"""


def page_of(report: Report) -> str:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(render(report))


def test_the_page_of_a_failed_start() -> None:
    assert render(KV) == KV_PAGE


def test_a_healthy_log_is_two_lines() -> None:
    assert (
        render(HEALTHY)
        == "### `vllm.log`: nothing found: served until 12:00:01\n\nvLLM 0.19.0 · Qwen/Qwen3-8B · 812 lines\n"
    )


def test_several_logs_are_a_table() -> None:
    page = page_of(SEVERAL)
    assert page.count("<tr>") == 1 + 5
    assert "<code>logs/pod-2.log</code></td>\n<td>died 13:02:11 while serving" in page
    assert "in <code>logs/pod-1.log</code>, <code>logs/pod-2.log</code>" in page


def test_all_fixes_form_one_list_with_their_commands_inside() -> None:
    page = page_of(OOM)
    assert page.count("<ol>") == 1
    assert page.count("<li>") == 5 + 2
    assert (
        'class="language-sh">export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\nunset VLLM_USE_V1\n</code>'
        in page
    )


def test_a_command_of_several_lines_stays_in_its_list_item() -> None:
    fix = Fix("t", run="a <<EOF\n\n  b\nEOF")
    page = page_of(replace(KV, findings=(replace(KV_FINDING, fixes=(fix, fix)),)))
    assert page.count("<ol>") == 1
    assert page.count("a &lt;&lt;EOF\n\n  b\nEOF\n</code>") == 2


@pytest.mark.parametrize("name", ALL)
def test_only_vlogdiags_own_markup_is_on_the_page(name: str) -> None:
    tags = set(re.findall(r"<(\w+)", page_of(ALL[name])))
    own = {"h3", "h4", "p", "code", "pre", "ol", "ul", "li", "strong", "a", "table", "thead", "tbody", "tr", "th", "td"}
    assert tags <= own | {"blockquote"}
    links = re.findall(r'<a href="([^"]*)"', page_of(ALL[name]))
    assert all(link in {*KV_FINDING.references, *OOM.findings[0].references} for link in links)


@UNHURRIED
@given(
    st.text(alphabet=st.characters(), max_size=60)
    | st.lists(
        st.sampled_from(["```", "\n", "1. ", "- ", "# ", "> ", "|", "<b>", "    ", "https://e.example", "::x::"])
    ).map("".join)
)
@example(ATTACK)
@example("```\n# heading\n<script>")
@example("https://user@evil.example/(x)")
def test_no_text_in_any_field_breaks_out_of_its_place(text: str) -> None:
    assume(plain(text).strip())
    source = render(hostile(text))
    assert not {c for c in source if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n"}
    assert not re.search(r"(?m)##\w*\[|^\s*::\w", source)
    page = page_of(hostile(text))
    counts = {tag: page.count(f"<{tag}>") for tag in ("h3", "h4", "ol", "ul", "li", "pre", "blockquote")}
    assert counts == {"h3": 1, "h4": 2, "ol": 1, "ul": 1, "li": 2, "pre": 3, "blockquote": 1}
    others = set(re.findall(r"<(\w+)", page)) - set(counts)
    assert others <= {"p", "code", "strong", "a"}
    assert page.count("<a ") <= 1

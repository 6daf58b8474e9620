"""Words, options and printed commands: what is read out of a command and put back."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlogdiag.catalog import Versions
from vlogdiag.launch import (
    Edits,
    apply,
    args_to_edits,
    command_from_args,
    find_commands,
    format_command,
    parse_args,
    rewrite_argv,
    the_command,
    unified_diff,
)
from vlogdiag.launch.inset import double_quoted, json_string, spell
from vlogdiag.launch.quoting import quote_plainly, quote_word, split, unquote
from vlogdiag.launch.secrets import mask_text, secret_values
from vlogdiag.launch.yaml_text import documents, scalar

V = Versions.exact

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=30)


@given(TEXT)
def test_a_quoted_word_is_read_back(word: str) -> None:
    assert shlex.split(quote_word(word)) == [word]
    assert unquote(quote_word(word)).text == word
    assert unquote(quote_word(word)).literal


@given(TEXT)
def test_a_plainly_quoted_word_is_read_back_by_units_and_shlex(word: str) -> None:
    assert shlex.split(quote_plainly(word)) == [word]
    assert unquote(quote_plainly(word).replace("$", "x"), unit=True).text == word.replace("$", "x")


@given(st.text("ab '\"\\\t", max_size=20))
def test_split_agrees_with_shlex(text: str) -> None:
    try:
        expected = shlex.split(text)
    except ValueError:
        return
    assert [unquote(text[a:b]).text for a, b in split(text)] == expected


@given(TEXT, st.sampled_from(["shell double quotes", "json string"]))
def test_what_is_spelled_inside_quotes_is_read_back_from_there(text: str, layer: str) -> None:
    pieces = (double_quoted if layer.startswith("shell") else json_string)(spell(text, (layer,)))
    assert "".join(char for char, _, _ in pieces) == text


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab#:'\" \\-", max_size=8).map(str.strip).filter(bool), min_size=1, max_size=4),
    st.sampled_from(["|", "|-", ">", ">-", ">+"]),
    st.lists(st.sampled_from(["", " ", "\n"]), min_size=4, max_size=4),
)
def test_every_character_of_a_yaml_block_keeps_its_place(lines: list[str], style: str, leads: list[str]) -> None:
    body = "".join(
        f"{lead if lead == chr(10) and k else ''}    {'' if k == 0 else lead.strip(chr(10))}{line}\n"
        for k, (line, lead) in enumerate(zip(lines, leads, strict=False))
    )
    text = f"a: {style}\n{body}b: 1\n"
    node = documents(text)[0].value[0][1]
    inset = scalar(text, node)
    assert inset.text.rstrip("\n") == node.value.rstrip("\n")
    for k, char in enumerate(inset.text):
        spelled = text[inset.starts[k] : inset.ends[k]]
        assert spelled == char or (char in " \n" and spelled.strip() == "")


@settings(max_examples=60, deadline=None)
@given(st.text("ab'\"\\\n #:", max_size=12))
def test_every_character_of_a_quoted_yaml_text_keeps_its_place(value: str) -> None:
    for text in (f"a: {json.dumps(value)}\n", "a: '" + value.replace("'", "''").replace("\n", " ") + "'\n"):
        node = documents(text)[0].value[0][1]
        assert scalar(text, node).text == node.value


PARSED = [
    ("m --max-model-len 8192", (("m", None), ("--max-model-len", "8192"))),
    ("--max-model-len=8192 --enforce-eager m", (("--max-model-len", "8192"), ("--enforce-eager", True), ("m", None))),
    ("-tp 2 -O3 -O 2", (("-tp", "2"), ("-O", "3"), ("-O", "2"))),
    ("--max-model-len -1", (("--max-model-len", "-1"),)),
    (
        "--cudagraph-capture-sizes 1 2 4 --port 1",
        (*((("--cudagraph-capture-sizes", n)) for n in "124"), ("--port", "1")),
    ),
    ("--limit-mm-per-prompt.image 2", (("--limit-mm-per-prompt.image", "2"),)),
    ("--request-timeout 60 --what", (("--request-timeout", "60"), ("--what", True))),
    ("--enforce-eager true", (("--enforce-eager", "true"),)),
    ("--gpu-memory-util 0.9", (("--gpu-memory-util", "0.9"),)),
    ("-- a", (("a", None),)),
]


@pytest.mark.parametrize(("line", "expected"), PARSED)
def test_options_and_values(line: str, expected: object) -> None:
    assert parse_args(line.split()) == expected


REWRITTEN = {
    "appended": ("m", {"--max-model-len": "1"}, (), "m --max-model-len 1"),
    "in place": ("m --max-model-len 2 --port 3", {"--max-model-len": "1"}, (), "m --max-model-len 1 --port 3"),
    "with equals": ("--max-model-len=2", {"--max-model-len": "1"}, (), "--max-model-len=1"),
    "the last one counts": ("--port 1 --port 2", {"--port": "3"}, (), "--port 1 --port 3"),
    "by its alias": ("-tp 4", {"--tensor-parallel-size": "2"}, (), "-tp 2"),
    "by an abbreviation": ("--gpu-memory-util 0.9", {"--gpu-memory-utilization": "0.8"}, (), "--gpu-memory-util 0.8"),
    "with underscores": ("--max_model_len 2", {"--max-model-len": "1"}, (), "--max_model_len 1"),
    "a negation is turned": ("--no-enforce-eager m", {"--enforce-eager": True}, (), "--enforce-eager m"),
    "a stray truth goes": ("--enforce-eager true m", {"--enforce-eager": True}, (), "--enforce-eager m"),
    "already so": ("--enforce-eager -tp 2", {"--enforce-eager": True, "-tp": "2"}, (), "--enforce-eager -tp 2"),
    "false removes": ("--enforce-eager m", {"--enforce-eager": False}, (), "m"),
    "all occurrences go": ("--swap-space 1 m --swap-space=2", {}, ("--swap-space",), "m"),
    "an unknown flag goes with its value": (
        "m --request-timeout 60 --port 1",
        {},
        ("--request-timeout",),
        "m --port 1",
    ),
    "a list": (
        "--cudagraph-capture-sizes 1 2 --port 1",
        {"--cudagraph-capture-sizes": "4 8 16"},
        (),
        "--cudagraph-capture-sizes 4 8 16 --port 1",
    ),
    "a level": ("-O3", {"-O": "0"}, (), "-O0"),
}


@pytest.mark.parametrize("case", REWRITTEN)
def test_rewritten(case: str) -> None:
    line, flags, remove, expected = REWRITTEN[case]
    assert rewrite_argv(line.split(), Edits(set=flags, remove=remove)) == tuple(expected.split())


def test_a_limit_on_images_does_not_lift_the_one_on_videos() -> None:
    argv = ("--limit-mm-per-prompt", '{"image": 4, "video": 0}')
    assert rewrite_argv(argv, Edits(set={"--limit-mm-per-prompt": '{"image": 1}'})) == (
        "--limit-mm-per-prompt",
        '{"image": 1, "video": 0}',
    )


def test_dotted_limits_are_joined_with_the_new_one() -> None:
    argv = ("--limit-mm-per-prompt.image", "4", "--limit-mm-per-prompt.video", "0", "m")
    assert rewrite_argv(argv, Edits(set={"--limit-mm-per-prompt": '{"image": 1}'}), V("0.11.0")) == (
        "m",
        "--limit-mm-per-prompt",
        '{"image": 1, "video": 0}',
    )


def test_old_releases_get_pairs() -> None:
    argv = ("--limit-mm-per-prompt", "image=4,video=0")
    assert rewrite_argv(argv, Edits(set={"--limit-mm-per-prompt": "image=1"}), V("0.8.0"))[1] == "image=1,video=0"


def test_a_fix_becomes_edits() -> None:
    edits = args_to_edits({"--a": "1", "--b": True, "--c": False}, ("--d",), {"X": "1", "Y": ""})
    assert edits == Edits({"--a": "1", "--b": True}, ("--d", "--c"), {"X": "1"}, ("Y",))
    assert edits and not Edits()


def test_a_command_from_the_arguments_of_a_log() -> None:
    args = {
        "model_tag": "Qwen/Qwen3-VL-8B",
        "model": "Qwen/Qwen3-VL-8B",
        "max_model_len": 8192,
        "enforce_eager": True,
        "enable_prefix_caching": False,
        "limit_mm_per_prompt": {"image": 2},
        "cudagraph_capture_sizes": [1, 2],
        "quantization": None,
        "gpu_memory_utilization": 0.85,
    }
    line = " ".join(map(quote_word, command_from_args(args, None, V("0.11.1"))))
    assert line == (
        "vllm serve Qwen/Qwen3-VL-8B --max-model-len 8192 --enforce-eager --no-enable-prefix-caching "
        "--limit-mm-per-prompt '{\"image\": 2}' --cudagraph-capture-sizes 1 2 --gpu-memory-utilization 0.85"
    )
    assert command_from_args(args, "other", V("0.8.0"))[2] == "other"
    assert "image=2" in command_from_args(args, None, V("0.8.0"))


def test_the_change_is_marked() -> None:
    old = ("vllm", "serve", "m", "--max-model-len", "8192")
    new = (*old[:4], "4096", "--enforce-eager")
    assert (
        format_command(new, mark=lambda text: f"[{text}]", before=old)
        == "vllm serve m --max-model-len [4096 --enforce-eager]"
    )
    assert format_command(new) == "vllm serve m --max-model-len 4096 --enforce-eager"


SECRETS = {
    "--api-key sk-abc123def": "--api-key ***",
    "--api-key=plainword": "--api-key=***",
    "--api-key a b": "--api-key *** ***",
    "--hf-token x": "--hf-token ***",
    "HF_TOKEN=x": "HF_TOKEN=***",
    "--x hf_abcdefghijk": "--x ***",
    "--x ghp_abcdefghijkl": "--x ***",
    "--x AKIAABCDEFGHIJKLMNOP": "--x ***",
    "--x http://me:pw@host/": "--x http://***@host/",
    "--tokenizer t --max-num-batched-tokens 8": "--tokenizer t --max-num-batched-tokens 8",
    "--tokenizer-mode auto": "--tokenizer-mode auto",
}


@pytest.mark.parametrize("line", SECRETS)
def test_secrets_are_never_printed(line: str) -> None:
    assert format_command(line.split()) == SECRETS[line]


def test_variables_are_no_secrets() -> None:
    assert format_command(["--api-key", "$KEY", "--api-key=${KEY}"]) == '--api-key "$KEY" --api-key="${KEY}"'


FILES_WITH_SECRETS = {
    "export HF_TOKEN=abc12\nexport MAX_TOKEN=8192\n": {"abc12"},
    "vllm serve m --api-key s3cret --max-num-batched-tokens 8192\n": {"s3cret"},
    '  - --api-key\n  - "s3cret"\n': {"s3cret"},
    'CMD ["--api-key", "s3cret"]\n': {"s3cret"},
    "env:\n- name: HF_TOKEN\n  value: s3cret\n": {"s3cret"},
    "HF_TOKEN: s3cret\n": {"s3cret"},
    'export HF_TOKEN="$(cat token)" OPENAI_API_KEY=$K\n--api-key --port 1\n': set(),
}


@pytest.mark.parametrize("text", FILES_WITH_SECRETS)
def test_secrets_of_a_file_are_found_by_their_names(text: str) -> None:
    assert secret_values(text) == FILES_WITH_SECRETS[text]
    assert "s3cret" not in mask_text(text, secret_values(text))


def test_a_diff_is_one_that_patch_takes(tmp_path) -> None:
    old = "a\nvllm serve m\nb"
    new = "a\nvllm serve m --port 1\nb"
    file = tmp_path / "x.sh"
    file.write_text(old)
    patched = subprocess.run(
        ["patch", "-p0", "-s", str(file)],
        input=unified_diff(old, new, "x.sh"),
        text=True,
        capture_output=True,
        cwd=tmp_path,
    )
    assert (patched.returncode, file.read_text()) == (0, new)


def test_bytes_that_are_no_utf8_survive() -> None:
    raw = b"# caf\xe9 \xe4\xb8\xad\nvllm serve m --max-model-len 2 # \xff\n"
    text = raw.decode("utf-8", "surrogateescape")
    new = apply(text, the_command(find_commands(text)), Edits(set={"--max-model-len": "1"}))
    assert new.encode("utf-8", "surrogateescape") == raw.replace(b"-len 2", b"-len 1")


def test_windows_line_ends_survive_in_yaml() -> None:
    text = "services:\r\n  a:\r\n    image: vllm/vllm-openai:v0.9.0\r\n    command:\r\n      - --model=m\r\n      - --max-model-len=2\r\n"
    new = apply(
        text,
        the_command(find_commands(text, name="compose.yaml"), text),
        Edits(set={"--max-model-len": "1", "--port": "3"}),
    )
    assert new == text.replace("len=2\r\n", "len=1\r\n      - --port=3\r\n")


def test_a_shell_line_echoed_in_a_log_is_read() -> None:
    (command,) = find_commands(
        "$ CUDA_VISIBLE_DEVICES=0 vllm serve m --max-model-len 8192 | tee vllm.log".removeprefix("$ "), kind="shell"
    )
    assert (command.entry, command.arguments, command.line, command.column) == (
        "vllm serve",
        ("m", "--max-model-len", "8192"),
        1,
        24,
    )

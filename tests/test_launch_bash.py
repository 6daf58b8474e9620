"""Generated scripts, changed, and given to bash: the server gets the arguments that were meant, and nothing else differs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vlogdiag.launch import Edits, NotCertain, apply, find_commands, rewrite_argv, the_command
from vlogdiag.launch.quoting import quote_word

HEAD = 'vllm() { printf "%s\\0" "$PYTORCH_ALLOC_CONF" "$@"; }\nexport -f vllm\nnohup() { "$@"; }\nexport -f nohup\nset -- extra1\n'

EDITS = Edits(
    set={"--max-model-len": "4096", "--enforce-eager": True, "--limit-mm-per-prompt": '{"image": 2}'},
    remove=("--swap-space",),
    env_set={"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
)


def single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def double(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`") + '"'


def mixed(text: str) -> str:
    half = len(text) // 2
    return single(text[:half]) + double(text[half:])


quoted = st.sampled_from([quote_word, single, double, mixed])
values = st.sampled_from(
    ["8192", "a b", "it's", 'say "x"', "$HOME", "{x}", "中文", "a\\b", "#no", "*", "-1", "~", "a;b", "&", "`x`", "!"]
)
options = st.one_of(
    st.tuples(st.just("--max-model-len"), st.sampled_from(["8192", "32k"])),
    st.tuples(st.just("--swap-space"), st.sampled_from(["4", "0.5"])),
    st.tuples(st.just("--limit-mm-per-prompt"), st.sampled_from(['{"image": 4}', '{"image":1, "video":0}'])),
    st.tuples(st.sampled_from(["--chat-template", "--dtype", "--download-dir"]), values),
    st.tuples(st.sampled_from(["--enforce-eager", "--disable-log-stats", "--trust-remote-code"]), st.none()),
)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    words: list[str] = []
    chosen = draw(st.lists(options, min_size=1, max_size=6, unique_by=lambda option: option[0]))
    for flag, value in chosen:
        if value is None:
            words.append(flag)
        elif draw(st.booleans()) and value[0] not in "-":
            words.append(f"{flag}={draw(quoted)(value)}")
        elif value[0] == "-":
            words.append(f"{flag}={value}")
        else:
            words.append(f"{flag} {draw(quoted)(value)}")
    form = draw(
        st.sampled_from(
            ["line", "continued", "array", "array in lines", "appended", "tail", "nested", "function array"]
        )
    )
    head = draw(st.sampled_from(["", "# 启动\n", "export PYTORCH_ALLOC_CONF=old\n", "X=1\n"]))
    prefix = draw(st.sampled_from(["", "", "A=1 ", "PYTORCH_ALLOC_CONF=old ", "nohup ", "true && "]))
    end = draw(st.sampled_from(["\n", "\necho end >/dev/null\n", " 2>/dev/null\n", "  # a comment\n", " | cat\n", ""]))
    if form == "line":
        return f"{head}{prefix}vllm serve m {' '.join(words)}{end}"
    if form == "continued":
        trick = draw(st.sampled_from(["", " `# why`"]))
        return f"{head}{prefix}vllm serve m{''.join(f'{trick} {chr(92)}{chr(10)}  {word}' for word in words)}{end}"
    if form == "array":
        return f'{head}ARGS=({" ".join(words)})\n{prefix}vllm serve m "${{ARGS[@]}}"{end}'
    if form == "array in lines":
        body = "".join(f"  {word}{draw(st.sampled_from(['', '  # note', chr(10) + '  # line']))}\n" for word in words)
        return f'{head}ARGS=(\n{body})\n{prefix}vllm serve m "${{ARGS[@]}}"{end}'
    if form == "appended":
        first, rest = words[:1], words[1:]
        more = "".join(f"ARGS+=({word})\n" for word in rest)
        return f'{head}ARGS=({" ".join(first)})\n{more}{prefix}vllm serve m "${{ARGS[@]}}"{end}'
    if form == "nested":
        return (
            f"{head}bash -c {draw(st.sampled_from([single, double]))(f'{prefix}vllm serve m ' + ' '.join(words))}{end}"
        )
    if form == "function array":
        return (
            f'{head}CMD=(vllm serve m {" ".join(words)})\n{prefix if "=" not in prefix else ""}"${{CMD[@]}}" "$@"{end}'
        )
    return f'{head}{prefix}vllm serve m {" ".join(words)} "$@"{end}'


def given_to_vllm(script: str) -> tuple[str, list[str]]:
    done = subprocess.run(["bash", "-c", HEAD + script], capture_output=True, timeout=20, check=False)
    assert done.stderr == b"", (script, done.stderr)
    words = done.stdout.decode().split("\0")[:-1]
    return words[0], words[1:]


def apart(words: Iterable[str]) -> list[str]:
    """`--x=y` as two words, in an order that does not depend on where an option was added."""
    return sorted(part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word]))


@settings(max_examples=30, deadline=None)
@given(scripts())
def test_bash_starts_what_was_meant(script: str) -> None:
    try:
        command = the_command(find_commands(script, "shell"), script)
        new = apply(script, command, EDITS)
    except NotCertain:
        assume(False)
    _, before = given_to_vllm(script)
    variable, after = given_to_vllm(new)
    assert before[0] == after[0] == "serve"
    assert apart(after[1:]) == apart(rewrite_argv(before[1:], EDITS))
    assert variable == "expandable_segments:True"


@settings(max_examples=30, deadline=None)
@given(scripts())
def test_what_is_read_is_what_bash_passes(script: str) -> None:
    commands = find_commands(script, "shell")
    assert len(commands) == 1, script
    _, passed = given_to_vllm(script)
    if commands[0].certain:
        read = [word for word in commands[0].argv[1:] if word not in ("$@",)]
        assert read == [word for word in passed if word != "extra1"]

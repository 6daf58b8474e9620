"""What cannot be changed with certainty is refused, with the reason and the line."""

from __future__ import annotations

import pytest

from vlogdiag.launch import Edits, NotCertain, apply, find_commands, guess_kind, the_command

LENGTH = Edits(set={"--max-model-len": "4096"})

REFUSED = {
    "nothing": ("echo hello\n", "x.sh", "no command that starts a vLLM server was found"),
    "only printed": ('echo "vllm serve m"\n', "x.sh", "line 1 only mentions one"),
    "only killed": ("pkill -f 'vllm serve m'\n", "x.sh", "line 1 only mentions one"),
    "benchmark": ("vllm bench serve --model m\n", "x.sh", "no command"),
    "in a heredoc": ("cat > run.sh <<'EOF'\nvllm serve m\nEOF\n", "x.sh", "line 2 only mentions one"),
    "twice": (
        "if a; then\n  vllm serve m\nelse\n  vllm serve n\nfi\n",
        "x.sh",
        r"2 commands .*\(lines 2, 4\), not one",
    ),
    "eval": (
        'CMD="vllm serve m"\neval "$CMD --max-model-len 1"\neval "vllm serve m --max-model-len 2"\n',
        "x.sh",
        "built with eval",
    ),
    "function": (
        "start() {\n  vllm serve m --max-model-len 1\n}\nstart\n",
        "x.sh",
        r"built in the function start\(\), line 1",
    ),
    "unknown wrapper": ("run-it vllm serve m\n", "x.sh", "'run-it', which may change its arguments"),
    "backslash and blank": ("vllm serve m \\ \n  --max-model-len 1\n", "x.sh", "end of line 1 is followed by a blank"),
    "unclosed quote": ('vllm serve m --max-model-len "1\n', "x.sh", "grammar cannot read"),
    "pieces": ("""bash -c 'vllm serve '"m"' --max-model-len 1'\n""", "x.sh", "put together from quoted pieces"),
    "double dash": ("vllm serve --port 1 -- m\n", "x.sh", "end in '--'"),
    "no YAML": ("services:\n  a: [\n", "compose.yaml", "line 3: not readable as YAML"),
    "helm": (
        "kind: Pod\nspec:\n  containers:\n  {{- range .Values.x }}\n",
        "pod.yaml",
        "a template must be rendered first",
    ),
    "two services": (
        "services:\n  a: &a\n    image: vllm/vllm-openai:latest\n    command: --model m\n  b:\n    <<: *a\n",
        "compose.yaml",
        "the services a and b share it",
    ),
    "two containers": (
        "kind: Pod\nspec:\n  containers:\n  - command: [vllm, serve, a]\n  - command: [vllm, serve, b]\n",
        "pod.yaml",
        r"\(lines 4, 5\)",
    ),
    "only item": (
        "kind: Pod\nspec:\n  containers:\n  - image: vllm/vllm-openai:v0.9.0\n    args: [--max-model-len=1]\n",
        "pod.yaml",
        "all there is in its list",
    ),
    "secret variable": (
        "kind: Pod\nspec:\n  containers:\n  - command: [vllm, serve, a]\n    env:\n    - name: X\n      valueFrom: {}\n",
        "pod.yaml",
        "X takes its value from elsewhere",
    ),
    "supervisor without section": (
        "command=vllm serve m\n[program:x]\n",
        "s.conf",
        "not readable as a supervisor file",
    ),
    "two stages": ('FROM a\nCMD ["vllm", "serve", "m"]\nFROM b\nCMD vllm serve n\n', "Dockerfile", r"\(lines 2, 4\)"),
    "no arguments": ("FROM vllm/vllm-openai:v0.9.0\nCMD []\n", "Dockerfile", "no arguments"),
}

EDITS = {
    "only item": Edits(remove=("--max-model-len",)),
    "secret variable": Edits(env_set={"X": "1"}),
    "double dash": LENGTH,
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    text, name, reason = REFUSED[case]
    with pytest.raises(NotCertain, match=reason):
        apply(text, the_command(find_commands(text, name=name), text), EDITS.get(case, LENGTH))


LOCKED = {
    "set under a condition": 'ARGS=(--port 1)\nif x; then ARGS+=(--swap-space 4); fi\nvllm serve m "${ARGS[@]}"\n',
    "array used by another program": 'ARGS=(--swap-space 4)\nother "${ARGS[@]}"\nvllm serve m "${ARGS[@]}"\n',
}


@pytest.mark.parametrize("case", LOCKED)
def test_an_option_that_others_share_is_not_removed(case: str) -> None:
    text = LOCKED[case]
    with pytest.raises(NotCertain, match="--swap-space cannot be changed: "):
        apply(text, the_command(find_commands(text)), Edits(remove=("--swap-space",)))


@pytest.mark.parametrize("case", LOCKED)
def test_an_option_that_others_share_is_overridden_behind_it(case: str) -> None:
    text = LOCKED[case]
    new = apply(text, the_command(find_commands(text)), Edits(set={"--swap-space": "0"}))
    assert new == text.replace('vllm serve m "${ARGS[@]}"', 'vllm serve m "${ARGS[@]}" --swap-space 0')


def test_a_variable_of_others_is_not_touched() -> None:
    text = 'LEN=8192\npython check.py $LEN\nvllm serve m --max-model-len "$LEN"\n'
    new = apply(text, the_command(find_commands(text)), LENGTH)
    assert new == 'LEN=8192\npython check.py $LEN\nvllm serve m --max-model-len "4096"\n'


def test_an_exported_variable_is_not_touched() -> None:
    text = "export LEN=8192\nvllm serve m --max-model-len $LEN\n"
    command = the_command(find_commands(text))
    assert command.known_arguments == ("m", "--max-model-len", "8192")
    assert apply(text, command, LENGTH) == "export LEN=8192\nvllm serve m --max-model-len 4096\n"


def test_a_variable_that_a_sourced_file_may_change_has_no_known_value() -> None:
    text = "LEN=8192\nsource settings.env\nvllm serve m --max-model-len $LEN\n"
    command = the_command(find_commands(text))
    assert command.known_arguments == ("m", "--max-model-len", "$LEN")
    assert apply(text, command, LENGTH) == text.replace("$LEN", "4096")


def test_a_default_in_braces_stays_the_users_own() -> None:
    text = 'LEN=${LEN:-8192}\nvllm serve m --max-model-len "$LEN" --port 1\n'
    new = apply(text, the_command(find_commands(text)), LENGTH)
    assert new == 'LEN=${LEN:-8192}\nvllm serve m --max-model-len "4096" --port 1\n'


def test_options_behind_a_comment_are_said_not_to_arrive() -> None:
    text = "vllm serve m \\\n  --port 1 \\\n  # --dtype half \\\n  --max-model-len 8192\n"
    command = the_command(find_commands(text))
    assert command.arguments == ("m", "--port", "1")
    assert command.notes == (
        "the comment in line 3 ends the command: the options from line 4 on do not reach the server",
    )


def test_an_option_of_unseen_arguments_is_overridden_behind_them() -> None:
    text = "vllm serve m --port 1 $EXTRA\n"
    assert (
        apply(text, the_command(find_commands(text)), LENGTH) == "vllm serve m --port 1 $EXTRA --max-model-len 4096\n"
    )


def test_an_unset_variable_that_a_condition_sets_is_refused() -> None:
    text = "if x; then export A=1; fi\nvllm serve m\n"
    with pytest.raises(NotCertain, match="A is set under a condition"):
        apply(text, the_command(find_commands(text)), Edits(env_unset=("A",)))


UNSET = {
    "export": ("export A=1\nvllm serve m\n", "vllm serve m\n"),
    "one of two": ("export B=2 A=1\nvllm serve m\n", "export B=2\nvllm serve m\n"),
    "on a line with others": ("export A=1 && x\nvllm serve m\n", "unset A && x\nvllm serve m\n"),
    "prefix": ("A=1 B=2 vllm serve m\n", "B=2 vllm serve m\n"),
    "env": ("env A=1 B=2 vllm serve m\n", "env B=2 vllm serve m\n"),
    "assigned and exported": ("A=1\nexport A\nvllm serve m\n", "export A\nvllm serve m\n"),
    "docker": (
        "docker run -e A=1 --rm vllm/vllm-openai:v0.9.0 --model m\n",
        "docker run --rm vllm/vllm-openai:v0.9.0 --model m\n",
    ),
    "inherited": ("cd /srv\nnohup vllm serve m\n", "cd /srv\nunset A\nnohup vllm serve m\n"),
    "inherited, after others": ("cd /srv && exec vllm serve m\n", "cd /srv && exec env -u A vllm serve m\n"),
    "inherited, in quotes": ("ssh h 'vllm serve m'\n", "ssh h 'env -u A vllm serve m'\n"),
    "inherited, an array": ('C=(vllm serve m)\nx && "${C[@]}"\n', 'C=(vllm serve m)\nx && env -u A "${C[@]}"\n'),
    "unset already": ("unset A\nvllm serve m\n", "unset A\nvllm serve m\n"),
    "unset already by env": ("env -u A vllm serve m\n", "env -u A vllm serve m\n"),
}


@pytest.mark.parametrize("case", UNSET)
def test_a_variable_is_unset(case: str) -> None:
    text, expected = UNSET[case]
    assert apply(text, the_command(find_commands(text)), Edits(env_unset=("A",))) == expected


KINDS = {
    "start_all.sh": ("services: x\n", "shell"),
    "docker-compose.yml": ("services:\n  a: {}\n", "compose"),
    "pod.yaml": ("apiVersion: v1\n", "kubernetes"),
    "Dockerfile.gpu": ("FROM x\n", "dockerfile"),
    "vllm.service": ("[Unit]\n", "systemd"),
    "app.conf": ("[program:x]\n", "supervisor"),
    "": ("# c\nARG X\nFROM x\n", "dockerfile"),
    "noname": ("vllm serve m\n", "shell"),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_is_told_by_name_or_content(name: str) -> None:
    text, kind = KINDS[name]
    assert guess_kind(text, name) == kind


def test_a_huge_file_is_not_parsed() -> None:
    with pytest.raises(NotCertain, match="larger than a launch file"):
        find_commands("#" * (1 << 20) + "\n")


def test_deep_nesting_of_a_hostile_line_does_not_break_the_parser() -> None:
    assert find_commands("vllm serve " + "(" * 50_000) is not None
    assert find_commands("kind: x\nvllm: " + "[" * 200 + "\n", kind="shell") == ()


def test_deep_yaml_is_an_answer_not_a_crash() -> None:
    with pytest.raises(NotCertain):
        find_commands("kind: Pod\nvllm: " + "[" * 1_500, kind="kubernetes")

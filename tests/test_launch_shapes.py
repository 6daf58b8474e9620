"""More shapes of launch files, each with the text that is expected after the change."""

from __future__ import annotations

import pytest

from vlogdiag.catalog import Versions
from vlogdiag.launch import Edits, apply, check_command, find_commands, the_command

EDITS = Edits(set={"--max-model-len": "4096"}, remove=("--swap-space",), env_set={"A": "1"})

# Name: (file name, before, after).
SHAPES = {
    "compose text with a shell": (
        "compose.yaml",
        'services:\n  v:\n    image: x\n    command: bash -c "vllm serve m --swap-space 4 --port 1"\n',
        'services:\n  v:\n    image: x\n    environment:\n      A: "1"\n    command: bash -c "vllm serve m --port 1 --max-model-len 4096"\n',
    ),
    "compose folded text with a shell": (
        "compose.yaml",
        "services:\n  v:\n    environment:\n    - B=2\n    command: >\n      bash -c '\n      vllm serve m\n      --swap-space 4\n      --port 1\n      '\n",
        "services:\n  v:\n    environment:\n    - B=2\n    - A=1\n    command: >\n      bash -c '\n      vllm serve m\n      --port 1\n      --max-model-len 4096\n      '\n",
    ),
    "compose list with a shell": (
        "compose.yaml",
        "services:\n  v:\n    command: [bash, -lc, 'vllm serve m --max-model-len 9']\n    environment: {A: 0}\n",
        "services:\n  v:\n    command: [bash, -lc, 'vllm serve m --max-model-len 4096']\n    environment: {A: \"1\"}\n",
    ),
    "compose double-quoted text": (
        "compose.yaml",
        'services:\n  v:\n    image: vllm/vllm-openai:v0.9.0\n    environment: [B=2]\n    command: "--model m --served-model-name \\"a b\\""\n',
        'services:\n  v:\n    image: vllm/vllm-openai:v0.9.0\n    environment: [B=2, A=1]\n    command: "--model m --served-model-name \\"a b\\" --max-model-len 4096"\n',
    ),
    "kubernetes script in a block": (
        "pod.yaml",
        "kind: Pod\nspec:\n  containers:\n    - name: v\n      command: [sh, -c]\n      args:\n        - |\n          set -e\n          vllm serve m \\\n            --swap-space 4 \\\n            --port 1\n      env: [{name: B, value: '2'}]\n",
        "kind: Pod\nspec:\n  containers:\n    - name: v\n      command: [sh, -c]\n      args:\n        - |\n          set -e\n          vllm serve m \\\n            --port 1 \\\n            --max-model-len 4096\n      env: [{name: B, value: '2'}, {name: A, value: \"1\"}]\n",
    ),
    "kubernetes command with arguments in args": (
        "pod.yaml",
        "kind: Pod\nspec:\n  containers:\n  - command: [vllm, serve]\n    args: [m]\n    env:\n    - {name: A, value: x}  # old\n",
        'kind: Pod\nspec:\n  containers:\n  - command: [vllm, serve]\n    args: [m, --max-model-len, "4096"]\n    env:\n    - {name: A, value: "1"}  # old\n',
    ),
    "dockerfile on one line": (
        "Dockerfile",
        "FROM x\nCMD vllm serve m --swap-space 4\n",
        "FROM x\nENV A=1\nCMD vllm serve m --max-model-len 4096\n",
    ),
    "dockerfile with both instructions": (
        "Dockerfile",
        'FROM x\nENV A=0\nENTRYPOINT ["vllm", "serve"]\nCMD ["m", "--max-model-len=9"]\n',
        'FROM x\nENV A=1\nENTRYPOINT ["vllm", "serve"]\nCMD ["m", "--max-model-len=4096"]\n',
    ),
    "dockerfile with another escape": (
        "Dockerfile",
        "# escape=`\nFROM x\nENV A=0 `\n  B=2\nCMD vllm serve m `\n  --max-model-len 9\n",
        "# escape=`\nFROM x\nENV A=1 `\n  B=2\nCMD vllm serve m `\n  --max-model-len 4096\n",
    ),
    "unit that runs a container": (
        "v.service",
        "[Service]\nEnvironment=A=0\nExecStart=/usr/bin/docker run --rm -e B=2 vllm/vllm-openai:v0.9.0 \\\n  --model m \\\n  --swap-space 4\n",
        "[Service]\nEnvironment=A=0\nExecStart=/usr/bin/docker run --rm -e B=2 -e A=1 vllm/vllm-openai:v0.9.0 \\\n  --model m \\\n  --max-model-len 4096\n",
    ),
    "unit with specifiers": (
        "v.service",
        '[Service]\nExecStart=-/usr/bin/env B=2 vllm serve %h/m "--max-model-len" ${LEN} --port 50%%\n',
        '[Service]\nEnvironment=A=1\nExecStart=-/usr/bin/env B=2 vllm serve %h/m "--max-model-len" 4096 --port 50%%\n',
    ),
    "container with an entry point of its own": (
        "x.sh",
        "docker run --entrypoint python3 -e A=0 -v /x:/x vllm/vllm-openai:v0.9.0 -m vllm.entrypoints.openai.api_server --model m\n",
        "docker run --entrypoint python3 -e A=1 -v /x:/x vllm/vllm-openai:v0.9.0 -m vllm.entrypoints.openai.api_server --model m --max-model-len 4096\n",
    ),
    "container that starts a shell": (
        "x.sh",
        "docker run --rm -it my/vllm:1 bash -c 'vllm serve m --swap-space 4'\n",
        "docker run --rm -it my/vllm:1 bash -c 'A=1 vllm serve m --max-model-len 4096'\n",
    ),
    "two options on a line": (
        "x.sh",
        "export A=0\nvllm serve m \\\n  --swap-space 4 --port 1 \\\n  --max-model-len 9 --dtype half\n",
        "export A=1\nvllm serve m \\\n  --port 1 \\\n  --max-model-len 4096 --dtype half\n",
    ),
    "uv and conda": (
        "x.sh",
        "cd /x && uv run --with vllm vllm serve m\n",
        "cd /x && A=1 uv run --with vllm vllm serve m --max-model-len 4096\n",
    ),
    "program and image in variables": (
        "x.sh",
        'IMAGE="vllm/vllm-openai:v0.9.0"\ndocker run --rm "$IMAGE" --model m\n',
        'IMAGE="vllm/vllm-openai:v0.9.0"\ndocker run -e A=1 --rm "$IMAGE" --model m --max-model-len 4096\n',
    ),
    "program in a variable": (
        "x.sh",
        "VLLM=/opt/bin/vllm\ncd /x && $VLLM serve m\n",
        "VLLM=/opt/bin/vllm\ncd /x && A=1 $VLLM serve m --max-model-len 4096\n",
    ),
    "sudo": ("x.sh", "sudo -u vllm vllm serve m\n", "sudo -u vllm env A=1 vllm serve m --max-model-len 4096\n"),
    "slurm": (
        "job.sh",
        "#!/bin/bash\n#SBATCH -N1\nsrun --gpus=1 vllm serve m\n",
        "#!/bin/bash\n#SBATCH -N1\nexport A=1\nsrun --gpus=1 vllm serve m --max-model-len 4096\n",
    ),
    "empty array": (
        "x.sh",
        'A=0 && ARGS=()\nvllm serve m --port 1 "${ARGS[@]}"\n',
        'A=0 && ARGS=()\nexport A=1\nvllm serve m --port 1 "${ARGS[@]}" --max-model-len 4096\n',
    ),
    "only a model": ("x.sh", "vllm serve m", "export A=1\nvllm serve m --max-model-len 4096"),
    "exported elsewhere": (
        "x.sh",
        "A=0\nexport A B\nvllm serve m\n",
        "A=1\nexport A B\nvllm serve m --max-model-len 4096\n",
    ),
    "supervisor with an own line for every variable": (
        "s.conf",
        '[program:v]\nenvironment=\n  B="2",\n  A="0"\ncommand=vllm serve m\n',
        '[program:v]\nenvironment=\n  B="2",\n  A="1"\ncommand=vllm serve m --max-model-len 4096\n',
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shape(case: str) -> None:
    name, before, after = SHAPES[case]
    command = the_command(find_commands(before, name=name), before)
    assert apply(before, command, EDITS) == after


LOST = {
    "x.sh": ("vllm serve m --port 1\n  --max-model-len 9\n", "line 1 is not continued: the options from line 2 on"),
    # Lines that are indented more than the first keep their breaks in a folded text, and are commands of their own.
    "compose.yaml": (
        "services:\n  v:\n    command: >\n      bash -c '\n        vllm serve m\n        --max-model-len 9\n      '\n",
        "line 5 is not continued: the options from line 6 on",
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_options_that_are_not_continued_are_said_not_to_arrive(name: str) -> None:
    text, words = LOST[name]
    command = the_command(find_commands(text, name=name), text)
    assert [note.startswith(words) for note in command.notes] == [True]


def test_what_is_in_an_unknown_variable_is_not_judged() -> None:
    text = 'vllm serve "$MODEL" --port "$PORT" --dtype $DTYPE $MORE --max-model-len "$LEN" --kv-cache-dtype nonsense "$@"\n'
    problems = check_command(the_command(find_commands(text)), Versions.exact("0.11.0"))
    assert [(p.argument, p.value) for p in problems] == [("--kv-cache-dtype", "nonsense")]


def test_what_is_in_a_known_variable_is_judged() -> None:
    text = "KV=nonsense\nvllm serve m --kv-cache-dtype $KV\n"
    problems = check_command(the_command(find_commands(text)), Versions.exact("0.11.0"))
    assert [(p.argument, p.value) for p in problems] == [("--kv-cache-dtype", "nonsense")]


def test_an_images_own_entry_point_is_judged_too() -> None:
    text = "docker run vllm/vllm-openai:v0.18.0 --model m --swap-space 4\n"
    command = the_command(find_commands(text))
    assert (command.image, command.entry, command.arguments) == (
        "vllm/vllm-openai:v0.18.0",
        "api_server",
        ("--model", "m", "--swap-space", "4"),
    )
    assert [p.argument for p in check_command(command, Versions.exact("0.18.0"))] == ["--swap-space"]

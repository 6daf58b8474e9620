"""Twenty-eight launch files: the diff says what was meant, and an independent reader finds the arguments that were meant."""

from __future__ import annotations

import configparser
import difflib
import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from vlogdiag.catalog import Versions
from vlogdiag.launch import Edits, apply, check_command, find_commands, the_command

DATA = Path(__file__).parent / "data" / "launch"
FILES = sorted(path.name for path in DATA.iterdir())

EDITS = Edits(
    set={"--max-model-len": "4096", "--enforce-eager": True},
    remove=("--swap-space",),
    env_set={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
)
SET = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"

# File: (lines that go, lines that come), both in the order of the file; every other line is the same.
EXPECTED: dict[str, tuple[list[str], list[str]]] = {
    "01-plain.sh": (
        ["vllm serve Qwen/Qwen3-VL-8B-Instruct --max-model-len 32768 --swap-space 4"],
        [f"export {SET}", "vllm serve Qwen/Qwen3-VL-8B-Instruct --max-model-len 4096 --enforce-eager"],
    ),
    "02-continued.sh": (
        ["    --max-model-len 32768 \\", "    --swap-space 8 \\"],
        [f"export {SET}", "    --max-model-len 4096 \\", "    --enforce-eager \\"],
    ),
    "03-comments.sh": (
        [
            "  --max-model-len=16384        `# tokens of context` \\",
            "  --swap-space=4               `# GiB on the host` \\",
            "  --dtype bfloat16             `# as the checkpoint`",
        ],
        [
            f"export {SET}",
            "  --max-model-len=4096        `# tokens of context` \\",
            "  `# GiB on the host` \\",
            "  --dtype bfloat16             `# as the checkpoint` \\",
            "  --enforce-eager",
        ],
    ),
    "04-array.sh": (
        ["  --max-model-len 32768", "  --swap-space 16   # GiB"],
        ["  --max-model-len 4096", "  # GiB", "  --enforce-eager", f"export {SET}"],
    ),
    "05-array-append.sh": (
        ["CMD+=(--max-model-len 8192 --swap-space 4)", '"${CMD[@]}" 2>&1 | tee vllm.log'],
        ["CMD+=(--max-model-len 4096)", f"export {SET}", '"${CMD[@]}" --enforce-eager 2>&1 | tee vllm.log'],
    ),
    "06-string-args.sh": (
        ['VLLM_ARGS="--host 0.0.0.0 --swap-space 4 --max-model-len 8192"', 'VLLM_ARGS="$VLLM_ARGS --dtype half"'],
        [
            'VLLM_ARGS="--host 0.0.0.0 --max-model-len 4096"',
            'VLLM_ARGS="$VLLM_ARGS --dtype half --enforce-eager"',
            f"export {SET}",
        ],
    ),
    "07-start_all.sh": (
        ["MAX_LEN=32768   # 上下文长度", "  --swap-space 8 > vllm.log 2>&1 &"],
        ["MAX_LEN=4096   # 上下文长度", f"export {SET}", "  --enforce-eager > vllm.log 2>&1 &"],
    ),
    "08-env-prefix.sh": (
        [
            "CUDA_VISIBLE_DEVICES=0,1 VLLM_USE_V1=1 vllm serve Qwen/Qwen2-VL-7B-Instruct -tp 2 --max-model-len 8192 --swap-space 4"
        ],
        [
            f"{SET} CUDA_VISIBLE_DEVICES=0,1 VLLM_USE_V1=1 vllm serve Qwen/Qwen2-VL-7B-Instruct -tp 2 --max-model-len 4096 --enforce-eager"
        ],
    ),
    "09-env-command.sh": (
        [
            "exec env HF_HUB_OFFLINE=1 numactl --cpunodebind=0 --membind=0 \\",
            "  --max_model_len 8192 --swap_space 4 \\",
            '  "$@"',
        ],
        [
            f"exec env HF_HUB_OFFLINE=1 {SET} numactl --cpunodebind=0 --membind=0 \\",
            "  --max_model_len 4096 \\",
            '  "$@" \\',
            "  --enforce-eager",
        ],
    ),
    "10-api-server.sh": (
        [
            'cd /srv && python3 -u -m vllm.entrypoints.openai.api_server --model "$MODEL" --swap-space 4 --max-model-len 8192 2>&1 | tee -a /var/log/vllm.log'
        ],
        [
            f'cd /srv && {SET} python3 -u -m vllm.entrypoints.openai.api_server --model "$MODEL" --max-model-len 4096 --enforce-eager 2>&1 | tee -a /var/log/vllm.log'
        ],
    ),
    "11-docker-run.sh": (
        ["  --max-model-len 16384 \\", "  --swap-space 4"],
        [f"  -e {SET} \\", "  --max-model-len 4096 \\", "  --enforce-eager"],
    ),
    "12-bash-c.sh": (
        [
            r'ssh gpu1 "cd /srv/vllm && nohup vllm serve \"$MODEL\" --max-model-len 8192 --swap-space 4 > vllm.log 2>&1 &"'
        ],
        [
            rf'ssh gpu1 "cd /srv/vllm && {SET} nohup vllm serve \"$MODEL\" --max-model-len 4096 --enforce-eager > vllm.log 2>&1 &"'
        ],
    ),
    "13-tmux.sh": (
        [
            "tmux new-session -d -s vllm 'source venv/bin/activate; vllm serve Qwen/Qwen2-VL-2B-Instruct --max-model-len 8192 --swap-space 4'"
        ],
        [
            f"tmux new-session -d -s vllm 'source venv/bin/activate; {SET} vllm serve Qwen/Qwen2-VL-2B-Instruct --max-model-len 4096 --enforce-eager'"
        ],
    ),
    "14-quotes.sh": (
        [
            """vllm serve "/data/my models/Qwen3 VL" --limit-mm-per-prompt '{"image": 4, "video": 0}' --mm-processor-kwargs "{\\"max_pixels\\": 1003520}" --max-model-len='32768' --swap-space="4" --chat-template=./tool\\ chat.jinja"""
        ],
        [
            f"export {SET}",
            """vllm serve "/data/my models/Qwen3 VL" --limit-mm-per-prompt '{"image": 4, "video": 0}' --mm-processor-kwargs "{\\"max_pixels\\": 1003520}" --max-model-len='4096' --chat-template=./tool\\ chat.jinja --enforce-eager""",
        ],
    ),
    "15-loop.sh": (
        ["\t\t--max-model-len 8192 \\", "\t\t--swap-space 4 >> vllm.log 2>&1"],
        [f"\texport {SET}", "\t\t--max-model-len 4096 \\", "\t\t--enforce-eager >> vllm.log 2>&1"],
    ),
    "16-compose-list.yaml": (
        ['      - "32768"  # tokens', "      - --swap-space", '      - "4"'],
        [f"      - {SET}", '      - "4096"  # tokens', "      - --enforce-eager"],
    ),
    "17-compose-string.yml": (
        ["      --max-model-len 8192 --swap-space 4"],
        [
            "    environment:",
            '      PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True"',
            "      --max-model-len 4096",
            "      --enforce-eager",
        ],
    ),
    "18-compose-flow.yaml": (
        [
            "    environment: {HF_HOME: /models, VLLM_LOGGING_LEVEL: INFO}",
            '    command: ["--model", "Qwen/Qwen2-VL-7B-Instruct", "--swap-space", "4",',
            '              "--max-model-len", "8192"]',
        ],
        [
            '    environment: {HF_HOME: /models, VLLM_LOGGING_LEVEL: INFO, PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True"}',
            '    command: ["--model", "Qwen/Qwen2-VL-7B-Instruct",',
            '              "--max-model-len", "4096", "--enforce-eager"]',
        ],
    ),
    "19-compose-shell.yaml": (
        ["          --max-model-len 8192 \\", "          --swap-space 4"],
        [
            '      PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True"',
            "          --max-model-len 4096 \\",
            "          --enforce-eager",
        ],
    ),
    "20-k8s-args.yaml": (
        ["            - --max-model-len=32768", "            - --swap-space=4"],
        [
            "            - --max-model-len=4096",
            "            - --enforce-eager",
            "            - name: PYTORCH_CUDA_ALLOC_CONF",
            '              value: "expandable_segments:True"',
        ],
    ),
    "21-k8s-shell.yaml": (
        ['    args: ["vllm serve Qwen/Qwen2-VL-7B-Instruct --max-model-len 8192 --swap-space 4 --port 8000"]'],
        [
            "    env:",
            "      - name: PYTORCH_CUDA_ALLOC_CONF",
            '        value: "expandable_segments:True"',
            '    args: ["vllm serve Qwen/Qwen2-VL-7B-Instruct --max-model-len 4096 --port 8000 --enforce-eager"]',
        ],
    ),
    "22-k8s-command.yaml": (
        ["      - command:", "        - --swap-space", '        - "4"', '        - "8192"'],
        [
            "      - env:",
            "          - name: PYTORCH_CUDA_ALLOC_CONF",
            '            value: "expandable_segments:True"',
            "        command:",
            '        - "4096"',
            "        - --enforce-eager",
        ],
    ),
    "23-Dockerfile": (
        ['     "--swap-space", "4", \\', '     "--max-model-len", "32768"]'],
        [f"ENV {SET}", '     "--max-model-len", "4096", "--enforce-eager"]'],
    ),
    "24-shell.Dockerfile": (
        ["    --max-model-len 8192 \\", "    --swap-space 4"],
        [f"ENV {SET}", "    --max-model-len 4096 \\", "    --enforce-eager"],
    ),
    "25-vllm.service": (
        ["    --max-model-len 32768 \\", "    --swap-space 4 \\", "    --port 3001"],
        [f"Environment={SET}", "    --max-model-len 4096 \\", "    --port 3001 \\", "    --enforce-eager"],
    ),
    "26-shell.service": (
        [
            """ExecStart=/bin/bash -lc 'source /opt/venv/bin/activate && exec vllm serve "$MODEL" --swap-space 4 --max-model-len 8192'"""
        ],
        [
            f"Environment={SET}",
            """ExecStart=/bin/bash -lc 'source /opt/venv/bin/activate && exec vllm serve "$MODEL" --max-model-len 4096 --enforce-eager'""",
        ],
    ),
    "27-supervisord.conf": (
        [
            "    --swap-space 4",
            "    --max-model-len 8192 ; tokens",
            'environment=HF_HOME="/models",CUDA_VISIBLE_DEVICES="0"',
        ],
        [
            "    --max-model-len 4096 ; tokens",
            "    --enforce-eager",
            'environment=HF_HOME="/models",CUDA_VISIBLE_DEVICES="0",PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"',
        ],
    ),
    "28-shell.conf": (
        [
            'command = bash -c "exec vllm serve %(ENV_MODEL)s --max-model-len 8192 --swap-space 4 > /var/log/vllm.log 2>&1"'
        ],
        [
            'environment=PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"',
            'command = bash -c "exec vllm serve %(ENV_MODEL)s --max-model-len 4096 --enforce-eager > /var/log/vllm.log 2>&1"',
        ],
    ),
}


def read(name: str) -> str:
    return (DATA / name).read_bytes().decode()


def changed(name: str) -> str:
    text = read(name)
    return apply(text, the_command(find_commands(text, name=name), text), EDITS)


def test_every_file_has_an_expectation() -> None:
    assert sorted(EXPECTED) == FILES
    assert len(FILES) >= 20


@pytest.mark.parametrize("name", FILES)
def test_only_what_was_meant_changes(name: str) -> None:
    before, after = read(name), changed(name)
    lines = list(difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    gone = [line[2:] for line in lines if line.startswith("- ")]
    come = [line[2:] for line in lines if line.startswith("+ ")]
    expected_gone, expected_come = EXPECTED[name]
    assert gone == [line + "\n" for line in expected_gone]
    assert come == [line + "\n" for line in expected_come]


@pytest.mark.parametrize("name", FILES)
def test_a_second_application_changes_nothing(name: str) -> None:
    once = changed(name)
    assert apply(once, the_command(find_commands(once, name=name), once), EDITS) == once


@pytest.mark.parametrize("name", FILES)
def test_what_a_version_refuses_is_gone_after_the_change(name: str) -> None:
    versions = Versions.exact("0.20.0")
    text = read(name)
    assert [
        p.argument.replace("_", "-").partition("=")[0]
        for p in check_command(the_command(find_commands(text, name=name), text), versions)
    ] == ["--swap-space"]
    after = changed(name)
    assert check_command(the_command(find_commands(after, name=name), after), versions) == ()


# --- independent readers: what would really be started ---

STUB = """#!{python}
import json, os, sys
name = os.path.basename(sys.argv[0])
args = sys.argv[1:]
if name in ("ssh", "tmux"):
    os.execv("/bin/bash", ["bash", "-c", args[-1]])
if name in ("vllm", "docker", "python", "python3") and "proxy_server.py" not in args:
    with open(os.environ["SEEN"], "a") as out:
        out.write(json.dumps([[name, *args], os.environ.get("PYTORCH_CUDA_ALLOC_CONF")]) + "\\n")
if name == "numactl":
    os.execvp(args[2], args[2:])
"""
STUBS = (
    "vllm",
    "python",
    "python3",
    "docker",
    "ssh",
    "tmux",
    "numactl",
    "curl",
    "pkill",
    "sleep",
    "readlink",
    "tee",
    "nohup",
)


def run_shell(text: str, folder: Path, as_loop: bool = False) -> tuple[list[str], str | None]:
    """What bash hands to the server: stand-ins for the programs write down their arguments."""
    text = (
        text.replace("/opt/venv/bin/vllm", "vllm")
        .replace("cd /srv/vllm &&", "cd . &&")
        .replace("cd /srv &&", "cd . &&")
    )
    text = (
        text.replace("source /opt/venv/bin/activate", ":")
        .replace("source venv/bin/activate", ":")
        .replace("/var/log/", "./")
    )
    if as_loop:
        text = text.replace("while true", "for once in 1").replace("kill 0", ":")
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).stderr == ""
    bin_dir = folder / "bin"
    bin_dir.mkdir(exist_ok=True)
    for stub in STUBS:
        path = bin_dir / stub
        path.write_text('#!/bin/sh\nexec "$@"\n' if stub == "nohup" else STUB.format(python=sys.executable))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    seen = folder / "seen"
    seen.write_text("")
    env = {
        "PATH": f"{bin_dir}:{os.environ['PATH']}",
        "SEEN": str(seen),
        "MODEL": "some/model",
        "HOME": str(folder),
        "TP": "2",
    }
    subprocess.run(
        ["bash", "-c", text + "\nwait\n", "start.sh", "arg/model"],
        env=env,
        cwd=folder,
        capture_output=True,
        timeout=30,
        check=False,
    )
    calls = [json.loads(line) for line in seen.read_text().splitlines()]
    assert len(calls) == 1, calls
    return calls[0][0], calls[0][1]


def of_compose(text: str) -> tuple[list[str], str | None]:
    service = next(s for s in yaml.safe_load(text)["services"].values() if "vllm" in str(s))
    words: list[str] = []
    for part in (service.get("entrypoint", []), service["command"]):
        words += part if isinstance(part, list) else shlex.split(part)
    env = service.get("environment", {})
    if isinstance(env, list):
        env = dict(item.split("=", 1) for item in env)
    return words, env.get("PYTORCH_CUDA_ALLOC_CONF")


def of_kubernetes(text: str) -> tuple[list[str], str | None]:
    def containers(node: Any) -> Any:
        if isinstance(node, dict):
            yield from node.get("containers", [])
            for value in node.values():
                yield from containers(value)

    found = next(c for doc in yaml.safe_load_all(text) for c in containers(doc))
    env = {item["name"]: item.get("value") for item in found.get("env", [])}
    return [*found.get("command", []), *found.get("args", [])], env.get("PYTORCH_CUDA_ALLOC_CONF")


def of_dockerfile(text: str) -> tuple[list[str], str | None]:
    """Line by line, the way the reference describes it: comment lines vanish, then continuations are joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    env = dict(pair.split("=", 1) for line in joined if line.startswith("ENV ") for pair in shlex.split(line[4:]))
    start = next(line for line in joined if line.startswith(("CMD", "ENTRYPOINT"))).split(None, 1)[1]
    words = json.loads(start) if start.startswith("[") else ["/bin/sh", "-c", start]
    return words, env.get("PYTORCH_CUDA_ALLOC_CONF")


def of_systemd(text: str) -> tuple[list[str], str | None]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", ";"))]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    pairs = [pair for line in joined if line.startswith("Environment=") for pair in shlex.split(line.partition("=")[2])]
    start = next(line for line in joined if line.startswith("ExecStart=")).partition("=")[2]
    return shlex.split(start), dict(pair.split("=", 1) for pair in pairs).get("PYTORCH_CUDA_ALLOC_CONF")


def of_supervisor(text: str) -> tuple[list[str], str | None]:
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"), strict=False)
    parser.read_string(text)
    env = parser.get("program:vllm", "environment", fallback="")
    pairs = dict(pair.split("=", 1) for pair in shlex.split(env.replace(",", " "))) if env else {}
    return shlex.split(parser.get("program:vllm", "command")), pairs.get("PYTORCH_CUDA_ALLOC_CONF")


READERS = {".yaml": of_compose, ".yml": of_compose, ".service": of_systemd, ".conf": of_supervisor}


def started(name: str, text: str, folder: Path) -> tuple[list[str], str | None]:
    if name.endswith(".sh"):
        words, env = run_shell(text, folder, as_loop=name.startswith("15"))
        if words[0] == "docker":
            pairs = [words[k + 1] for k, word in enumerate(words) if word == "-e"]
            env = dict(pair.split("=", 1) for pair in pairs).get("PYTORCH_CUDA_ALLOC_CONF")
        return words, env
    if "Dockerfile" in name:
        return of_dockerfile(text)
    if "k8s" in name:
        return of_kubernetes(text)
    return READERS[Path(name).suffix](text)


def arguments(words: list[str]) -> list[str]:
    """Split up `--x=y` and shell lines, so that two manners of saying the same compare equal."""
    flat = [part for word in words for part in (shlex.split(word) if " " in word and "serve" in word else [word])]
    return [
        part.replace("_", "-") if part.startswith("--") else part
        for word in flat
        for part in word.split("=", 1)
        if part.strip()
    ]


@pytest.mark.parametrize("name", FILES)
def test_an_independent_reader_finds_the_arguments_that_were_meant(name: str, tmp_path: Path) -> None:
    before, old_env = started(name, read(name), tmp_path)
    after, new_env = started(name, changed(name), tmp_path)
    expected = arguments(before)
    at = expected.index("--swap-space")
    del expected[at : at + 2]
    expected[expected.index("--max-model-len") + 1] = "4096"
    found = arguments(after)
    if name == "11-docker-run.sh":
        at = found.index("PYTORCH_CUDA_ALLOC_CONF")
        del found[at - 1 : at + 2]
    assert sorted(found) == sorted([*expected, "--enforce-eager"])
    assert (old_env, new_env) == (None, "expandable_segments:True")

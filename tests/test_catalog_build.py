"""The generator reads a release twice, adds only what is new, and takes what it cannot read for an error."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import build_catalog

ARG_UTILS = """
import argparse
from dataclasses import dataclass, fields
import torch
import transformers
from pydantic import Field
from vllm.config import CacheConfig

assert not torch.cuda.is_available()


def get_kwargs(cls):
    kwargs = {}
    for field in fields(cls):
        default = getattr(field.default, "default", field.default)
        kwargs[field.name] = {"default": default}
        if "bool" in str(field.type):
            kwargs[field.name]["action"] = argparse.BooleanOptionalAction
    return kwargs


@dataclass
class EngineArgs:
    model: str = "m"

    @staticmethod
    def add_cli_args(parser):
        cache_kwargs = get_kwargs(CacheConfig)
        parser.add_argument("--model", type=str, default=EngineArgs.model)
        parser.add_argument("--utilization", "-u", **cache_kwargs["utilization"])
        parser.add_argument("--swap", **{**cache_kwargs["swap"], "default": DEFAULT})
        parser.add_argument("--dtype", type=str, choices=["auto", "half"], default="auto")
        EXTRA
        return parser


class AsyncEngineArgs(EngineArgs):
    pass
"""
FILES = {
    "vllm/__init__.py": "import torch\nraise RuntimeError('the package itself is never executed')\n",
    "vllm/config.py": (
        "import torch\nfrom pydantic import Field\nfrom pydantic.dataclasses import dataclass\n\n@dataclass\n"
        "class CacheConfig:\n    utilization: float = Field(default=0.9, gt=0)\n    swap: bool | None = None\n"
    ),
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": ARG_UTILS,
    "vllm/engine/llm_engine.py": "",
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/openai/__init__.py": "",
    "vllm/entrypoints/openai/cli_args.py": (
        "import argparse\nfrom vllm.engine.arg_utils import AsyncEngineArgs\n\n\ndef make_arg_parser():\n"
        "    parser = argparse.ArgumentParser()\n    parser.add_argument('--port', type=int, default=8000)\n"
        "    return AsyncEngineArgs.add_cli_args(parser)\n"
    ),
    "vllm/envs.py": (
        "import os\nfrom typing import Any, Callable\n\nenvironment_variables: dict[str, Callable[[], Any]] = {\n"
        "    'VLLM_WAIT': lambda: int(os.getenv('VLLM_WAIT', '5')),\n"
        "    'VLLM_ROOM': lambda: str(os.getpid()),\n    'VLLM_PLACE': lambda: os.path.expanduser('~/vllm'),\n    'LD_PATH': lambda: None,\n}\n"
    ),
    "vllm/metrics.py": (
        "import prometheus_client\nfrom prometheus_client import Counter, Gauge\n\nGauge(name='vllm:running')\n"
        "if show_hidden_metrics:\n    Counter(name='vllm:old')\nCounter('vllm:done')\n"
    ),
}

Make = Callable[..., None]


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty catalogue, and a folder for made-up releases."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setattr(build_catalog, "DATA", data)
    (tmp_path / "sources").mkdir()
    return tmp_path / "sources"


def release(sources: Path, name: str, default: str = "4", extra: str = "pass", **files: str) -> None:
    for path, text in {**FILES, **files}.items():
        (sources / name / path).parent.mkdir(parents=True, exist_ok=True)
        (sources / name / path).write_text(text.replace("DEFAULT", default).replace("EXTRA", extra))


def build(sources: Path) -> int:
    return build_catalog.main(["--sources", str(sources)])


def table(name: str) -> list[str]:
    return [line for line in (build_catalog.DATA / name).read_text().splitlines() if not line.startswith("#")]


def test_options_variables_and_metrics_are_read_without_torch_or_vllm(sources: Path) -> None:
    release(sources, "1.0")
    assert build(sources) == 0
    assert table("flags.tsv") == [
        '--dtype\t1.0..\tvalue\ttype="str"\tdefault="auto"\tchoices=["auto","half"]',
        '--help\t1.0..\tswitch\talso=["-h"]',
        '--model\t1.0..\tvalue\ttype="str"\tdefault="m"',
        '--port\t1.0..\tvalue\ttype="int"\tdefault=8000',
        '--swap\t1.0..\tpair\toff=["--no-swap"]\tdefault=4',
        '--utilization\t1.0..\tvalue\talso=["-u"]\ttype="str"\tdefault=0.9',
    ]
    assert table("envs.tsv") == [
        'VLLM_PLACE\t1.0..\tvariable\tdefault="~/vllm"',
        "VLLM_ROOM\t1.0..\tvariable",
        "VLLM_WAIT\t1.0..\tvariable\tdefault=5",
    ]
    assert table("metrics.tsv") == [
        "vllm:done_total\t1.0..\tcounter",
        "vllm:old_total\t1.0..\tcounter\thidden",
        "vllm:running\t1.0..\tgauge",
    ]


def test_only_a_new_release_is_read_and_its_differences_are_printed(
    sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release(sources, "1.0")
    build(sources)
    shutil.rmtree(sources / "1.0/vllm/engine")  # nobody may look there again
    release(sources, "1.1", default="5", extra='parser.add_argument("--fresh", action="store_true")')
    capsys.readouterr()
    assert build(sources) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == ["vLLM 1.1", "  added --fresh", "  --swap: default 4 -> 5"]
    assert "reading vLLM 1.0" not in said.err
    assert "options: 7" in said.err
    assert '--swap\t1.0\tpair\toff=["--no-swap"]\tdefault=4' in table("flags.tsv")
    assert '--swap\t1.1..\tpair\toff=["--no-swap"]\tdefault=5' in table("flags.tsv")


def test_running_again_without_a_new_release_changes_nothing_byte_for_byte(sources: Path) -> None:
    release(sources, "1.0")
    release(sources, "1.0.post1", default="5")
    build(sources)
    before = {path.name: path.read_bytes() for path in build_catalog.DATA.iterdir()}
    assert build(sources) == 0
    assert {path.name: path.read_bytes() for path in build_catalog.DATA.iterdir()} == before


FAULTS = [
    (
        'for n in "ab": parser.add_argument("--odd-" + n)',
        "only when executed: --odd-a, --odd-b; only in the text: nothing",
    ),
    (
        'if torch.cuda.is_available(): parser.add_argument("--gpu")',
        "only when executed: nothing; only in the text: --gpu",
    ),
    ('raise RuntimeError("boom")', "RuntimeError: boom"),
]


@pytest.mark.parametrize(("extra", "reason"), FAULTS)
def test_a_release_that_cannot_be_read_is_an_error_and_no_hole(
    sources: Path, capsys: pytest.CaptureFixture[str], extra: str, reason: str
) -> None:
    release(sources, "1.0")
    build(sources)
    before = {path.name: path.read_bytes() for path in build_catalog.DATA.iterdir()}
    release(sources, "1.1", extra=extra)
    assert build(sources) == 1
    assert f"vLLM 1.1: {reason}" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in build_catalog.DATA.iterdir()} == before


def test_a_parser_module_that_fails_is_an_error_and_no_empty_list(
    sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release(sources, "1.0", **{"vllm/config.py": "CacheConfig = None\n"})
    assert build(sources) == 1
    assert "vLLM 1.0" in capsys.readouterr().err


def test_a_parser_that_differs_from_run_to_run_is_an_error(sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release(sources, "1.0", extra='parser.add_argument("--luck", default=next(iter({*"abcdefghijklmnopqrst"})))')
    assert build(sources) == 1
    assert "vLLM 1.0: its parser differs from run to run: --luck" in capsys.readouterr().err


def test_of_choices_left_to_luck_all_those_in_the_text_are_kept() -> None:
    """0.8.5 makes argparse's choices from the first of a set of two `Literal` types."""
    executed = {"--luck": {"also": [], "off": [], "default": None, "default_known": True, "choices": ["a", "b"]}}
    read = {"--luck": build_catalog.static.Option("--luck", default=None, choices=["a", "b", "c"])}
    build_catalog._compare_options("1.0", executed, read, Counter())
    assert executed["--luck"]["choices"] == ["a", "b", "c"]

"""The token estimate, the stress script, the probes, and how a script fix is found by name."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scripts_loader import load

from vlogdiag.launch.scripts import UnknownScript, read_script, script_file, script_names

tokens = load("token_estimate")
stress = load("stress")

# Sizes and tokens as smart_resize() of transformers 4.57.6 computes them with each family's limits (markers not counted).
KNOWN = [
    (1920, 1080, "qwen3-vl", (1920, 1088), 2040),
    (1920, 1080, "qwen2.5-vl", (1932, 1092), 2691),
    (4000, 3000, "qwen3-vl", (4000, 3008), 11750),
    (6000, 4000, "qwen2-vl", (4368, 2912), 16224),
    (100, 100, "qwen3-vl", (256, 256), 64),
    (20, 20, "qwen2-vl", (56, 56), 4),
    (1024, 1024, "qwen3-vl", (1024, 1024), 1024),
    (3024, 4032, "qwen2.5-vl", (3024, 4032), 15552),
    (42, 70, "qwen2-vl", (56, 56), 4),
]


@pytest.mark.parametrize(("width", "height", "family", "size", "count"), KNOWN)
def test_tokens_are_those_of_the_models_own_processor(
    width: int, height: int, family: str, size: tuple[int, int], count: int
) -> None:
    assert tokens.scaled_size(width, height, family) == size
    assert tokens.image_tokens(width, height, family) == count + 2


@given(st.integers(1, 9000), st.integers(1, 9000), st.sampled_from(sorted(tokens.FAMILIES)), st.integers(1024, 16384))
def test_a_pixel_budget_keeps_the_token_budget(width: int, height: int, family: str, budget: int) -> None:
    if max(width, height) > 100 * min(width, height):
        return  # a strip of one patch cannot shrink further
    assert tokens.image_tokens(width, height, family, max_pixels=tokens.pixels_for(budget, family)) <= budget


@pytest.mark.parametrize("size", [(0, 5), (1, 201), (5000, 10)])
def test_sizes_that_the_processors_refuse(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError):
        tokens.image_tokens(*size)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl"),
        ("/models/qwen2_5... Qwen2.5-VL-7B-AWQ", "qwen2.5-vl"),
        ("Qwen2-VL-2B", "qwen2-vl"),
        ("qwen3vl", "qwen3-vl"),
        ("Qwen/Qwen3-8B", None),
        ("llava", None),
    ],
)
def test_the_family_is_in_the_models_name(model: str, family: str | None) -> None:
    assert tokens.family_of(model) == family


def test_an_unknown_family_is_counted_like_the_dearest() -> None:
    assert tokens.image_tokens(1920, 1080, None) == 2693


def test_the_command_line_takes_sizes_and_files(tmp_path: Path) -> None:
    Image.new("RGB", (640, 480)).save(tmp_path / "a.png")
    command = [sys.executable, str(script_file("token_estimate")), "1024x1024", str(tmp_path / "a.png"), "0x1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"1024x1024: 1024x1024, 1026 tokens\n{tmp_path / 'a.png'}: 640x480, 302 tokens\n"
    assert (done.returncode, done.stderr) == (1, "0x1: a picture of 0x1 has no pixels\n")


# --- stress ---


class Server(ThreadingHTTPServer):
    """Answers chat requests; `plan` gives the status by the request's number."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan: dict[int, int] = {}
        self.bodies: list[dict[str, object]] = []
        self.keys: list[str | None] = []
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.keys.append(self.headers["Authorization"])
            number = len(self.server.bodies)
        status = self.server.plan.get(number, 200)
        if status == 0:
            return  # closes the connection without an answer
        content = json.dumps({"choices": [{}]} if status == 200 else {"error": {}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as standin:
        threading.Thread(target=standin.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield standin
        standin.shutdown()


def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_five_rounds_of_five_pictures_that_all_differ(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert stress.main([address(server), "--model", "m", "--side", "64", "--api-key", "k"]) == 0
    assert len(server.bodies) == 25
    urls = {json.dumps(body["messages"]) for body in server.bodies}
    assert len(urls) == 25
    assert set(server.keys) == {"Bearer k"}
    out = capsys.readouterr().out.splitlines()
    assert [line.split(";")[0] for line in out] == [*(f"round {n}: 5 ok" for n in range(1, 6)), "in all: 25 ok"]


def test_failures_are_counted_by_kind_and_the_status_tells(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.plan = {2: 503, 3: 0, 7: 503}
    assert stress.main([address(server), "--model", "m", "--side", "32", "--rounds", "2", "--at-once", "4"]) == 1
    assert "in all: 5 ok, " in capsys.readouterr().out.replace("2 HTTP 503, 1 broken off", "").replace(
        "1 broken off, 2 HTTP 503", ""
    )


def test_a_round_without_an_answer_is_the_last_one(server: Server) -> None:
    server.plan = dict.fromkeys(range(1, 100), 500)
    assert stress.main([address(server), "--model", "m", "--side", "32"]) == 1
    assert len(server.bodies) == 5


def test_a_server_that_is_not_there_is_status_3(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert stress.main([f"http://127.0.0.1:{port}", "--model", "m", "--side", "32"]) == 3
    assert "5 refused" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["http://192.0.2.1:8000", "--model", "m"],
        ["http://example.com", "--model", "m"],
        ["127.0.0.1:8000", "--model", "m"],
        ["http://127.0.0.1:1", "--model", "m", "--rounds", "21"],
        ["http://127.0.0.1:1", "--model", "m", "--at-once", "17"],
        ["http://127.0.0.1:1", "--model", "m", "--side", "5000"],
        ["http://127.0.0.1:1", "--model", "m", "--timeout", "601"],
        ["http://127.0.0.1:1"],
    ],
)
def test_the_bounds_cannot_be_passed(options: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        stress.main(options)
    assert stop.value.code == 2


def test_the_bounds_hold_for_callers_too(server: Server) -> None:
    answers = stress.run(address(server), "m", rounds=99, at_once=99, side=32, say=lambda text: None)
    assert len(answers) == len(server.bodies) == stress.MOST_IN_ALL


def test_the_generated_picture_is_a_real_one() -> None:
    image = Image.open(io.BytesIO(stress.picture(100, 7)))
    image.load()
    assert (image.size, image.mode, len(set(image.get_flattened_data()))) == ((100, 100), "RGB", 16)


# --- probes and names ---


def test_the_probes_leave_a_slow_start_half_an_hour_and_a_busy_server_its_time() -> None:
    probes = yaml.safe_load(read_script("k8s_probes"))
    assert sorted(probes) == ["livenessProbe", "readinessProbe", "startupProbe"]
    for probe in probes.values():
        assert probe["httpGet"] == {"path": "/health", "port": 8000}
        assert 1 <= probe["timeoutSeconds"] <= probe["periodSeconds"]
    assert probes["startupProbe"]["periodSeconds"] * probes["startupProbe"]["failureThreshold"] >= 1800
    assert probes["livenessProbe"]["periodSeconds"] * probes["livenessProbe"]["failureThreshold"] >= 300


def test_every_script_says_where_it_goes() -> None:
    assert script_names() == (
        "k8s_probes",
        "proxy_timeouts",
        "resize_images",
        "stress",
        "token_estimate",
        "validate_request",
    )
    for name in script_names():
        assert "Where it goes: " in read_script(name), name


def test_scripts_need_nothing_of_vlogdiag() -> None:
    for name in script_names():
        code = "\n".join(line for line in read_script(name).splitlines() if line.startswith(("import", "from")))
        assert "vlogdiag" not in code


def test_a_script_is_found_with_and_without_its_ending() -> None:
    assert read_script("resize_images") == read_script("resize_images.py")
    assert script_file("k8s_probes.yaml").name == "k8s_probes.yaml"


@pytest.mark.parametrize("name", ["resize_image", "../facts", "resize_images.yaml", "", "/etc/passwd"])
def test_an_unknown_script_is_an_answer_with_the_nearest(name: str) -> None:
    with pytest.raises(
        UnknownScript, match="did you mean resize_images" if name.startswith("resize") else "no script named"
    ):
        read_script(name)

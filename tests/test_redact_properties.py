"""No planted secret survives in any header or wrapper, and nothing that a diagnosis needs is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from redact_plants import HEADERS, WRAPPERS, Plant, planted_lines, plants, survives

from vlogdiag.snapshot.redact import Redactor, redact_stream

DATA = Path(__file__).parent / "data" / "redact"
SURVIVORS = (DATA / "survivors.txt").read_text().splitlines()
SHAPES = sorted((DATA / "shapes").glob("*.log"))
SHARED = Path(__file__).parents[2] / "shared"

# Shrinking ten lines of nested JSON takes minutes; the message of the first failure says enough.
RELAXED = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate), print_blob=False
)

blocks = st.lists(planted_lines(), min_size=10, max_size=10)


def check_nothing_survives(lines: list[tuple[str, Plant]]) -> None:
    redactor = Redactor()
    for line, plant in lines:
        cleaned = redactor.line(line + "\n")
        assert cleaned.count("\n") == 1
        for secret in plant.secrets:
            part = survives(secret, cleaned)
            assert part is None, f"{part!r} of a {plant.kind} survived:\n{line!r}\n{cleaned!r}"
        assert Redactor().line(cleaned) == cleaned, "cleaned text is changed by cleaning it again"
    assert sum(redactor.counts().values()) >= len(lines)


@settings(RELAXED, max_examples=150, derandomize=True)
@given(blocks)
def test_no_generated_secret_survives(lines: list[tuple[str, Plant]]) -> None:
    check_nothing_survives(lines)


@pytest.mark.long
@settings(RELAXED, max_examples=2_000)
@given(blocks)
def test_no_generated_secret_survives_20000_lines(lines: list[tuple[str, Plant]]) -> None:
    check_nothing_survives(lines)


@pytest.mark.parametrize("wrapper", sorted(WRAPPERS))
def test_what_a_diagnosis_needs_survives(wrapper: str) -> None:
    """Flags, sizes, versions, model names, times, addresses of this machine: unchanged behind every header."""
    for number, message in enumerate(SURVIVORS):
        header = HEADERS[number % len(HEADERS)] if "pid=" not in message and "INFO" not in message else "{m}"
        line = WRAPPERS[wrapper](header.replace("{m}", message)).replace("llmbox", "localhost")
        assert Redactor().line(line) == line


@settings(RELAXED, max_examples=150)
@given(st.sampled_from(SURVIVORS), plants.filter(lambda plant: plant.kind in ("user", "host", "ip", "email")))
def test_a_name_or_address_costs_nothing_beside_it(survivor: str, plant: Plant) -> None:
    cleaned = Redactor().line(f"INFO 01-24 10:22:37 [x.py:1] {plant.message} | {survivor}")
    assert cleaned.startswith("INFO 01-24 10:22:37 [x.py:1] ")
    assert cleaned.endswith(f" | {survivor}")


@settings(RELAXED, max_examples=200)
@given(planted_lines())
def test_the_fast_path_and_the_slow_one_agree(planted: tuple[str, Plant]) -> None:
    line = planted[0]
    assert Redactor().line(line) == Redactor(gate=lambda _: True).line(line)


@pytest.mark.parametrize("path", SHAPES, ids=lambda p: p.stem)
def test_the_fast_path_and_the_slow_one_agree_on_logs(path: Path) -> None:
    text = path.read_text()
    assert Redactor().text(text) == Redactor(gate=lambda _: True).text(text)


def plant_into(path: Path) -> tuple[str, list[Plant]]:
    """The log with one secret of each of forty draws put behind the header of a line of its own."""
    generator = random.Random(f"{path.parent.name}/{path.name}")
    lines = path.read_bytes().decode("utf-8", "surrogateescape").splitlines(keepends=True)
    drawn: list[Plant] = []

    @seed(generator.randrange(2**32))
    @settings(max_examples=40, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(plants)
    def draw(plant: Plant) -> None:
        drawn.append(plant)

    draw()
    inserted: list[str] = []
    for plant in drawn:
        body = generator.choice(lines).rstrip("\r\n")
        message = plant.message.replace("\n", "\\n")
        head = body[: body.find("] ") + 2] if "] " in body[:120] else ""
        inserted.append((WRAPPERS["docker json"](message) if body.startswith("{") else head + message) + "\n")
    for line in inserted:
        lines.insert(generator.randrange(len(lines)), line)
    return "".join(lines), drawn


def check_log(path: Path) -> None:
    text, drawn = plant_into(path)
    redactor = Redactor()
    cleaned = "".join(redact_stream(text.splitlines(keepends=True), redactor))
    assert cleaned.count("\n") == text.count("\n")
    for plant in drawn:
        for secret in plant.secrets:
            assert survives(secret, cleaned) is None, (plant, survives(secret, cleaned))


@pytest.mark.parametrize("path", SHAPES, ids=lambda p: p.stem)
def test_no_secret_planted_into_a_log_survives(path: Path) -> None:
    check_log(path)


@pytest.mark.long
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared collection of real logs is not beside this checkout")
def test_no_secret_planted_into_a_collected_log_survives() -> None:
    paths = sorted([*SHARED.glob("vllm-logs/*/log.txt"), *SHARED.glob("corpus/dev/*/log.txt")])
    assert len(paths) > 100
    for path in paths:
        check_log(path)


@pytest.mark.long
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared collection of real logs is not beside this checkout")
def test_a_collected_log_loses_only_names_and_addresses() -> None:
    """Nothing was planted: whatever was replaced is an address, a host, a user's folder or a prompt."""
    redactor = Redactor()
    for path in sorted([*SHARED.glob("vllm-logs/*/log.txt"), *SHARED.glob("corpus/dev/*/log.txt")]):
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        assert "".join(redact_stream(text.splitlines(keepends=True), redactor)).count("\n") == text.count("\n")
    assert set(redactor.counts()) <= {"ip", "host", "user", "prompt"}

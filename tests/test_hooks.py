"""Telling the outside world: once an incident, never log text on a command line, never waiting for the slow."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace
from report_samples import ATTACK, KV_FINDING, hostile

from vlogdiag.hooks import AGAIN_S, PER_MINUTE, CommandHook, HookError, Hooks, MessageHook, message
from vlogdiag.model import Event, Finding, Severity

HOSTILE = hostile(ATTACK).findings[0]


def event(finding: Finding = KV_FINDING, number: int = 1, kind: str = "finding.opened") -> Event:
    return Event(kind, finding=finding, details={"incident": number})


@dataclass
class Listener:
    """A hook that remembers; it may be slow or broken."""

    told: list[Event] = field(default_factory=list)
    gate: threading.Event | None = None
    fault: Exception | None = None

    def tell(self, event: Event) -> str | None:
        if self.gate is not None:
            self.gate.wait(10)
        if self.fault is not None:
            raise self.fault
        self.told.append(event)
        return None


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def hooks(*chosen: Listener, least: Severity = Severity.ERROR) -> tuple[Hooks, list[str], Clock]:
    said: list[str] = []
    clock = Clock()
    return Hooks(chosen, least, said.append, clock), said, clock


# --- which events are told


def test_an_incident_is_told_once_however_it_grows() -> None:
    listener = Listener()
    hooked, said, _ = hooks(listener)
    hooked.event(event())
    for count in range(5):
        hooked.event(event(replace(KV_FINDING, count=count), kind="finding.updated"))
    hooked.event(event(kind="finding.closed"))
    hooked.close()
    assert [e.type for e in listener.told] == ["finding.opened"]
    assert said == []


@pytest.mark.parametrize(
    ("least", "told"), [(Severity.ERROR, [2]), (Severity.WARNING, [1, 2]), (Severity.INFO, [0, 1, 2])]
)
def test_only_what_is_severe_enough_is_told(least: Severity, told: list[int]) -> None:
    listener = Listener()
    hooked, _, _ = hooks(listener, least=least)
    for severity in Severity:
        hooked.event(event(replace(KV_FINDING, id=f"rule-{severity}", severity=severity), number=int(severity)))
    hooked.close()
    assert [int(e.finding.severity) for e in listener.told if e.finding] == told


def test_what_becomes_severe_later_is_told_then() -> None:
    listener = Listener()
    hooked, _, _ = hooks(listener)
    hooked.event(event(replace(KV_FINDING, severity=Severity.WARNING)))
    hooked.event(event(KV_FINDING, kind="finding.updated"))
    hooked.event(event(KV_FINDING, kind="finding.updated"))
    hooked.close()
    assert [e.type for e in listener.told] == ["finding.updated"]


def test_a_crash_loop_is_one_incident_until_it_has_been_quiet_for_ten_minutes() -> None:
    listener = Listener()
    hooked, said, clock = hooks(listener)
    for number in range(100):
        hooked.event(event(replace(KV_FINDING, run=number), number=number))
        clock.now += 30
    clock.now += AGAIN_S
    hooked.event(event(KV_FINDING, number=100))
    hooked.close()
    assert len(listener.told) == 2
    assert said == []


def test_two_logs_with_the_same_fault_are_two_incidents() -> None:
    listener = Listener()
    hooked, _, _ = hooks(listener)
    hooked.event(event(replace(KV_FINDING, source="a.log")))
    hooked.event(event(replace(KV_FINDING, source="b.log")))
    hooked.close()
    assert len(listener.told) == 2


def test_a_storm_is_cut_and_what_was_cut_is_said_a_few_times() -> None:
    listener = Listener()
    hooked, said, clock = hooks(listener)
    for number in range(PER_MINUTE + 70):
        hooked.event(event(replace(KV_FINDING, id=f"rule-{number}"), number=number))
    clock.now += 61
    hooked.event(event(replace(KV_FINDING, id="later"), number=999))
    hooked.close()
    assert len(listener.told) == PER_MINUTE + 1
    assert len(said) == 7 + 1  # 1, 2, 4 … 64, and at the end
    assert said[-1] == "70 findings in all were not told to --exec or --notify"


def test_a_slow_hook_holds_nobody_up() -> None:
    gate = threading.Event()
    listener = Listener(gate=gate)
    hooked, said, _ = hooks(listener)
    hooked.event(event())  # returns though nobody has heard it yet
    hooked.close(limit=0.05)
    assert listener.told == []
    assert said == ["--exec or --notify was still under way after 0.05 s"]
    gate.set()


def test_a_hook_that_raises_is_told_of_and_the_next_one_hears() -> None:
    broken, listener = Listener(fault=RuntimeError("token expired")), Listener()
    hooked, said, _ = hooks(broken, listener)
    hooked.event(event())
    hooked.event(event(replace(KV_FINDING, id="other"), number=2))
    hooked.close()
    assert len(listener.told) == 2
    assert said == ["RuntimeError: token expired"] * 2


def test_without_hooks_no_thread_is_started() -> None:
    hooked, _, _ = hooks()
    hooked.event(event())
    hooked.close()
    assert hooked._thread is None


# --- a command


def script(folder: Path, body: str) -> str:
    path = folder / "hook.py"
    path.write_text(f"import json, sys, time, os, subprocess\n{body}\n")
    return f"{sys.executable} {path}"


def test_the_command_gets_the_event_as_json_and_nothing_on_its_command_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = script(tmp_path, f"json.dump([sys.argv[1:], json.load(sys.stdin)], open({str(out)!r}, 'w'))")
    hook = CommandHook.parse(f"{command} --channel 'two words'")
    assert hook.tell(event(HOSTILE)) is None
    arguments, told = json.loads(out.read_text())
    assert arguments == ["--channel", "two words"]
    assert told["type"] == "finding.opened"
    assert told["data"]["title"].startswith(ATTACK[:100])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(3)", "ended with status 3"),
        ("pass", None),  # it does not read its input
        ("os.kill(os.getpid(), 9)", "ended with status -9"),
    ],
)
def test_how_a_command_ends(tmp_path: Path, body: str, said: str | None) -> None:
    wrong = CommandHook.parse(script(tmp_path, body)).tell(event())
    assert (wrong is None) if said is None else (wrong is not None and wrong.endswith(said))


def test_a_command_that_hangs_is_ended_with_all_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    body = (
        f"child = subprocess.Popen(['sleep', '60']); open({str(pid_file)!r}, 'w').write(str(child.pid)); time.sleep(60)"
    )
    hook = dataclasses.replace(CommandHook.parse(script(tmp_path, body)), limit=1.0)
    wrong = hook.tell(event())
    assert wrong is not None
    assert wrong.endswith("took longer than 1 s and was ended")
    state = Path(f"/proc/{pid_file.read_text()}/stat")
    for _ in range(500):  # a killed process needs its turn on a processor to die
        if not state.exists() or state.read_text().split()[2] == "Z":
            break
        time.sleep(0.01)
    else:
        pytest.fail("a child of the command lives on")


def test_a_command_that_is_not_there_is_said() -> None:
    assert (
        CommandHook.parse("/nonexistent/hook").tell(event()) == "--exec: /nonexistent/hook: no such file or directory"
    )


@pytest.mark.parametrize(("text", "said"), [("", "--exec: no command"), ("echo 'open", "--exec: No closing quotation")])
def test_a_command_that_cannot_be_read_is_refused_at_the_start(text: str, said: str) -> None:
    with pytest.raises(HookError, match=said):
        CommandHook.parse(text)


# --- a message


@pytest.fixture
def server() -> Iterator[tuple[int, list[dict[str, object]]]]:
    """A service that takes messages, on this machine."""
    received: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200 if self.path == "/" else 500)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield httpd.server_address[1], received
    httpd.shutdown()
    httpd.server_close()


def test_a_message_says_what_broke_why_where_and_what_to_do(server: tuple[int, list[dict[str, object]]]) -> None:
    port, received = server
    assert MessageHook((f"json://127.0.0.1:{port}/",)).tell(event()) is None
    (sent,) = received
    assert sent["title"] == f"vLLM: {KV_FINDING.title}"
    body = str(sent["message"]).splitlines()
    assert body[0] == KV_FINDING.cause
    assert body[1].startswith(KV_FINDING.fixes[0].title)
    assert "--" in body[1]
    assert body[2].startswith(f"{KV_FINDING.id} in {KV_FINDING.source}:{KV_FINDING.first.line}")


def test_a_service_that_refuses_is_said(server: tuple[int, list[dict[str, object]]]) -> None:
    port, _ = server
    assert (
        MessageHook((f"json://127.0.0.1:{port}/elsewhere",)).tell(event()) == "--notify: the message could not be sent"
    )


def test_an_unknown_kind_of_url_is_refused_without_showing_its_token() -> None:
    with pytest.raises(HookError) as caught:
        MessageHook(("nosuchservice://secret-token",))
    assert "secret-token" not in str(caught.value)


def test_a_message_holds_no_control_characters_of_the_log() -> None:
    title, body = message(HOSTILE)
    assert not any(ord(c) < 32 and c != "\n" for c in title + body)
    assert body.count("\n") == 2


def test_a_command_does_not_outlive_the_tail(tmp_path: Path) -> None:
    """With all that it started; what still waits is not begun."""
    started, late = tmp_path / "started", tmp_path / "late"
    script = f"echo $$ >> {started}; sleep 60 & sleep 60; touch {late}"
    telling = Hooks((CommandHook(("sh", "-c", script)),), Severity.ERROR, lambda _: None, Clock())
    telling.event(event())
    telling.event(event(replace(KV_FINDING, source="other.log"), number=2))
    end = time.monotonic() + 20
    while not (started.exists() and started.read_text()) and time.monotonic() < end:
        time.sleep(0.01)
    telling.close(0.1)
    group = int(started.read_text().split()[0])
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.01)
    else:
        raise AssertionError("the command still runs")
    assert len(started.read_text().split()) == 1

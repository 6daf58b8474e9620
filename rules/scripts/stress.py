"""Sends a few rounds of concurrent picture requests to a vLLM server and counts what came back.

Where it goes: on the machine of the server, after a change of its settings, while nobody else uses it:

    python stress.py http://127.0.0.1:3001 --model qwen3-vl
    vlogdiag scan vllm.log

Five rounds of five requests, each with one generated picture of 1024x1024 pixels and a short answer. Bounded:
at most 20 rounds, 16 requests at a time, 200 in all, and it stops after a round in which nothing was answered. Targets
other than this machine need `--remote`. Needs nothing but Python.

Exit status: 0 all answered, 1 some failed, 2 wrong usage, 3 the server could not be reached.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import ipaddress
import json
import random
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

MOST_ROUNDS, MOST_AT_ONCE, MOST_IN_ALL, MOST_SECONDS, MOST_SIDE = 20, 16, 200, 600, 4096


@dataclass(frozen=True)
class Answer:
    """What became of one request: 'ok', 'HTTP 503', 'timeout', 'refused' or 'broken off', and how long it took."""

    outcome: str
    seconds: float


def picture(side: int, seed: int) -> bytes:
    """A PNG of side x side pixels that differs by seed, so that no cache answers for it."""
    chance = random.Random(seed)
    rows = bytearray()
    block = 32
    colours = [[chance.randbytes(3) for _ in range(-(-side // block))] for _ in range(-(-side // block))]
    for y in range(side):
        row = b"".join(colour * block for colour in colours[y // block])
        rows += b"\0" + row[: 3 * side]

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(rows))) + chunk(b"IEND", b"")
    )


def ask(target: str, body: bytes, key: str | None, timeout: float) -> Answer:
    """One request to `/v1/chat/completions`."""
    address = urlsplit(target)
    make = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = make(address.hostname or "", address.port, timeout=timeout)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    start = time.monotonic()
    try:
        connection.request("POST", address.path.rstrip("/") + "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            outcome = f"HTTP {answer.status}"
        else:
            outcome = "ok" if json.loads(content).get("choices") else "empty answer"
    except ConnectionRefusedError:
        outcome = "refused"
    except TimeoutError:
        outcome = "timeout"
    except (OSError, http.client.HTTPException):
        outcome = "broken off"
    except ValueError:
        outcome = "no JSON"
    finally:
        connection.close()
    return Answer(outcome, time.monotonic() - start)


def request_body(model: str, side: int, seed: int, max_tokens: int) -> bytes:
    """A chat request with one generated picture."""
    data = base64.b64encode(picture(side, seed)).decode()
    content = [
        {"type": "text", "text": f"Describe the colours of picture {seed} in one sentence."},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
    ]
    return json.dumps(
        {"model": model, "max_tokens": max_tokens, "messages": [{"role": "user", "content": content}]}
    ).encode()


def is_local(target: str) -> bool:
    """True for an address of this machine."""
    host = urlsplit(target).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run(
    target: str,
    model: str,
    rounds: int = 5,
    at_once: int = 5,
    side: int = 1024,
    timeout: float = 120.0,
    key: str | None = None,
    say: Callable[[str], object] = print,
) -> list[Answer]:
    """All answers, round by round; stops early after a round without a single one that is ok."""
    rounds, at_once = min(rounds, MOST_ROUNDS), min(at_once, MOST_AT_ONCE)
    answers: list[Answer] = []
    for number in range(1, rounds + 1):
        count = min(at_once, MOST_IN_ALL - len(answers))
        if count <= 0:
            break
        bodies = [request_body(model, min(side, MOST_SIDE), number * 1000 + k, 64) for k in range(count)]
        with ThreadPoolExecutor(count) as pool:
            waiting = [pool.submit(ask, target, body, key, min(timeout, MOST_SECONDS)) for body in bodies]
            found = [future.result() for future in waiting]
        answers += found
        say(f"round {number}: {summary(found)}")
        if not any(answer.outcome == "ok" for answer in found):
            break
    return answers


def summary(answers: list[Answer]) -> str:
    """`4 ok, 1 HTTP 503; median 1.20 s, slowest 2.31 s`."""
    counts = Counter(answer.outcome for answer in answers)
    times = sorted(answer.seconds for answer in answers)
    said = ", ".join(
        f"{count} {outcome}" for outcome, count in sorted(counts.items(), key=lambda item: item[0] != "ok")
    )
    return f"{said}; median {times[len(times) // 2]:.2f} s, slowest {times[-1]:.2f} s"


def main(argv: list[str] | None = None) -> int:
    """Runs the rounds and prints the counts."""
    parser = argparse.ArgumentParser(description="A bounded load of picture requests on a vLLM server.")
    parser.add_argument("target", help="address of the server, such as http://127.0.0.1:3001")
    parser.add_argument("--model", required=True, help="the name the server knows it by")
    parser.add_argument("--rounds", type=int, default=5, choices=range(1, MOST_ROUNDS + 1), metavar=f"1..{MOST_ROUNDS}")
    parser.add_argument(
        "--at-once", type=int, default=5, choices=range(1, MOST_AT_ONCE + 1), metavar=f"1..{MOST_AT_ONCE}"
    )
    parser.add_argument("--side", type=int, default=1024, help=f"pixels, at most {MOST_SIDE}")
    parser.add_argument("--timeout", type=float, default=120.0, help=f"seconds a request, at most {MOST_SECONDS}")
    parser.add_argument("--api-key")
    parser.add_argument("--remote", action="store_true", help="the target is another machine, and that is meant")
    options = parser.parse_args(argv)
    if urlsplit(options.target).scheme not in ("http", "https"):
        parser.error("the target must begin with http:// or https://")
    if not is_local(options.target) and not options.remote:
        parser.error(f"{options.target} is not this machine; add --remote if that is meant")
    if not 1 <= options.side <= MOST_SIDE or not 0 < options.timeout <= MOST_SECONDS:
        parser.error("--side or --timeout is out of bounds")
    answers = run(
        options.target,
        options.model,
        options.rounds,
        options.at_once,
        options.side,
        options.timeout,
        options.api_key,
    )
    print(f"in all: {summary(answers)}")
    good = sum(answer.outcome == "ok" for answer in answers)
    if good == 0 and all(answer.outcome == "refused" for answer in answers):
        return 3
    return 0 if good == len(answers) else 1


if __name__ == "__main__":
    sys.exit(main())

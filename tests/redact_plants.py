"""Generated secrets of every kind, the spellings that carry them, and the headers and wrappers of vllm-messages.md section 0."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

ALNUM = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Plant:
    """A message that holds secrets: none of `secrets` may survive."""

    kind: str
    message: str
    secrets: tuple[str, ...]


def word(alphabet: str, low: int, high: int) -> st.SearchStrategy[str]:
    """Letters drawn as a key's would be: hypothesis' own texts are fond of `00000000`, which any log holds."""
    return st.builds(
        lambda seed, length: "".join(Random(seed).choices(alphabet, k=length)),
        st.integers(0, 2**63),
        st.integers(low, high),
    )


# --- values -----------------------------------------------------------------------------------------------------------

random_token = st.builds(
    lambda a, d, b: a + d + b, word(ALNUM, 6, 20), word(string.digits, 2, 4), word(string.ascii_letters, 4, 20)
)
provider_token = st.one_of(
    st.builds(lambda s: "hf_" + s, word(ALNUM, 34, 34)),
    st.builds(lambda s: "sk-" + s + "7", word(ALNUM, 32, 48)),
    st.builds(lambda s: "sk-proj-" + s + "3a", word(ALNUM + "_-", 40, 60).map(lambda s: s.strip("-_") + "xY9")),
    st.builds(lambda s: "sk-ant-api03-" + s, word(ALNUM, 60, 80)),
    st.builds(lambda p, s: p + s, st.sampled_from(["ghp_", "gho_", "ghs_", "ghr_"]), word(ALNUM, 36, 36)),
    st.builds(lambda a, b: f"github_pat_{a}_{b}", word(ALNUM, 22, 22), word(ALNUM, 59, 59)),
    st.builds(lambda s: "AKIA" + s, word(string.ascii_uppercase + string.digits, 16, 16)),
    st.builds(lambda s: "AIza" + s, word(ALNUM + "_", 35, 35)),
    st.builds(
        lambda p, a, b: f"xox{p}-{a}-{b}", st.sampled_from("bap"), word(string.digits, 10, 12), word(ALNUM, 24, 24)
    ),
    st.builds(
        lambda a, b, c: f"eyJ{a}.eyJ{b}.{c}", word(ALNUM, 20, 40), word(ALNUM, 20, 60), word(ALNUM + "_", 43, 43)
    ),
    st.builds(lambda s: "glpat-" + s, word(ALNUM, 20, 20)),
    st.builds(lambda s: "nvapi-" + s, word(ALNUM, 60, 64)),
)
token = st.one_of(random_token, provider_token)
# What a shell, an environment or a URL can carry unquoted; never a bare word that says "no password".
plain_password = word(ALNUM + "!@%^*_+-.~", 8, 24).map(lambda s: "p" + s.strip(".~-@") + "Zq7")
any_password = word(
    "".join(chr(code) for code in range(32, 0x250) if chr(code).isprintable() and chr(code) not in "<>{}"), 8, 24
).map(lambda s: "Kw" + s + "9x")
user = st.builds(
    lambda a, b: a + b, word(string.ascii_lowercase, 5, 8), word(string.ascii_lowercase + string.digits, 3, 6)
).map(lambda s: s + "q7")
label = st.builds(lambda a, d: a + "x" + d, word(string.ascii_lowercase, 5, 10), word(string.digits, 1, 3))
private_host = st.one_of(
    st.builds(lambda a, b: f"{a}-{b}", label, label),
    st.builds(lambda a, b: f"{a}.{b}.internal", label, label),
    st.builds(lambda a, b: f"{a}.{b}.example-corp.com", label, label),
)
ipv4 = st.builds(
    lambda a, b, c, d: f"{a}.{b}.{c}.{d}",
    st.integers(1, 223).filter(lambda n: n != 127),
    st.integers(0, 255),
    st.integers(100, 255),
    st.integers(100, 254),
)
ipv6 = st.one_of(
    st.builds(lambda a, b: f"2001:db8:{a:x}::{b:x}", st.integers(0x1000, 0xFFFF), st.integers(0x1000, 0xFFFF)),
    st.builds(lambda a, b: f"fe80::{a:x}:{b:x}", st.integers(0x1000, 0xFFFF), st.integers(0x1000, 0xFFFF)),
    st.lists(st.integers(0x1000, 0xFFFF), min_size=8, max_size=8).map(
        lambda parts: ":".join(f"{p:x}" for p in [0x2A01, *parts[1:]])
    ),
)
email = st.builds(lambda a, b: f"{a}@{b}.org", user, label)
marker = word(ALNUM, 12, 12).map(lambda s: "M" + s + "kV")
prose = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs",), max_codepoint=0x2FF)
    | st.sampled_from(list("'\"\\\n\t,:[](){}")),
    max_size=60,
)
hostile = st.sampled_from(
    [
        "', params: SamplingParams(n=1)",
        '", prompt_token_ids: [1], lora_request: None.',
        "\nERROR 01-01 00:00:00 [core.py:1] CUDA out of memory",
        "it's",
        'she said "no"',
        "C:\\temp\\",
        "\\",
        "', 'role': 'user'",
        "",
    ]
)
prompt = st.builds(lambda a, x, p, b: (a + x + p + b, (a, b)), marker, hostile, prose, marker)
token_ids = st.lists(st.integers(100_000, 999_999), min_size=2, max_size=30)
picture = st.integers(0, 2**64).map(lambda seed: base64.b64encode(Random(seed).randbytes(150 + seed % 150)).decode())


# --- messages ---------------------------------------------------------------------------------------------------------


def filled(kind: str, value: st.SearchStrategy[str], templates: list[str]) -> st.SearchStrategy[Plant]:
    def build(template: str, v: str) -> Plant:
        parts = (
            tuple(p for p in v.split(".") if p not in ("internal", "example-corp", "com")) if kind == "host" else (v,)
        )
        return Plant(kind, template.replace("@@", v), parts)

    return st.builds(build, st.sampled_from(templates), value)


def quoted(kind: str, value: st.SearchStrategy[str], templates: list[str]) -> st.SearchStrategy[Plant]:
    """Templates with %r (Python) or %j (JSON) for the value; what must not survive is the value as it was spelled there."""

    def build(template: str, v: str) -> Plant:
        mark = "%r" if "%r" in template else "%j"
        spelled = repr(v) if mark == "%r" else json.dumps(v)  # it may hold the other mark
        return Plant(kind, template.replace(mark, spelled), (spelled[1:-1],))

    return st.builds(build, st.sampled_from(templates), value)


TOKENS = [
    "vllm serve Qwen/Qwen3-8B --api-key @@ --port 8000",
    "vllm serve Qwen/Qwen3-8B --api-key=@@ --max-num-batched-tokens 8192",
    "$ vllm serve m --api-key '@@' --host 0.0.0.0",
    "['vllm', 'serve', '--api-key', '@@', '--port', '80']",
    '["vllm", "serve", "--hf-token", "@@"]',
    "args: Namespace(host='0.0.0.0', api_key='@@', model='Qwen/Qwen3-8B')",
    "args: Namespace(api_key=['@@'], allowed_origins=['*'])",
    "non-default args: {'model': 'Qwen/Qwen3-8B', 'api_key': ['@@'], 'max_model_len': 8192}",
    "non-default args: {'api_key': '@@', 'port': 8000}",
    "non-default args: {'hf_token': '@@'}",
    'body: {"api_key": "@@", "n": 1}',
    'body: {"apiKey":"@@"}',
    "HF_TOKEN=@@",
    "export HF_TOKEN=@@; vllm serve m",
    "HUGGING_FACE_HUB_TOKEN=@@ vllm serve m",
    "VLLM_API_KEY=@@ python -m vllm.entrypoints.openai.api_server",
    'OPENAI_API_KEY="@@"',
    "docker run -e HF_TOKEN=@@ -p 8000:8000 vllm/vllm-openai:v0.11.0",
    "docker run --env 'WANDB_API_KEY=@@' vllm/vllm-openai",
    "env: AWS_SECRET_ACCESS_KEY: @@",
    "Authorization: Bearer @@",
    'curl -H "Authorization: Bearer @@" http://localhost:8000/v1/models',
    "headers={'authorization': 'Bearer @@', 'host': 'localhost'}",
    "headers: [(b'authorization', b'Bearer @@'), (b'x-api-key', b'none')]",
    "[(b'x-api-key', b'@@')]",
    "x-api-key: @@",
    "X-API-Key: @@",
    "headers: {'X-Api-Key': '@@'}",
    'INFO:     127.0.0.1:5 - "GET /v1/models?token=@@ HTTP/1.1" 200 OK',
    '"GET /v1/models?a=b&access_token=@@&c=d HTTP/1.1" 200',
    "https://api.example.org/hook?key=@@",
    "git clone https://oauth2:@@@github.com/org/repo",
    "Incorrect API key provided: @@. You can find your API key in your settings.",
    "EngineArgs(model='m', hf_token='@@', tokenizer=None)",
    "api_key: SecretStr = SecretStr('@@')",
    "api_key: str = '@@'",
    "self.api_key == '@@'",
    "token => @@",
    "  token: @@",
    "ssl_key='x', admin_token=\"@@\"",
    "set-cookie: session=@@; Path=/",
    "wandb login --api-key  @@",
]
PASSWORDS_PLAIN = [
    "POSTGRES_PASSWORD=@@",
    "redis://default:@@@redis-master:6379/0",
    "postgresql://svc:@@@db.internal:5432/x",
    "mysql --password=@@ -h db",
    "--redis-password @@ --port 6379",
    "password: @@",
    "db_passwd = @@",
    "https://proxyuser:@@@proxy.corp:3128",
]
PASSWORDS_QUOTED = [
    "Namespace(ssl_keyfile_password=%r, port=8000)",
    "{'password': %r, 'n': 1}",
    'body {"password": %j}',
    'body {"user":"x","db_password":%j,"n":1}',
    "connect(password=%r)",
]
USERS = [
    'File "/home/@@/venv/lib/python3.11/site-packages/vllm/engine.py", line 3, in x',
    "model='/home/@@/models/Qwen3-8B', tokenizer='/home/@@/models/Qwen3-8B'",
    "/Users/@@/Library/Caches/huggingface",
    "C:\\Users\\@@\\models",
    "FileNotFoundError: [Errno 2] No such file or directory: '/home/@@'",
    "USER=@@ HOME=/home/@@",
    "uid=1000(@@) gid=1000(@@) groups=1000(@@),999(docker)",
    "@@@gpuboxx9:~/vllm$ vllm serve m",
    "session opened for user @@(uid=0) by (uid=0)",
    "file:///mnt/home/@@/x.json",
    "ChatCompletionRequest(model='m', user='@@', stream=False)",
    '{"model": "m", "user": "@@"}',
]
HOSTS = [
    "http://@@:8000/v1/models",
    "distributed_init_method=tcp://@@:29500 backend=nccl",
    "@@:4021:4021 [0] NCCL INFO Bootstrap : Using eth0",
    "MASTER_ADDR=@@ MASTER_PORT=29500",
    "--master-addr @@ --nnodes 2",
    "Cannot connect to host @@:443 ssl:default [Name or service not known]",
    "HTTPSConnectionPool(host='@@', port=443): Max retries exceeded with url: /x",
    "Failed to resolve '@@' ([Errno -2] Name or service not known)",
    "hostname: @@",
    "HOSTNAME=@@",
    "non-default args: {'host': '@@', 'port': 8000}",
    "Connecting to existing Ray cluster, node_name=@@",
    'upstream: "http://@@:3001/v1/chat/completions", host: "@@"',
]
IPS = [
    '@@:53412 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "(RayWorkerWrapper pid=249, ip=@@) Using Triton MLA backend.",
    "Connecting to existing Ray cluster at address: @@:6379...",
    "distributed_init_method=tcp://@@:34773 backend=nccl",
    "NCCL INFO NET/Socket : Using [0]eth0:@@<0>",
    "http://@@:8000/health",
    "remote=[@@]:42911, local=[127.0.0.1]:1",
    "non-default args: {'host': '@@'}",
    "VLLM_HOST_IP=@@",
    "x-forwarded-for: @@, 127.0.0.1",
    "Memory on the node (IP: @@, ID: 708c7b)",
    "bind to ('@@', 8000) failed",
]
IPS6 = [
    "http://[@@]:8000/health",
    "inet6 @@/64 scope link",
    "non-default args: {'host': '@@'}",
    "NCCL INFO NET/Socket : Using [0]eth0:@@%eth0<0>".replace("eth0:@@", "eth0 @@"),
    "connect to @@ failed",
]
EMAILS = ["contact @@ for access", "user.email=@@", "From: Someone <@@>", '{"email": "@@"}']


def requests() -> st.SearchStrategy[Plant]:
    templates = [
        "Received request cmpl-1: prompt: %r, params: SamplingParams(n=1, max_tokens=16), prompt_token_ids: None, lora_request: None.",
        "Received request cmpl-1: prompt: %r, sampling_params: SamplingParams(n=1), prompt_token_ids: [1, 2], lora_request: None.",
        "Received request cmpl-1: prompt: %r,prefix_pos: None,sampling params: SamplingParams(n=1)",
        "Request chatcmpl-2 details: prompt: %r, prompt_token_ids: None, prompt_embeds shape: None.",
        "Generated response cmpl-1: output: %r, output_token_ids: None, finish_reason: stop",
        "Generated response cmpl-1 (streaming complete): output: %r, finish_reason: length",
        "Error with request: ChatCompletionRequest(messages=[{'role': 'user', 'content': %r}], model='m', max_tokens=9)",
        "messages=[{'role': 'user', 'content': [{'type': 'text', 'text': %r}]}]",
        'request body: {"model": "m", "messages": [{"role": "user", "content": %j}], "max_tokens": 8}',
        'request body: {"prompt": %j, "max_tokens": 8}',
        'request body: {"prompt":[%j,%j]}',
        "CompletionOutput(index=0, text=%r, token_ids=[1, 2], cumulative_logprob=None)",
        "inputs={'prompt': %r, 'prompt_token_ids': [1]}",
        "RequestOutput(request_id=0, prompt=%r, encoder_prompt=None)",
    ]

    def build(template: str, p: tuple[str, tuple[str, str]]) -> Plant:
        text, markers = p
        mark = "%r" if "%r" in template else "%j"
        spelled = repr(text) if mark == "%r" else json.dumps(text)
        return Plant("prompt", template.replace(mark, spelled), markers)

    return st.builds(build, st.sampled_from(templates), prompt)


def ids() -> st.SearchStrategy[Plant]:
    templates = [
        "Received request cmpl-1: prompt: None, params: SamplingParams(stop_token_ids=[151645]), prompt_token_ids: @@, lora_request: None.",
        "Generated response cmpl-1: output: '', output_token_ids: @@, finish_reason: stop",
        "Dumping input data SchedulerOutput(scheduled_new_reqs=[NewRequestData(req_id=1,prompt_token_ids=@@,mm_inputs=[])])",
        "CachedRequestData(new_token_ids=[@@, []], num_computed_tokens=[5194])",
        "{'prompt_token_ids': @@}",
    ]
    return st.builds(
        lambda t, v: Plant("token-ids", t.replace("@@", str(v)), (str(v)[1:-1],)), st.sampled_from(templates), token_ids
    )


def pictures() -> st.SearchStrategy[Plant]:
    templates = [
        "{'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,@@'}}",
        'image_url: {"url": "data:image/jpeg;base64,@@"}',
        "failed to decode @@",
    ]
    return filled("image", picture, templates)


def one_line_keys() -> st.SearchStrategy[Plant]:
    def build(template: str, body: bytes, newline: str) -> Plant:
        text = base64.b64encode(body).decode()
        lines = [text[i : i + 64] for i in range(0, len(text), 64)]
        pem = newline.join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])
        return Plant("private-key", template.replace("@@", pem), tuple(line for line in lines if len(line) >= 6))

    return st.builds(
        build,
        st.sampled_from(
            [
                '{"private_key": "@@"}',
                "loaded '@@'",
                "KEY=@@",
                'service account {"type": "sa", "private_key": "@@", "id": 1}',
            ]
        ),
        st.binary(min_size=40, max_size=200),
        st.sampled_from(["\\n", "\\\\n", " "]),
    )


plants: st.SearchStrategy[Plant] = st.one_of(
    filled("token", token, TOKENS),
    filled("token", token, TOKENS),
    filled("token", provider_token, ["loading with @@ done", "x='@@'", "@@", "a\\n@@\\nb", "got <@@>"]),
    filled("password", plain_password, PASSWORDS_PLAIN),
    quoted("password", any_password, PASSWORDS_QUOTED),
    filled("user", user, USERS),
    filled("host", private_host, HOSTS),
    filled("ip", ipv4, IPS),
    filled("ip", ipv6, IPS6),
    filled("email", email, EMAILS),
    requests(),
    ids(),
    pictures(),
    one_line_keys(),
)


# --- headers and wrappers ---------------------------------------------------------------------------------------------

HEADERS = [
    "{m}",
    "INFO 01-24 10:22:37 model_runner.py:452] {m}",
    "INFO 01-24 10:22:37 [logger.py:43] {m}",
    "DEBUG 11-30 23:18:15 [v1/engine/core.py:75] {m}",
    "\x1b[1;36m(EngineCore_0 pid=412)\x1b[0;0m ERROR 07-01 20:30:01 [core.py:1197] {m}",
    "\x1b[0;36m(APIServer pid=1)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m11-22 10:00:00\x1b[0m \x1b[90m[logger.py:39]\x1b[0m {m}",
    "(APIServer pid=123) INFO 11-30 23:18:15 [loggers.py:335] {m}",
    "(VllmWorker rank=1 pid=88) WARNING 05-02 01:02:03 [x.py:9] {m}",
    "(Worker_DP0_PP0_TP1_EP3 pid=9) ERROR 05-02 01:02:03 [x.py:9] {m}\r",
    "(RayWorkerWrapper pid=811) INFO 03-02 00:30:20 cuda.py:160] {m}",
    "(RayWorkerWrapper pid=811) {m} [repeated 6x across cluster]",
    "(Worker_TP0 pid=77) {m}",
    "myprefix INFO 11-30 23:18:15 [a.py:1] {m}",
    "INFO:     {m}",
    "[rank0]:[W914 04:53:45.615225908 ProcessGroupNCCL.cpp:1476] Warning: {m}",
    "[rank3]:[E ProcessGroupNCCL.cpp:563] {m}",
    "W1130 23:05:11.854000 29507 torch/fx/x.py:72] {m}",
    "[rank2]: RuntimeError: {m}",
    "(APIServer pid=1) ValueError: {m}",
    "\x1b[31m{m}\x1b[0m",
    "2025-03-02 00:30:22,401\tINFO worker.py:1636 -- {m}",
]


def _docker(line: str, ascii_only: bool) -> str:
    return json.dumps(
        {"log": line + "\n", "stream": "stdout", "time": "2025-05-30T18:26:40.002462468Z"}, ensure_ascii=ascii_only
    )


WRAPPERS: dict[str, Callable[[str], str]] = {
    "none": lambda line: line,
    "docker json": lambda line: _docker(line, True),
    "docker json, not ascii": lambda line: _docker(line, False),
    "docker -t": lambda line: f"2026-11-30T23:18:15.123456789Z {line}",
    "cri": lambda line: f"2025-11-18T13:41:02.002875909Z stdout F {line}",
    "kubectl": lambda line: f"[pod/vllm-7d9c-x2k4p/vllm] {line}",
    "compose": lambda line: f"vllm-1  | {line}",
    "stern": lambda line: f"vllm-granite-7d9c-x2k4p vllm    {line}",
    "syslog": lambda line: f"Aug 20 21:07:15 llmbox vllm[8711]: {line}",
    "journald iso": lambda line: f"2025-08-20T21:07:15+0200 llmbox vllm[8711]: {line}",
    "cloud": lambda line: json.dumps(
        {"insertId": "x1", "severity": "INFO", "textPayload": line, "timestamp": "2025-05-30T18:26:40Z"}
    ),
    "json formatter": lambda line: json.dumps(
        {
            "asctime": "2025-05-30 18:26:40",
            "levelname": "INFO",
            "name": "vllm.x",
            "processName": "APIServer",
            "process": 1,
            "message": line,
        }
    ),
    "process and json": lambda line: "(APIServer pid=1) " + json.dumps({"message": line}),
}


@st.composite
def planted_lines(draw: st.DrawFn) -> tuple[str, Plant]:
    """One line of a log that holds a secret, in any header and wrapper, and what must not survive of it."""
    plant = draw(plants)
    name = draw(st.sampled_from(sorted(WRAPPERS)))
    message = draw(st.sampled_from(HEADERS)).replace("{m}", plant.message)
    if "json" not in name and name != "cloud":
        message = message.replace("\n", "\\n")
    return WRAPPERS[name](message), plant


def spellings(secret: str) -> set[str]:
    """How a wrapper may have spelled the secret: as it is, and escaped for JSON."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def survives(secret: str, cleaned: str) -> str | None:
    """The part of a secret that is still there (eight characters are enough to hurt), or None."""
    for spelled in spellings(secret):
        width = min(8, len(spelled))
        for at in range(len(spelled) - width + 1):
            window = spelled[at : at + width]
            if window in cleaned and (width < 8 or len(set(window)) > 3):  # `00000000` stands in any log
                return window
    return None

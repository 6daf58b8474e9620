"""What redaction replaces, what it leaves, and what it does with texts that run over several lines."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum

import pytest
from redact_plants import WRAPPERS

from vlogdiag.snapshot.credential_names import kind_of_name
from vlogdiag.snapshot.redact import Redactor, redact_stream
from vlogdiag.snapshot.stream import MAX_LINE

HF = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        ("--api-key s3cretKey99 --port 8000", "--api-key <token-1> --port 8000"),
        ("--api-key k1abcdefgh k2abcdefgh --port 8000", "--api-key <token-1> <token-2> --port 8000"),
        ("--api-key=s3cretKey99 --max-num-batched-tokens 8192", "--api-key=<token-1> --max-num-batched-tokens 8192"),
        ("['serve', '--api-key', 's3cretKey99', '--port', '1']", "['serve', '--api-key', '<token-1>', '--port', '1']"),
        (f"HF_TOKEN={HF} HF_HOME=/data/hf", "HF_TOKEN=<token-1> HF_HOME=/data/hf"),
        ("{'api_key': ['a1b2c3d4e5', None]}", "{'api_key': ['<token-1>', None]}"),
        ("Namespace(api_key='a1b2c3d4e5', port=1)", "Namespace(api_key='<token-1>', port=1)"),
        ('{"api_key": "a\\"1b2c3d4e5", "n": 1}', '{"api_key": "<token-1>", "n": 1}'),
        ("Authorization: Bearer a1b2c3d4e5", "Authorization: Bearer <token-1>"),
        ("(b'authorization', b'Bearer a1b2c3d4e5')", "(b'authorization', b'Bearer <token-1>')"),
        ("x-api-key: a1b2c3d4e5", "x-api-key: <token-1>"),
        ("GET /v1/models?token=a1b2c3&n=1 HTTP/1.1", "GET /v1/models?token=<token-1>&n=1 HTTP/1.1"),
        ("https://bob:pa55word@github.com/x", "https://<user-1>:<password-1>@github.com/x"),
        ("https://bob:pa55word@git.corp.lan/x", "https://<user-1>:<password-1>@<host-1>/x"),
        ("Basic dXNlcjpwYXNzd29yZA==", "Basic <password-1>"),
        ("redis_password = hunter2!", "redis_password = <password-1>"),
        (f"seen {HF}, done", "seen <token-1>, done"),
        ("/home/alice/venv/bin/python", "/home/<user-1>/venv/bin/python"),
        ("alice@gpubox:~/x$ vllm serve m", "<user-1>@<host-1>:~/x$ vllm serve m"),
        ("mail alice@corp.org now", "mail <email-1> now"),
        ('INFO:     10.0.0.7:53412 - "POST /x"', 'INFO:     <ip-1>:53412 - "POST /x"'),
        ("(RayWorkerWrapper pid=249, ip=10.0.0.12) x", "(RayWorkerWrapper pid=249, ip=<ip-1>) x"),
        ("http://[2001:db8::1]:8000/", "http://[<ip-1>]:8000/"),
        ("ether 02:42:ac:11:00:02 txqueuelen", "ether <mac-1> txqueuelen"),
        ("Aug 20 21:07:15 gpubox3 vllm[1]: up", "Aug 20 21:07:15 <host-1> vllm[1]: up"),
        ("gpubox3:46:46 [0] NCCL INFO Using eth0:10.0.0.7<0>", "<host-1>:46:46 [0] NCCL INFO Using eth0:<ip-1><0>"),
        ("Cannot connect to host gpubox3:443 ssl", "Cannot connect to host <host-1>:443 ssl"),
        # a key that begins like the number of a pre-release
        ("vllm serve m --api-key 7aTj9b48UCTp --port 8000", "vllm serve m --api-key <token-1> --port 8000"),
        (
            "['serve', '--api-key', '2bc2LY55VYZb', '--port', '80']",
            "['serve', '--api-key', '<token-1>', '--port', '80']",
        ),
        ("HF_TOKEN=1.0devKxQ93zt", "HF_TOKEN=<token-1>"),
        ("api_key=12+kXq93zt", "api_key=<token-1>"),
        # a constant without quotes ends where the next entry begins
        ("cfg={'hf_token':None,'password':'hunter2!'}", "cfg={'hf_token':None,'password':'<password-1>'}"),
        ("{'hf_token':True,'api_key':['a1b2c3d4e5']}", "{'hf_token':True,'api_key':['<token-1>']}"),
        ('{"hf_token":null,"password":"hunter2!"}', '{"hf_token":null,"password":"<password-1>"}'),
        ("{'hf_token':17,'password':'hunter2!'}", "{'hf_token':17,'password':'<password-1>'}"),
        # pairs of a name and its value
        ('{"name":"HF_TOKEN","value":"plainword"}', '{"name":"HF_TOKEN","value":"<token-1>"}'),
        ("{'name': 'VLLM_API_KEY', 'value': 'plainword'}", "{'name': 'VLLM_API_KEY', 'value': '<token-1>'}"),
        ('{"value":"plainword","name":"HF_TOKEN"}', '{"value":"<token-1>","name":"HF_TOKEN"}'),
        ("EnvVar(name='DB_PW', value='plainword')", "EnvVar(name='DB_PW', value='<password-1>')"),
        ("('HF_TOKEN', 'plainword')", "('HF_TOKEN', '<token-1>')"),
        ('"api_keys": {"alice": "one", "bob": "two"}', '"api_keys": {"alice": "<token-1>", "bob": "<token-2>"}'),
        # other programs' command lines and files
        ("curl -u bob:plainword http://127.0.0.1/", "curl -u <user-1>:<password-1> http://127.0.0.1/"),
        ("docker login -u bob -p plainword", "docker login -u bob -p <password-1>"),
        ("sshpass -p plainword ls", "sshpass -p <password-1> ls"),
        ("mysql -u root -pplainword db", "mysql -u root -p<password-1> db"),
        ("redis-cli -a plainword ping", "redis-cli -a <password-1> ping"),
        ("ENV HF_TOKEN plainword", "ENV HF_TOKEN <token-1>"),
        ("setx HF_TOKEN plainword", "setx HF_TOKEN <token-1>"),
        ("machine x.y login bob password plainword", "machine x.y login bob password <password-1>"),
        # sentences that refuse a key
        ("ValueError: Invalid API key: plainword", "ValueError: Invalid API key: <token-1>"),
        ("Unauthorized: api key 'plainword' is not valid", "Unauthorized: api key '<token-1>' is not valid"),
        ("DB_PW=plainword", "DB_PW=<password-1>"),
        ("MY_PAT=plainword", "MY_PAT=<token-1>"),
        ("SECRET_KEY_BASE=plainword", "SECRET_KEY_BASE=<token-1>"),
    ],
)
def test_spellings_of_secrets(line: str, cleaned: str) -> None:
    assert Redactor().line(line) == cleaned


@pytest.mark.parametrize(
    "line",
    [
        "Invalid API key: please set one with --api-key",
        "The token 'hello' is not in the vocabulary; the token '<|im_end|>' is",
        "api key 'OPENAI_API_KEY' is not set",
        "names: ['HF_TOKEN', 'OPENAI_API_KEY'] and ('HF_TOKEN', 'MODEL_NAME')",
        "('eos_token', 'pad_token') ['token', 'classification']",
        "set ENV HF_TOKEN to download gated models",
        "{'hf_token':None,'enforce_eager':True}",
        '{"name":"HF_HOME","value":"/data/hf"} {"name":"HF_TOKEN","valueFrom":{"secretKeyRef":{"name":"hf"}}}',
        "login with password authentication failed",
        "auth_token=0.8.5.post1+cu121 api_key=2.5.1.dev20250218 hf_token=0.9.2rc1, secret=7",
        "file_pat=*.log",
        "curl -s http://127.0.0.1:8000/health -p",
        "mysql --port 3306",
        "'credentials': {'type': 'service_account', 'region': 'eu-west'}",
    ],
)
def test_what_only_looks_like_a_secret_stays(line: str) -> None:
    assert Redactor().line(line) == line


def test_the_value_of_a_pair_on_the_next_line() -> None:
    lines = [
        "        - name: HF_TOKEN\n",
        "          value: plainword\n",
        "        - name: MODE\n",
        "          value: plainwords\n",
        '    "name": "VLLM_API_KEY",\n',
        '    "value": "otherword"\n',
        "        - name: HF_TOKEN\n",
        "          valueFrom:\n",
        "            secretKeyRef:\n",
    ]
    cleaned = list(redact_stream(lines, Redactor()))
    hidden = {1: "          value: <token-1>\n", 5: '    "value": "<token-2>"\n'}
    assert cleaned == [hidden.get(k, line) for k, line in enumerate(lines)]


def test_prompts_are_replaced_by_length_and_digest() -> None:
    line = 'Received request c: prompt: "it\'s 13 chars", params: SamplingParams(n=1), lora_request: None.'
    cleaned = Redactor().line(line)
    assert cleaned.startswith('Received request c: prompt: "<prompt 13 chars sha256:')
    assert cleaned.endswith('>", params: SamplingParams(n=1), lora_request: None.')


def test_token_ids_are_replaced_by_count_and_digest() -> None:
    cleaned = Redactor().line("NewRequestData(prompt_token_ids=[11, 22, 33], stop_token_ids=[44], new_token_ids=[])")
    assert cleaned.startswith("NewRequestData(prompt_token_ids=[<token-ids 3 numbers sha256:")
    assert cleaned.endswith(">], stop_token_ids=[44], new_token_ids=[])")


def test_pictures_are_replaced_by_length_and_digest() -> None:
    cleaned = Redactor().line("'url': 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=='")
    assert cleaned.startswith("'url': 'data:image/png;base64,<image 24 chars sha256:")


@pytest.mark.parametrize("wrapper", sorted(WRAPPERS))
@pytest.mark.parametrize(
    "text", ["it's", 'say "x"', """both ' and \" quotes""", "ends in \\", "', params: SamplingParams(n=9)", "a\nb\\n'c"]
)
def test_a_prompt_ends_where_its_quotes_end(wrapper: str, text: str) -> None:
    """However often it was quoted: what follows the prompt is still there, the prompt is not."""
    prompt = f"Qfirst {text} lastQ"
    line = WRAPPERS[wrapper](
        f"INFO 01-24 10:22:37 [logger.py:43] Received request c: prompt: {prompt!r}, "
        "params: SamplingParams(n=1, max_tokens=16), lora_request: None."
    )
    cleaned = Redactor().line(line)
    assert "Qfirst" not in cleaned
    assert "lastQ" not in cleaned
    assert "params: SamplingParams(n=1, max_tokens=16), lora_request: None." in cleaned


def test_kept_prompts_are_kept_and_keys_are_not() -> None:
    line = f"Received request c: prompt: 'my key is {HF}', params: SamplingParams(n=1)"
    cleaned = Redactor(keep_prompts=True).line(line)
    assert cleaned == "Received request c: prompt: 'my key is <token-1>', params: SamplingParams(n=1)"


def test_nothing_is_changed_without_redaction() -> None:
    redactor = Redactor(enabled=False)
    assert redactor.line(f"HF_TOKEN={HF}\n") == f"HF_TOKEN={HF}\n"
    assert redactor.text(f"HF_TOKEN={HF}") == f"HF_TOKEN={HF}"
    assert redactor.data({"api_key": HF}) == {"api_key": HF}
    assert redactor.counts() == {}


# --- several lines ----------------------------------------------------------------------------------------------------

KEY_BODY = ["MIIEpAIBAAKCAQEA1c7+9z5Pad7OejecsQ0buPxWHbbjqYQx1r4ZR6zu9vBYs1Tk", "Ab3dE+/9", "q=="]


@pytest.mark.parametrize("wrapper", sorted(WRAPPERS))
@pytest.mark.parametrize("header", ["", "(APIServer pid=1) ERROR 11-30 23:18:15 [x.py:3] "])
def test_a_private_key_over_several_lines_is_hidden_and_every_line_stays(wrapper: str, header: str) -> None:
    lines = ["before", "-----BEGIN RSA PRIVATE KEY-----", *KEY_BODY, "-----END RSA PRIVATE KEY-----", "after it"]
    wrapped = [WRAPPERS[wrapper](header + line) for line in lines]
    redactor = Redactor()
    cleaned = [redactor.line(line) for line in wrapped]
    for body in KEY_BODY:
        assert not any(body in line for line in cleaned[2:5])
    assert all("<private-key-" in line for line in cleaned[2:5])
    assert cleaned[0].replace("<host-1>", "llmbox") == wrapped[0]
    assert cleaned[6].replace("<host-1>", "llmbox") == wrapped[6]


def test_another_speaker_inside_a_private_key_is_left_alone() -> None:
    redactor = Redactor()
    redactor.line("(A pid=1) ERROR 11-30 23:18:15 [x.py:3] -----BEGIN PRIVATE KEY-----\n")
    other = "(B pid=2) ERROR 11-30 23:18:15 [y.py:4] CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert redactor.line(other) == other
    assert KEY_BODY[0] not in redactor.line(f"(A pid=1) ERROR 11-30 23:18:15 [x.py:3] {KEY_BODY[0]}\n")


def test_a_prompt_with_raw_line_breaks_is_hidden_to_its_end() -> None:
    lines = [
        "INFO 01-24 10:22:37 [logger.py:43] Received request c: prompt: 'first secret\r\n",
        "INFO 01-24 10:22:37 [logger.py:43] second secret\r\n",
        "third secret\n",
        "last secret', params: SamplingParams(n=1), lora_request: None.\n",
        "INFO 01-24 10:22:38 [loggers.py:9] Running: 1 reqs\n",
    ]
    cleaned = list(redact_stream(lines, Redactor()))
    assert "secret" not in "".join(cleaned)
    assert cleaned[1].startswith("INFO 01-24 10:22:37 [logger.py:43] <prompt ")
    assert cleaned[3].endswith("', params: SamplingParams(n=1), lora_request: None.\n")
    assert cleaned[4] == lines[4]


def test_a_prompt_that_was_cut_off_ends_at_the_next_record() -> None:
    lines = [
        "INFO 01-24 10:22:37 [logger.py:43] Received request c: prompt: 'cut here\n",
        "ERROR 01-24 10:22:38 [core.py:1] CUDA out of memory\n",
        "Traceback (most recent call last):\n",
    ]
    assert list(redact_stream(lines, Redactor()))[1:] == lines[1:]


def test_a_flag_whose_value_stands_on_the_next_line() -> None:
    lines = [
        "    - --api-key\n",
        "    - s3cretvalue\n",
        "    - --port\n",
        "vllm serve --hf-token \\\n",
        "   abcdefgh12\n",
    ]
    cleaned = list(redact_stream(lines, Redactor()))
    assert cleaned == [lines[0], "    - <token-1>\n", lines[2], lines[3], "   <token-2>\n"]


# --- one memory for the whole bundle ----------------------------------------------------------------------------------


def test_the_same_value_has_the_same_placeholder_everywhere() -> None:
    redactor = Redactor()
    assert redactor.line("http://gpubox3:8000 10.0.0.7") == "http://<host-1>:8000 <ip-1>"
    assert redactor.text("Aug 20 21:07:15 gpubox4 vllm[1]: x\nhttp://GPUBOX3:1") == (
        "Aug 20 21:07:15 <host-2> vllm[1]: x\nhttp://<host-1>:1"
    )
    assert redactor.value("ip", "10.0.0.7") == "<ip-1>"


def test_a_value_once_seen_is_found_where_nothing_tells_what_it_is() -> None:
    redactor = Redactor()
    redactor.line("--api-key s3cretKey99xx --port 1")
    redactor.line("Aug 20 21:07:15 gpubox3 vllm[1]: x")
    redactor.line("/home/aliceb/x")
    assert (
        redactor.line("got s3cretKey99xx on gpubox3 in /data/aliceb/y")
        == "got <token-1> on <host-1> in /data/<user-1>/y"
    )
    assert redactor.line("gpubox30 and mygpubox3") == "gpubox30 and mygpubox3"


@pytest.mark.parametrize("name", ["vllm", "user", "ubuntu", "gpu", "model", "worker"])
def test_a_name_that_logs_use_as_a_word_is_not_looked_for_everywhere(name: str) -> None:
    redactor = Redactor(known={"host": [name], "user": [name]})
    line = f"the {name} said {name}: {name}"
    assert redactor.line(line) == line


def test_a_user_called_like_a_word_of_the_rules_costs_no_evidence() -> None:
    redactor = Redactor(known={"user": ["will"], "host": ["scheduler"]}, vocabulary=frozenset(["will", "scheduler"]))
    assert redactor.line("the scheduler will wait for /data/will/x") == "the scheduler will wait for /data/<user-1>/x"
    assert redactor.line("/home/will/x http://scheduler:1") == "/home/<user-1>/x http://<host-1>:1"
    assert redactor.line("the scheduler will wait") == "the scheduler will wait"


def test_what_the_caller_knows_is_replaced_wherever_it_stands_as_a_word() -> None:
    redactor = Redactor(known={"host": ["tigerlake"], "user": ["meike"]})
    assert redactor.line("meike started tigerlake, tigerlakes") == "<user-1> started <host-1>, tigerlakes"


def test_counts_tell_kinds_and_never_values() -> None:
    redactor = Redactor()
    redactor.text("10.0.0.7 10.0.0.7 10.0.0.8\nHF_TOKEN=" + HF)
    assert redactor.counts() == {"ip": 3, "token": 1}
    assert redactor.distinct() == {"ip": 2, "token": 1}


class Colour(Enum):
    RED = "10.0.0.7"


@dataclass(frozen=True)
class Thing:
    host: str
    text: str
    colour: Colour
    inner: tuple[object, ...]


def test_data_is_cleaned_by_key_and_by_text_and_keeps_its_shape() -> None:
    redactor = Redactor()
    thing = Thing("gpubox3", "at 10.0.0.7", Colour.RED, (1, None, 2.5, {"api_key": ["abc12345"], "port": 8000}))
    assert redactor.data(thing) == Thing(
        "<host-1>", "at <ip-1>", Colour.RED, (1, None, 2.5, {"api_key": ["<token-1>"], "port": 8000})
    )
    assert redactor.data({"user": "alice1", "prompt": "my secret", "n": 3})["user"] == "<user-1>"
    assert "my secret" not in str(redactor.data({"prompt": "my secret"}))


# --- shape and cost ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r\r\n"])
def test_line_ends_stay(end: str) -> None:
    assert Redactor().line(f"at 10.0.0.7{end}") == f"at <ip-1>{end}"


def test_colours_stay_where_nothing_is_replaced() -> None:
    line = "\x1b[1;36m(EngineCore pid=1)\x1b[0;0m \x1b[32mINFO\x1b[0m at \x1b[1m10.0.0.7\x1b[0m, up"
    assert Redactor().line(line) == line.replace("10.0.0.7", "<ip-1>")


def test_a_colour_inside_a_secret_does_not_save_it() -> None:
    cleaned = Redactor().line(f"HF_TOKEN=\x1b[1m{HF[:12]}\x1b[32m{HF[12:]}\x1b[0m ok")
    assert cleaned == "HF_TOKEN=\x1b[1m<token-1>\x1b[0m ok"


def test_broken_bytes_survive_as_they_are() -> None:
    line = b"\xff\xfe at 10.0.0.7 \x80".decode("utf-8", "surrogateescape")
    assert Redactor().line(line).encode("utf-8", "surrogateescape") == b"\xff\xfe at <ip-1> \x80"


def test_a_line_of_megabytes_is_cut_and_says_so() -> None:
    cleaned = Redactor().line("x " * MAX_LINE + f"HF_TOKEN={HF}\n")
    assert HF not in cleaned
    assert "<line " in cleaned
    assert cleaned.endswith(">\n")
    assert len(cleaned) <= MAX_LINE + 100


HOSTILE = (
    *(
        "token",
        'api_key="',
        "prompt: '",
        "\\'",
        "a@",
        "1.",
        "a:",
        "http://",
        "A1b",
        "/home/",
        "ab:",
        "?a=b&",
        '{"a":',
        "host=a.",
    ),
    *(
        "bearer ",
        "--api-key a b ",
        "sk-",
        "eyJaaaaaaaa.",
        'user="',
        "\x1b[1m",
        "-----BEGIN PRIVATE KEY-----",
        "prompt_token_ids=[",
    ),
    *("curl ", "mysql -x ", "docker login ", "login b password ", "machine ", "invalid api key: ", "api key '"),
    *('"name": "HF_TOKEN", ', "value: A_TOKEN, name: ", "ENV A_TOKEN ", "('A_TOKEN', 'b', ", "api_keys: {'a': 'b', "),
    *("hf_token:None,", "A_PAT "),
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_lines_cost_linear_time(piece: str) -> None:
    """Sixteen times the text takes about sixteen times as long; quadratic would be 256 times.

    The quickest of a few: the processor may be taken away within any one of them.
    """

    def seconds(count: int) -> float:
        begin = time.thread_time()
        Redactor().line(piece * count)
        return time.thread_time() - begin

    count = 5_000 // len(piece)
    few = min(seconds(count) for _ in range(5))
    assert any(seconds(16 * count) < 80 * max(few, 0.001) for _ in range(5))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("--api-key", "token"),
        ("VLLM_API_KEY", "token"),
        ("apiKey", "token"),
        ("openai.api_key", "token"),
        ("HF_TOKEN", "token"),
        ("access_token", "token"),
        ("token", "token"),
        ("AWS_SECRET_ACCESS_KEY", "token"),
        ("STRIPE_KEY", "token"),
        ("DB_PASS", "password"),
        ("--redis-password", "password"),
        ("proxy-authorization", "authorization"),
        ("max_tokens", None),
        ("eos_token", None),
        ("image_token", None),
        ("tokenizer", None),
        ("max_num_batched_tokens", None),
        ("cache_key", None),
        ("CACHE_KEY", None),
        ("keyword", None),
        ("PWD", None),
        ("auth_token.py", None),
        ("bypass", None),
    ],
)
def test_names_of_secrets(name: str, kind: str | None) -> None:
    assert kind_of_name(name) == kind

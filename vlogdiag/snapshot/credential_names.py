"""Says of a name (flag, variable, JSON key, header) whether what follows it is a secret."""

from __future__ import annotations

import re
from functools import lru_cache

from vlogdiag.snapshot.spans import words

_PASSWORD = ("password", "passwords", "passwd", "passphrase")
_SHORT_PASSWORD = ("_pass", "-pass", "_pwd", "-pwd", "_pw", "-pw")
_TOKEN = tuple(
    words("""
    apikey apikeys accesskey accesskeys accesskeyid secretkey secretaccesskey privatekey encryptionkey signingkey sshkey
    masterkey authkey accountkey subscriptionkey licensekey sharedkey adminkey secret secrets credential credentials
    connectionstring webhook webhookurl sentrydsn apitokens accesstokens authtokens bearertokens secrettokens
    sharedaccesssignature secretkeybase
    """)
)

_VOCABULARY = words("""
    accepted additional after all assistant audio before begin bitmap bod boi bonus bos cached call chat channel cls
    code column content cost count decode decoder delta draft each embed embedding end eod eoi eom eos eot expected
    fake fim first frame generated generation image img in input invalid kv last latency mask max mean middle min mm
    modality multi multimodal new newline next no num number of one out output pad page parser patch per placeholder
    prefill prefix prev previous prompt query reasoning role row sampled sec second seconds sep separator seq single
    soft special speech start step stop suffix system target text think thinking tik tile time timestamp tool tools
    total tpot ttft unexpected unique unk unknown video vision vocab wait wasted word
    """)
"""`X_token` is a secret unless X says that a model's vocabulary or an amount is meant."""

_PLAIN_KEYS = ("CACHE_KEY", "PUBLIC_KEY", "PRIMARY_KEY", "SORT_KEY", "HASH_KEY", "PARTITION_KEY", "GROUP_KEY")
"""Upper-case names that end in _KEY are a program's secrets but for these."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@lru_cache(maxsize=8192)
def kind_of_name(name: str) -> str | None:
    """'token', 'password', 'authorization' or 'cookie' for a name whose value is a secret, else None.

    Spelling does not matter: `--api-key`, `VLLM_API_KEY`, `x-api-key`, `apiKey`, `openai.api_key` are one name.
    """
    last = name.rsplit(".", 1)[-1].strip("_-").rstrip("0123456789_-")
    lower = last.lower()
    flag = name.startswith("-")
    bare = "".join(c for c in lower if c.isalnum())
    if not bare:
        return None
    if bare.endswith(("authorization", "authorisation")):
        return "authorization"
    if bare in ("cookie", "setcookie"):
        return "cookie"
    if bare.endswith(_PASSWORD) or lower.endswith(_SHORT_PASSWORD) or last == "pwd":
        return "password"
    if last == "pass" and flag:
        return "password"
    if bare.endswith(_TOKEN) or lower.endswith(("_auth", "-auth")) or (last == "auth" and flag):
        return "token"
    if bare.endswith("token"):
        parts = [part.lower() for part in _PARTS.findall(last)][:-1]
        return None if parts and parts[-1] in _VOCABULARY else "token"
    if last.isupper() and last.endswith("_PAT"):  # a personal access token; `file_pat` is a pattern
        return "token"
    if last.isupper() and last.endswith("_KEY") and not last.endswith(_PLAIN_KEYS):
        return "token"
    return None

"""How the keys of well-known providers look, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator

import regex

from vlogdiag.snapshot.spans import START, TIMEOUT, Span

SHAPES: tuple[tuple[str, regex.Pattern[str]], ...] = tuple(
    (mark, regex.compile(pattern))
    for mark, pattern in (
        ("hf_", r"hf_[A-Za-z0-9]{20,}"),  # Hugging Face
        ("api_org_", r"api_org_[A-Za-z0-9]{20,}"),
        ("sk-", START + r"sk-(?=[\w-]{0,60}\d)[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic, OpenRouter, DeepSeek, LiteLLM
        ("k-lf-", START + r"[sp]k-lf-[A-Za-z0-9_-]{16,}"),  # Langfuse
        ("k_live_", START + r"[srp]k_live_[A-Za-z0-9]{16,}"),  # Stripe
        ("k_test_", START + r"[srp]k_test_[A-Za-z0-9]{16,}"),
        ("whsec_", START + r"whsec_[A-Za-z0-9+/]{20,}={0,2}"),
        ("ghp_", r"ghp_[A-Za-z0-9]{20,}"),  # GitHub
        ("gho_", r"gho_[A-Za-z0-9]{20,}"),
        ("ghu_", r"ghu_[A-Za-z0-9]{20,}"),
        ("ghs_", r"ghs_[A-Za-z0-9]{20,}"),
        ("ghr_", r"ghr_[A-Za-z0-9]{20,}"),
        ("github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
        ("gl", r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas)-[A-Za-z0-9_.-]{16,}"),  # GitLab
        ("AKIA", START + r"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),  # Amazon
        ("ASIA", START + r"ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
        ("AIza", r"AIza[A-Za-z0-9_-]{30,}"),  # Google
        ("ya29.", r"ya29\.[A-Za-z0-9_-]{20,}"),
        ("GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{20,}"),
        ("xox", r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}"),  # Slack
        ("xapp-", r"xapp-[A-Za-z0-9-]{10,}"),
        ("eyJ", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),  # JSON web token
        ("nvapi-", r"nvapi-[A-Za-z0-9_-]{20,}"),  # NVIDIA
        ("npm_", r"npm_[A-Za-z0-9]{30,}"),
        ("pypi-", r"pypi-[A-Za-z0-9_-]{40,}"),
        ("dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
        ("_v1_", r"(?:do[opr]|wandb|tgp)_v1_[A-Za-z0-9_-]{20,}"),  # DigitalOcean, Weights & Biases, Together
        ("r8_", START + r"r8_[A-Za-z0-9]{30,}"),  # Replicate
        ("gsk_", START + r"gsk_[A-Za-z0-9]{20,}"),  # Groq
        ("xai-", START + r"xai-[A-Za-z0-9]{20,}"),
        ("fw_", START + r"fw_[A-Za-z0-9]{20,}"),  # Fireworks
        ("rpa_", START + r"rpa_[A-Z0-9]{30,}[a-z0-9]*"),  # RunPod
        ("ms-", START + r"ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),  # ModelScope
        ("LTAI", START + r"LTAI[A-Za-z0-9]{12,26}(?![A-Za-z0-9])"),  # Alibaba
        ("AKID", START + r"AKID[A-Za-z0-9]{28,36}(?![A-Za-z0-9])"),  # Tencent
        ("SG.", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),  # SendGrid
        ("hv", START + r"hv[sbr]\.[A-Za-z0-9_-]{20,}"),  # Vault
        (":AA", START + r"\d{8,10}:AA[A-Za-z0-9_-]{30,40}(?![A-Za-z0-9_-])"),  # Telegram
        ("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    )
)
"""The shapes of well-known providers, each with a text that stands in everything it matches."""
SHORTEST = 15
"""No shape matches a word shorter than this."""


def find_shapes(line: str) -> Iterator[Span]:
    """Every key of a known shape in the line."""
    for mark, pattern in SHAPES:
        if mark in line:
            for match in pattern.finditer(line, timeout=TIMEOUT):
                yield Span(*match.span(), "token")

"""Turns the place where an unknown error was raised into what is worth trying: at most three remedies, all to check."""

from __future__ import annotations

from typing import NamedTuple

from vlogdiag import catalog
from vlogdiag.catalog import Versions
from vlogdiag.model import Fix, Record

__all__ = ["guesses"]

MOST = 3
IMPORTS = ("ImportError", "ModuleNotFoundError", "OSError: lib", "NameError", "AttributeError: module", "SyntaxError")


class _Guess(NamedTuple):
    """A remedy, and the words of a traceback that speak for it."""

    title: str
    frames: tuple[str, ...]
    remove_flags: tuple[str, ...] = ()
    run: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    question: str = "Do the frames of the traceback point there?"


REINSTALL = _Guess(
    "Reinstall vLLM in a fresh environment, so that every package has the version that it pins",
    (),
    run="pip install --force-reinstall --no-cache-dir vllm",
    question="Was another package installed, upgraded or built since it last worked?",
)
GUESSES = (
    _Guess(
        "Run without speculative decoding (leave --speculative-config out)",
        ("/spec_decode/", "eagle", "_mtp.py", "medusa", "drafter"),
        ("--speculative-config",),
    ),
    _Guess("Serve without the LoRA adapter, or merge it into its base model", ("/vllm/lora/", "add_lora"), ()),
    _Guess(
        "Serve without moving KV blocks (leave --kv-transfer-config out)", ("/kv_transfer/",), ("--kv-transfer-config",)
    ),
    _Guess("Run without AITER's kernels", ("/aiter/",), env=(("VLLM_ROCM_USE_AITER", "0"),)),
    _Guess(
        "Run without prefix caching (--no-enable-prefix-caching; in V0 leave --enable-prefix-caching out)",
        ("kv_cache_manager", "block_pool", "prefix_caching", "evictor"),
    ),
    _Guess(
        "Re-download the checkpoint with its own config.json, and see that this vLLM knows its format",
        ("load_weights", "weight_loader", "weight_utils", "/model_loader/", "safetensors"),
        run="hf download OWNER/NAME --local-dir /path/to/model --force-download",
        question="Does the checkpoint belong to its config.json, and is it complete?",
    ),
    _Guess(
        "Install the transformers release that this vLLM was made with (the model may want a newer one of both)",
        ("/transformers/", "transformers_modules", "/transformers_utils/", "/tokenizers/", "get_tokenizer"),
        run="pip show vllm transformers; pip check",
        question="Does transformers have the version that this vLLM's requirements ask for?",
    ),
    _Guess(
        "Compare processor files (preprocessor_config.json) with the original model's, and try one small picture",
        ("/multimodal/", "processing_", "image_processing", "embed_multimodal", "get_multimodal_embeddings"),
    ),
    _Guess(
        "Clear the compile cache (torch_compile_cache), which may hold half-made files",
        ("/vllm/compilation/", "/torch/_inductor/", "/torch/_dynamo/"),
        run="rm -rf ~/.cache/vllm/torch_compile_cache",
    ),
    _Guess(
        "Reinstall the kernel package that failed (flashinfer, triton, deep_gemm, flash-attn) as this vLLM pins it",
        ("/flashinfer/", "/triton/", "deep_gemm", "/flash_attn/", "/xformers/"),
        run="pip install --force-reinstall vllm",
    ),
)
UPGRADE = "Upgrade vLLM: faults of one release are mostly mended in the next (or go back to the last one that worked)"


def guesses(record: Record, raised: str, versions: Versions) -> tuple[Fix, ...]:
    """What to try first for an error that no signature knows, by what was `raised` and in which files."""
    text = record.text
    found = [REINSTALL] if raised.startswith(IMPORTS) else []
    found += [guess for guess in GUESSES if any(words in text for words in guess.frames)]
    fixes = [_fix(guess, versions) for guess in found[: MOST - 1]]
    newest = Versions.all().newest
    fixes.append(
        Fix(
            UPGRADE,
            disposition="check",
            upgrade=f">={newest}" if newest and versions.within(Versions.of(newest)) is not True else None,
            question="Do vLLM's issues know this message, and say which release mends it?",
        )
    )
    return tuple(fixes)


def _fix(guess: _Guess, versions: Versions) -> Fix:
    known = tuple(flag for flag in guess.remove_flags if catalog.flag(flag, versions).exists is not False)
    return Fix(
        guess.title,
        disposition="check",
        remove_flags=known,
        env=dict(guess.env),
        run=guess.run,
        question=guess.question,
    )

"""The model's folder: the keys of config.json that decide, files against the index, readable weights, chat template."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vlogdiag.model import Unavailable
from vlogdiag.snapshot.collect.base import Collected, Context
from vlogdiag.snapshot.collect.safetensors import check_weights
from vlogdiag.snapshot.spans import words

NAME = "model_folder"
MAX_JSON = 32 << 20
MAX_FILES = 2000

KEYS = words("""
    architectures model_type hidden_size intermediate_size num_hidden_layers num_attention_heads
    num_key_value_heads head_dim vocab_size max_position_embeddings rope_scaling rope_parameters rope_theta
    sliding_window tie_word_embeddings dtype torch_dtype quantization_config transformers_version auto_map
    num_experts num_local_experts num_experts_per_tok n_routed_experts moe_intermediate_size kv_lora_rank
    q_lora_rank layer_types use_sliding_window max_window_layers depth patch_size spatial_merge_size
    temporal_patch_size image_size num_heads embed_dim out_hidden_size fullatt_block_indexes
    deepstack_visual_indexes hidden_act image_token_id video_token_id bos_token_id eos_token_id pad_token_id
    text_config vision_config audio_config speech_config llm_config quant_method bits group_size desc_act
    config_groups fmt activation_scheme weight_block_size modules_to_not_convert linear_attention mamba_d_state
    full_attention_interval
    """)
TEMPLATES = ("chat_template.jinja", "chat_template.json")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "tiktoken.model")


def collect(context: Context) -> Collected:
    """Facts about the model's files; nothing of their contents but configuration."""
    folder = find_model_folder(context)
    name = model_name(context)
    if folder is None:
        reason = "no model is named" if name is None else f"{name}: neither a folder here nor in a Hugging Face cache"
        return Collected(NAME, {"model": name}, unavailable=(Unavailable("model folder", reason),))
    try:
        sizes = _sizes(folder)
    except OSError as error:
        return Collected(
            NAME, {"model": name}, unavailable=(Unavailable("model folder", error.strerror or str(error)),)
        )
    missing: list[Unavailable] = []
    config = _json(folder / "config.json", missing)
    generation = _json(folder / "generation_config.json", [])
    tokenizer = _json(folder / "tokenizer_config.json", missing)
    index = _json(folder / "model.safetensors.index.json", [])
    data: dict[str, Any] = {
        "model": name,
        "folder": str(folder),
        "config": _picked(config),
        "generation_config": generation,
        "files": sizes,
        "broken_links": sorted(file.name for file in folder.iterdir() if file.is_symlink() and not file.exists()),
        "unfinished_downloads": _unfinished(folder),
        "weights": check_weights(folder, sizes, index),
        "tokenizer": {
            "files": [file for file in TOKENIZERS if file in sizes],
            "class": tokenizer.get("tokenizer_class") if isinstance(tokenizer, Mapping) else None,
            "processor": next((f for f in ("preprocessor_config.json", "processor_config.json") if f in sizes), None),
        },
        "chat_template": _template(folder, sizes, tokenizer),
    }
    return Collected(NAME, data, unavailable=tuple(missing))


def model_name(context: Context) -> str | None:
    """The model as it was named: on the command line, else by the log."""
    for value in (context.arguments.get("model_tag"), context.arguments.get("model")):
        if isinstance(value, str) and value:
            return value
    return context.run.model if context.run is not None else None


def find_model_folder(context: Context) -> Path | None:
    """The folder given by hand, else the one that the model's name means: a path, or a repository in the cache."""
    if context.model_path is not None:
        return context.model_path if context.model_path.is_dir() else None
    name = model_name(context)
    if name is None:
        return None
    leader = context.leader
    base = Path(leader.folder) if leader is not None and leader.folder else Path()
    direct = base / Path(name).expanduser()
    if direct.is_dir():
        return direct
    return _cached(name, context)


def _cached(name: str, context: Context) -> Path | None:
    """`org/model` to the snapshot that Hugging Face's cache has of it, the one that `main` means first."""
    environment = context.seen_environment
    home = Path(environment.get("HOME") or "/root")
    caches = [
        environment.get("HF_HUB_CACHE"),
        environment.get("HUGGINGFACE_HUB_CACHE"),
        f"{environment['HF_HOME']}/hub" if environment.get("HF_HOME") else None,
        str(Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "huggingface/hub"),
        _text(context.arguments.get("download_dir")),
    ]
    for cache in caches:
        if not cache:
            continue
        repository = Path(cache) / f"models--{name.replace('/', '--')}"
        try:
            commit = (repository / "refs/main").read_text().strip()
        except OSError:
            commit = ""
        snapshots = [repository / "snapshots" / commit] if commit else []
        snapshots += sorted((repository / "snapshots").glob("*")) if repository.is_dir() else []
        for snapshot in snapshots:
            if snapshot.is_dir():
                return snapshot
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _sizes(folder: Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for path in sorted(folder.iterdir())[:MAX_FILES]:
        try:
            if path.is_file():
                sizes[path.name] = path.stat().st_size
        except OSError:
            continue  # a link that leads nowhere, or not permitted
    return sizes


def _json(path: Path, missing: list[Unavailable]) -> Any:
    try:
        with path.open("rb") as file:
            return json.loads(file.read(MAX_JSON))
    except OSError as error:
        missing.append(Unavailable(path.name, error.strerror or str(error)))
    except (ValueError, RecursionError) as error:
        missing.append(Unavailable(path.name, f"not JSON: {error}"))
    return None


def _picked(value: Any, depth: int = 0) -> Any:
    """The keys of the list, in nested configurations too; long lists by their ends."""
    if isinstance(value, Mapping) and depth < 4:
        inner = depth > 0 and not value.keys() & KEYS
        return {str(k): _picked(v, depth + 1) for k, v in value.items() if k in KEYS or inner}
    if isinstance(value, list):
        shown = [_picked(item, depth + 1) for item in value[:8]]
        return [*shown, f"… {len(value)} in all"] if len(value) > 8 else shown
    return value[:500] if isinstance(value, str) else value


def _unfinished(folder: Path) -> list[str]:
    """`*.incomplete` of a Hugging Face download, in the repository's blobs or the folder's own cache."""
    places = [folder.parent.parent / "blobs", folder / ".cache/huggingface/download"]
    return sorted(path.name for place in places if place.is_dir() for path in place.glob("*.incomplete"))[:50]


def _template(folder: Path, sizes: Mapping[str, int], tokenizer: Any) -> dict[str, Any] | None:
    """Where a chat template stands, by length and digest."""
    for name in TEMPLATES:
        if name in sizes:
            try:
                content = (folder / name).read_bytes()[:MAX_JSON]
            except OSError:
                continue
            return {"in": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()[:16]}
    template = tokenizer.get("chat_template") if isinstance(tokenizer, Mapping) else None
    if isinstance(template, str):
        digest = hashlib.sha256(template.encode("utf-8", "replace")).hexdigest()[:16]
        return {"in": "tokenizer_config.json", "bytes": len(template), "sha256": digest}
    return None

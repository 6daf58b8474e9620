"""Picks from a process's environment what decides how vLLM runs; everything else stays where it is."""

from __future__ import annotations

from collections.abc import Mapping

from vlogdiag.snapshot.spans import words

PREFIXES = tuple(
    words("""
    VLLM_ NCCL_ GLOO_ CUDA_ PYTORCH_ TORCH RAY_ TRITON_ FLASHINFER_ NVIDIA_ NVSHMEM_ UCX_ FI_ HIP_ HSA_ ROCR_ ROCM_
    RCCL_ XLA_ TPU_ OMP_ MKL_ KMP_ GOMP_ LMCACHE_ NIXL_ DG_JIT_ CUTLASS_ HF_HUB_ SLURM_
    """)
)
NAMES = words("""
    HF_HOME HF_ENDPOINT HF_DATASETS_CACHE HUGGINGFACE_HUB_CACHE TRANSFORMERS_CACHE TRANSFORMERS_OFFLINE
    MODELSCOPE_CACHE MAX_JOBS CUDACXX CC CXX LD_LIBRARY_PATH LD_PRELOAD LIBRARY_PATH PATH PYTHONPATH
    PYTHONHASHSEED PYTHONUNBUFFERED VIRTUAL_ENV CONDA_PREFIX TMPDIR XDG_CACHE_HOME XDG_CONFIG_HOME MASTER_ADDR
    MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK TOKENIZERS_PARALLELISM MALLOC_CONF
    LD_BIND_NOW SAFETENSORS_FAST_GPU LANG LC_ALL TZ http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY
    NO_PROXY all_proxy ALL_PROXY NO_COLOR FORCE_COLOR KUBERNETES_SERVICE_HOST container
    """)
SECRETS = words("HF_HUB_TOKEN RAY_REDIS_PASSWORD RAY_AUTH_TOKEN")


def allowed(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of the list, sorted by name; values may still hold secrets, which redaction takes out."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if (name.startswith(PREFIXES) or name in NAMES) and name not in SECRETS
    }

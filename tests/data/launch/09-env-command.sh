#!/bin/bash
exec env HF_HUB_OFFLINE=1 numactl --cpunodebind=0 --membind=0 \
  /opt/venv/bin/vllm serve "${MODEL:?}" \
  --max_model_len 8192 --swap_space 4 \
  "$@"

#!/usr/bin/env bash
# Starts vLLM on port 3001 and the proxy in front of it on port 8000.
set -euo pipefail
MODEL=/models/Qwen3-VL-8B-Instruct

nohup vllm serve "$MODEL" \
  --host 127.0.0.1 --port 3001 \
  --gpu-memory-utilization 0.9 \
  --max-model-len 131072 \
  --swap-space 8 \
  > vllm.log 2>&1 &

python proxy_server.py --port 8000

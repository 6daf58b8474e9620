#!/bin/bash
# 一键启动：vLLM (3001) + proxy (8000)
MODEL_PATH=${MODEL_PATH:-/root/models/Qwen3-VL-8B}
ACTUAL_MODEL_PATH=$(readlink -f "$MODEL_PATH")
MAX_LEN=32768   # 上下文长度
GPU_UTIL="0.6"

pkill -f "vllm serve" || true
export CUDA_VISIBLE_DEVICES=0
nohup vllm serve "$ACTUAL_MODEL_PATH" \
  --served-model-name qwen3-vl \
  --port 3001 \
  --gpu-memory-utilization "$GPU_UTIL" \
  --max-model-len "$MAX_LEN" \
  --swap-space 8 > vllm.log 2>&1 &

until curl -sf http://127.0.0.1:3001/health; do sleep 2; done
nohup python proxy_server.py > proxy.log 2>&1 &

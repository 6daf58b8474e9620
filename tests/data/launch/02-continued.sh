#!/usr/bin/env bash
set -euo pipefail
# 启动 vLLM，日志写入 vllm.log
source /opt/venv/bin/activate
mkdir -p logs
nohup vllm serve /models/Qwen3-VL-8B \
    --host 0.0.0.0 --port 3001 \
    --max-model-len 32768 \
    --swap-space 8 \
    --gpu-memory-utilization 0.85 \
    > logs/vllm.log 2>&1 &
echo $! > vllm.pid

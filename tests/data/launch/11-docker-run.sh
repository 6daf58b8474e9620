#!/bin/bash
docker run -d --name vllm --gpus '"device=0"' --ipc=host \
  -e HF_TOKEN=hf_abcdefghijkl \
  -p 3001:8000 \
  -v ~/.cache/huggingface:/root/.cache/huggingface \
  vllm/vllm-openai:v0.11.0 \
  --model Qwen/Qwen2.5-VL-7B-Instruct \
  --max-model-len 16384 \
  --swap-space 4

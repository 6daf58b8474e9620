#!/bin/bash
VLLM_ARGS="--host 0.0.0.0 --swap-space 4 --max-model-len 8192"
VLLM_ARGS="$VLLM_ARGS --dtype half"
vllm serve Qwen/Qwen2.5-VL-3B-Instruct $VLLM_ARGS

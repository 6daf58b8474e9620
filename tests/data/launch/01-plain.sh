#!/bin/sh
vllm serve Qwen/Qwen3-VL-8B-Instruct --max-model-len 32768 --swap-space 4

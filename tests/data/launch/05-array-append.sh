#!/bin/bash
CMD=(python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen2-VL-7B-Instruct)
CMD+=(--max-model-len 8192 --swap-space 4)
if [ -n "${TP:-}" ]; then
  CMD+=(--tensor-parallel-size "$TP")
fi
"${CMD[@]}" 2>&1 | tee vllm.log

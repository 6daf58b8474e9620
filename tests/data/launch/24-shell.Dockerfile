FROM nvidia/cuda:12.8.1-runtime-ubuntu22.04 AS base
RUN pip install vllm==0.11.0
FROM base
ENTRYPOINT exec vllm serve $MODEL \
    --max-model-len 8192 \
    --swap-space 4

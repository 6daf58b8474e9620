#!/bin/bash
vllm serve Qwen/Qwen2.5-VL-7B-Instruct `# the model` \
  --max-model-len=16384        `# tokens of context` \
  --swap-space=4               `# GiB on the host` \
  --dtype bfloat16             `# as the checkpoint`

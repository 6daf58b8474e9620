#!/bin/bash
vllm serve "/data/my models/Qwen3 VL" --limit-mm-per-prompt '{"image": 4, "video": 0}' --mm-processor-kwargs "{\"max_pixels\": 1003520}" --max-model-len='32768' --swap-space="4" --chat-template=./tool\ chat.jinja

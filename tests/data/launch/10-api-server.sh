#!/bin/bash
cd /srv && python3 -u -m vllm.entrypoints.openai.api_server --model "$MODEL" --swap-space 4 --max-model-len 8192 2>&1 | tee -a /var/log/vllm.log

#!/bin/bash
trap 'kill 0' EXIT
while true; do
	vllm serve Qwen/Qwen3-VL-4B-Instruct \
		--max-model-len 8192 \
		--swap-space 4 >> vllm.log 2>&1
	echo "restart" >> vllm.log
	sleep 5
done

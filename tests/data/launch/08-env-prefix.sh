CUDA_VISIBLE_DEVICES=0,1 VLLM_USE_V1=1 vllm serve Qwen/Qwen2-VL-7B-Instruct -tp 2 --max-model-len 8192 --swap-space 4

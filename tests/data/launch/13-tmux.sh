tmux new-session -d -s vllm 'source venv/bin/activate; vllm serve Qwen/Qwen2-VL-2B-Instruct --max-model-len 8192 --swap-space 4'

ssh gpu1 "cd /srv/vllm && nohup vllm serve \"$MODEL\" --max-model-len 8192 --swap-space 4 > vllm.log 2>&1 &"

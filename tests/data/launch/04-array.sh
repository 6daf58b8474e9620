#!/bin/bash
ARGS=(
  --host 0.0.0.0
  # how long a conversation may be
  --max-model-len 32768
  # what does not fit on the card
  --swap-space 16   # GiB
  --limit-mm-per-prompt '{"image": 4}'
)
echo "vllm serve ${ARGS[*]}"
exec vllm serve "$1" "${ARGS[@]}"

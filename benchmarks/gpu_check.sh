#!/usr/bin/env bash
# Projected against measured memory on a real GPU, for both back ends: benchmarks/gpu_check.sh [RANKS]
#
# Trains each example for three iterations on the GPUs of this host (default: 1), with a model that is large enough for
# activations to show, and prints what was projected and what the allocator gave at its most. Needs an installed Primus
# with both libraries, and GPUs; writes into ./output. Exits 1 where a projection is off by more than 2 %.
set -euo pipefail

ranks="${1:-1}"
here="$(cd "$(dirname "$0")/.." && pwd)"
primus="${PRIMUS:-primus}"
worst=0

python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' || {
  echo "gpu_check: torch finds no GPU here; nothing is measured" >&2
  exit 1
}

for file in examples/llama-tiny.yaml examples/torchtitan/llama-tiny.yaml; do
  run="gpu-check-$(basename "$(dirname "$file")")-$$"
  "$primus" run "$here/$file" --run-id "$run" --nproc "$ranks" accelerator=auto train_iters=3 \
    num_layers=8 hidden_size=1024 ffn_hidden_size=4096 num_attention_heads=16 seq_length=1024 micro_batch_size=2 \
    "global_batch_size=$((2 * ranks))" max_position_embeddings=1024 save=null >"$run.log" 2>&1 || {
    tail -n 20 "$run.log" >&2
    exit 1
  }
  line="$(grep '^memory .*measured' "$run.log")" || {
    echo "gpu_check: $file: no figure was measured" >&2
    exit 1
  }
  echo "$file: $line"
  off="$(sed -n 's/.*measured (\([-+0-9.]*\) %).*/\1/p' <<<"$line")"
  worst="$(awk -v a="$worst" -v b="${off#[-+]}" 'BEGIN { print (b > a) ? b : a }')"
done

echo "the projection that is off most: $worst %"
awk -v worst="$worst" 'BEGIN { exit worst > 2 }'

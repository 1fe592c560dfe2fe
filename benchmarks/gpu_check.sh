#!/usr/bin/env bash
# What a host with GPUs does, in five minutes at most: benchmarks/gpu_check.sh [--cpu] [RANKS]
#
# Looks at the host and its GPUs, measures products of matrices and attention beside the device's peak, and trains three
# iterations with each back end, of which it compares projected with measured memory. RANKS: GPUs to use, default 1.
# --cpu runs the same steps, small, without GPUs: it tries this script, not a device.
#
# Needs an installed Primus with both libraries; writes into ./output. Goes on after a step that fails, and exits 1 then,
# or where a projection is off by more than 2 %.
set -uo pipefail

cpu=""
[[ "${1:-}" == "--cpu" ]] && cpu=yes && shift
ranks="${1:-1}"
here="$(cd "$(dirname "$0")/.." && pwd)"
primus="${PRIMUS:-primus}"
budget=300 # seconds for all steps
limit=75   # seconds for one; few take a third of it
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
failed=()
worst=0

if [[ -z "$cpu" && ! -e /dev/kfd && ! -e /dev/nvidiactl ]]; then
  echo "gpu_check: there is no GPU here; nothing is measured (--cpu tries the script)" >&2
  exit 1
fi

# step NAME PATTERN COMMAND...: run it under the limits, print the lines that matter
step() {
  local name="$1" pattern="$2" code=0 left=$((budget - SECONDS))
  shift 2
  echo "== $name"
  : >"$log"
  if ((left < 1)); then
    failed+=("$name (no time was left of $budget s)")
    return
  fi
  timeout --kill-after=10 "$((left < limit ? left : limit))" "$@" >"$log" 2>&1 || code=$?
  if ((code)); then
    failed+=("$name (exit $code)")
    tail -n 20 "$log"
  else
    grep -E -- "$pattern" "$log"
  fi
}

trained() { # FILE NAME: three iterations, and how far the projection of their memory is off
  local run="gpu-check-$2-$$" sizes=(num_layers=8 hidden_size=1024 ffn_hidden_size=4096 num_attention_heads=16
    seq_length=1024 max_position_embeddings=1024 micro_batch_size=2 "global_batch_size=$((2 * ranks))")
  [[ -n "$cpu" ]] && sizes=(seq_length=64 micro_batch_size=1 "global_batch_size=$ranks")
  step "three iterations with $2" '^(memory|done|iteration) ' "$primus" run "$here/$1" --run-id "$run" --nproc "$ranks" \
    accelerator=auto train_iters=3 eval_interval=null save_interval=null save=null "${sizes[@]}"
  off="$(sed -n 's/^memory .*measured (\([-+0-9.]*\) %).*/\1/p' "$log")"
  if [[ -n "$off" ]]; then
    worst="$(awk -v a="$worst" -v b="${off#[-+]}" 'BEGIN { print (b > a) ? b : a }')"
  elif [[ -z "$cpu" ]]; then
    failed+=("$2 measured no memory")
  fi
}

side=8192 seconds=5 dtypes=(bf16 fp16 fp32) length=4096 probes=(--host --gpu)
[[ -n "$cpu" ]] && side=256 seconds=0.2 dtypes=(bf16 fp32) length=64 probes=(--host)

step "preflight ${probes[*]}" . "$primus" preflight "${probes[@]}"
for dtype in "${dtypes[@]}"; do
  step "gemm $dtype" '^[|]' "$primus" benchmark gemm -M "$side" -N "$side" -K "$side" --dtype "$dtype" \
    --duration "$seconds" --nproc "$ranks" --output-file -
done
step "attention" '^[|]' "$primus" benchmark attention --seqlen "$length" --duration 1 --nproc "$ranks" --output-file -
if ((ranks > 1)); then
  step "all-reduce" '^[|]' "$primus" benchmark rccl --min-bytes 1M --max-bytes 64M --num-sizes 3 --iters 10 --check \
    --nproc "$ranks" --output-file -
fi
trained examples/llama-tiny.yaml megatron
trained examples/torchtitan/llama-tiny.yaml torchtitan

[[ -z "$cpu" ]] && echo "the projection that is off most: $worst %"
awk -v worst="$worst" 'BEGIN { exit worst > 2 }' || failed+=("a projection is off by $worst %")
((${#failed[@]})) || exit 0
printf 'gpu_check: failed: %s\n' "${failed[@]}" >&2
exit 1

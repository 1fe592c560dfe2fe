#!/usr/bin/env bash
# EXP=examples/llama-tiny.yaml bash examples/run_pretrain.sh [train_iters=40 ...]    train on this host as it is
[ -n "$EXP" ] || { echo "EXP is not set: EXP=experiment.yaml bash $0" >&2; exit 2; }
export PATH="$PATH:$(dirname "$0")/../.venv/bin"
exec primus-cli direct -- train pretrain --config "$EXP" "$@"

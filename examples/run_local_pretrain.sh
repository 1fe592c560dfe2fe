#!/usr/bin/env bash
# DOCKER_IMAGE=image EXP=exp.yaml bash examples/run_local_pretrain.sh [train_iters=40 ...]    train in a container
[ -n "$EXP" ] || { echo "EXP is not set: EXP=experiment.yaml bash $0" >&2; exit 2; }
export PATH="$PATH:$(dirname "$0")/../.venv/bin"
exec primus-cli container -- train pretrain --config "$EXP" "$@"

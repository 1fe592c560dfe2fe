"""The process that ranks of Megatron are forked from."""

from __future__ import annotations

from tests.forked.zygote import serve

if __name__ == "__main__":
    serve("megatron.core.dist_checkpointing.strategies.torch", "megatron.training.argument_utils")

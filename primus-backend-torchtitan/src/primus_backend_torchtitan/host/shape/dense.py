"""Weights of a feed-forward block and of the model's two ends."""

from __future__ import annotations

from primus_backend_torchtitan.architecture import size
from primus_backend_torchtitan.flops import Model
from primus_backend_torchtitan.host.shape.tensors import columns, rows, whole
from primus_core.shape import DType, Parameter


def feed_forward_of(name: str, hidden: int, inner: int, dtype: DType) -> tuple[Parameter, ...]:
    """A block gated by SiLU."""
    return (
        *columns(f"{name}.w1", hidden, inner, dtype),
        *rows(f"{name}.w2", inner, hidden, dtype),
        *columns(f"{name}.w3", hidden, inner, dtype),
    )


def embedding_of(model: Model, dtype: DType) -> tuple[Parameter, ...]:
    """A row for every token, divided by rows."""
    return columns("tok_embeddings", size(model, "hidden_size"), size(model, "padded_vocab_size"), dtype)


def norm_of(name: str, model: Model, dtype: DType) -> Parameter:
    """A normalization of the residual stream."""
    return whole(f"{name}.weight", (size(model, "hidden_size"),), dtype)


def output_of(model: Model, dtype: DType) -> tuple[Parameter, ...]:
    """Logits; none of its own where the embedding's weights are used, which is on the same rank."""
    if not model["untie_embeddings_and_output_weights"]:
        return ()
    return columns("lm_head", size(model, "hidden_size"), size(model, "padded_vocab_size"), dtype)

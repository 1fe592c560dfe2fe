"""Weights of a feed-forward block and of the model's two ends."""

from __future__ import annotations

from attrs import evolve

from primus_backend_torchtitan.architecture import Model, size
from primus_backend_torchtitan.host.case import TENSOR, Case
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


def output_of(case: Case, model: Model, dtype: DType) -> tuple[Parameter, ...]:
    """Logits.

    Where the embedding's weights are used there are none of its own. But once TorchTitan has divided both modules, FSDP
    takes the one tensor for two, which share shards and are gathered and reduced apart.
    """
    output = columns("lm_head", size(model, "hidden_size"), size(model, "padded_vocab_size"), dtype)
    if model["untie_embeddings_and_output_weights"]:
        return output
    return () if shares_embedding(case) else tuple(evolve(weight, shared=True) for weight in output)


def shares_embedding(case: Case) -> bool:
    """The output layer has no weight of its own, and FSDP takes that of the embedding for one."""
    divided = case.size(TENSOR) > 1 or case.values["parallelism.spmd_backend"] != "partial_dtensor"
    return not case.model["untie_embeddings_and_output_weights"] and not divided

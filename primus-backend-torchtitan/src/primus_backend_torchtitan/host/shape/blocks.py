"""The kinds of parts that the model is made of."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.architecture import Model, ffn_hidden_size, layers_with_experts, size
from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.shape.attention import attention_of, rotation_of
from primus_backend_torchtitan.host.shape.dense import embedding_of, feed_forward_of, norm_of, output_of
from primus_backend_torchtitan.host.shape.experts import expert_buffers, experts_of
from primus_backend_torchtitan.host.shape.products import output_of_embedding, products_of
from primus_backend_torchtitan.host.shape.tensors import DTYPES
from primus_core.shape import Block, DType, Parameter

EMBEDDING, DENSE, EXPERTS, HEAD, NORM, OUTPUT = "embedding", "layer", "expert_layer", "head", "norm", "output"
"""Names of blocks. The head is norm and output together; these are blocks where the stages' own list parts them."""


def blocks_of(case: Case) -> Mapping[str, Block]:
    """Every kind that some stage may have."""
    model, dtype = case.model, DTYPES[case.values["training.mixed_precision_param"]]
    norm, output = norm_of("norm", model, dtype), output_of(case, model, dtype)
    logits = products_of(case, output, attends=False) or tuple(output_of_embedding(case))
    kinds = sorted(set(layers_with_experts(model)))
    return {
        EMBEDDING: Block(parameters=embedding_of(model, dtype)),
        **{EXPERTS if experts else DENSE: _layer(case, experts) for experts in kinds},
        HEAD: Block(parameters=(norm, *output), operators=logits),
        NORM: Block(parameters=(norm,)),
        OUTPUT: Block(parameters=output, operators=logits),
    }


def _layer(case: Case, experts: bool) -> Block:
    """A layer, in the order of TorchTitan's own modules: latent attention has the norms before what follows it."""
    model, dtype = case.model, DTYPES[case.values["training.mixed_precision_param"]]
    norms = (norm_of("attention_norm", model, dtype), norm_of("ffn_norm", model, dtype))
    inner = experts_of(case, model, dtype) if experts else _feed_forward(model, dtype)
    rest = (*norms, *inner) if model["multi_latent_attention"] else (*inner, *norms)
    parameters = (*attention_of(model, dtype), *rest)
    return Block(
        parameters=parameters,
        buffers=_buffers(case, experts),
        operators=products_of(case, parameters, attends=True),
    )


def _feed_forward(model: Model, dtype: DType) -> tuple[Parameter, ...]:
    return feed_forward_of("feed_forward", size(model, "hidden_size"), ffn_hidden_size(model), dtype)


def _buffers(case: Case, experts: bool) -> tuple[Parameter, ...]:
    return (rotation_of(case.model, case.shape.sequence), *(expert_buffers(case.model) if experts else ()))

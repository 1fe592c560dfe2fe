"""The kinds of parts that the model is made of."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.architecture import Model, ffn_hidden_size, layers_with_experts, size
from primus_backend_torchtitan.host.case import PIPELINE, TENSOR, Case
from primus_backend_torchtitan.host.shape.attention import attention_of, rotation_of
from primus_backend_torchtitan.host.shape.dense import embedding_of, feed_forward_of, norm_of, output_of
from primus_backend_torchtitan.host.shape.experts import expert_buffers, experts_of
from primus_backend_torchtitan.host.shape.operators import layer_operators
from primus_backend_torchtitan.host.shape.operators_head import (
    embedding,
    final_norm,
    head,
    logits,
    norm_before_pieces,
    pieces,
)
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_backend_torchtitan.host.shape.recomputed import recomputed_of
from primus_backend_torchtitan.host.shape.tensors import DTYPES
from primus_core.shape import DTYPE_BYTES, Block, DType, Parameter

EMBEDDING, DENSE, EXPERTS, HEAD, NORM, OUTPUT = "embedding", "layer", "expert_layer", "head", "norm", "output"
"""Names of blocks. The head is norm and output together; these are blocks where the stages' own list parts them."""
LAST_NORM, PIECES = "last_norm", "loss_in_pieces"
"""The same two where the loss is computed in pieces: they are gathered together, twice, and reduced apart."""


def blocks_of(case: Case) -> Mapping[str, Block]:
    """Every kind that some stage may have."""
    model, dtype = case.model, DTYPES[case.values["training.mixed_precision_param"]]
    norm, output = norm_of("norm", model, dtype), output_of(case, model, dtype)
    work, forced = Work.of(case), case.values["parallelism.fsdp_reshard_after_forward"] == "always"
    last = output or embedding_of(model, dtype)
    kinds = sorted(set(layers_with_experts(model)))
    return {
        EMBEDDING: Block(parameters=embedding_of(model, dtype), operators=tuple(embedding(work))),
        **{EXPERTS if experts else DENSE: _layer(case, experts) for experts in kinds},
        HEAD: Block(
            parameters=(norm, *output),
            beside=() if output else last,
            operators=tuple(head(work)),
            resharded=forced,
        ),
        NORM: Block(parameters=(norm,), operators=tuple(final_norm(work))),
        OUTPUT: Block(parameters=output, operators=tuple(logits(work, "input"))),
        LAST_NORM: Block(parameters=(norm,), beside=last, operators=tuple(norm_before_pieces(work))),
        PIECES: Block(
            parameters=output,
            beside=(norm,) if output else (norm, *last),
            operators=tuple(pieces(work, case.size("loss.num_chunks"))),
            resharded=False,
            workspace=_reduced_in_pieces(case) if case.size(PIPELINE) > 1 else 0,
        ),
    }


def _reduced_in_pieces(case: Case) -> int:
    """Bytes of shards beside the gradients: with a pipeline the loss in pieces reduces those of norm and output after
    each micro batch. What has arrived last stays as the norm's, and the output's is added to that of the first."""
    weight = -(-size(case.model, "padded_vocab_size") // case.size(TENSOR))
    element = DTYPE_BYTES[DTYPES[case.values["training.mixed_precision_reduce"]]]
    return (2 * weight + 1) * case.shape.hidden * element // case.shards


def _layer(case: Case, experts: bool) -> Block:
    """A layer, in the order of TorchTitan's own modules: latent attention has the norms before what follows it."""
    model, dtype = case.model, DTYPES[case.values["training.mixed_precision_param"]]
    norms = (norm_of("attention_norm", model, dtype), norm_of("ffn_norm", model, dtype))
    inner = experts_of(case, model, dtype) if experts else _feed_forward(model, dtype)
    rest = (*norms, *inner) if model["multi_latent_attention"] else (*inner, *norms)
    parameters = (*attention_of(model, dtype), *rest)
    operators = layer_operators(case, experts)
    return Block(
        parameters=parameters,
        buffers=_buffers(case, experts),
        operators=operators,
        recomputed=recomputed_of(case, operators),
    )


def _feed_forward(model: Model, dtype: DType) -> tuple[Parameter, ...]:
    return feed_forward_of("feed_forward", size(model, "hidden_size"), ffn_hidden_size(model), dtype)


def _buffers(case: Case, experts: bool) -> tuple[Parameter, ...]:
    return (rotation_of(case.model, case.shape.sequence), *(expert_buffers(case.model) if experts else ()))

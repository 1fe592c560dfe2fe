"""The kinds of parts that the model is made of."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_torchtitan.architecture import Model, ffn_hidden_size, layers_with_experts, size
from primus_backend_torchtitan.host.case import PIPELINE, TENSOR, Case
from primus_backend_torchtitan.host.schedules import schedule_of
from primus_backend_torchtitan.host.shape.attention import attention_of, rotation_of
from primus_backend_torchtitan.host.shape.dense import embedding_of, feed_forward_of, norm_of, output_of
from primus_backend_torchtitan.host.shape.experts import expert_buffers, experts_of
from primus_backend_torchtitan.host.shape.operators import layer_operators
from primus_backend_torchtitan.host.shape.operators_head import (
    embedding,
    final_norm,
    head,
    logits,
    pieces,
)
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_backend_torchtitan.host.shape.partial import arrives_in_parts, whole_weights
from primus_backend_torchtitan.host.shape.recomputed import recomputed_of
from primus_backend_torchtitan.host.shape.tensors import DTYPES
from primus_core.shape import DTYPE_BYTES, Block, DType, Parameter

EMBEDDING, DENSE, EXPERTS, HEAD, NORM, OUTPUT = "embedding", "layer", "expert_layer", "head", "norm", "output"
SENDS = "sending_layer"
"""Names of blocks. One layer is for the end of a stage where that differs (`sends_apart`). The head is norm and output
together; these are blocks where the stages' own list parts them."""
LAST_NORM, PIECES = "last_norm", "loss_in_pieces"
"""The same two where the loss is computed in pieces: they are gathered together, twice, and reduced apart."""

_Weights = tuple[Parameter, ...]


def blocks_of(case: Case) -> Mapping[str, Block]:
    """Every kind that some stage may have. Weights that are tied are gathered with the norm's, and stay until the
    embedding has run backward. A pipeline holds the output of its last stage through the stage's backward pass."""
    model, dtype = case.model, DTYPES[case.values["training.mixed_precision_param"]]
    norm, output = norm_of("norm", model, dtype), output_of(case, model, dtype)
    work, forced = Work.of(case), case.values["parallelism.fsdp_reshard_after_forward"] == "always"
    embedded, tied = embedding_of(model, dtype), not model["untie_embeddings_and_output_weights"]
    last, piped = (norm, *output), case.size(PIPELINE) > 1
    kinds = sorted(set(layers_with_experts(model)))
    return {
        EMBEDDING: Block(
            parameters=embedded,
            operators=tuple(embedding(work)),
            gathers=(*embedded, *last) if tied else None,
            reduces=_tied(case, embedded, norm, output) if tied else None,
            resharded=not tied,
        ),
        **{EXPERTS if experts else DENSE: _layer(case, experts) for experts in kinds},
        **({SENDS: _layer(case, False, sends=True)} if False in kinds and sends_apart(case) else {}),
        HEAD: Block(
            parameters=last,
            operators=tuple(head(work)),
            gathers=() if tied else None,
            gathers_again=(*embedded, *last) if tied and forced else (),
            reduces=() if tied else None,
            resharded=forced,
            leaves=work.logits() if piped else 0,
        ),
        NORM: Block(parameters=(norm,), operators=tuple(final_norm(work))),
        OUTPUT: Block(parameters=output, operators=tuple(logits(work, "input")), leaves=work.logits() if piped else 0),
        **_in_pieces(case, work, embedded, norm, output),
    }


def _in_pieces(case: Case, work: Work, embedded: _Weights, norm: Parameter, output: _Weights) -> Mapping[str, Block]:
    """The end of a model whose loss is computed in pieces."""
    tied, piped = not case.model["untie_embeddings_and_output_weights"], case.size(PIPELINE) > 1
    last = (norm, *output)
    return {
        LAST_NORM: Block(
            parameters=(norm,),
            operators=tuple(final_norm(work)),
            gathers=() if tied else last,
            gathers_again=(*embedded, *last) if tied else last,
            reduces=() if tied else None,
            resharded=False,
        ),
        PIECES: Block(
            parameters=output,
            operators=tuple(pieces(work, case.size("loss.num_chunks"))),
            gathers=(),
            reduces=(output or embedded) if tied else None,
            leaves=work.whole if piped else 0,
            reduced_early=_reduced_in_pieces(case) if piped else 0,
            workspace=_reduced_in_pieces(case) if _alternates(case) else 0,
        ),
    }


def _tied(case: Case, embedded: _Weights, norm: Parameter, output: _Weights) -> _Weights:
    """What is reduced at the end, when the embedding has run backward: it is gathered and reduced with all that reads
    its weights. A loss in pieces has reduced the output's gradients."""
    return (*embedded, norm, *(() if case.values["loss.kind"] == "chunked" else output))


def _reduced_in_pieces(case: Case) -> int:
    """Bytes of a shard of the output's gradient: with a pipeline the loss in pieces reduces it after each micro batch,
    and adds it to that of the first."""
    weight = -(-size(case.model, "padded_vocab_size") // case.size(TENSOR))
    element = DTYPE_BYTES[DTYPES[case.values["training.dtype"]]]
    return weight * case.shape.hidden * element // case.shards


def _alternates(case: Case) -> bool:
    """Whether micro batches run backward before others have their loss: then that of the last norm is reduced together
    with the output's, and keeps all that came with it."""
    schedule = schedule_of(case.values["parallelism.pipeline_parallel_schedule"])
    return case.size(PIPELINE) > 1 and not (schedule and schedule.name in ("GPipe", "LoopedBFS"))


def sends_apart(case: Case) -> bool:
    """Whether a dense layer at the end of a stage needs other memory than one before another layer."""
    return case.size(PIPELINE) > 1 and arrives_in_parts(Work.of(case))


def _layer(case: Case, experts: bool, *, sends: bool = False) -> Block:
    """A layer, of which each may send its output to another stage."""
    parameters, operators = weights_of_layer(case, experts), layer_operators(case, experts, sends=sends)
    return Block(
        parameters=whole_weights(Work.of(case), parameters, _late(case, sends)),
        buffers=_buffers(case, experts),
        operators=operators,
        recomputed=recomputed_of(case, parameters, operators),
    )


def weights_of_layer(case: Case, experts: bool) -> tuple[Parameter, ...]:
    """In the order of TorchTitan's own modules: latent attention has the norms before what follows it."""
    model, dtype = case.model, DTYPES[case.values["training.mixed_precision_param"]]
    norms = (norm_of("attention_norm", model, dtype), norm_of("ffn_norm", model, dtype))
    inner = experts_of(case, model, dtype) if experts else _feed_forward(model, dtype)
    rest = (*norms, *inner) if model["multi_latent_attention"] else (*inner, *norms)
    return *attention_of(model, dtype), *rest


def _late(case: Case, sends: bool) -> Mapping[str, int]:
    """Inputs on each rank of weights whose products may get a gradient that is not summed yet."""
    work = Work.of(case)
    value = size(case.model, "v_head_dim") if case.model["multi_latent_attention"] else work.head
    attention = {"attention.wo.weight": work.heads * value}
    return attention if sends else {**attention, "feed_forward.w2.weight": work.ffn}


def _feed_forward(model: Model, dtype: DType) -> tuple[Parameter, ...]:
    return feed_forward_of("feed_forward", size(model, "hidden_size"), ffn_hidden_size(model), dtype)


def _buffers(case: Case, experts: bool) -> tuple[Parameter, ...]:
    return (rotation_of(case.model, case.shape.sequence), *(expert_buffers(case.model) if experts else ()))

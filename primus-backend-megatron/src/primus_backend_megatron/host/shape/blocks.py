"""The kinds of blocks of a model, and how they follow each other on the stages."""

from __future__ import annotations

from collections.abc import Mapping

from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.shape import parameters
from primus_backend_megatron.host.shape.layers import (
    EMBEDDING,
    EXPERTS,
    HEAD,
    LAYER,
    NORM,
    PREDICTION,
    chunks_of,
    joined,
    kinds_of,
    predicts_with_loss,
)
from primus_backend_megatron.host.shape.operators import operators_of, recomputed_of, runs_of
from primus_backend_megatron.host.shape.operators_head import tied_gradient
from primus_backend_megatron.host.shape.operators_prediction import waiting_gradient
from primus_backend_megatron.host.shape.operators_work import Work
from primus_backend_megatron.host.shape.optimizers import with_states
from primus_backend_megatron.host.shape.sharding import groups_of
from primus_core.shape import Block, Parameter, Run

_PARAMETERS = {
    EMBEDDING: parameters.embedding,
    LAYER: parameters.layer,
    NORM: parameters.final_norm,
    EXPERTS: parameters.expert_layer,
    PREDICTION: parameters.prediction,
    HEAD: parameters.head,
}


def blocks_of(case: Case) -> Mapping[str, Block]:
    """Those that occur, by kind."""
    kinds = dict.fromkeys(kind for stage in chunks_of(case) for chunk in stage for kind in chunk)
    return {kind: _block(case, kind) for kind in kinds}


def _block(case: Case, kind: str) -> Block:
    tensors = parameters.Tensors(case)
    like, times = (kinds_of(case)[-1], case.size("mtp_num_layers")) if kind == PREDICTION else (kind, 1)
    return Block(
        parameters=with_states(case, _PARAMETERS[kind](tensors), groups_of(case)),
        buffers=_buffers(tensors, like) * times,
        operators=operators_of(case, kind),
        recomputed=recomputed_of(case, kind),
        workspace=_workspace(Work.of(case), kind),
        leaves=_leaves(Work.of(case), kind),
        remains=_remains(Work.of(case), kind),
    )


def _remains(work: Work, kind: str) -> int:
    """The library names the routed tokens' weights until it routes again, and by them what was recomputed from; a layer
    of multi-token prediction is recomputed from two inputs."""
    case, values = work.case, work.case.values
    like = kinds_of(case)[-1] if kind == PREDICTION else kind
    whole, modules = values["recompute_granularity"] == "full", values["recompute_modules"]
    again = whole or (isinstance(modules, list) and "moe" in modules)
    if like != EXPERTS or values["recompute_granularity"] is None or not again:
        return 0
    times = case.size("mtp_num_layers") * (1 + whole) if kind == PREDICTION else 1
    return 2 * times * work.stream()


def _leaves(work: Work, kind: str) -> int:
    if kind == PREDICTION and predicts_with_loss(work.case):
        return waiting_gradient(work)
    return tied_gradient(work) if kind == HEAD else 0


def _workspace(work: Work, kind: str) -> int:
    """Tables and buffers that all micro batches share, and at the ends of the model the batches.

    Multi-token prediction gathers the tokens of two hidden states side by side.
    """
    gathered = work.gathered() * (2 if kind == PREDICTION else 1)
    return gathered + work.positions() + (work.batches() if kind in (EMBEDDING, HEAD) else 0)


def _buffers(tensors: parameters.Tensors, kind: str) -> tuple[Parameter, ...]:
    if kind not in (LAYER, EXPERTS):
        return ()
    return (*parameters.rotations(tensors), *(parameters.expert_buffers(tensors) if kind == EXPERTS else ()))


def stages_of(case: Case) -> tuple[tuple[tuple[Run, ...], ...], ...]:
    """By pipeline rank and chunk."""
    return tuple(tuple(_runs(case, chunk) for chunk in stage) for stage in chunks_of(case))


def _runs(case: Case, kinds: tuple[str, ...]) -> tuple[Run, ...]:
    """Layers that are recomputed are counted from the chunk's first, whatever their kind. All layers of multi-token
    prediction are one block."""
    runs: list[Run] = []
    done = 0
    for kind, count in joined(kinds):
        if kind in (LAYER, EXPERTS):
            runs += runs_of(case, kind, count, done)
            done += count
        else:
            runs.append(Run(block=kind))
    return tuple(runs)

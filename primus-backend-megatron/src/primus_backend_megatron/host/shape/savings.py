"""What of Megatron saves memory, and how it cuts layers into more pipeline stages."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_core.shape import Saving

_TENSOR, _PIPELINE = "tensor_model_parallel_size", "pipeline_model_parallel_size"
_ENDS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
_COUNTED = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
_EXPERTS = "expert_tensor_parallel_size"
_MOST_STAGES = 16


def savings_of(case: Case) -> tuple[Saving, ...]:
    """Those that the experiment does not use yet, the cheapest first."""
    return tuple(_savings(case))


def _savings(case: Case) -> Iterator[Saving]:
    if not case.on("use_distributed_optimizer"):
        cost = "no more work: replicas divide the optimizer's state"
        yield Saving(settings={"use_distributed_optimizer": "true"}, cost=cost)
    if not case.on("sequence_parallel"):
        cost, alone = "no more work: ranks divide norms and residuals", case.size(_TENSOR) == 1
        yield Saving(settings={"sequence_parallel": "true"}, cost=cost, tensor=alone)
    if case.shape.experts and case.values[_EXPERTS] is None:
        cost = "experts are divided no further"  # else they are among as many ranks as other tensors
        yield Saving(settings={_EXPERTS: str(case.size(_TENSOR))}, cost=cost, tensor=True)
    if case.values["recompute_granularity"] is None:
        cost = "a part of each layer runs forward twice"
        yield Saving(settings={"recompute_granularity": "selective"}, cost=cost, repeats="part")
    full = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": "1"}
    if case.values["recompute_granularity"] != "full" or case.values["recompute_method"] != "uniform":
        cost = "every layer runs forward twice: a third more arithmetic"
        yield Saving(settings=full, cost=cost, repeats="all")
    yield from _more_stages(case)


def _more_stages(case: Case) -> Iterator[Saving]:
    """Twice as many, four times and so on, as long as each has a layer; none where the experiment lists the layers."""
    if case.values["pipeline_model_parallel_layout"] is not None or any(map(case.on, _COUNTED)):
        return
    stages = 2 * case.size(_PIPELINE)
    while stages <= min(_MOST_STAGES, case.shape.layers):
        yield Saving(settings=_ends(case, stages), cost="stages wait for each other", stages=stages)
        stages *= 2


def _ends(case: Case, stages: int) -> dict[str, str]:
    """Layers of the first and the last stage, which hold more than those between: what equal stages leave."""
    layers = case.shape.layers
    if layers % stages == 0:
        return {name: "null" for name in _ENDS if case.values[name] is not None}
    first, last = _ENDS
    if stages == 2:
        return {first: str(layers // 2), **({last: "null"} if case.values[last] is not None else {})}
    rests = {size: layers - (stages - 2) * size for size in (layers // stages, -(-layers // stages))}
    between = min((size for size in rests if rests[size] > 1), key=lambda size: max(size, -(-rests[size] // 2)))
    rest = rests[between]
    return {first: str(rest // 2), last: str(rest - rest // 2)}

"""What of Megatron saves memory without dividing the model further."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.legality.case import Case
from primus_core.shape import Saving


def savings_of(case: Case) -> tuple[Saving, ...]:
    """Those that the experiment does not use yet, the cheapest first."""
    return tuple(_savings(case))


def _savings(case: Case) -> Iterator[Saving]:
    if not case.on("use_distributed_optimizer"):
        cost = "no more work: replicas divide the optimizer's state"
        yield Saving(settings={"use_distributed_optimizer": "true"}, cost=cost)
    if case.size("tensor_model_parallel_size") > 1 and not case.on("sequence_parallel"):
        cost = "no more work: ranks divide norms and residuals"
        yield Saving(settings={"sequence_parallel": "true"}, cost=cost)
    if case.values["recompute_granularity"] is None:
        cost = "a part of each layer runs forward twice"
        yield Saving(settings={"recompute_granularity": "selective"}, cost=cost, repeats="part")
    full = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": "1"}
    if case.values["recompute_granularity"] != "full" or case.values["recompute_method"] != "uniform":
        cost = "every layer runs forward twice: a third more arithmetic"
        yield Saving(settings=full, cost=cost, repeats="all")

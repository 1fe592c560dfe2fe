"""What of TorchTitan saves memory without dividing the model further."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.case import TENSOR, Case
from primus_core.shape import Saving

_DIVIDES, _RESHARD = "parallelism.enable_sequence_parallel", "parallelism.fsdp_reshard_after_forward"
_RECOMPUTE = "activation_checkpoint.kind"


def savings_of(case: Case) -> tuple[Saving, ...]:
    """Those that the experiment does not use yet, the cheapest first."""
    return tuple(_savings(case))


def _savings(case: Case) -> Iterator[Saving]:
    if case.size(TENSOR) > 1 and not case.values[_DIVIDES]:
        yield Saving(settings={_DIVIDES: "true"}, cost="no more work: ranks divide norms and residuals")
    if case.values[_RESHARD] != "always":
        yield Saving(settings={_RESHARD: "always"}, cost="weights are gathered again for the backward pass")
    if case.values[_RECOMPUTE] == "none":
        cost = "a part of each layer runs forward twice"
        yield Saving(settings={_RECOMPUTE: "selective"}, cost=cost, repeats="part")
    if case.values[_RECOMPUTE] != "full":
        cost = "every layer runs forward twice: a third more arithmetic"
        yield Saving(settings={_RECOMPUTE: "full"}, cost=cost, repeats="all")

"""What FSDP2 shards and in which formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from primus_backend_torchtitan.host.case import EXPERT, PIPELINE, Case
from primus_backend_torchtitan.host.shape.tensors import DTYPES
from primus_core.experiment import Value
from primus_core.shape import DType, Sharding

_OPTIMIZERS: Mapping[Value, Literal["fused", "foreach", "for-loop"]] = {
    "fused": "fused",
    "fused_opt_states_bf16": "fused",
    "foreach": "foreach",
    "for-loop": "for-loop",
}


def sharding_of(case: Case) -> Sharding:
    """Shards are in the training's format, and so are their gradients; gathered weights are in that of the forward
    pass, and gradients are reduced in a format of their own."""
    kept = DTYPES[case.values["training.dtype"]]
    moment: DType = "bf16" if case.values["optimizer.implementation"] == "fused_opt_states_bf16" else kept
    return Sharding(
        scheme="fully_sharded",
        gradient=DTYPES[case.values["training.mixed_precision_reduce"]],
        main=kept,
        moments=(moment, moment),
        optimizer=_OPTIMIZERS[case.values["optimizer.implementation"]],
        reshard_after_forward=_reshards(case),
        gathers_ahead=case.size(EXPERT) > 1,
    )


def _reshards(case: Case) -> bool:
    asked = case.values["parallelism.fsdp_reshard_after_forward"]
    return asked == "always" or (asked == "default" and case.size(PIPELINE) == 1)

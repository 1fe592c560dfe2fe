"""No parameter that changes memory is ignored without a word: the figure follows it, or a note is told."""

from __future__ import annotations

import pytest

from primus_backend_torchtitan import host
from primus_core.projection.project import project
from tests.torchtitan.experiments import plan_of
from tests.torchtitan.families import MIXTURE
from tests.torchtitan.truth.layouts import EP, TP
from tests.torchtitan.truth.live_cases import DENSE, LOSS, PIECES, RECOMPUTE, RESHARD, SEQUENCE_PARALLEL, Params

_BASE: Params = {**DENSE, "global_batch_size": 16}
_COMPILED: Params = {"compile.enable": True}
_SWITCHES: tuple[tuple[Params, Params], ...] = (
    ({}, {"compile.enable": True}),
    (_COMPILED, {RECOMPUTE: "memory_budget"}),
    ({**_COMPILED, TP: 2}, {"compile.enable_async_tensor_parallel": True}),
    ({}, {RECOMPUTE: "full"}),
    ({}, {RECOMPUTE: "selective"}),
    ({}, {"training.enable_cpu_offload": True}),
    ({}, {"parallelism.enable_fsdp_symm_mem": True}),
    ({}, {RESHARD: "never"}),
    ({TP: 2}, {SEQUENCE_PARALLEL: False}),
    ({}, {LOSS: "cross_entropy"}),
    ({LOSS: "chunked"}, {PIECES: 2}),
    ({}, {"optimizer.implementation": "fused_opt_states_bf16"}),
    ({}, {"training.dtype": "bfloat16"}),
    ({}, {"debug.detect_anomaly": True}),
    (MIXTURE, {EP: 2}),
)


def _told(params: Params) -> tuple[int, tuple[str, ...]]:
    """The bytes of the heaviest rank of eight GPUs, and the notes below them."""
    shape = host.model_shape(plan_of({**_BASE, **params}, ranks=8, accelerator="cuda"))
    assert shape is not None
    projection = project(shape)
    return projection.heaviest.bytes, projection.notes


@pytest.mark.parametrize(("base", "switched"), _SWITCHES, ids=[str(switched) for _, switched in _SWITCHES])
def test_is_not_ignored(base: Params, switched: Params) -> None:
    """It changes the figure or what is told of it."""
    assert _told(base) != _told({**base, **switched})

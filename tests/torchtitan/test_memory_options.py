"""No parameter that changes memory is ignored without a word: the figure follows it, or a note is told."""

from __future__ import annotations

import re

import pytest

from primus_backend_torchtitan import host
from primus_backend_torchtitan.host.schema import schema_for
from primus_core.projection.project import project
from tests.torchtitan.experiments import VERSION, plan_of
from tests.torchtitan.options import BASE, BESIDE, NO_MEMORY, SWITCHES
from tests.torchtitan.truth.layouts import COPIES, PP, SCHEDULE
from tests.torchtitan.truth.live_cases import LOSS, RECOMPUTE, Params

_NAMES = re.compile(
    r"^(compile|activation_checkpoint|debug|override)\.|^model\.(attention|converters|expert_dispatcher)$"
    r"|quant|offload|dtype|precision|symm_mem|cuda_graph|^optimizer\.implementation"
)
"""Of what changes memory in TorchTitan, as far as names tell."""


def _told(params: Params) -> tuple[int, tuple[str, ...]]:
    """The bytes of the heaviest rank of eight GPUs, and the notes below them."""
    kept = {name: value for name, value in {**BASE, **params}.items() if value is not None}
    shape = host.model_shape(plan_of(kept, ranks=8, accelerator="cuda"))
    assert shape is not None
    projection = project(shape)
    return projection.heaviest.bytes, projection.notes


@pytest.mark.parametrize(("base", "switched"), SWITCHES, ids=[str(switched) for _, switched in SWITCHES])
def test_is_not_ignored(base: Params, switched: Params) -> None:
    """It changes the figure or what is told of it."""
    assert _told(base) != _told({**base, **switched})


def test_nothing_is_told_of_a_plain_model() -> None:
    """It has no notes but for what it asks for."""
    assert _told({})[1] == ()


@pytest.mark.parametrize("name", BESIDE)
def test_what_others_act_with_is_told(name: str) -> None:
    """Parameters that act only beside it need no note of their own."""
    (base, switched) = next(each for each in SWITCHES if name in each[1])
    assert set(_told({**base, **switched})[1]) - set(_told(base)[1])


def test_every_parameter_of_such_a_name_is_known() -> None:
    """A new one of TorchTitan's is followed or told, or has a reason why it changes nothing; none has both."""
    named = {name for name in schema_for(VERSION).parameters if _NAMES.search(name)}
    switched = {name for _, each in SWITCHES for name in each}
    quiet = [name for group in (*BESIDE.values(), *NO_MEMORY.values()) for name in group]
    assert len(quiet) == len(set(quiet))
    assert switched & set(quiet) == set()
    assert set(quiet) <= named
    assert named - switched - set(quiet) == set()


@pytest.mark.parametrize("schedule", ["InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"])
def test_operations_that_are_repeated_for_each_gradient_are_told_of(schedule: str) -> None:
    """Where gradients of weights are computed apart, recomputed layers run several times."""
    piped: Params = {PP: 2, "num_layers": 8, "global_batch_size": 64, SCHEDULE: schedule}
    kept = " ".join(_told(piped)[1])
    recomputed = " ".join(_told({**piped, RECOMPUTE: "full"})[1])
    assert "for the gradient of each of its weights" not in kept
    assert (
        f"With {schedule} a recomputed layer runs forward again for the gradient of each of its weights" in recomputed
    )
    assert "forward again" not in " ".join(_told({**piped, SCHEDULE: "1F1B", RECOMPUTE: "full"})[1])


def test_sums_of_a_loss_in_pieces_over_copies_are_told_of() -> None:
    """They are not counted where a pipeline computes its loss micro batch by micro batch."""
    piped: Params = {PP: 2, "num_layers": 8, "global_batch_size": 64, SCHEDULE: "1F1B", LOSS: "chunked"}
    assert "sum of the output layer's gradient" in " ".join(_told({**piped, COPIES: 2})[1])
    assert _told(piped)[1] == ()

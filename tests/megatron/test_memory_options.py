"""No parameter that changes memory is ignored without a word: the figure follows it, or a note is told."""

from __future__ import annotations

import pytest

from primus_backend_megatron import host
from primus_core.projection.project import project
from tests.megatron.experiments import plan_of
from tests.megatron.options import SWITCHES, Switch
from tests.megatron.truth.live_cases import DENSE, Params


def _told(params: Params) -> tuple[int, tuple[str, ...]]:
    """The bytes of the heaviest rank of eight GPUs, and the notes below them."""
    shape = host.model_shape(plan_of(params, ranks=8, accelerator="cuda"))
    assert shape is not None
    projection = project(shape)
    return projection.heaviest.bytes, projection.notes


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: f"{switch.name}={switch.value}")
def test_is_not_ignored(switch: Switch) -> None:
    """It changes the figure or what is told of it."""
    assert _told(switch.before) != _told(switch.after)


def test_nothing_is_told_of_defaults() -> None:
    """A plain model has no notes but for what it asks for."""
    assert _told({**DENSE, "global_batch_size": 16, "gradient_accumulation_fusion": False})[1] == ()

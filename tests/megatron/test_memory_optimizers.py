"""The state of Megatron's optimizers other than Adam and SGD, which need a package that is not installed here."""

from __future__ import annotations

import pytest

from primus_core.projection.states import per_rank
from tests.megatron.truth.comparing import shape_of
from tests.megatron.truth.layouts import plans_of
from tests.megatron.truth.models import SMALL
from tests.truth.layouts import Layout

_TENSORS = {"tensor_model_parallel_size": 4, "sequence_parallel": True, "bf16": True}
MEASURED = {
    "muon": {"dense": (1_374_720, 948_096), "grouped": (907_904, 233_600), "mixture": (1_356_288, 355_968)},
    "lion": {"dense": (1_374_720, 948_096), "grouped": (907_904, 233_600), "mixture": (1_356_288, 355_968)},
    "soap": {
        "dense": (139_641_344, 136_823_168),
        "grouped": (8_075_904, 1_388_928),
        "mixture": (10_184_192, 4_094_624),
    },
    "adaptive_muon": {
        "dense": (2_677_248, 1_863_552),
        "grouped": (1_731_200, 439_424),
        "mixture": (2_625_024, 681_216),
    },
}
"""Bytes that the optimizers of emerging-optimizers 0.3.0, made by megatron-core 0.19.2, kept on one rank alone, and on
each of four tensor parallel ranks."""


def _moments(model: str, optimizer: str, layout: Layout) -> int:
    ((_, plan),) = plans_of({**SMALL[model], "optimizer": optimizer}, [layout])
    return per_rank(shape_of(plan), 0).moments


@pytest.mark.parametrize("optimizer", MEASURED)
def test_matrices_have_the_state_of_their_optimizer_and_the_rest_adams(optimizer: str) -> None:
    """Embeddings of words, the output layer and vectors are Adam's; a divided matrix has the state of its part."""
    layouts = (Layout(1, {}), Layout(8, _TENSORS))
    found = {model: tuple(_moments(model, optimizer, one) for one in layouts) for model in MEASURED[optimizer]}
    assert found == MEASURED[optimizer]


def test_lion_for_the_rest_keeps_one_moment() -> None:
    """Of vectors and embeddings, too."""
    layout = Layout(1, {"muon_scalar_optimizer": "lion"})
    ((_, plan),) = plans_of({**SMALL["dense"], "optimizer": "muon"}, [layout])
    blocks = shape_of(plan)
    assert per_rank(blocks, 0).moments * 2 == _moments("dense", "adam", Layout(1, {}))

"""Layouts that divide the same work compute the same: each continues from one checkpoint of one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import frozen

from primus_core.experiment import Value
from tests.forked.ranks import Outcome
from tests.megatron.layouts import CP2, DISTRIBUTED, EP2, OVERLAPPED, PP2, SP2, TP2, legal_plan
from tests.megatron.ranks import Ranks

SAVED, LAST = 3, 12
"""The iteration of the checkpoint, by which the optimizer has a state, and the last one."""

RESHARDABLE: Mapping[str, Value] = {"dist_ckpt_optim_fully_reshardable": True}


@frozen
class Saved:
    """What one process left behind."""

    checkpoints: Path
    losses: list[float]
    """After the iteration of the checkpoint."""


def train_alone(ranks: Ranks, folder: Path, params: Mapping[str, Value]) -> Saved:
    checkpoints = folder / "checkpoints"
    saving: Mapping[str, Value] = {"train_iters": LAST, "save": str(checkpoints), "save_interval": SAVED}
    outcome = ranks.start(legal_plan({**params, **saving}, 1), folder).check()
    return Saved(checkpoints, outcome.losses()[SAVED:])


def continue_divided(ranks: Ranks, folder: Path, params: Mapping[str, Value], saved: Saved) -> Outcome:
    loading: Mapping[str, Value] = {"train_iters": LAST, "load": str(saved.checkpoints), "ckpt_step": SAVED}
    return ranks.start(legal_plan({**params, **loading}, 2), folder)


@pytest.fixture(scope="module")
def plain(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Of the optimizer that every rank holds whole."""
    return train_alone(ranks, tmp_path_factory.mktemp("plain"), {})


@pytest.fixture(scope="module")
def distributed(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Of the distributed optimizer, in the form that suits other layouts."""
    return train_alone(ranks, tmp_path_factory.mktemp("distributed"), {**DISTRIBUTED, **RESHARDABLE})


@pytest.mark.parametrize("layout", [{}, TP2, SP2, PP2, CP2], ids=["data", "tensor", "sequence", "pipeline", "context"])
def test_two_processes_continue_as_one(ranks: Ranks, tmp_path: Path, plain: Saved, layout: Mapping[str, Value]) -> None:
    """The losses of two processes stay within 1e-5 of one's, however they divide the work."""
    outcome = continue_divided(ranks, tmp_path, layout, plain).check()
    assert outcome.losses() == pytest.approx(plain.losses, abs=1e-5)


@pytest.mark.parametrize("layout", [OVERLAPPED, TP2, PP2], ids=["data", "tensor", "pipeline"])
def test_the_distributed_optimizer_is_divided_anew(
    ranks: Ranks, tmp_path: Path, distributed: Saved, layout: Mapping[str, Value]
) -> None:
    """Its state follows the parameters to their new ranks: the losses stay within 1e-5 of one process's."""
    outcome = continue_divided(ranks, tmp_path, {**DISTRIBUTED, **layout}, distributed).check()
    assert outcome.losses() == pytest.approx(distributed.losses, abs=1e-5)


@pytest.mark.parametrize(
    ("saved", "loaded", "why", "remedy"),
    [
        (
            DISTRIBUTED,
            {**DISTRIBUTED, **TP2},
            "(2, 1) vs (1, 1) from checkpoint",
            "dist_ckpt_optim_fully_reshardable: true",
        ),
        ({**EP2, "expert_model_parallel_size": 1}, EP2, "Expected 2 entries", "expert_model_parallel_size"),
    ],
    ids=["distributed", "experts"],
)
def test_an_optimizer_that_cannot_be_divided_anew_is_refused(
    ranks: Ranks, tmp_path: Path, saved: Mapping[str, Value], loaded: Mapping[str, Value], why: str, remedy: str
) -> None:
    """What Megatron cannot load into another layout ends the run before training, with the way out."""
    alone = train_alone(ranks, tmp_path / "alone", saved)
    outcome = continue_divided(ranks, tmp_path / "divided", loaded, alone)
    assert outcome.error()["type"] == "RunError"
    assert why in outcome.error()["why"]
    assert remedy in outcome.error()["remedy"]
    assert not outcome.rows()

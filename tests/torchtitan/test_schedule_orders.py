"""The orders that projection plays are those of PyTorch's own schedules."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

from primus_core.projection.order import _actions, halved
from primus_core.projection.playing import Action, Kind
from primus_core.shape import Schedule, ScheduleName

CLASSES: dict[ScheduleName, str] = {
    "interleaved_1f1b": "ScheduleInterleaved1F1B",
    "zero_bubble": "ScheduleInterleavedZeroBubble",
    "zbv": "ScheduleZBVZeroBubble",
    "dualpipev": "ScheduleDualPipeV",
}
KINDS: dict[str, Kind] = {"F": "forward", "B": "backward", "I": "input", "W": "weight"}


@pytest.fixture(autouse=True, scope="module")
def imported() -> Iterator[None]:
    """PyTorch's schedules, whose import sets a variable of the environment."""
    before = dict(os.environ)
    importlib.import_module("torch.distributed.pipelining.schedules")
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_every_pass_comes_when_pytorch_runs_it(name: ScheduleName) -> None:
    """Two and four ranks of two chunks, each rank, with micro batches that fill rounds and that do not."""
    for ranks in (2, 4):
        for count in (2 * ranks, 2 * ranks + 2, 3 * ranks):
            for rank in range(ranks):
                size = None if name in ("zbv", "dualpipev") else count // (count // ranks)
                if size and count % size:
                    continue
                ours = list(_actions(Schedule(name=name, micro_batches=count, round=size), rank, ranks, 2))
                assert ours == theirs(name, rank, ranks, count)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_as_many_backward_passes_are_halved_as_pytorch_halves(name: ScheduleName) -> None:
    """Also of more micro batches than are played; but for the first stage, which has no gradient to pass on."""
    for ranks, count in ((2, 80), (4, 80), (4, 84)):
        for rank in range(ranks):
            weights = [chunk for kind, chunk in theirs(name, rank, ranks, count) if kind == "weight"]
            told = halved(Schedule(name=name, micro_batches=count), rank, ranks, 2)
            assert told == (weights.count(0) if rank else 0, weights.count(1))


def theirs(name: ScheduleName, rank: int, ranks: int, count: int) -> list[Action]:
    """Of PyTorch's class, without the stages that it is made for."""
    from torch.distributed.pipelining import schedules

    made: Any = object.__new__(getattr(schedules, CLASSES[name]))
    made.pp_group_size, made._n_microbatches, made.n_local_stages, made.rank = ranks, count, 2, rank
    made._num_stages = made.num_stages = 2 * ranks
    made.number_of_rounds = count // ranks
    made.microbatches_per_round = count // made.number_of_rounds
    told = [one for one in made._calculate_single_rank_operations(rank) if one is not None]
    passes = [each for one in told for each in (one.sub_actions or (one,))]
    return [(KINDS[each.computation_type.value], 0 if each.stage_index < ranks else 1) for each in passes]

"""What PyTorch's allocator gives while a real training runs, by the events of its profiler, against projection."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primus_core.contract import RankContext
from primus_core.plan import RunPlan
from primus_core.projection.project import project
from tests.forked.ranks import Ranks
from tests.truth.steps import Row, Step, row_of

if TYPE_CHECKING:
    from torch.profiler import profile

ENTRY = "tests.truth.allocator:run"


def compare(ranks: Ranks, folder: Path, case: Step, note: str = "") -> Iterator[Row]:
    """What the ranks of a training by Primus had at most, all included; a row for each.

    Args:
        note: why it is not to be judged.
    """
    plan, stages = case.plan(str(folder / "workspace")), project(case.shape()).stages
    outcome = ranks.start(plan, folder, entry=ENTRY).check()
    for rank in range(case.ranks):
        stage = stages[rank * len(stages) // case.ranks]
        yield {
            **row_of(case, stage.bytes, outcome.result(rank)["peak"], note),
            "layout": f"rank {rank} of {case.ranks}",
        }


def run(plan: RunPlan, rank: RankContext) -> dict[str, int]:
    """Train as the plan says; the most bytes of tensors on CPUs at once, from before there was a model."""
    from torch.profiler import ProfilerActivity, profile  # here: who compares needs no torch

    module, _, name = plan.task.entry.partition(":")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        getattr(importlib.import_module(module), name)(plan, rank)
    return {"peak": most(found)}


def most(found: profile) -> int:
    """Of the allocator's events, one after the other."""
    events = [event for event in _events(found) if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def _events(found: profile) -> Any:
    return found.profiler.kineto_results.events()

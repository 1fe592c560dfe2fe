"""What a projected run lacks before it has started: memory of its devices or of its hosts, room for a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from primus_core.checkpoints.space import Room
from primus_core.files import nearest_existing
from primus_core.hardware import AcceleratorModel, accelerator_models, find_gpus, host_memory
from primus_core.outcome import Finding
from primus_core.plan import RunPlan
from primus_core.planning.assumed import named_model
from primus_core.quantities import memory_size
from primus_core.report.projected import Projected

BYTES_OF_A_PARAMETER = 14
"""In a checkpoint of mixed precision: 2 of its weight, 4 of the optimizer's copy, 4 of each moment of Adam."""
_KEPT = 1 << 20
"""Smaller ones are not worth a word."""


def scarce_here(projected: Projected, plan: RunPlan) -> Iterator[Finding]:
    """Warnings of a host that is one of the run's."""
    yield from _room(projected, plan)
    if plan.target.accelerator == "cpu":
        yield from beyond_host(projected, plan.target.ranks_per_node, host_memory().available)
    else:
        gpus = find_gpus()
        model = next((one for one in accelerator_models() if gpus == (one.model,)), None)
        yield from beyond_device(projected, model)


def scarce_there(projected: Projected, plan: RunPlan) -> Iterator[Finding]:
    """Warnings of what the plan tells of other hosts, from one that is none of the run's."""
    if plan.target.accelerator != "cpu":
        yield from beyond_device(projected, named_model(plan.launcher, plan.job.sections))


def beyond_device(projected: Projected, model: AcceleratorModel | None) -> Iterator[Finding]:
    """The heaviest rank does not fit on its device; nothing where that is not known, or there are several models."""
    needed = projected.bytes + projected.margin
    if model is not None and needed > model.memory_gib * (1 << 30):
        yield _too_large(
            f"{memory_size(needed)} are needed on a rank, and {model.model} has {model.memory_gib:g} GiB",
            f"{memory_size(projected.bytes)} projected, the rest a margin for what only a device has",
        )


def beyond_host(projected: Projected, ranks: int, available: int | None) -> Iterator[Finding]:
    """The processes of a host need more memory than it has.

    Args:
        ranks: on this host.
        available: bytes; None: not known.
    """
    needed = projected.bytes * ranks
    if available is not None and needed > available:
        yield _too_large(
            f"{memory_size(needed)} are needed for tensors, and this host has {memory_size(available)} available",
            f"{memory_size(projected.bytes)} on each of {ranks} rank{'s' * (ranks != 1)}",
        )


def _too_large(what: str, why: str) -> Finding:
    return Finding(
        check="memory.fit",
        severity="warning",
        summary=f"the run does not fit into memory: {what}",
        evidence=why,
        remedy="`primus projection memory EXPERIMENT` names settings that help.",
        cause="runtime",
    )


def _room(projected: Projected, plan: RunPlan) -> Iterator[Finding]:
    """For one checkpoint, where the run saves any."""
    params = plan.experiment.modules[plan.module].params if plan.experiment and plan.module else {}
    if plan.experiment is None or not (params.get("save_interval") and params["save_interval"].value):
        return
    asked = params["save"].value if "save" in params else None
    folder = Path(os.path.join(plan.job.workdir, str(asked))) if asked else Path(plan.experiment.folder)
    yield from too_little_room(projected.parameters * BYTES_OF_A_PARAMETER, folder)


def too_little_room(needed: int, folder: Path) -> Iterator[Finding]:
    """The file system of a folder, which may not be there yet, has no room for so many bytes."""
    there = nearest_existing(folder)
    free = Room.of(str(there), needed).free
    if needed > max(free, _KEPT):
        yield Finding(
            check="checkpoint.room",
            severity="warning",
            summary=f"a checkpoint takes about {memory_size(needed)}, and there are {memory_size(free)} left for it",
            evidence=f"{BYTES_OF_A_PARAMETER} bytes for each parameter; file system of {there}",
            remedy="Make room, set `save:` to a folder on another file system, or save without the optimizer's state.",
            cause="runtime",
        )

"""What a projected run lacks before it has started: memory of its devices or of this host, room for a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from primus_core.checkpoints.space import Room
from primus_core.hardware import accelerator_models, find_gpus
from primus_core.outcome import Finding
from primus_core.plan import RunPlan
from primus_core.projection.fit import GIB, fit, margin_of
from primus_core.projection.project import Projection
from primus_core.quantities import memory_size

BYTES_OF_A_PARAMETER = 14
"""In a checkpoint of mixed precision: 2 of its weight, 4 of the optimizer's copy, 4 of each moment of Adam."""
_KEPT = 1 << 20
"""Smaller ones are not worth a word."""


def scarce(projection: Projection, plan: RunPlan) -> Iterator[Finding]:
    """Warnings; nothing is said where the run's hosts are others than this one."""
    if plan.preflight == "off":
        return
    yield from _room(projection, plan)
    if plan.launcher not in ("single", "direct"):
        return
    if plan.target.accelerator == "cpu":
        yield from beyond_host(projection, plan.target.ranks_per_node, _available(Path("/proc/meminfo")))
    else:
        yield from beyond_device(projection, plan.target.world_size, find_gpus())


def beyond_device(projection: Projection, ranks: int, gpus: tuple[str, ...]) -> Iterator[Finding]:
    """The heaviest rank does not fit on the device that all of this host's are.

    Args:
        ranks: of the whole run.
        gpus: different models of this host.
    """
    model = next((one for one in accelerator_models() if gpus == (one.model,)), None)
    if model is None:
        return
    margin = margin_of(projection.heaviest, ranks)
    found = fit(projection, margin, model.model, int(model.memory_gib * GIB))
    if found.fits is False:
        yield _too_large(
            f"{memory_size(found.needed)} are needed on a rank, and {model.model} has {model.memory_gib:g} GiB",
            f"{memory_size(projection.heaviest.bytes)} projected, the rest a margin for what only a device has",
        )


def beyond_host(projection: Projection, ranks: int, available: int | None) -> Iterator[Finding]:
    """The processes of this host need more memory than it has.

    Args:
        ranks: on this host.
        available: bytes; None: not known.
    """
    needed = projection.heaviest.bytes * ranks
    if available is not None and needed > available:
        yield _too_large(
            f"{memory_size(needed)} are needed for tensors, and this host has {memory_size(available)} available",
            f"{memory_size(projection.heaviest.bytes)} on each of {ranks} rank{'s' * (ranks != 1)}",
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


def _room(projection: Projection, plan: RunPlan) -> Iterator[Finding]:
    """For one checkpoint, where the run saves any."""
    params = plan.experiment.modules[plan.module].params if plan.experiment and plan.module else {}
    if plan.experiment is None or not (params.get("save_interval") and params["save_interval"].value):
        return
    asked = params["save"].value if "save" in params else None
    folder = Path(os.path.abspath(str(asked))) if asked else Path(plan.experiment.folder)
    yield from too_little_room(projection.parameters * BYTES_OF_A_PARAMETER, folder)


def too_little_room(needed: int, folder: Path) -> Iterator[Finding]:
    """The file system of a folder, which may not be there yet, has no room for so many bytes."""
    there = next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/"))
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


def _available(meminfo: Path) -> int | None:
    """Bytes that processes may still have."""
    try:
        lines = meminfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None

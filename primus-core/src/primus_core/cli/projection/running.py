"""What `primus run` says of a model and its memory before it starts, and keeps in the run's folder."""

from __future__ import annotations

from pathlib import Path

from primus_core.codec import to_json
from primus_core.errors import PrimusError
from primus_core.files import write_atomic
from primus_core.hooks import HostPlugins
from primus_core.log.console import topic_line
from primus_core.outcome import Finding
from primus_core.plan import ON_THIS_HOST, RunPlan
from primus_core.projection.fit import margin_of
from primus_core.projection.flops import flops_of
from primus_core.projection.project import Projection, project
from primus_core.quantities import memory_size
from primus_core.records import frozen
from primus_core.report.projected import Projected
from primus_core.report.scarce import scarce_here, scarce_there
from primus_core.rundir import RunDir
from primus_core.shape import ModelShape


@frozen(kw_only=True)
class Foretold:
    """What is known of a run before it starts."""

    lines: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What it lacks."""


def foretell(plan: RunPlan, hosts: HostPlugins) -> Foretold:
    """Where the back end tells its model; that it cannot be told hinders no run."""
    try:
        shape = hosts.model_shape(plan) if plan.translation else None
        projection = project(shape) if shape else None
    except (PrimusError, ValueError) as error:
        return Foretold(lines=(topic_line("memory", f"not projected: {error}"),))
    if shape is None or projection is None:
        return Foretold()
    kept = _kept(projection, plan)
    lines = (topic_line("model", _model(projection, shape)), topic_line("memory", _line(projection, plan)))
    if plan.preflight == "off":
        return Foretold(lines=lines)
    scarce = scarce_here if plan.launcher in ON_THIS_HOST else scarce_there
    return Foretold(lines=lines, findings=tuple(scarce(kept, plan)))


def _model(projection: Projection, shape: ModelShape) -> str:
    """Parameters, and what an optimizer step computes where the back end tells that."""
    heaviest = projection.heaviest
    where = f"on a rank of stage {heaviest.number}" if len(projection.stages) > 1 else "on each rank"
    flops = flops_of(shape).model_per_iteration / 1e12
    computes = f"; {flops:,.3g} TFLOP an iteration" if flops else ""
    return f"{projection.parameters:,} parameters, {heaviest.parameters:,} {where}{computes}"


def _line(projection: Projection, plan: RunPlan) -> str:
    heaviest = projection.heaviest
    where = f" on a rank of stage {heaviest.number}" if len(projection.stages) > 1 else " on each rank"
    what = "" if projection.has_activations else " (weights and optimizer alone)"
    if plan.target.accelerator == "cpu":
        return f"{memory_size(heaviest.bytes)} projected for tensors{where}{what}"
    margin = sum(one.bytes for one in margin_of(heaviest, plan.target.world_size))
    return f"{memory_size(heaviest.bytes)} projected{where}{what}, and {memory_size(margin)} of margin"


def _kept(projection: Projection, plan: RunPlan) -> Projected:
    """What is kept in the run's folder, where each node finds it.

    Raises:
        RunError: the folder cannot be written.
    """
    heaviest, rundir = projection.heaviest, RunDir(Path(plan.run_dir))
    margin = sum(one.bytes for one in margin_of(heaviest, plan.target.world_size))
    kept = Projected(
        stage=heaviest.number,
        bytes=heaviest.bytes,
        margin=margin,
        parameters=projection.parameters,
        has_activations=projection.has_activations,
    )
    try:
        write_atomic(rundir.projection, to_json(kept))
    except OSError as error:
        raise rundir.unwritable(error) from None
    return kept

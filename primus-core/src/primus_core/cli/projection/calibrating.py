"""A margin learned from a run on devices."""

from __future__ import annotations

from pathlib import Path

from primus_core import hooks, report
from primus_core.cli.finding import plan_of, read_plan
from primus_core.cli.projection.judging import Asked
from primus_core.errors import ConfigError
from primus_core.plan import RunPlan
from primus_core.projection.fit import Margin, learned_margin
from primus_core.projection.project import project
from primus_core.report.projected import measured_memory
from primus_core.rundir import RunDir

_ROWS = (".jsonl", ".jsonl.gz", ".csv", ".tsv", ".md")
"""Ends of the files that `primus benchmark` writes."""
_REMEDY = "name a run that trained some iterations on GPUs"


def learned_from(name: str, asked: Asked) -> Margin:
    """What a run allocated on its heaviest rank beyond its projection, made anew from its plan.

    Raises:
        ConfigError: there is no such run, it measured nothing, or its back end tells no activations.
    """
    if name.endswith(_ROWS):
        why = "results of benchmarks have rates, and memory does not follow from them"
        raise ConfigError("this is no run", where=name, why=why, remedy=_REMEDY)
    plan = read_plan(plan_of(name, asked.shell))
    return learned_margin(_measured(plan), _projected(plan, asked), plan.run_id)


def _measured(plan: RunPlan) -> int:
    found = report.read(RunDir(Path(plan.run_dir)))
    measured = measured_memory(found) if found else None
    if measured is None:
        on_cpu = (
            "a run on CPUs measures whole processes" if plan.target.accelerator == "cpu" else "no rank reported any"
        )
        why = on_cpu if found and found.ranks else "none of its ranks has reported anything: it did not get that far"
        raise ConfigError("the run has no memory of devices", where=plan.run_dir, why=why, remedy=_REMEDY)
    return measured


def _projected(plan: RunPlan, asked: Asked) -> int:
    hosts = hooks.load_host(asked.plugins, backend=plan.framework or "", launcher=None, preflight=False)
    shape = hosts.model_shape(plan)
    projection = project(shape) if shape else None
    if projection is None or not projection.has_activations:
        why = f"the back end {plan.framework} tells no activations of it"
        raise ConfigError("the run cannot be projected", where=plan.run_dir, why=why, remedy="leave --calibrate out")
    return projection.heaviest.bytes

"""From what a user names to the run that is meant."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from primus_core import report
from primus_core.codec import from_json
from primus_core.errors import ConfigError
from primus_core.experiment import Experiment, Module
from primus_core.outcome import RunReport
from primus_core.plan import RunPlan
from primus_core.rundir import GIVE_A_RUN, RunDir, find_plan


@frozen(kw_only=True)
class Run:
    """One run that was started, finished or not."""

    rundir: RunDir
    plan: RunPlan
    experiment: Experiment
    module: Module
    report: RunReport | None
    """None: it goes on, or ended without one."""

    @property
    def logs(self) -> Path:
        return self.rundir.logs(self.module.name)


def find_run(name: str) -> Run:
    """The run that a path means: a run directory, an experiment's folder (its newest run), or a ``plan.json``.

    Raises:
        ConfigError: there is no run, its plan or report is damaged, or it was no training of an experiment.
    """
    path = find_plan(name)
    try:
        plan = from_json(RunPlan, path.read_text(encoding="utf-8"), source=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("the plan cannot be read", where=str(path), why=str(error), remedy=GIVE_A_RUN) from None
    if plan.experiment is None or plan.module is None or plan.module not in plan.experiment.modules:
        why = f"its plan is for a task of kind `{plan.task.kind}`, without an experiment"
        raise ConfigError("the run trained nothing", where=str(path), why=why, remedy=GIVE_A_RUN)
    rundir = RunDir.with_plan(path, plan.run_dir)
    return Run(
        rundir=rundir,
        plan=plan,
        experiment=plan.experiment,
        module=plan.experiment.modules[plan.module],
        report=_report(rundir, plan),
    )


def _report(rundir: RunDir, plan: RunPlan) -> RunReport | None:
    """The run's report; that of its ranks, where they were started without `primus run`."""
    try:
        found = report.read(rundir)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "the report cannot be read", where=str(rundir.report), why=str(error), remedy=GIVE_A_RUN
        ) from None
    if found is None and any(rundir.ranks.glob("rank-*.json")):
        merged = report.merge(rundir, plan.target.world_size)
        return merged if len(merged.ranks) == plan.target.world_size else None
    return found

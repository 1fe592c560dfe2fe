"""Which of the installed distributions a plan uses."""

from __future__ import annotations

from primus_core.discovery.plugins import Plugins
from primus_core.plan import RunPlan

CORE = "primus-core"


def used(plan: RunPlan, plugins: Plugins) -> list[str]:
    """Names of the distributions whose code the ranks of a plan may run."""
    entries = (plan.task, *plan.prepare)
    tops = {task.entry.partition(":")[0].partition(".")[0] for task in entries}
    launchers = {plan.launcher, plan.job.inside, "direct"}
    found = {CORE}
    for info in plugins:
        trains = info.group in ("primus.backends", "primus.ranks", "primus.checkpoints") and info.name == plan.framework
        starts = info.group == "primus.launchers" and info.name in launchers
        if trains or starts or info.module.partition(".")[0] in tops:
            found.add(info.distribution)
    return sorted(found)

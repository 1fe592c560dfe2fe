"""What a process may use here: resource limits, shared memory, and what a container or a scheduler allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from primus_core.experiment import Value
from primus_core.outcome import Finding
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Outcome
from primus_preflight.probes.found import warning
from primus_preflight.probes.host.cgroups import cgroup_facts
from primus_preflight.resources import Needs, own_limits, shared_memory, shortages


def look(about: Looked) -> Outcome:
    """Limits of this process, which the ranks will have too."""
    facts = {**own_limits(), **shared_memory(about.root), **cgroup_facts(about.root)}
    needs = Needs.of(about.plan, about.root)
    return Outcome(facts=facts, findings=(*shortages(facts, needs), *confined(facts)))


def confined(facts: Mapping[str, Value]) -> Iterator[Finding]:
    """Whether a container leaves too little."""
    tasks = facts.get("tasks_limit")
    if isinstance(tasks, int) and tasks < 512:
        yield warning(
            "host.tasks",
            f"the container or job may have {tasks} threads and processes in all",
            "torch alone starts more: each rank one for every CPU and some for each communicator",
            "Start the container with `--pids-limit=-1`, or raise TasksMax of the service.",
        )

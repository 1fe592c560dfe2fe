"""The launcher `nice`: the ranks of this host as processes of low priority."""

from __future__ import annotations

from primus_core.contract import host
from primus_core.errors import ConfigError
from primus_core.plan import Job, Process, Submission

CONTRACT = 1


@host
def launch(job: Job) -> Submission:
    """One process for each rank; core starts them, and ends all of them when one fails."""
    if job.nodes > 1:
        raise ConfigError(
            f"the launcher 'nice' starts one node, and the job has {job.nodes}",
            remedy="Ask for one node, or for another launcher.",
        )
    return Submission(processes=tuple(_process(job, rank) for rank in range(job.task.ranks_per_node)))


def _process(job: Job, rank: int) -> Process:
    world = str(job.task.ranks_per_node)
    numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    return Process(argv=("nice", "-n", "10", job.python, *job.argv), env={**job.env, **numbers})

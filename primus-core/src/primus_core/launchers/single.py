"""Launcher ``single``: one rank on this host, without torchrun."""

from __future__ import annotations

from primus_core.contract import host
from primus_core.errors import ConfigError
from primus_core.plan import Job, Process, Submission

CONTRACT = 1


@host
def launch(job: Job) -> Submission:
    """Start the rank itself.

    Raises:
        ConfigError: the job has more than one rank.
    """
    ranks = job.nodes * job.task.ranks_per_node
    if ranks > 1:
        raise ConfigError(
            f"the launcher 'single' starts one rank, and the job has {ranks}",
            why=f"{job.nodes} node(s) x {job.task.ranks_per_node} rank(s) per node.",
            remedy="`pip install primus-launchers` brings the launcher 'direct' (torchrun); or ask for one rank.",
        )
    environment = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    return Submission(processes=(Process(argv=(job.python, *job.argv), env={**environment, **job.env}),))

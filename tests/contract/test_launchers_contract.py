"""The launchers keep their contract."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from primus_core.plan import Job
from primus_core.testing import LauncherContract


class TestSingle(LauncherContract):
    """Core's own: one rank."""

    plugin = "single"

    def refused(self, job: Job) -> Sequence[Job]:
        return (evolve(job, nodes=2), evolve(job, task=evolve(job.task, ranks_per_node=2)))


class TestDirect(LauncherContract):
    """torchrun."""

    plugin = "direct"
    ranks = 2

    def refused(self, job: Job) -> Sequence[Job]:
        return (evolve(job, nodes=2), evolve(job, options={"master_addr": "10.0.0.7"}))

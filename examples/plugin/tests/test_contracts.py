"""The plugins keep the contracts of Primus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import evolve

from primus_core.plan import Job
from primus_core.testing import BackendContract, LauncherContract, PreflightContract


class TestLine(BackendContract):
    plugin = "line"
    experiment = Path(__file__).parents[1] / "line.yaml"
    ranks = 2


class TestNice(LauncherContract):
    plugin = "nice"
    ranks = 2

    def refused(self, job: Job) -> Sequence[Job]:
        return [evolve(job, nodes=2)]


class TestCores(PreflightContract):
    plugin = "cores"

"""Where a run keeps its files."""

from __future__ import annotations

import os
import time
from pathlib import Path

from attrs import frozen

from primus_core.errors import RunError


@frozen
class RunDir:
    """The folder of one run: ``{experiment folder}/runs/{run_id}``."""

    path: Path

    @classmethod
    def of(cls, experiment_folder: str | Path, run_id: str) -> RunDir:
        return cls(Path(experiment_folder) / "runs" / run_id)

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def resolved(self) -> Path:
        return self.path / "experiment.resolved.yaml"

    @property
    def report(self) -> Path:
        return self.path / "report.json"

    @property
    def submission(self) -> Path:
        return self.path / "submission"

    @property
    def ranks(self) -> Path:
        return self.path / "ranks"

    @property
    def prepare(self) -> Path:
        return self.path / "prepare"

    def unwritable(self, error: OSError) -> RunError:
        """What is told where nothing can be written here."""
        return RunError(
            "cannot write the run directory",
            where=str(self.path),
            why=str(error),
            remedy="make room, or choose another `workspace:`",
        )

    @property
    def experiment(self) -> Path:
        """``{workspace}/{work_group}/{user_name}/{exp_name}``."""
        return self.path.parent.parent

    def logs(self, module: str) -> Path:
        return self.experiment / "logs" / module

    def point_latest(self) -> None:
        """Make ``runs/latest`` name this run, atomically."""
        temporary = self.path.parent / f".latest-{self.path.name}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(self.path.name)
        temporary.replace(self.path.parent / "latest")


def new_run_id() -> str:
    """``20260131-093000-1f2e3d``: UTC start time and a random part; sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"

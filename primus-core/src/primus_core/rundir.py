"""Where a run keeps its files."""

from __future__ import annotations

import os
import time
from pathlib import Path

from primus_core.errors import ConfigError, RunError
from primus_core.records import frozen

_PLAN = "plan.json"
GIVE_A_RUN = f"give a folder `runs/RUN_ID`, an experiment's folder (its newest run), or a {_PLAN}"


@frozen
class RunDir:
    """The folder of one run: ``{experiment folder}/runs/{run_id}``."""

    path: Path

    @classmethod
    def of(cls, experiment_folder: str | Path, run_id: str) -> RunDir:
        return cls(Path(experiment_folder) / "runs" / run_id)

    @classmethod
    def with_plan(cls, path: Path, planned: str) -> RunDir:
        """The folder of the run with this plan: where the plan lies, unless that is no run's folder.

        Args:
            planned: the folder that the plan itself names.
        """
        return cls(path.parent if path.parent.parent.name == "runs" else Path(planned))

    @property
    def plan(self) -> Path:
        return self.path / _PLAN

    @property
    def resolved(self) -> Path:
        return self.path / "experiment.resolved.yaml"

    @property
    def report(self) -> Path:
        return self.path / "report.json"

    @property
    def projection(self) -> Path:
        return self.path / "projection.json"

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


def find_plan(name: str) -> Path:
    """The plan of a run that a path means: the run's folder, an experiment's (its newest run), or a ``plan.json``.

    The place is that in the run's own folder, not behind ``runs/latest``.

    Raises:
        ConfigError: there is no run.
    """
    path = Path(name)
    if not os.path.exists(path):
        raise ConfigError("there is no such run", where=name, remedy=GIVE_A_RUN)
    for file in (path, path / _PLAN, path / "runs" / "latest" / _PLAN):
        if os.path.isfile(file):
            return file.resolve()
    runs = sorted(plan.parent.name for plan in path.glob(f"runs/*/{_PLAN}"))
    remedy = f"give one of its runs: {path / 'runs' / runs[-1]}" if runs else GIVE_A_RUN
    why = f"it has neither {_PLAN} nor runs/latest/{_PLAN}"
    raise ConfigError("the folder is no run", where=name, why=why, remedy=remedy)

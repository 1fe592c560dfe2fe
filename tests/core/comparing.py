"""Run directories as runs leave them, written by what writes them in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from primus_core import report
from primus_core.codec import to_json
from primus_core.experiment import Value
from primus_core.files import write_atomic
from primus_core.log.events import to_json as event_json
from primus_core.log.metrics import complete_row
from primus_core.outcome import RankReport
from primus_core.plan import Job, Layout, Mapped, RunPlan, Settings, Target, Task, Translation
from primus_core.rank.files import LogFiles
from primus_core.rundir import RunDir
from tests.core.resolving import OVERRIDES, resolved

Row = Mapping[str, object]


def rows(losses: Sequence[float | None], first: int = 1, **more: object) -> list[Row]:
    """One row for each loss, with the other figures of a run that takes 0.5 s for a step."""
    given: dict[str, object] = {
        "train_iters": 100,
        "grad_norm": 2.0,
        "tokens_per_second": 1000,
        "tflops": 0.5,
        "step_seconds": 0.5,
        "memory_bytes": 1 << 30,
        **more,
    }
    return [{"iteration": first + n, "loss": loss, **given} for n, loss in enumerate(losses)]


@frozen(kw_only=True)
class Runs:
    """Makes runs of experiments below a folder of the test."""

    folder: Path

    def make(
        self,
        run_id: str,
        measured: Iterable[Row],
        *,
        overrides: Sequence[str] = (),
        latest: bool = True,
        codes: Sequence[int] = (0,),
        **settings: Value,
    ) -> Path:
        """A run of one rank; ``codes`` are the exit codes of the ranks, none for a run that goes on."""
        rundir = self.plan(run_id, overrides, **settings)
        self.measure(rundir, run_id, measured)
        for rank, code in enumerate(codes):
            one = RankReport(
                run_id=run_id, rank=rank, host="h", phase="train", exit_code=code, started=100.0, ended=190.0
            )
            write_atomic(rundir.ranks / f"rank-{rank}.json", to_json(one))
        if codes:
            report.write(rundir, report.merge(rundir, len(codes)))
        if latest:
            rundir.point_latest()
        return rundir.path

    def plan(self, run_id: str, overrides: Sequence[str] = (), **settings: Value) -> RunDir:
        experiment = resolved(self.folder, OVERRIDES, *overrides)
        module = experiment.modules["pre_trainer"]
        native = {key: leaf.value for key, leaf in module.params.items() if key == "lr"}
        translation = Translation(
            native=native,
            entry="x:y",
            layout=Layout(pipeline=int(str(settings.pop("pipeline", 1)))),
            mapping=tuple(Mapped(path=key, native=key, value=value) for key, value in native.items()),
        )
        rundir = RunDir.of(experiment.folder, run_id)
        task = Task(kind="train", entry="x:y")
        plan = RunPlan(
            run_id=run_id,
            run_dir=str(rundir.path),
            target=Target(accelerator="cpu", library_version="1.2", ranks_per_node=int(str(settings.pop("ranks", 1)))),
            task=task,
            framework=module.framework,
            module=module.name,
            experiment=experiment,
            settings=Settings(values=settings),
            translation=translation,
            job=Job(run_id=run_id, name=experiment.exp_name, task=task, python="python", argv=()),
            launcher="single",
            distributions={"primus-core": "0.1.0"},
        )
        write_atomic(rundir.plan, to_json(plan))
        return rundir

    def measure(self, rundir: RunDir, run_id: str, measured: Iterable[Row], rank: int = 0) -> Path:
        """Add rows to a rank's metrics, as its parent process does."""
        folder = rundir.logs("pre_trainer") / f"rank-{rank}"
        files = LogFiles(str(folder), "debug")
        for row in measured:
            files.append_metrics(event_json(complete_row(row, time=1.0, run_id=run_id, rank=rank)) + "\n")
        files.close()
        return folder / "metrics.jsonl"


def pair(page: str, name: str, table: str = "") -> list[str]:
    """The cells of a row of a comparison's text, by its first cell; of the table whose title begins so."""
    lines = [line.strip() for part in page.split("\n\n") if part.startswith(table) for line in part.splitlines()]
    (row,) = [line for line in lines if line.startswith(f"{name}  ")]
    return [cell.strip() for cell in row.removeprefix(name).split("  ") if cell.strip()]

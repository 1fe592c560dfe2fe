"""Projected memory beside what a run measured, and margins learned from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from primus_core import report
from primus_core.cli.finding import read_plan
from primus_core.cli.main import main
from primus_core.codec import to_json
from primus_core.outcome import RankReport, RunReport
from primus_core.plan import RunPlan
from primus_core.report.projected import Projected, memory_lines
from primus_core.rundir import RunDir

EXAMPLE = Path(__file__).parents[2] / "examples/llama-tiny.yaml"
GIB = 1 << 30
WORDS = ("accelerator=cuda", "--nproc", "2")


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    """Of a run on two GPUs that has nothing but its plan yet."""
    file = tmp_path / "runs/one/plan.json"
    file.parent.mkdir(parents=True)
    assert main(["plan", str(EXAMPLE), *WORDS, "--output", str(file)]) == 0
    return read_plan(file)


def left(plan: RunPlan, *peaks: int | None) -> RunReport:
    """The report of a run whose ranks allocated so many bytes at most."""
    ranks = tuple(
        RankReport(
            run_id=plan.run_id,
            rank=rank,
            host="node",
            phase="done",
            peak_memory_bytes=3 * GIB,
            peak_device_memory_bytes=peak,
        )
        for rank, peak in enumerate(peaks)
    )
    told = RunReport(run_id=plan.run_id, exit_code=0, started=0.0, ended=9.0, ranks=ranks)
    report.write(RunDir(Path(plan.run_dir)), told)
    return told


def lines(plan: RunPlan, told: RunReport, projected: int) -> list[str]:
    rundir = RunDir(Path(plan.run_dir))
    kept = Projected(stage=0, bytes=projected, margin=GIB, has_activations=True)
    rundir.projection.write_text(to_json(kept), encoding="utf-8")
    return memory_lines(told, plan, rundir)


def test_the_rank_that_needed_most_is_compared(plan: RunPlan) -> None:
    """The difference is of the projection against the largest peak of a device, with its sign."""
    (line,) = lines(plan, left(plan, 2 * GIB, 4 * GIB), 3 * GIB)
    assert line.split(maxsplit=1) == ["memory", "3.0 GiB projected, 4.0 GiB measured (-25.0 %)"]


def test_cpus_are_told_and_not_compared(plan: RunPlan) -> None:
    """What a process has in memory is no tensor: no difference is made up."""
    on_cpu = evolve(plan, target=evolve(plan.target, accelerator="cpu"))
    (line,) = lines(on_cpu, left(plan, None, None), GIB)
    assert "1.0 GiB projected for tensors; the largest process had 3.0 GiB" in line
    assert "%" not in line


def test_a_run_without_projection_has_no_line(plan: RunPlan) -> None:
    """Neither a missing nor a damaged file is told of."""
    rundir = RunDir(Path(plan.run_dir))
    assert memory_lines(left(plan, GIB), plan, rundir) == []
    rundir.projection.write_text("{", encoding="utf-8")
    assert memory_lines(left(plan, GIB), plan, rundir) == []


def test_a_margin_is_learned_from_a_run(plan: RunPlan, capsys: pytest.CaptureFixture[str]) -> None:
    """What the run allocated beyond its own projection is the margin for workspaces, and is marked as measured."""
    words = ["projection", "memory", "--config", str(EXAMPLE), *WORDS, "--format", "json"]
    assert main(words) == 0
    projected = max(stage["bytes"] for stage in json.loads(capsys.readouterr().out)["stages"])
    left(plan, projected, projected + 5 * GIB)
    assert main([*words, "--calibrate", plan.run_dir]) == 0
    margin = {one["name"]: one for one in json.loads(capsys.readouterr().out)["margin"]}
    assert (margin["workspaces"]["bytes"], margin["workspaces"]["verified"]) == (5 * GIB, True)
    assert not margin["context"]["verified"]


def test_a_run_that_never_trained_is_told_as_that(plan: RunPlan, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not taken for one on CPUs."""
    never = evolve(plan, target=evolve(plan.target, accelerator="cpu"))
    RunDir(Path(plan.run_dir)).plan.write_text(to_json(never), encoding="utf-8")
    assert main(["projection", "memory", "--config", str(EXAMPLE), "--calibrate", plan.run_dir]) == 2
    told = capsys.readouterr().err
    assert "none of its ranks has reported anything" in told
    assert "CPU" not in told


def test_a_run_that_measured_nothing_teaches_nothing(plan: RunPlan, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without figures of devices is refused, with what to name instead."""
    left(plan, None)
    assert main(["projection", "memory", "--config", str(EXAMPLE), "--calibrate", plan.run_dir]) == 2
    assert "name a run that trained some iterations on GPUs" in capsys.readouterr().err

"""Helpers that start real ranks on small tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from primus_core.codec import from_json, to_json
from primus_core.experiment import Value
from primus_core.outcome import RankReport
from primus_core.plan import Job, RunPlan, Settings, Target, Task

TASKS = Path(__file__).parent / "tasks"
SECRET = 'hush "quoted" \\ value'


@frozen(kw_only=True)
class Ended:
    """A rank that is over."""

    code: int
    stdout: str
    stderr: str
    run_dir: Path
    rank: int = 0

    @property
    def report(self) -> RankReport:
        return from_json(RankReport, (self.run_dir / f"ranks/rank-{self.rank}.json").read_text())

    @property
    def logs(self) -> Path:
        return self.run_dir.parent.parent / "logs" / "trainer" / f"rank-{self.rank}"

    def log(self, level: str) -> str:
        return (self.logs / f"{level}.log").read_text()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.logs / "metrics.jsonl").read_text().splitlines()]


@frozen(kw_only=True)
class Ranks:
    """Starts ranks whose experiment is in a folder of the test."""

    folder: Path

    def plan(self, entry: str, **more: Any) -> RunPlan:
        task = Task(kind="script", entry=f"rank_tasks:{entry}", arguments=more.pop("arguments", {}))
        plan = RunPlan(
            run_id="run1",
            run_dir=str(self.folder / "exp/runs/run1"),
            target=Target(accelerator="cpu", library_version="", ranks_per_node=1),
            task=task,
            module="trainer",
            job=Job(run_id="run1", name="t", task=task, python=sys.executable, argv=()),
            launcher="single",
            secrets=("HUB_TOKEN",),
        )
        return evolve(plan, **more)

    def start(self, plan: RunPlan, **env: str) -> subprocess.Popen[str]:
        path = Path(plan.run_dir) / "plan.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(plan))
        return self.start_file(path, **env)

    def start_file(self, path: Path, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "primus_core.rank", str(path)],
            env=self.environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "PYTHONPATH": f"{TASKS}:{self.folder / 'site'}", "HUB_TOKEN": SECRET, **more}

    def run(self, plan: RunPlan | str, **env: str) -> Ended:
        made = self.plan(plan) if isinstance(plan, str) else plan
        return self.end(made, self.start(made, **env), rank=int(env.get("RANK", 0)))

    def end(self, plan: RunPlan, process: subprocess.Popen[str], rank: int = 0) -> Ended:
        stdout, stderr = process.communicate(timeout=55)
        return Ended(code=process.returncode, stdout=stdout, stderr=stderr, run_dir=Path(plan.run_dir), rank=rank)


def settings(**values: Value) -> Settings:
    return Settings(values=values)


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Read the console up to a line that holds the text."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the rank ended without saying {text!r}")

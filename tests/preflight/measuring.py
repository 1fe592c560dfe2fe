"""Benchmarks in real ranks on the CPU, forked from one process that has imported torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from primus_core.experiment import Value
from primus_core.plan import Job, RunPlan, Target, Task
from primus_preflight.cli.benchmark import ENTRY
from primus_preflight.cli.benchmark.asking import arguments_of
from primus_preflight.cli.benchmark.options import parser_of
from tests.forked.ranks import Outcome, Ranks


def arguments(*words: str) -> dict[str, Value]:
    """What a command line asks the ranks for: the suite, then its options."""
    suite, *options = words
    return arguments_of(suite, parser_of(suite).parse_args(options), {})


def plan_of(folder: Path, asked: Mapping[str, Value], *, ranks: int) -> RunPlan:
    """The plan of a benchmark on this host."""
    return RunPlan(
        run_id="r",
        run_dir=str(folder),
        target=Target(accelerator="cpu", library_version="", ranks_per_node=ranks),
        task=Task(kind="benchmark", entry=ENTRY, arguments=asked, ranks_per_node=ranks),
        job=Job(run_id="r", name="n", task=Task(kind="benchmark", entry=ENTRY), python="python", argv=()),
        launcher="direct",
    )


class Measuring(Ranks):
    """Ranks of benchmarks."""

    def __init__(self) -> None:
        super().__init__("tests.preflight.zygote", plan_of(Path(os.devnull), {}, ranks=1))

    def make_plan(
        self, params: Mapping[str, Value], folder: Path, world: int, settings: Mapping[str, Value]
    ) -> RunPlan:
        """The parameters are the task's arguments."""
        return plan_of(folder, params, ranks=world)

    def measure(self, folder: Path, *words: str, ranks: int = 1) -> Outcome:
        """Run a command line's benchmark."""
        return self.run(folder, arguments(*words), world=ranks)

"""CPU time of one info record that reaches two files: `python benchmarks/logging_cost.py [--records N] [--rounds N]`.

In one real rank, in turn: a record of Primus' own, one that a library makes with structlog, and one that it makes with
Python's `logging`, to the rank's `debug.log` and `info.log`; and a record through loguru to two files. A rank's figure
is the CPU time of both its processes, up to the last line's arrival in its files; loguru writes in the process that
logs. Other work on the machine only adds to a figure, so the lowest of the rounds counts; exits 1 when a record of
Primus or structlog is over the budget. What `logging` costs includes `logging` itself, which is most of the difference.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

BUDGET = 20.0
"""Microseconds of CPU a record, in all processes."""
_EVENT = "checkpoint written"
_VALUES = {"iteration": 1200, "seconds": 1.25, "path": "/scratch/run/checkpoints/iter_0001200"}
_PATIENCE = 60.0


def cpu_seconds(*processes: int) -> float:
    """User and system time so far, by the kernel's CPU clock of each process."""
    return sum(time.clock_gettime((~process << 3) | 2) for process in processes)


def run(plan: Any, rank: Any) -> Mapping[str, object]:
    """The task of the rank: microseconds a record of each way, a list of rounds."""
    arguments = plan.task.arguments
    log = Path(arguments["log"])
    ways = {
        "Primus": (primus_record(rank), log, (os.getpid(), os.getppid())),
        "structlog": (structlog_record(), log, (os.getpid(), os.getppid())),
        "logging": (logging_record(), log, (os.getpid(), os.getppid())),
        "loguru": (loguru_record(log.parent), log.parent / "loguru-info.log", (os.getpid(),)),
    }
    figures: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(arguments["rounds"] + 1):
        for name, (record, file, processes) in ways.items():
            cost = measure(record, f"end of {name} {number}", file, arguments["records"], processes)
            figures[name] += [cost] if number else []  # the first round warms up
    return figures


def primus_record(rank: Any) -> Callable[[str], object]:
    return lambda event: rank.log("info", event, **_VALUES)


def structlog_record() -> Callable[[str], object]:
    import structlog

    logger = structlog.get_logger("somelib")
    return lambda event: logger.info(event, **_VALUES)


def logging_record() -> Callable[[str], object]:
    logger = logging.getLogger("somelib")
    return lambda event: logger.info("%s %s", event, _VALUES)


def loguru_record(folder: Path) -> Callable[[str], object]:
    from loguru import logger

    logger.remove()
    for level in ("debug", "info"):
        logger.add(folder / f"loguru-{level}.log", level=level.upper(), format=_LOGURU_FORMAT)
    return lambda event: logger.info(event, **_VALUES)


_LOGURU_FORMAT = "{time:YYYY-MM-DDTHH:mm:ss.SSS!UTC}Z {level} {name} {message} {extra}"


def measure(record: Callable[[str], object], last: str, file: Path, records: int, processes: tuple[int, ...]) -> float:
    """Log, wait until the last line is in the file, and return microseconds of CPU a record."""
    me = os.getpid()
    before = {process: cpu_seconds(process) for process in processes}
    for _ in range(records - 1):
        record(_EVENT)
    record(last)
    mine = cpu_seconds(me) - before[me]  # waiting is not logging
    wait_for(file, last)
    others = sum(cpu_seconds(process) - before[process] for process in processes if process != me)
    return (mine + others) / records * 1e6


def wait_for(file: Path, text: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while text not in file.read_text()[-2000:]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{text!r} did not arrive in {file}")
        time.sleep(0.05)


def write_plan(folder: Path, records: int, rounds: int) -> Path:
    from primus_core.codec import to_json
    from primus_core.plan import Job, RunPlan, Target, Task

    run_dir = folder / "exp/runs/bench"
    log = folder / "exp/logs/bench/rank-0/info.log"
    task = Task(
        kind="script",
        entry=f"{Path(__file__).stem}:run",
        arguments={"log": str(log), "records": records, "rounds": rounds},
    )
    plan = RunPlan(
        run_id="bench",
        run_dir=str(run_dir),
        target=Target(accelerator="cpu", library_version="", ranks_per_node=1),
        task=task,
        module="bench",
        job=Job(run_id="bench", name="bench", task=task, python=sys.executable, argv=()),
        launcher="single",
        secrets=("OF_NO_USE_TOKEN",),
    )
    run_dir.mkdir(parents=True)
    path = run_dir / "plan.json"
    path.write_text(to_json(plan))
    return path


def measured(records: int, rounds: int) -> Mapping[str, list[float]]:
    """What the rank measured: a cost for each round and way."""
    from primus_core.codec import from_json
    from primus_core.outcome import RankReport

    with tempfile.TemporaryDirectory() as folder:
        path = write_plan(Path(folder), records, rounds)
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OF_NO_USE_TOKEN": "a-secret-to-look-for"}
        subprocess.run([sys.executable, "-m", "primus_core.rank", str(path)], check=True, env=env)
        report = from_json(RankReport, (path.parent / "ranks/rank-0.json").read_text())
    result: Any = report.result
    return dict(result)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    costs = measured(args.records, args.rounds)
    lowest = {way: min(figures) for way, figures in costs.items()}
    print(f"{'way':<20}{'lowest':>8}{'median':>8}{'of loguru':>11}   (us of CPU a record)")
    for way, cost in lowest.items():
        print(f"{way:<20}{cost:>8.1f}{statistics.median(costs[way]):>8.1f}{cost / lowest['loguru']:>11.2f}")
    print(f"budget {BUDGET} for Primus and structlog")
    return int(max(lowest["Primus"], lowest["structlog"]) > BUDGET)


if __name__ == "__main__":
    sys.exit(main())

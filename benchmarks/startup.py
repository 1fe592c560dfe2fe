"""CPU time of commands that start no training: `python benchmarks/startup.py`.

Prints the median of user + system time over several runs beside the time of an interpreter that does nothing,
and exits 1 when a command needs more than its budget.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples/llama-tiny.yaml"
PRIMUS = [sys.executable, "-m", "primus_core.cli.main"]
RUNS = 9
EVEN = "micro_batch_size=1"
"""Of four ranks, which divide the example's batch then."""

COMMANDS: dict[str, tuple[list[str], float]] = {
    "python -c pass": ([sys.executable, "-c", "pass"], 1.0),
    "primus --help": ([*PRIMUS, "--help"], 0.15),
    "primus plugins": ([*PRIMUS, "plugins"], 0.4),
    "primus run --dry-run": ([*PRIMUS, "run", str(EXAMPLE), "--dry-run"], 0.4),
    "primus slurm srun, dry run": (
        [*PRIMUS, "--dry-run", "slurm", "srun", "-N", "2", "--", "train", "pretrain", "--config", str(EXAMPLE), EVEN],
        0.4,
    ),
    "primus preflight --host": ([*PRIMUS, "preflight", "--host"], 0.5),
    "primus run, mistyped key": ([*PRIMUS, "run", str(EXAMPLE), "mock_date=true"], 1.0),
}
"""What is run, and its budget in seconds of CPU."""


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Bytecode is cached, as for every user after the first command."""


def cpu_seconds(argv: list[str]) -> float:
    """User and system time of one process and its children."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    with tempfile.TemporaryDirectory() as workspace:
        ENVIRONMENT["PRIMUS_WORKSPACE"] = workspace
        return measured()


def measured() -> int:
    """Returns the exit code."""
    failed = False
    print(f"{'command':<28}{'median':>9}{'largest':>9}{'budget':>9}   (s of CPU, {RUNS} runs)")
    for name, (argv, budget) in COMMANDS.items():
        cpu_seconds(argv)
        times = [cpu_seconds(argv) for _ in range(RUNS)]
        median = statistics.median(times)
        failed |= median > budget
        print(f"{name:<28}{median:>9.3f}{max(times):>9.3f}{budget:>9.2f}{'   over' if median > budget else ''}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

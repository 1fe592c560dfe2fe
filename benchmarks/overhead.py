"""What Primus costs a run: `python benchmarks/overhead.py megatron [--steps N] [--rounds N] [--ranks N]`.

Trains the example's model on generated data twice in each round, under the same torchrun: through Primus' rank runtime
and by a bare script that makes the same call of the library. Compared are the step times that the library itself
prints (the median over a run, without the first ten steps), and the CPU time of a run of one step. Prints each round
and the median of the ratios; exits 1 when a figure is over its budget.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples/llama-tiny.yaml"
BARE = {"megatron": ROOT / "benchmarks/bare_megatron.py"}

STEP_BUDGET = 1.02
"""Largest ratio of step times."""
START_BUDGET = 0.4
"""Largest difference in CPU seconds of a rank, up to the end of its first step."""
_WARM_UP = 10
_STEP = re.compile(r"elapsed time per iteration \(ms\): ([\d.]+)")


def plan(folder: Path, steps: int, ranks: int, name: str) -> Path:
    """Write the plan of one run; returns its path."""
    path = folder / name / "plan.json"
    words = ["mock_data=true", "train_data_path=null", f"train_iters={steps}", "save_interval=null"]
    words += ["eval_interval=null", f"workspace={folder / name}", "--nproc", str(ranks), "--output", str(path)]
    argv = [sys.executable, "-m", "primus_core.cli.main", "plan", str(EXAMPLE), *words]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment())
    return path


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "OMP_NUM_THREADS": "1"}


def train(path: Path, ranks: int, program: list[str]) -> tuple[list[float], float]:
    """Step times in ms, and the CPU seconds of the whole run."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--standalone"]
    output = path.parent / "output.txt"
    with output.open("w") as file:
        argv = [*torchrun, *program, str(path)]
        process = subprocess.Popen(argv, stdout=file, stderr=subprocess.STDOUT, env=environment())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"a run failed; its output is in {output}:\n{output.read_text()[-2000:]}")
    logs = [output, *path.parent.rglob("debug.log")]
    times = [float(found) for log in logs for found in _STEP.findall(log.read_text())]
    return times, usage.ru_utime + usage.ru_stime


def compare(backend: str, steps: int, ranks: int, first: int) -> tuple[float, float]:
    """Median step time in ms through Primus and bare; which of the two goes first alternates."""
    programs = {"primus": ["-m", "primus_core.rank"], "bare": [str(BARE[backend])]}
    medians = {}
    for name in sorted(programs, reverse=bool(first)):
        with tempfile.TemporaryDirectory() as folder:
            times, _ = train(plan(Path(folder), steps, ranks, name), ranks, programs[name])
            medians[name] = statistics.median(times[_WARM_UP:])
    return medians["primus"], medians["bare"]


def start(backend: str, ranks: int) -> float:
    """CPU seconds of a rank that Primus adds to a run of one step."""
    costs = {}
    for name, program in (("primus", ["-m", "primus_core.rank"]), ("bare", [str(BARE[backend])])):
        with tempfile.TemporaryDirectory() as folder:
            _, costs[name] = train(plan(Path(folder), 1, ranks, name), ranks, program)
    return (costs["primus"] - costs["bare"]) / ranks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=sorted(BARE))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    ratios = []
    for number in range(args.rounds):
        through, bare = compare(args.backend, args.steps, args.ranks, number % 2)
        ratios.append(through / bare)
        print(
            f"round {number + 1}: {through:8.1f} ms through Primus  {bare:8.1f} ms bare  ratio {ratios[-1]:.4f}",
            flush=True,
        )
    added = statistics.median(start(args.backend, args.ranks) for _ in range(args.rounds))
    ratio = statistics.median(ratios)
    print(f"median ratio of step times: {ratio:.4f} (budget {STEP_BUDGET})")
    print(f"CPU added up to the first step: {added:.2f} s a rank (budget {START_BUDGET})")
    return int(ratio > STEP_BUDGET or added > START_BUDGET)


if __name__ == "__main__":
    sys.exit(main())

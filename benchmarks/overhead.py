"""What Primus costs a run: `python benchmarks/overhead.py megatron|torchtitan [--steps N] [--rounds N] [--ranks N]`.

Trains the example's model on generated data twice in each round, under the same torchrun: through Primus' rank runtime
and by a bare script that makes the same call of the library on the same plan. The two take turns of a few steps, so
that both meet the same machine. Compared are the step times that the library itself records: the median of a turn with
the medians of the other's turns before and after it, so that a machine that is slow for a minute slows both sides of a
ratio. A second witness is the CPU time that all processes of a run spend for a step, which another program on the
machine disturbs less. And the CPU time of a run of one step. Prints each round, the median of the ratios of all turns
and how far it can be trusted; exits 1 when a figure is over its budget, 2 when a run failed, with what it said.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from turns import Failed, Times, Training, take_turns

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples/llama-tiny.yaml"

STEP_BUDGET = 1.02
"""Largest ratio of step times."""
START_BUDGET = 0.4
"""Largest difference in CPU seconds of a rank, up to the end of its first step."""
_WARM_UP = 1
"""Turns that are not looked at."""
_ELAPSED = re.compile(r"elapsed time per iteration \(ms\): ([\d.]+)")


def megatron_times(folder: Path) -> list[float]:
    """Megatron prints them, in the rank that has the loss."""
    logs = [folder / "output.txt", *folder.rglob("debug.log")]
    return [float(found) for log in logs for found in _ELAPSED.findall(log.read_text(errors="replace"))]


def torchtitan_times(folder: Path) -> list[float]:
    """TorchTitan's own trace has the span of every step; rank 0's."""
    times = []
    for path in folder.rglob("*.global_rank_0.*.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        times += [json.loads(line)["value"] for line in lines if '"step_end"' in line and line.endswith("\n")]
    return times


class Backend(NamedTuple):
    """What is compared."""

    bare: Path
    """The script that calls the library without Primus."""
    times: Times
    words: tuple[str, ...] = ()
    """Parameters beside those of every back end."""


BACKENDS: Mapping[str, Backend] = {
    "megatron": Backend(ROOT / "benchmarks/bare_megatron.py", megatron_times),
    "torchtitan": Backend(
        ROOT / "benchmarks/bare_torchtitan.py", torchtitan_times, ("debug.enable_structured_logging=true",)
    ),
}


class Compared(NamedTuple):
    """Through Primus to bare, in one round."""

    ratios: list[float]
    """Of the step times of neighbouring turns."""
    cpu: float
    """Of the CPU time of a step."""


class Benchmark(NamedTuple):
    """One back end on a number of ranks."""

    name: str
    ranks: int

    def training(self, folder: Path, steps: int, *, through_primus: bool) -> Training:
        """A started run, with everything that it writes inside a folder."""
        backend = BACKENDS[self.name]
        program = ["-m", "primus_core.rank"] if through_primus else [str(backend.bare)]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(self.ranks), "--standalone"]
        folder.mkdir()
        return Training([*torchrun, *program, str(self._plan(folder, steps))], folder, environment(), backend.times)

    def _plan(self, folder: Path, steps: int) -> Path:
        path = folder / "plan.json"
        words = ["mock_data=true", "train_data_path=null", f"train_iters={steps}", "save_interval=null"]
        words += ["eval_interval=null", "eval_iters=0", f"workspace={folder}", *BACKENDS[self.name].words]
        argv = [sys.executable, "-m", "primus_core.cli.main", "plan", str(EXAMPLE), "--framework", self.name, *words]
        argv += ["--nproc", str(self.ranks), "--output", str(path)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment())
        if done.returncode:
            raise Failed(f"no plan could be made\n{done.stdout}{done.stderr}")
        return path

    def compare(self, steps: int, first: str) -> Compared:
        """Both run, a few steps in turn; `first` begins."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with (
                self.training(folder / "primus", steps, through_primus=True) as primus,
                self.training(folder / "bare", steps, through_primus=False) as bare,
            ):
                take_turns(*((primus, bare) if first == "primus" else (bare, primus)), steps)
                return Compared(
                    ratios=neighbours(medians(primus), medians(bare), primus_first=first == "primus"),
                    cpu=primus.cpu_per_step(_WARM_UP) / bare.cpu_per_step(_WARM_UP),
                )

    def start(self, first: str) -> float:
        """CPU seconds of a rank that Primus adds to a run of one step."""
        costs = {}
        for name in ("primus", "bare") if first == "primus" else ("bare", "primus"):
            with (
                tempfile.TemporaryDirectory() as folder,
                self.training(Path(folder) / name, 1, through_primus=name == "primus") as training,
            ):
                costs[name] = training.finish()
        return (costs["primus"] - costs["bare"]) / self.ranks


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "OMP_NUM_THREADS": "1"}


def medians(training: Training) -> list[float]:
    """Of the steps of each turn, in ms; not a number where a stop has cut all of them."""
    turns = training.turns()[_WARM_UP:]
    return [statistics.median(turn) if turn else math.nan for turn in turns]


def neighbours(primus: list[float], bare: list[float], *, primus_first: bool) -> list[float]:
    """The ratio of each turn to the next one of the other side.

    Raises:
        Failed: there is none.
    """
    later = (primus, bare[1:]) if not primus_first else (primus[1:], bare)
    ratios = [one / other for pair in ((primus, bare), later) for one, other in zip(*pair, strict=False)]
    if found := [ratio for ratio in ratios if not math.isnan(ratio)]:
        return found
    raise Failed("too few steps were recorded; give more --steps")


def interval(values: list[float]) -> tuple[float, float]:
    """In which the median of many more values would be, with 95 %: order statistics, whatever the distribution."""
    ordered = sorted(values)
    reach = 0.98 * math.sqrt(len(ordered))
    low, high = (round(len(ordered) / 2 + side * reach) for side in (-1, 1))
    return ordered[max(low - 1, 0)], ordered[min(high, len(ordered) - 1)]


def measure(benchmark: Benchmark, steps: int, rounds: int) -> int:
    ratios: list[float] = []
    spent: list[float] = []
    added: list[float] = []
    for number in range(rounds):
        first = ("primus", "bare")[number % 2]
        found = benchmark.compare(steps, first)
        ratios += found.ratios
        spent.append(found.cpu)
        added.append(benchmark.start(first))
        print(
            f"round {number + 1}: {len(found.ratios)} ratios of step times, "
            f"median {statistics.median(found.ratios):.4f}, {min(found.ratios):.2f} to {max(found.ratios):.2f}  "
            f"CPU of a step {found.cpu:.4f}  start {added[-1]:+.2f} s",
            flush=True,
        )
    return judge(ratios, statistics.median(spent), statistics.median(added))


def judge(ratios: list[float], cpu: float, start: float) -> int:
    ratio = statistics.median(ratios)
    low, high = interval(ratios)
    print(f"median ratio of step times: {ratio:.4f}, surely between {low:.3f} and {high:.3f} (budget {STEP_BUDGET})")
    print(f"median ratio of the CPU time of a step: {cpu:.4f}")
    print(f"CPU added up to the first step: {start:.2f} s a rank (budget {START_BUDGET})")
    return int(ratio > STEP_BUDGET or start > START_BUDGET)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=sorted(BACKENDS))
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    try:
        return measure(Benchmark(args.backend, args.ranks), args.steps, args.rounds)
    except Failed as failed:
        print(f"a run failed: {failed}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

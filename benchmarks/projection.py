"""What a projection costs: `python benchmarks/projection.py [--rounds N]`.

Projects one model on 8 to 100,000 ranks, by the same eight ranks of tensor and pipeline parallelism and more and more
replicas, and a large one as `primus projection memory` does, its interpreter's start included. Prints the CPU time of
each; exits 1 where the time grows with the ranks, or the command is over its budget.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primus_core.discovery import Plugins

EXAMPLES = Path(__file__).parent.parent / "examples"
MODEL = EXAMPLES / "megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml"
LARGE = EXAMPLES / "megatron/configs/MI300X/deepseek_v3-BF16-pretrain.yaml"
RANKS = (8, 64, 1_000, 10_000, 100_000)
FLAT = 1.5
"""How much dearer the dearest may be than the cheapest."""
BUDGET = 0.4
"""Seconds of CPU of the command, with the search for changes that make a model fit and without."""


@cache
def scan() -> Plugins:
    """The installed plugins: read once."""
    from primus_core import discovery

    return discovery.scan()


def project(ranks: int) -> None:
    """Plan the model on so many ranks, and project it."""
    from primus_core import discovery
    from primus_core.errors import raise_all
    from primus_core.pipeline import Scope, judge
    from primus_core.planning.accelerators import Found
    from primus_core.planning.job import Request
    from primus_core.projection.project import project
    from primus_core.resolve import resolve

    plugins = scan()
    layout = ["tensor_model_parallel_size=2", "pipeline_model_parallel_size=4", "micro_batch_size=1"]
    experiment = resolve(
        str(MODEL),
        overrides=[*layout, f"global_batch_size={ranks * 16}", "use_distributed_optimizer=true"],
        env={},
        preset_dirs=lambda framework: discovery.preset_dirs(plugins, framework),
        cwd=os.getcwd(),
    )
    request = Request(launcher="single", run_id="benchmark", ranks_per_node=8)
    found = Found(kind="cuda", count=8)
    scope = Scope(request=request, found=found, nodes=ranks // 8, launcher=False, preflight=False, files=False)
    judged = judge(experiment, plugins, scope)
    raise_all(judged.failures)
    shape = judged.hosts.model_shape(judged.plan) if judged.plan else None
    if shape is None:
        raise SystemExit("the back end tells no shape")
    project(shape)


def milliseconds(ranks: int) -> float:
    """Of CPU."""
    before = time.process_time()
    project(ranks)
    return (time.process_time() - before) * 1e3


def command(*options: str) -> float:
    """Seconds of CPU of the whole command, with its interpreter."""
    argv = ["projection", "memory", "--config", str(LARGE), *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "primus_core.cli.main", *argv], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    rounds = parser.parse_args().rounds
    project(RANKS[0])
    times = {ranks: statistics.median(milliseconds(ranks) for _ in range(rounds)) for ranks in RANKS}
    for ranks, spent in times.items():
        print(f"{ranks:>7,} ranks: {spent:6.1f} ms of CPU")
    command()  # the first one compiles modules
    whole = min(command() for _ in range(rounds))
    sought = min(command("--gpu", "h100") for _ in range(rounds))
    print(f"primus projection memory --config {LARGE.name}: {whole:.2f} s of CPU (budget {BUDGET})")
    print(f"the same with --gpu h100, for which changes are sought: {sought:.2f} s")
    growth = max(times.values()) / min(times.values())
    print(f"the dearest takes {growth:.2f} times the cheapest (at most {FLAT})")
    return int(growth > FLAT or max(whole, sought) > BUDGET)


if __name__ == "__main__":
    sys.exit(main())

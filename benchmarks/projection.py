"""What a projection costs: `python benchmarks/projection.py [--rounds N]`.

Projects one model on 8 to 100,000 ranks, by the same eight ranks of tensor and pipeline parallelism and more and more
replicas. Then every model that comes with Primus, of both back ends, as `primus projection memory --gpu h100` does, the
interpreter's start and the search for changes included: each once, and the dearest of these again. Then a layout of
dozens of stages. Prints the CPU time of each; exits 1 where the time grows with the ranks, or the command is over its
budget for a model that comes with Primus.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primus_core.discovery import Plugins

EXAMPLES = Path(__file__).parent.parent / "examples"
MODEL = EXAMPLES / "megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml"
PRESETS = EXAMPLES.parent / "primus-backend-torchtitan/src/primus_backend_torchtitan/presets/models"
EXPERIMENT = """\
work_group: primus
user_name: benchmark
exp_name: {model}
workspace: ./output
modules:
  pre_trainer:
    framework: torchtitan
    config: pre_trainer.yaml
    model: {model}.yaml
    overrides: {{micro_batch_size: 16, activation_checkpoint.kind: {kept}}}
"""
"""A preset of TorchTitan's as users train it, once with recomputation and once without."""
RANKS = (8, 64, 1_000, 10_000, 100_000)
FLAT = 1.5
"""How much dearer the dearest may be than the cheapest."""
BUDGET = 0.4
"""Seconds of CPU of the command."""
DEAREST = 4
"""Models that are measured again."""
LARGE = EXAMPLES / "megatron/configs/MI300X/llama3.1_405B-BF16-pretrain.yaml"
LAYOUT = (
    "--gpus=4096 num_layers=254 tensor_model_parallel_size=8 pipeline_model_parallel_size=64 micro_batch_size=1 "
    "num_virtual_stages_per_pipeline_rank=4 global_batch_size=4096"
)
"""Of 64 stages in four parts each, with 512 micro batches, twice the model's layers."""


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


def experiments(folder: Path) -> Iterator[Path]:
    """Files of all models that come with Primus, those of TorchTitan written into a folder."""
    yield from sorted(EXAMPLES.glob("megatron/configs/*/*-pretrain.yaml"))
    for preset in sorted(PRESETS.glob("*.yaml")):
        for kept in ("none", "full"):
            file = folder / f"torchtitan-{preset.stem}-{kept}.yaml"
            file.write_text(EXPERIMENT.format(model=preset.stem, kept=kept), encoding="utf-8")
            yield file


def command(file: Path, *words: str) -> float | None:
    """Seconds of CPU of the whole command, with its interpreter; None where the experiment is refused."""
    argv = ["projection", "memory", "--config", str(file), "--gpu", "h100", *words]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "primus_core.cli.main", *argv], capture_output=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 2) or b"Traceback" in done.stderr:
        raise SystemExit(f"{file.name}: {done.stderr.decode()}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent if done.returncode == 0 else None


def again_of(file: Path, *words: str) -> float:
    """Seconds of CPU of a command that must not be refused."""
    spent = command(file, *words)
    if spent is None:
        raise SystemExit(f"{file.name}: the command is refused")
    return spent


def dearest(rounds: int) -> float:
    """Measure the command on every model; returns the seconds of the dearest."""
    with TemporaryDirectory() as folder:
        files = list(experiments(Path(folder)))
        command(files[0])  # compiles modules
        once = {file: spent for file in files if (spent := command(file)) is not None}
        again = sorted(once, key=lambda file: -once[file])[:DEAREST]
        least = {file: min(again_of(file) for _ in range(rounds)) for file in again}
    print(
        f"primus projection memory --gpu h100, {len(once)} models (of {len(files) - len(once)} it is refused), dearest:"
    )
    for file, spent in least.items():
        print(f"  {file.stem}: {spent:.2f} s of CPU (budget {BUDGET})")
    return max(least.values())


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    rounds = parser.parse_args().rounds
    project(RANKS[0])
    times = {ranks: statistics.median(milliseconds(ranks) for _ in range(rounds)) for ranks in RANKS}
    for ranks, spent in times.items():
        print(f"{ranks:>7,} ranks: {spent:6.1f} ms of CPU")
    growth = max(times.values()) / min(times.values())
    print(f"the dearest takes {growth:.2f} times the cheapest (at most {FLAT})")
    most = dearest(rounds)
    print(f"{LARGE.stem} in 64 stages of four parts: {again_of(LARGE, *LAYOUT.split()):.2f} s of CPU")
    return int(growth > FLAT or most > BUDGET)


if __name__ == "__main__":
    sys.exit(main())

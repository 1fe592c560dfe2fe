"""What it costs to read and judge an experiment: `python benchmarks/config.py [--rounds N]`.

Resolves, translates and checks the DeepSeek-V3 example as `primus config validate` does, in one process that has
imported what it needs: the first time, with the schema and every file still to be read, and again. Prints the CPU
time of both, and what a parameter costs in experiments of growing size; exits 1 when a figure is over its budget.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from primus_core.discovery import Plugins
    from primus_core.pipeline import Judged

EXPERIMENT = Path(__file__).parent.parent / "examples/megatron/configs/MI300X/deepseek_v3-BF16-pretrain.yaml"
BUDGETS = {"first": 12.0, "again": 5.0}
"""Milliseconds of CPU."""
LINEAR = 1.5
"""How much dearer a parameter may become where there are twice as many."""
_REPEATS = 20


@cache
def scan() -> Plugins:
    """The installed plugins: read once, whatever the number of experiments."""
    from primus_core import discovery

    return discovery.scan()


def validate(path: Path) -> Judged:
    """Resolve and check one experiment."""
    from primus_core import discovery
    from primus_core.pipeline import Scope, judge
    from primus_core.planning.accelerators import Found
    from primus_core.planning.job import Request
    from primus_core.resolve import resolve

    plugins = scan()
    experiment = resolve(
        str(path), env={}, preset_dirs=lambda framework: discovery.preset_dirs(plugins, framework), cwd=os.getcwd()
    )
    request = Request(launcher="single", run_id="benchmark")
    found = Found(kind="cuda", count=8)
    scope = Scope(request=request, found=found, nodes=None, launcher=False, preflight=False, files=False)
    return judge(experiment, plugins, scope)


def milliseconds(path: Path) -> float:
    before = time.process_time()
    judged = validate(path)
    spent = (time.process_time() - before) * 1e3
    if judged.errors:  # what is refused is not checked to the end
        raise SystemExit("\n".join(map(str, judged.errors)))
    return spent


def measured(path: Path) -> tuple[float, float]:
    """The first time and the median of the others, in this process."""
    import primus_backend_megatron.host  # noqa: F401  # importing is not what is measured
    import primus_core.pipeline
    import primus_core.resolve  # noqa: F401  # as above
    from primus_core.cli.main import collect_seldom

    collect_seldom()  # as the command does
    scan()
    return milliseconds(path), statistics.median(milliseconds(path) for _ in range(_REPEATS))


def in_a_new_process(path: Path) -> tuple[float, float]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    argv = [sys.executable, __file__, "--measure", str(path)]
    done = subprocess.run(argv, env=env, check=True, capture_output=True, text=True)
    first, again = map(float, done.stdout.split())
    return first, again


def sizes(folder: Path) -> dict[int, float]:
    """Milliseconds to judge again experiments that set so many more of Megatron's parameters, to their defaults."""
    from primus_backend_megatron.host.schema import schema_for

    experiment = validate(EXPERIMENT).experiment
    known = {name for module in experiment.modules.values() for name in module.params}
    defaults = {name: value for name, value in schema_for("").defaults.items() if name not in known}
    plain = [name for name, value in sorted(defaults.items()) if isinstance(value, int | float)]
    files = {}
    for count in (len(plain) // 4, len(plain) // 2, len(plain)):
        lines = "".join(f"      {name}: {json.dumps(defaults[name])}\n" for name in plain[:count])
        files[count] = folder / f"{count}.yaml"
        files[count].write_text(f"extends: {EXPERIMENT}\nmodules:\n  pre_trainer:\n    overrides:\n{lines}")
        milliseconds(files[count])
    # in turn, so that a machine that is slow for a while is slow for all of them
    rounds = [{count: milliseconds(path) for count, path in files.items()} for _ in range(_REPEATS)]
    return {count: statistics.median(costs[count] for costs in rounds) for count in files}


def curvature(costs: dict[int, float]) -> float:
    """How much dearer a parameter of the upper half is than one of the lower half; 1 where cost is linear."""
    (few, low), (half, middle), (many, high) = costs.items()
    return (high - middle) / (many - half) / ((middle - low) / (half - few))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(*measured(args.measure))
        return 0
    rounds = [in_a_new_process(EXPERIMENT) for _ in range(args.rounds)]
    figures = dict(zip(BUDGETS, map(statistics.median, zip(*rounds, strict=True)), strict=True))
    for name, figure in figures.items():
        print(f"{name:<8}{figure:>8.2f} ms of CPU, median of {args.rounds} processes (budget {BUDGETS[name]:.0f})")
    with tempfile.TemporaryDirectory() as folder:
        costs = sizes(Path(folder))
    print(", ".join(f"{count} more parameters {cost:.2f} ms" for count, cost in costs.items()))
    print(f"a parameter of the upper half costs {curvature(costs):.2f} of one of the lower (budget {LINEAR})")
    return int(curvature(costs) > LINEAR or any(figures[name] > budget for name, budget in BUDGETS.items()))


if __name__ == "__main__":
    sys.exit(main())

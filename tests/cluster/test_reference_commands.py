"""Commands of the reference's CLI page on a real cluster and in a real container, and their dry runs, pasted."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.support import EXAMPLE, environment
from tests.testbed.containers import Engine
from tests.testbed.images import Image
from tests.testbed.slurm import Slurm

pytestmark = pytest.mark.cluster

BIN = Path(sys.executable).parent
SHORT = {
    "train_iters: 100": "train_iters: 2",
    "seq_length: 256": "seq_length: 64",
    "micro_batch_size: 4": "micro_batch_size: 1",
}
LEFT_OUT = ("save_interval", "eval_interval", "eval_iters")
SECONDS = 600


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a user types, with `exp.yaml` and `data/exp.yaml`: a short training of one rank a node."""
    lines = [line for line in EXAMPLE.read_text().splitlines() if not line.strip().startswith(LEFT_OUT)]
    text = (
        "\n".join(lines)
        .replace("gpus_per_node: 2", "gpus_per_node: 1")
        .replace("global_batch_size: 8", "global_batch_size: 2")
    )
    for old, new in SHORT.items():
        text = text.replace(old, new)
    (tmp_path / "data").mkdir()
    for copy in (tmp_path / "exp.yaml", tmp_path / "data/exp.yaml"):
        copy.write_text(
            text.replace("    overrides:\n", "    overrides:\n      accelerator: cpu\n      save_interval: null\n")
        )
    return tmp_path


def variables(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    path = f"{BIN}:{more['PATH']}"
    return environment(folder / "output", **{**more, "PATH": path, "HOME": str(folder)})


def losses(folder: Path) -> Iterator[list[float]]:
    """The losses of each run's rank that has them, the oldest run first."""
    files = sorted(folder.glob("output/examples/me/llama-tiny/logs/*/rank-*/metrics.jsonl"))
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    for run in sorted({row["run_id"] for row in rows}):
        yield [row["loss"] for row in rows if row["run_id"] == run and row["loss"] is not None and row["rank"] == 0]


def test_pasted_dry_runs_train_on_a_cluster(slurm: Slurm, folder: Path) -> None:
    """srun and sbatch on two nodes: the two commands that each dry run prints train, to the same losses."""
    env = variables(folder, slurm.env)

    def sh(line: str) -> str:
        done = slurm.run(["bash", "-c", f"PATH={BIN}:$PATH; {line}"], env=env, cwd=folder, seconds=SECONDS)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    srun = "primus-cli slurm srun -N 2 -- train pretrain --config exp.yaml"
    sbatch = "primus-cli slurm sbatch -N 2 -t 0:20:00 -o train.log --wait -- train pretrain --config exp.yaml"
    for command in (srun, sbatch):
        said = sh(command.replace("primus-cli", "primus-cli --dry-run", 1))
        sh("\n".join(said.splitlines()[-2:]))
    first, second = losses(folder)
    assert len(first) == 2
    assert first == second
    assert "iteration 2" in (folder / "train.log").read_text()


def test_a_pasted_dry_run_trains_in_a_container(podman: Engine, plain_image: Image, folder: Path) -> None:
    """`--volume HOST:CONTAINER` with the experiment in it; the dry run's two commands, pasted."""
    podman.add(plain_image)
    env = variables(folder, podman.env)
    data = folder / "data"
    options = f"--image {plain_image.name} --volume {plain_image.libraries} --volume {data}:{data}"
    said = subprocess.run(
        shlex.split(f"primus-cli --dry-run container {options} -- train pretrain --config {data}/exp.yaml"),
        executable=BIN / "primus-cli",
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    pasted = "\n".join(said.stdout.splitlines()[-2:])
    done = subprocess.run(
        ["bash", "-c", pasted], env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = losses(folder)
    assert len(found) == 2

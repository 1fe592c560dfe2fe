"""The commands that the reference's CLI page shows, `./runner/primus-cli` read as `primus-cli`.

Here they are judged without being run: what would be started, with which exit code, and that nothing is written. The
page's own files and folders are in a folder of the test.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.support import EXAMPLE, ROOT, environment

LLAMA = "examples/megatron/configs/MI300X/llama2_7B-BF16-pretrain.yaml"
TABLE = {
    "direct pretrain": f"direct -- train pretrain --config {LLAMA}",
    "direct gemm": "direct -- benchmark gemm --M 4096 --N 4096 --K 4096",
    "container pretrain": "container --volume {data}:{data} -- train pretrain --config {data}/exp.yaml",
    "slurm training": "slurm srun -N 4 -- train pretrain --config exp.yaml",
    "preflight": "slurm srun -N 4 -- preflight --host --gpu --network",
    "inspect launch command": "--dry-run direct -- train pretrain --config exp.yaml",
    "dry-run slurm": "--dry-run slurm srun -N 2 -- train pretrain --config exp.yaml",
    "interactive multi-node training": f"slurm srun -N 4 -p gpu -- train pretrain --config {LLAMA}",
    "batch job": "slurm sbatch -N 8 -t 8:00:00 -o train.log -- train pretrain --config exp.yaml",
}

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the commands are typed: `exp.yaml`, the repository's examples, and `data` with an experiment too."""
    place = tmp_path / "clone"
    (place / "data").mkdir(parents=True)
    (place / "examples").symlink_to(ROOT / "examples")
    text = (
        EXAMPLE.read_text()
        .replace("gpus_per_node: 2", "gpus_per_node: 1")
        .replace("micro_batch_size: 4", "micro_batch_size: 1")
    )
    for copy in (place / "exp.yaml", place / "data/exp.yaml"):
        copy.write_text(text.replace("    overrides:\n", "    overrides:\n      accelerator: cpu\n"))
    return place


@pytest.fixture
def cli(folder: Path, tmp_path: Path) -> Cli:
    """`primus-cli` on a host with neither Slurm nor a container engine; the words are those of the table."""
    (tmp_path / "bin").mkdir()
    program = shutil.which("primus-cli", path=str(Path(sys.executable).parent))
    assert program is not None, "primus-core is not installed"

    def run(command: str, *before: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *before, *shlex.split(command.format(data=folder / "data"))],
            cwd=folder,
            env=environment(tmp_path / "workspace", PATH=str(tmp_path / "bin"), HOME=str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def written(folder: Path) -> set[str]:
    return {os.path.relpath(Path(place) / name, folder) for place, _, names in os.walk(folder) for name in names}


@pytest.mark.parametrize(
    ("name", "starts", "says"),
    [
        ("direct pretrain", "-m primus_launchers.torchrun", "1 rank (direct)"),
        ("direct gemm", "-m primus_launchers.torchrun", "benchmark-gemm on "),
        ("preflight", "srun --nodes=4", "4 nodes (slurm)"),
        ("inspect launch command", "-m primus_launchers.torchrun", "1 rank (direct)"),
        ("container pretrain", "-m primus_launchers.container", "1 rank (container rocm/primus:v26.3)"),
        ("slurm training", "srun --nodes=4", "4 ranks (slurm)"),
        ("dry-run slurm", "srun --nodes=2", "2 ranks (slurm)"),
        ("interactive multi-node training", "--partition=gpu", "32 ranks (slurm)"),
        ("batch job", "sbatch --parsable", "8 ranks (slurm)"),
    ],
)
def test_a_dry_run_judges_and_writes_nothing(
    cli: Cli, folder: Path, tmp_path: Path, name: str, starts: str, says: str
) -> None:
    """What would be started stands on the last line; neither Slurm nor an engine has to be here."""
    before = written(tmp_path)
    command = TABLE[name]
    done = cli(command, *["--dry-run"] * (not command.startswith("--dry-run")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert says in done.stdout.splitlines()[0]
    assert starts in done.stdout.splitlines()[-1]
    assert written(tmp_path) == before


@pytest.mark.parametrize(
    "command",
    [TABLE["container pretrain"], TABLE["batch job"], "slurm -N 2 -- direct --script exp.py"],
)
def test_a_file_that_does_not_exist_is_found_before_anything_is_submitted(
    cli: Cli, folder: Path, tmp_path: Path, command: str
) -> None:
    """Exit code 2, the file's name, and nothing written."""
    (folder / "exp.yaml").unlink()
    (folder / "data/exp.yaml").unlink()
    before = written(tmp_path)
    done = cli(command)
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.search(r"exp\.(yaml|py)", done.stderr)
    assert written(tmp_path) == before

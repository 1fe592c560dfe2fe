"""`primus benchmark` on nodes of a real Slurm and in a real container."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import environment
from tests.testbed.containers import Engine
from tests.testbed.images import Image
from tests.testbed.slurm import Slurm, primus

pytestmark = pytest.mark.cluster

SECONDS = 240
RCCL = ("rccl", "--op=all_reduce", "--sizes=4K", "--iters=3", "--warmup=1", "--check", "--accelerator=cpu")


@pytest.fixture
def folder(slurm: Slurm, tmp_path: Path) -> Iterator[Path]:
    """A user's, that all nodes see; no job is left behind in the queue."""
    yield tmp_path
    slurm.wait_idle()


def rows_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]


def test_ranks_of_two_nodes_are_measured_together(slurm: Slurm, folder: Path) -> None:
    """`srun -N2`: one verified all-reduce over both nodes, in the user's file and on the screen, once."""
    words = primus("slurm", "srun", "-N2", "--", "benchmark", *RCCL, "--output-file=out.jsonl")
    process = slurm.start(words, env=environment(folder / "out"), cwd=folder)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, out + err
    (row,) = rows_in(folder)
    assert (row["op"], row["bytes"], row["status"], row["error"]) == ("all_reduce", 4096, "ok", None)
    assert (row["world_size"], row["nodes"], row["host"], row["accelerator"]) == (2, 2, "node1", "cpu")
    assert row["busbw_gbs"] > 0
    assert out.count("\nrccl on ") == 1


def test_ranks_in_a_container_are_measured(podman: Engine, plain_image: Image, tmp_path: Path) -> None:
    """Two ranks in an image without Primus: the file is the user's, beside the command, not one in the container."""
    podman.add(plain_image)
    flags = ["--engine=podman", "--image", plain_image.name, "--volume", plain_image.libraries]
    done = subprocess.run(
        primus("container", *flags, "--", "direct", "--nproc=2", "--", "benchmark", *RCCL, "--output-file=out.jsonl"),
        env={**environment(tmp_path / "workspace"), **podman.env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = rows_in(tmp_path)
    assert (row["bytes"], row["status"], row["world_size"], row["nodes"]) == (4096, "ok", 2, 1)
    assert done.stdout.count("\nrccl on ") == 1

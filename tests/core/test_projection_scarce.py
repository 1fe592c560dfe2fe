"""What a run lacks is told before it starts: memory of devices or of the host, and room for a checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from primus_core.cli.projection.scarce import beyond_device, beyond_host, too_little_room
from primus_core.projection.iteration import Peak
from primus_core.projection.project import Projection, Stage
from primus_core.projection.static import Static

GIB = 1 << 30


def projection(size: int) -> Projection:
    """Of one rank that holds so many bytes."""
    stage = Stage(
        number=0,
        blocks={},
        parameters=1,
        static=Static(weights=size),
        peak=Peak(bytes=0, at="", parts={}, kept={}),
        bytes=size,
        gradients=0,
    )
    return Projection(parameters=1, stages=(stage,), has_activations=True, notes=())


@pytest.mark.parametrize(
    ("size", "gpus", "told"),
    [
        (79 * GIB, ("H100",), True),
        (70 * GIB, ("H100",), False),
        (100 * GIB, ("MI300X",), False),
        (100 * GIB, ("H100", "H200"), False),
        (100 * GIB, ("1002:0000",), False),
    ],
)
def test_a_rank_that_does_not_fit_on_its_device(size: int, gpus: tuple[str, ...], told: bool) -> None:
    """With the margin for what only a device has; an unknown or mixed host is not judged."""
    findings = list(beyond_device(projection(size), 8, gpus))
    assert [finding.check for finding in findings] == (["memory.fit"] if told else [])
    assert all("H100 has 80 GiB" in finding.summary for finding in findings)


def test_ranks_that_do_not_fit_into_their_host() -> None:
    """All of this host together; where the kernel does not tell its memory, nothing is said."""
    (finding,) = beyond_host(projection(3 * GIB), 2, 5 * GIB)
    assert "6.0 GiB are needed for tensors, and this host has 5.0 GiB available" in finding.summary
    assert list(beyond_host(projection(3 * GIB), 2, 7 * GIB)) == []
    assert list(beyond_host(projection(3 * GIB), 2, None)) == []


def test_room_for_a_checkpoint(tmp_path: Path) -> None:
    """The folder may not be there yet; a small one is not worth a word."""
    found = os.statvfs(tmp_path)
    (finding,) = too_little_room(found.f_blocks * found.f_frsize + GIB, tmp_path / "not" / "there")
    assert finding.check == "checkpoint.room"
    assert str(tmp_path) in finding.evidence
    assert list(too_little_room(0, tmp_path)) == []


EXPERIMENT = """work_group: team
user_name: me
exp_name: large
workspace: {workspace}
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama3.1_405B.yaml
    overrides: {{mock_data: true, train_iters: 1, micro_batch_size: 1, global_batch_size: 1}}
"""


def test_a_model_that_is_too_large_is_not_started_under_strict(tmp_path: Path) -> None:
    """The command says how large it is and what this host has, and ends with 3 before any rank was started."""
    (tmp_path / "exp.yaml").write_text(EXPERIMENT.format(workspace=tmp_path / "w"))
    argv = [sys.executable, "-m", "primus_core.cli.main", "run", "exp.yaml", "accelerator=cpu", "--nproc", "1"]
    done = subprocess.run([*argv, "--preflight", "strict"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert "model       405,8" in done.stdout
    assert "the run does not fit into memory" in done.stderr
    assert list(tmp_path.glob("w/team/me/large/runs/*/ranks/*")) == []

"""What a run lacks is told before it starts: memory of devices or of the host, and room for a checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from primus_core.codec import to_json
from primus_core.experiment import Value
from primus_core.hardware import HostMemory, find_model, host_memory
from primus_core.outcome import Finding, Where
from primus_core.plan import Job, RunPlan, Target, Task
from primus_core.planning.assumed import named_model
from primus_core.report.projected import Projected
from primus_core.report.scarce import beyond_device, beyond_host, scarce_here, scarce_there, too_little_room
from primus_preflight.host import preflight_check

GIB = 1 << 30


def projected(size: int) -> Projected:
    """Of one rank that holds so many bytes."""
    return Projected(stage=0, bytes=size, margin=2 * GIB, has_activations=True, parameters=1 << 60)


@pytest.mark.parametrize(
    ("size", "device", "told"),
    [
        (79 * GIB, "NVIDIA H100 80GB HBM3", True),
        (70 * GIB, "NVIDIA H100 80GB HBM3", False),
        (100 * GIB, "AMD Instinct MI300X", False),
        (100 * GIB, "1002:0000", False),
    ],
)
def test_a_rank_that_does_not_fit_on_its_device(size: int, device: str, told: bool) -> None:
    """With the margin for what only a device has; an unknown one is not judged."""
    findings = list(beyond_device(projected(size), find_model(device)))
    assert [finding.check for finding in findings] == (["memory.fit"] if told else [])
    assert all("H100 has 79.11 GiB" in finding.summary for finding in findings)


@pytest.mark.parametrize(
    ("options", "model"),
    [
        ({"gres": "gpu:mi300x:8"}, "MI300X"),
        ({"gpus-per-node": "h100:8", "constraint": "H100&ib"}, "H100"),
        ({"gres": "gpu:nvidia_h100_80gb_hbm3:4"}, "H100"),
        ({"gres": "gpu:nvidia_h100_nvl:4"}, ""),
        ({"gres": "gpu:gh200:1"}, ""),
        ({"constraint": "h100|a100"}, ""),
        ({"gres": "gpu:8"}, ""),
    ],
)
def test_a_model_that_options_of_slurm_name(options: dict[str, Value], model: str) -> None:
    """One that is known, whatever the case; never a guess between several, or of another product."""
    found = named_model("slurm", {"slurm": options})
    assert (found.model if found else "") == model
    assert named_model("ssh", {"slurm": options}) is None


def test_ranks_that_do_not_fit_into_their_host() -> None:
    """All of this host together; where the kernel does not tell its memory, nothing is said."""
    (finding,) = beyond_host(projected(3 * GIB), 2, 5 * GIB)
    assert "6.0 GiB are needed for tensors, and this host has 5.0 GiB available" in finding.summary
    assert list(beyond_host(projected(3 * GIB), 2, 7 * GIB)) == []
    assert list(beyond_host(projected(3 * GIB), 2, None)) == []


def test_the_memory_of_a_host(tmp_path: Path) -> None:
    """In bytes; nothing is made up where the kernel does not tell."""
    assert host_memory(tmp_path) == HostMemory()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:  16 kB\nHugePages_Total: 0\nMemAvailable: odd\n")
    assert host_memory(tmp_path) == HostMemory(total=16384)


def test_room_for_a_checkpoint(tmp_path: Path) -> None:
    """The folder may not be there yet; a small one is not worth a word."""
    found = os.statvfs(tmp_path)
    (finding,) = too_little_room(found.f_blocks * found.f_frsize + GIB, tmp_path / "not" / "there")
    assert finding.check == "checkpoint.room"
    assert str(tmp_path) in finding.evidence
    assert list(too_little_room(0, tmp_path)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_folder_that_others_may_not_look_into() -> None:
    """Its file system is judged by the closest folder that this user sees."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        closed = Path(name) / "closed"
        closed.mkdir(mode=0o700)
        os.seteuid(65534)
        try:
            (finding,) = too_little_room(1 << 80, closed / "save" / "here")
        finally:
            os.seteuid(0)
    assert str(closed) in finding.evidence


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


def primus(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "exp.yaml").write_text(EXPERIMENT.format(workspace=tmp_path / "w"))
    argv = [sys.executable, "-m", "primus_core.cli.main", *words]
    return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120)


def test_a_model_that_is_too_large_is_not_started_under_strict(tmp_path: Path) -> None:
    """The command says how large it is and what this host has, and ends with 3 before any rank was started."""
    done = primus(tmp_path, "run", "exp.yaml", "accelerator=cpu", "--nproc", "1", "--preflight", "strict")
    assert done.returncode == 3, done.stderr
    assert "model       405,8" in done.stdout
    assert "the run does not fit into memory" in done.stderr
    assert list(tmp_path.glob("w/team/me/large/runs/*/ranks/*")) == []


SUBMITTED = ("slurm", "sbatch", "-N1", "--output-script=job.sh")
RUN = ("run", "exp.yaml", "--preflight", "strict", "save_interval=1")


def test_a_job_is_judged_by_what_it_is_to_run_on(tmp_path: Path) -> None:
    """Its size is told before it is handed over; a named GPU that is too small ends the command."""
    done = primus(tmp_path, *SUBMITTED, "--gres=gpu:h100:8", "--", *RUN, "global_batch_size=8")
    assert done.returncode == 3, done.stderr
    assert "model       405,8" in done.stdout
    assert "H100 has 79.11 GiB" in done.stderr
    assert not (tmp_path / "job.sh").exists()


def test_a_job_is_not_judged_by_the_host_that_submits_it(tmp_path: Path) -> None:
    """Neither this host's memory nor its disks are those of the job's nodes."""
    done = primus(tmp_path, *SUBMITTED, "--", *RUN, "accelerator=cpu", "--nproc=1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "model       405,8" in done.stdout
    assert (tmp_path / "job.sh").exists()


def test_a_node_of_a_job_judges_itself(tmp_path: Path) -> None:
    """By what the run's folder says of the projection; without that, nothing is said."""
    task = Task(kind="train", entry="x:y")
    plan = RunPlan(
        run_id="r",
        run_dir=str(tmp_path),
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=1),
        task=task,
        job=Job(run_id="r", name="n", task=task, python="python", argv=()),
        launcher="slurm",
    )
    assert fits(preflight_check(plan, Where.NODE, {}))
    kept = projected(1 << 60)
    (tmp_path / "projection.json").write_text(to_json(kept))
    assert not fits(preflight_check(plan, Where.NODE, {}))
    assert [one.check for one in scarce_here(kept, plan)] == ["memory.fit"]
    assert list(scarce_there(kept, plan)) == []


def fits(findings: Sequence[Finding]) -> bool:
    return "memory.fit" not in [finding.check for finding in findings]

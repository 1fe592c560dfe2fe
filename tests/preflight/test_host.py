"""The host check: room and permission to write, found without writing."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from primus_core import discovery, hooks
from primus_core.outcome import Finding, Where
from primus_core.plan import Job, RunPlan, Target, Task
from primus_preflight.host import ENOUGH_BYTES, LEAST_BYTES, check_space, check_workspace


def plan(run_dir: Path) -> RunPlan:
    task = Task(kind="train", entry="x:y")
    return RunPlan(
        run_id="r",
        run_dir=str(run_dir),
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=1),
        task=task,
        job=Job(run_id="r", name="n", task=task, python="python", argv=()),
        launcher="l",
    )


def test_the_check_is_installed_and_writes_nothing(tmp_path: Path) -> None:
    """A workspace that does not exist yet is judged by the folder it would be made in, and is not made."""
    host = hooks.load_host(discovery.scan(), backend=None, launcher=None, preflight=True)
    findings = host.preflight(plan(tmp_path / "not" / "there"))
    enough = shutil.disk_usage(tmp_path).free >= ENOUGH_BYTES
    assert [finding.check for finding in findings] == ([] if enough else ["host.disk-space"])
    assert list(tmp_path.iterdir()) == []


def test_the_host_is_checked_once_not_by_every_rank(tmp_path: Path) -> None:
    """In a rank the check has nothing to say, even about an impossible workspace."""
    (tmp_path / "file").write_text("")
    host = hooks.load_host(discovery.scan(), backend=None, launcher=None, preflight=True)
    assert host.preflight(plan(tmp_path / "file" / "w"), Where.SUBMIT)
    assert host.preflight(plan(tmp_path / "file" / "w"), Where.NODE) == ()


@pytest.mark.parametrize(
    ("free", "severity"),
    [(0, "error"), (LEAST_BYTES - 1, "error"), (LEAST_BYTES, "warning"), (ENOUGH_BYTES - 1, "warning")],
)
def test_a_full_disk_is_found(free: int, severity: str) -> None:
    """Little room is a warning, next to none an error that ends the run with 3; both give the figures."""
    (finding,) = check_space(Path("/w/new"), Path("/w"), free)
    assert (finding.check, finding.severity, finding.exit_code) == ("host.disk-space", severity, 3)
    assert "/w/new" in finding.evidence
    assert "5.0 GiB" in finding.evidence
    assert "workspace:" in finding.remedy


def test_enough_room_is_nothing_to_speak_of() -> None:
    """No finding from the threshold on."""
    assert list(check_space(Path("/w"), Path("/w"), ENOUGH_BYTES)) == []


def test_a_file_in_the_way_is_found(tmp_path: Path) -> None:
    """A workspace below a file can never be made."""
    (tmp_path / "file").write_text("")
    (finding,) = check_workspace(tmp_path / "file" / "workspace")
    assert (finding.check, finding.severity) == ("host.workspace", "error")
    assert f"{tmp_path / 'file'} is a file" in finding.evidence


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("mode", [0o555, 0o700])
def test_a_folder_of_somebody_else_is_found(mode: int) -> None:
    """A user without the right to write, or even to look, is told before the start."""
    with tempfile.TemporaryDirectory() as name:
        closed = Path(name) / "closed"
        closed.mkdir()
        closed.chmod(mode)
        closed.parent.chmod(0o755)
        (finding,) = as_ordinary_user(closed / "workspace" / "deep")
    assert (finding.check, finding.severity, finding.exit_code) == ("host.workspace", "error", 3)
    assert "is not writable for the user id" in finding.evidence


def as_ordinary_user(workspace: Path) -> tuple[Finding, ...]:
    """The findings of a user who may not write everywhere."""
    os.seteuid(65534)
    try:
        return tuple(check_workspace(workspace))
    finally:
        os.seteuid(0)

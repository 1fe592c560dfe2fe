"""Checks before a run, each fault really caused: they warn, end the command under ``strict``, and can be left out."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from attrs import evolve

from primus_core.outcome import Finding, Where
from primus_core.plan import Job
from primus_preflight.host import preflight_check
from tests.preflight.nodes import plan


def findings(where: Where, launcher: str, env: Mapping[str, str], asked: Mapping[str, str] = {}) -> list[Finding]:
    """Without those of the workspace, which is not what this is about."""
    given = plan(nodes=2, accelerator="cuda", kind="train")
    job: Job = evolve(given.job, env=asked, inside="container" if launcher == "slurm" else "direct")
    found = preflight_check(evolve(given, launcher=launcher, job=job), where, {**env, **asked})
    return [finding for finding in found if finding.check.startswith("settings.")]


@pytest.mark.parametrize(
    ("where", "launcher", "checks"),
    [
        (Where.SUBMIT, "direct", ["settings.slow", "settings.interfaces"]),
        (Where.NODE, "direct", []),
        (Where.SUBMIT, "slurm", ["settings.slow"]),
        (Where.NODE, "slurm", ["settings.slow", "settings.interfaces"]),
        (Where.FILES, "direct", []),
    ],
)
def test_who_checks_what(where: Where, launcher: str, checks: list[str]) -> None:
    """This host what it knows and is part of, each node of others what is there; nobody the same twice."""
    env = {"NCCL_P2P_DISABLE": "1", "NCCL_SOCKET_IFNAME": "nosuch"}
    assert [finding.check for finding in findings(where, launcher, env)] == checks


def test_a_node_does_not_repeat_what_was_told_before_the_start() -> None:
    """Settings of the plan are judged where it was made; on the node, those that an image adds."""
    asked = {"NCCL_P2P_DISABLE": "1"}
    assert findings(Where.NODE, "container", {}, asked) == []
    (added,) = findings(Where.NODE, "container", {"CUDA_LAUNCH_BLOCKING": "1"}, asked)
    assert "CUDA_LAUNCH_BLOCKING" in added.summary


def test_a_preflight_of_nodes_looks_for_itself() -> None:
    """The plugin has nothing to add there."""
    env = {"NCCL_P2P_DISABLE": "1"}
    given = evolve(plan(accelerator="cuda"), launcher="slurm")
    assert preflight_check(given, Where.NODE, env) == ()
    assert [one for one in preflight_check(given, Where.SUBMIT, env) if one.check.startswith("settings.")] == []


EXPERIMENT = """work_group: team
user_name: me
exp_name: checked
workspace: {workspace}
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama2_7B.yaml
    overrides: {{mock_data: true, train_iters: 1}}
"""


def primus(tmp_path: Path, *words: str, few_files: bool = False, **env: str) -> subprocess.CompletedProcess[str]:
    """A dry run, with a limit of open files that is really lowered."""
    (tmp_path / "exp.yaml").write_text(EXPERIMENT.format(workspace=tmp_path / "w"))
    lower: Callable[[], None] | None = (
        (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))) if few_files else None
    )
    argv = [sys.executable, "-m", "primus_core.cli.main", "run", "exp.yaml", "accelerator=cpu", "--dry-run", *words]
    full = {**os.environ, **env}
    return subprocess.run(argv, cwd=tmp_path, env=full, capture_output=True, text=True, preexec_fn=lower, timeout=60)


def test_a_warning_tells_and_lets_the_run_start(tmp_path: Path) -> None:
    """It says what was seen and what to do."""
    done = primus(tmp_path, few_files=True)
    assert done.returncode == 0, done.stderr
    assert "warning: a process may have 400 files open, which is few" in done.stderr
    assert "ulimit -n 65536" in done.stderr


def test_strict_makes_a_warning_an_error(tmp_path: Path) -> None:
    """Nothing is started; the exit code is that of what a host lacks."""
    done = primus(tmp_path, "--preflight", "strict", few_files=True)
    assert done.returncode == 3
    assert "error: a process may have 400 files open" in done.stderr


def test_skipped_checks_say_nothing(tmp_path: Path) -> None:
    """Not even about what would end the run; both options at once make no sense."""
    done = primus(tmp_path, "--skip-preflight", few_files=True, GLOO_SOCKET_IFNAME="nosuch")
    assert (done.returncode, done.stderr) == (0, "")
    both = primus(tmp_path, "--skip-preflight", "--preflight", "strict")
    assert both.returncode == 2


def test_an_interface_that_is_not_there_ends_the_command(tmp_path: Path) -> None:
    """Gloo would fail to find it on every rank; the command names those that there are."""
    done = primus(tmp_path, GLOO_SOCKET_IFNAME="nosuch")
    assert done.returncode == 3
    assert "GLOO_SOCKET_IFNAME=nosuch names no interface" in done.stderr
    assert "it has lo" in done.stderr
    assert primus(tmp_path, "--env", "GLOO_SOCKET_IFNAME=nosuch").returncode == 3


def test_the_printed_command_is_as_strict(tmp_path: Path) -> None:
    """A plan that is made by the command of a dry run tells its ranks."""
    assert "--preflight strict" in primus(tmp_path, "--preflight", "strict").stdout

"""The plugins that the READMEs show can be installed and work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from primus_core import discovery, hooks
from primus_core.plan import Job, RunPlan, Target, Task
from tests.distributions import Install

ROOT = Path(__file__).parents[2]
TASK = Task(kind="train", entry="x:y")
JOB = Job(run_id="r", name="n", task=TASK, python="/python", argv=("-m", "primus_core.rank", "p"))


def example(distribution: str) -> str:
    """The Python block of a README."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / distribution / "README.md").read_text(), re.S | re.M)
    return str(block)


def test_the_launcher_of_the_readme_launches(install: Install) -> None:
    """The example of primus-launchers is a whole launcher."""
    install("my-package", "[primus.launchers]\nnice = my_nice\n", {"my_nice.py": example("primus-launchers")})
    host = hooks.load_host(discovery.scan(), backend=None, launcher="nice", preflight=False)
    assert host.launch(JOB).processes[0].argv == ("nice", "/python", "-m", "primus_core.rank", "p")


@pytest.mark.parametrize(("run_dir", "found"), [("/tmp/w/runs/r", ["workspace.temporary"]), ("/data/w/runs/r", [])])
def test_the_check_of_the_readme_checks(install: Install, run_dir: str, found: list[str]) -> None:
    """The example of primus-preflight is a whole check: it finds what it is for, and nothing else."""
    install("my-package", "[primus.preflight]\nname = my_check\n", {"my_check.py": example("primus-preflight")})
    host = hooks.load_host(discovery.scan(), backend=None, launcher=None, preflight=True)
    target = Target(accelerator="cpu", library_version="1", ranks_per_node=1)
    plan = RunPlan(run_id="r", run_dir=run_dir, target=target, task=TASK, job=JOB, launcher="l")
    mine = [finding.check for finding in host.preflight(plan) if not finding.check.startswith("host.")]
    assert (mine, host.unusable) == (found, ())

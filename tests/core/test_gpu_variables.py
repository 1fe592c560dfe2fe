"""The variables that suit a GPU model: what the data says, how models are recognized, and that everybody else wins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from primus_core.codec import to_json
from primus_core.experiment import Experiment, Leaf, Origin
from primus_core.hardware import find_gpus, model_variables, variables_of
from primus_core.plan import RunPlan, Target
from primus_core.rank.tuning import tune
from tests.core.gpuhosts import amd_host, nvidia_host
from tests.core.rankruns import Ended, Ranks

MODELS = ("MI300X", "MI325X", "MI350X", "MI355X", "H100", "H200")
ROCM = Target(accelerator="rocm", library_version="", ranks_per_node=8)
TASK = """
import torch
from pathlib import Path

def run(plan, rank):
    return {"seen": {name: torch.SEEN.get(name) for name in plan.task.arguments["names"]},
            "context": {name: rank.env.get(name) for name in plan.task.arguments["names"]}}
"""


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(folder=tmp_path)


def experiment(**env: str | None) -> Experiment:
    origin = Origin(file="exp.yaml", line=1, column=1, layer="experiment")
    leaves = {name: Leaf(value=value, origin=origin) for name, value in env.items()}
    names = {"work_group": "g", "user_name": "u", "exp_name": "e", "workspace": "."}
    return Experiment(file="exp.yaml", env=leaves, modules={}, **names)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_variables_with_a_reason_and_a_document(model: str) -> None:
    """No variable twice, no value that is no text, nothing without the document that advises it."""
    rows = variables_of(model)
    assert rows
    assert len({row.name for row in rows}) == len(rows)
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]+", row.name) and row.value and row.why for row in rows)
    assert all("documentation" in row.source for row in rows)


def test_only_known_models_are_named() -> None:
    """A row for a model that nothing can recognize would never be used."""
    assert {model for row in model_variables() for model in row.models} == set(MODELS)


def test_what_another_part_decides_is_not_in_the_data() -> None:
    """The layout decides CUDA_DEVICE_MAX_CONNECTIONS, the site its network interfaces and GID index."""
    decided = {"CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_IB_GID_INDEX"}
    assert not decided & {row.name for row in model_variables()}


def test_the_documentation_lists_the_data() -> None:
    """Every variable with its value and its models, and no other one."""
    page = (Path(__file__).parents[2] / "docs/gpu-variables.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `(.+)` \| (.+) \|$", page, re.MULTILINE)
    assert rows == [(one.name, one.value, ", ".join(one.models)) for one in model_variables()]


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ([0x74A1] * 8, ("MI300X",)),
        ([0x74B5], ("MI300X",)),
        ([0x74A5] * 8, ("MI325X",)),
        ([0x75A0], ("MI350X",)),
        ([0x75A3], ("MI355X",)),
        ([0x7408], ("1002:7408",)),
        ([0x74A1, 0x75A3], ("MI300X", "MI355X")),
        ([], ()),
    ],
)
def test_models_of_amd_are_recognized(tmp_path: Path, devices: list[int], found: tuple[str, ...]) -> None:
    """By the PCI id that KFD shows of each node with SIMD units; processors are no GPUs."""
    assert find_gpus(amd_host(tmp_path, devices)) == found


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["NVIDIA H100 80GB HBM3"] * 8, ("H100",)),
        (["NVIDIA H200"], ("H200",)),
        (["NVIDIA GH200 480GB"], ("NVIDIA GH200 480GB",)),
        (["NVIDIA H100 PCIe", "NVIDIA T400"], ("H100", "NVIDIA T400")),
    ],
)
def test_models_of_nvidia_are_recognized(tmp_path: Path, names: list[str], found: tuple[str, ...]) -> None:
    """By a whole word of the name that the driver shows."""
    assert find_gpus(nvidia_host(tmp_path, names)) == found


def test_a_device_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    """A container's host has more GPUs than were given to it: their properties cannot be read."""
    root = amd_host(tmp_path, [0x74A1, 0x74A1])
    hidden = root / "sys/class/kfd/kfd/topology/nodes/3/properties"
    hidden.unlink()
    hidden.mkdir()
    assert find_gpus(root) == ("MI300X",)


def test_everybody_else_wins(tmp_path: Path, ranks: Ranks) -> None:
    """A variable that is set, if to nothing, stays; null in the experiment leaves it unset."""
    root = amd_host(tmp_path, [0x74A1])
    user = {"HSA_NO_SCRATCH_RECLAIM": "0", "NCCL_PXN_DISABLE": ""}
    env = dict(user)
    plan = evolve(ranks.plan("works"), target=ROCM, experiment=experiment(RCCL_MSCCL_ENABLE=None))
    tuning = tune(plan, env, root)
    assert {name: env[name] for name in user} == user
    assert "RCCL_MSCCL_ENABLE" not in env
    assert sorted(tuning.kept) == ["HSA_NO_SCRATCH_RECLAIM", "NCCL_PXN_DISABLE", "RCCL_MSCCL_ENABLE"]
    added = {one.name: one.value for one in tuning.added}
    assert added == {one.name: one.value for one in variables_of("MI300X") if one.name not in tuning.kept}
    assert env == {**user, **added}


@pytest.mark.parametrize("devices", [[0x74A1, 0x75A3], [0x7408], []])
def test_hosts_without_one_known_model_are_left_alone(tmp_path: Path, ranks: Ranks, devices: list[int]) -> None:
    """Of two models the ranks would differ; for an unknown one nothing is advised."""
    env: dict[str, str] = {}
    assert not tune(evolve(ranks.plan("works"), target=ROCM), env, amd_host(tmp_path, devices)).added
    assert env == {}


def test_ranks_on_cpu_are_left_alone(tmp_path: Path, ranks: Ranks) -> None:
    """A run on cpu has no GPU's variables, whatever the host has."""
    env: dict[str, str] = {}
    assert tune(ranks.plan("works"), env, amd_host(tmp_path, [0x74A1])).gpus == ()
    assert env == {}


@pytest.mark.cluster
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="shows a rank another /sys: needs root")
@pytest.mark.parametrize("model", ["MI300X", "H200"])
def test_a_rank_has_them_before_torch_is_imported(tmp_path: Path, ranks: Ranks, model: str) -> None:
    """The training library, the task and the log see the same; the user's own value is the one that counts."""
    host = tmp_path / "host"
    _ = amd_host(host, [0x74A1] * 8) if model == "MI300X" else nvidia_host(host, ["NVIDIA H200"] * 8)
    names = [one.name for one in variables_of(model)]
    site = tmp_path / "site"
    site.mkdir()
    (site / "torch.py").write_text("import os\nSEEN = dict(os.environ)\n")
    (site / "gpu_task.py").write_text(TASK)
    target = evolve(ROCM, accelerator="rocm" if model == "MI300X" else "cuda", ranks_per_node=1)
    plan = ranks.plan("works", target=target)
    task = evolve(plan.task, entry="gpu_task:run", arguments={"names": list(names)})
    ended = _under(host, ranks, evolve(plan, task=task), **{names[0]: "mine"})
    assert ended.code == 0, ended.stdout + ended.stderr
    expected = {**{one.name: one.value for one in variables_of(model)}, names[0]: "mine"}
    assert ended.report.result == {"seen": expected, "context": expected}
    assert f"{model}: {len(names) - 1} variables set that suit it, 1 were set already" in ended.stdout
    for one in variables_of(model)[1:]:
        assert re.search(rf"variable of the GPU model .*name={one.name} .*value={one.value}", ended.log("info"))


def _under(host: Path, ranks: Ranks, plan: RunPlan, **env: str) -> Ended:
    """A rank whose /sys/class and /proc/driver are those of the host."""
    path = Path(plan.run_dir) / "plan.json"
    path.parent.mkdir(parents=True)
    path.write_text(to_json(plan))
    mounts = "for place in sys/class proc/driver; do [ ! -d $0/$place ] || mount --bind $0/$place /$place; done"
    script = f'{mounts}; exec "$@"'
    rank = [sys.executable, "-m", "primus_core.rank", str(path)]
    process = subprocess.Popen(
        ["unshare", "--mount", "bash", "-ec", script, str(host), *rank],
        env=ranks.environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return ranks.end(plan, process)

"""Our own experiments for nodes of eight MI300X."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from primus_core import discovery
from primus_core.pipeline import Judged, Scope, judge
from primus_core.planning.accelerators import Found
from primus_core.planning.job import Request
from primus_core.resolve import resolve
from tests.core.weights import layers_with_experts, parameter_count, routed_experts

FOLDER = Path(__file__).parents[2] / "examples" / "megatron" / "configs" / "MI300X"
EXPERIMENTS = sorted(path.name for path in FOLDER.glob("*-pretrain.yaml"))
MI300X = 192 * 2**30
"""Bytes of memory."""


@cache
def plugins() -> discovery.Plugins:
    return discovery.scan()


@cache
def judged(name: str) -> Judged:
    """An experiment, judged for as many nodes as it needs."""
    experiment = resolve(
        str(FOLDER / name),
        env={},
        preset_dirs=lambda framework: discovery.preset_dirs(plugins(), framework),
        cwd=str(FOLDER),
    )
    scope = Scope(
        request=Request(launcher="single", run_id="test", ranks_per_node=8, cwd=str(FOLDER)),
        found=Found(kind="rocm", count=8),
        accelerator="rocm",
        nodes=None,
        launcher=False,
        preflight=False,
        files=False,
    )
    return judge(experiment, plugins(), scope)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_example_is_legal_on_as_many_nodes_as_it_says(name: str) -> None:
    """Nothing is wrong with an example but a package that this host lacks, and its first line tells its nodes."""
    found = judged(name)
    assert [one for one in found.failures if "install" not in one.remedy] == []
    assert found.target is not None
    head = (FOLDER / name.replace("-FP8-", "-BF16-")).read_text().partition("\n\n")[0]
    nodes = re.search(r": (one|\d+) nodes?\b", head)
    assert nodes, head
    assert found.target.nodes == (1 if nodes[1] == "one" else int(nodes[1]))


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "-BF16-" in name])
def test_an_example_has_a_twin_in_8_bits(name: str) -> None:
    """The FP8 experiment differs from the BF16 one in its name and precision only."""
    twin = name.replace("-BF16-", "-FP8-")
    first, second = (judged(one).module.params for one in (name, twin))
    differ = {key for key in first.keys() | second.keys() if key not in first or first[key].value != second[key].value}
    assert differ == {"fp8"}
    assert judged(name).experiment.exp_name == Path(name).stem
    assert judged(twin).experiment.exp_name == Path(twin).stem


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "-BF16-" in name])
def test_an_example_fits_into_the_memory_of_its_gpus(name: str) -> None:
    """Weights, gradients in 32 bits and each rank's share of the optimizer leave a tenth of the memory to the rest."""
    translation, target = judged(name).translation, judged(name).target
    assert translation is not None
    assert target is not None
    values = {key: leaf.value for key, leaf in judged(name).module.params.items()}
    experts = sum(layers_with_experts(values)) * routed_experts(values) if values.get("num_experts") else 0
    layout = translation.layout
    stages = layout.tensor * layout.pipeline
    groups = layout.pipeline * layout.expert
    held = bytes_per_rank(parameter_count(values) - experts, stages, target.world_size)
    assert held + bytes_per_rank(experts, groups, target.world_size) < 0.9 * MI300X


def bytes_per_rank(weights: int, ranks: int, world_size: int) -> float:
    """Of weights that some ranks divide: 2 bytes each, 4 of a gradient, 12 of the optimizer over all replicas."""
    return weights / ranks * (2 + 4 + 12 * ranks / world_size)

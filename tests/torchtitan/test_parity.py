"""The same parameters, weights and samples give the same losses with both back ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from primus_backend_megatron import host as megatron_host
from primus_core.experiment import Value
from primus_core.plan import RunPlan, Settings
from primus_core.planning.make import Request, make_plan
from tests.megatron import experiments as megatron
from tests.megatron.ranks import Ranks as MegatronRanks
from tests.torchtitan.parity import TRAINING, write_weights
from tests.torchtitan.ranks import Ranks

LOSS, GRAD_NORM = 5e-6, 2e-5
"""Largest relative differences of rounding: every alignment of the two, left out, gives more."""

LAYOUTS: dict[str, tuple[dict[str, Value], dict[str, Value], int]] = {
    "one process": ({}, {}, 1),
    "fsdp": ({}, {}, 2),
    "ddp": ({}, {"parallelism.data_parallel_replicate_degree": 2, "parallelism.data_parallel_shard_degree": 1}, 2),
    "tensor": ({"tensor_model_parallel_size": 2}, {}, 2),
    "pipeline": ({"pipeline_model_parallel_size": 2}, {}, 2),
}
"""Portable parameters of both, TorchTitan's own beside them, and the number of ranks."""


@pytest.fixture(scope="module")
def megatron_ranks() -> Iterator[MegatronRanks]:
    with MegatronRanks() as started:
        yield started


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_weights(tmp_path_factory.mktemp("weights") / "hf")


def megatron_plan(params: dict[str, Value], ranks: int, workspace: Path) -> RunPlan:
    module = megatron.module_of(params)
    experiment, target = megatron.experiment_of(module, str(workspace)), megatron.target_of("cpu", ranks)
    return make_plan(
        experiment,
        module,
        target=target,
        settings=Settings(values={}),
        translation=megatron_host.translate_config(experiment, module, target),
        prepare=(),
        request=Request(launcher="single", run_id="run"),
        distributions={},
    )


def from_folder(folder: Path) -> dict[str, Value]:
    """TorchTitan's own parameters to begin with the weights of a Hugging Face folder."""
    return {
        "checkpoint.enable": True,
        "checkpoint.interval": 1000,
        "checkpoint.initial_load_in_hf": True,
        "checkpoint.initial_load_path": str(folder),
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_back_ends_train_alike(
    titan_ranks: Ranks, megatron_ranks: MegatronRanks, weights: Path, tmp_path: Path, layout: str
) -> None:
    """Twenty steps of warm-up, decay, weight decay and clipping differ by rounding, in every layout that both have."""
    portable, own, ranks = LAYOUTS[layout]
    plan = megatron_plan({**TRAINING, **portable}, ranks, tmp_path / "megatron")
    prepared = {"weights": {"folder": str(weights)}}
    entry = "tests.torchtitan.parity:megatron"
    theirs = megatron_ranks.start(plan, tmp_path / "megatron", entry=entry, prepared=prepared).check().rows()
    params = {**TRAINING, **portable, **own, **from_folder(weights)}
    rows = titan_ranks.run(tmp_path / "torchtitan", params, world=ranks).check().rows()
    assert len(rows) == len(theirs) == 20
    assert rows[-1]["loss"] < rows[0]["loss"] - 2
    for ours, other in zip(rows, theirs, strict=True):
        assert ours["loss"] == pytest.approx(other["loss"], rel=LOSS)
        assert ours["grad_norm"] == pytest.approx(other["grad_norm"], rel=GRAD_NORM)
        assert ours["lr"] == pytest.approx(other["lr"], rel=1e-12)
        assert ours["tokens"] == other["tokens"]

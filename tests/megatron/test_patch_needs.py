"""No patch is planned in vain: each has a probe that fails, or sees something else, when just that patch is missing."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
from attrs import evolve, field, frozen

from primus_core.experiment import Value
from primus_core.plan import RunPlan
from primus_core.planning.patchorder import not_needed
from tests.forked.ranks import Outcome, told
from tests.megatron.ranks import ENTRY, Ranks, all_patches, make_plan


@frozen(kw_only=True)
class Probe:
    """Something that a run does, and how it goes wrong."""

    entry: str = ENTRY
    world: int = 1
    native: Mapping[str, Value] = field(factory=lambda: {"train_iters": 1})
    fault: str
    """Pattern of the error, or of what the entry returns, without the patch."""
    resumes: bool = False
    """Continues from a checkpoint of one iteration."""


def _probe(name: str, fault: str, world: int = 1, **native: Value) -> Probe:
    return Probe(entry=f"tests.megatron.probes:{name}", world=world, native=native, fault=fault)


_CHECKPOINT: Mapping[str, Value] = {
    "train_iters": 3,
    "num_layers": 3,
    "use_distributed_optimizer": True,
    "save_interval": 1,
}
_ALLTOALL: Mapping[str, Value] = {"moe_token_dispatcher_type": "alltoall"}
_NO_CUDA = "Torch not compiled with CUDA enabled"


def _training(fault: str) -> Probe:
    return Probe(fault=fault)


def _evaluating(fault: str) -> Probe:
    return Probe(native={"train_iters": 1, "eval_interval": 1, "eval_iters": 1}, fault=fault)


def _saving(fault: str) -> Probe:
    return _probe("saves", fault, save="checkpoints", save_interval=1, train_iters=1)


def _resuming(fault: str) -> Probe:
    return Probe(native=_CHECKPOINT, fault=fault, resumes=True)


def _loading_together(fault: str) -> Probe:
    native: Mapping[str, Value] = {
        **_CHECKPOINT,
        "train_iters": 2,
        "ckpt_fully_parallel_load": True,
        "ckpt_fully_parallel_load_exchange_algo": "gather_rounds",
        "no_load_optim": True,
        "no_load_rng": True,
    }
    return Probe(native=native, world=2, fault=fault, resumes=True)


PROBES: Mapping[str, Probe] = {
    "typing-override": _probe("imports", "cannot import name 'override'"),
    "cpu-paged-stash-stub": _probe("imports", "No module named 'triton'"),
    "cpu-compile": _probe("compiles", "BackendCompilerFailed"),
    "cpu-current-device": _training(_NO_CUDA),
    "cpu-device-count": _training("parallel group is not initialized"),
    "cpu-set-device": _training("_cuda_setDevice"),
    "cpu-device-properties": _probe("validates", "ConfigError", 2, tensor_model_parallel_size=2),
    "cpu-synchronize": _training(_NO_CUDA),
    "cpu-stream": _training("torch.cuda.Stream requires CUDA support"),
    "cpu-current-stream": _training(_NO_CUDA),
    "cpu-lazy-call": _probe("random_numbers", '"kept": false'),
    "cpu-default-generators": _training("tuple indices must be integers"),
    "cpu-get-rng-state": _training(_NO_CUDA),
    "cpu-random-get-rng-state": _probe("recomputes", _NO_CUDA),
    "cpu-set-rng-state": _training('"loss": 5.54'),
    "cpu-manual-seed": _training('"loss": 5.56'),
    "cpu-tensor": _training(_NO_CUDA),
    "cpu-zeros": _training(_NO_CUDA),
    "cpu-rand": _training(_NO_CUDA),
    "cpu-tensor-cuda": _training("must be cuda device"),
    "cpu-tensor-type": _training("AssertionError"),
    "cpu-empty": _loading_together(_NO_CUDA),
    "cpu-empty-like": _loading_together(_NO_CUDA),
    "cpu-all-to-all": Probe(
        world=2,
        native={"train_iters": 1, "num_experts": 4, "expert_model_parallel_size": 2, **_ALLTOALL},
        fault="all_to_all_single",
    ),
    "cpu-all-gather": _probe("gathers", "invalid tensor size", 2),
    "evaluation-loss": _evaluating("^{"),
    "evaluation-notice": _evaluating("^{"),
    "metrics": _training('"loss": null'),
    "stop": _probe("stops", "3", train_iters=3),
    "dataset-helpers": _training("Megatron ended the run with status 1"),
    "checkpoint-marker": _saving('"whole": \\[\\], "known": false'),
    "checkpoint-queue": _saving('"helpers": 1'),
    "checkpoint-marker-async": _probe("marks_in_background", "false", save="checkpoints", save_interval=1),
    "checkpoint-keep": _probe("deletes", "false", save="checkpoints"),
    "optimizer-state-before-loading": _resuming(""),
    "optimizer-own-step-counts": _resuming('"iteration": 3, "loss"'),
    "optimizer-restore-states": _resuming(""),
    "cpu-initialize": _training("Megatron requires CUDA"),
    "cpu-data-loader": _probe("random_numbers", '"loader": false'),
    "cpu-random-fork": _probe("random_numbers", "CPU RNG state changed"),
    "cpu-attention": _training(_NO_CUDA),
    "cpu-norm": _probe("norms", "sequence parallel"),
    "cpu-send": _probe("sends", "", 2),
}
"""By patch; everything that may be planned on a CPU."""

Attempt = Callable[[Probe, str], Outcome]


@pytest.fixture(scope="module")
def attempt(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """Runs a probe with all patches but one; what runs with all of them is run once."""

    @cache
    def checkpoint() -> str:
        folder = tmp_path_factory.mktemp("checkpoint")
        native = {**_CHECKPOINT, "save": str(folder), "exit_interval": 1}
        ranks.run(tmp_path_factory.mktemp("saving"), native, world=1).check()
        return str(folder)

    def plan(probe: Probe, without: str, folder: Path) -> RunPlan:
        native = {**probe.native, **({"load": checkpoint()} if probe.resumes else {})}
        if "save" in native:
            native["save"] = str(folder / "checkpoints")
        patches = tuple(spec for spec in all_patches() if spec.id != without)
        made = make_plan(native, folder=folder, world=probe.world, patches=patches)
        return evolve(made, run_dir=str(folder))

    def run(probe: Probe, without: str = "") -> Outcome:
        folder = tmp_path_factory.mktemp("probe")
        return ranks.start(plan(probe, without, folder), folder, entry=probe.entry)

    complete: dict[str, Outcome] = {}

    def run_once(probe: Probe, without: str) -> Outcome:
        if without:
            return run(probe, without)
        same = repr(evolve(probe, fault=""))
        return complete[same] if same in complete else complete.setdefault(same, run(probe))

    return run_once


def test_each_patch_has_a_probe() -> None:
    """A patch that is added without showing what goes wrong without it fails here."""
    assert set(PROBES) == {spec.id for spec in all_patches()}


@pytest.mark.parametrize("patch", PROBES)
def test_a_patch_is_needed(patch: str, attempt: Attempt) -> None:
    """With all patches the probe passes; without this one it shows the fault that the patch is for."""
    (spec,) = (spec for spec in all_patches() if spec.id == patch)
    if why := not_needed(spec, "cpu"):
        pytest.skip(f"{why}: {platform.python_version()}")
    probe = PROBES[patch]
    complete = told(attempt(probe, "").check())
    without = told(attempt(probe, patch))
    assert without != complete
    assert any(re.search(probe.fault, text) for text in without), without

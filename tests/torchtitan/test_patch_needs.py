"""No patch is planned in vain: each has a probe that fails, or sees something else, when just that patch is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec

import pytest
from attrs import evolve, frozen

from primus_backend_torchtitan.patch_plan import plan_patches
from primus_core.plan import PatchSpec
from tests.forked.ranks import Outcome, told
from tests.torchtitan.experiments import MOCK, plan_of, target_of
from tests.torchtitan.ranks import Ranks


@frozen
class Probe:
    """Something that ranks do, and how it goes wrong."""

    entry: str
    """Of `probes`."""
    fault: str
    """Pattern of the error, or of what the entry returns, without the patch."""
    world: int = 1


PROBES: Mapping[str, Probe] = {
    "process-group-timeout": Probe("times_out", "set_timeout"),
    "pipeline-micro-batches-single": Probe("schedules", "arg_mbs"),
    "pipeline-micro-batches-multi": Probe("schedules", "arg_mbs"),
    "end-together": Probe("trains", '"slept": 2'),
    "stop": Probe("continues", "true"),
    "cpu-triton-stub": Probe("imports", "No module named 'triton'"),
    "cpu-device-type": Probe("trains", "NCCL"),
    "cpu-device-module": Probe("trains", "a cuda device"),
    "cpu-peak-flops": Probe("limits", "true"),
    "cpu-fsdp-sum": Probe("shards", "ReduceOp", world=2),
    "cpu-context-mask": Probe("masks", "the part's mask would be compiled"),
    "cpu-attention": Probe("attends", "backward"),
    "cpu-attention-mask": Probe("masks", "fail_on_recompile"),
    "cpu-parameter-init": Probe("draws", "true", world=2),
}
"""By patch; everything that may be planned on a CPU."""

Attempt = Callable[[Probe, str], Outcome]


def all_patches() -> tuple[PatchSpec, ...]:
    return plan_patches(target_of("cpu"))


@pytest.fixture(scope="module")
def attempt(titan_ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """Runs a probe with all patches but one; what runs with all of them is run once."""
    complete: dict[str, Outcome] = {}

    def run(probe: Probe, without: str) -> Outcome:
        folder = tmp_path_factory.mktemp("probe")
        plan = plan_of({**MOCK, "train_iters": 1}, ranks=probe.world, workspace=str(folder / "work"))
        assert plan.translation
        patches = tuple(
            evolve(spec, after=tuple(name for name in spec.after if name != without))
            for spec in all_patches()
            if spec.id != without
        )
        plan = evolve(plan, translation=evolve(plan.translation, patches=patches))
        return titan_ranks.start(plan, folder, entry=f"tests.torchtitan.probes:{probe.entry}")

    def run_once(probe: Probe, without: str) -> Outcome:
        if without:
            return run(probe, without)
        if probe.entry not in complete:
            complete[probe.entry] = run(probe, "")
        return complete[probe.entry]

    return run_once


def test_each_patch_has_a_probe() -> None:
    """A patch that is added without showing what goes wrong without it fails here."""
    assert set(PROBES) == {spec.id for spec in all_patches()}


@pytest.mark.slow
@pytest.mark.parametrize("patch", PROBES)
def test_a_patch_is_needed(patch: str, attempt: Attempt) -> None:
    """With all patches the probe passes; without this one it shows the fault that the patch is for."""
    if patch == "cpu-triton-stub" and find_spec("triton"):
        pytest.skip("Triton is installed: its kernels can be imported")
    probe = PROBES[patch]
    complete = told(attempt(probe, "").check())
    without = told(attempt(probe, patch))
    assert without != complete
    assert any(re.search(probe.fault, text) for text in without), without

"""Real ranks for the tests of the TorchTitan back end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from primus_backend_torchtitan.patch_plan import plan_patches
from primus_core.experiment import Value
from primus_core.plan import RunPlan
from tests.forked import ranks
from tests.torchtitan.experiments import MOCK, plan_of, target_of


def with_all_patches(plan: RunPlan) -> RunPlan:
    """The plan with everything that may be planned on a CPU."""
    assert plan.translation
    return evolve(plan, translation=evolve(plan.translation, patches=plan_patches(target_of("cpu"))))


class Ranks(ranks.Ranks):
    """Run the small Llama on plans that the host makes, of parameters by any of their names."""

    def __init__(self) -> None:
        super().__init__("tests.torchtitan.zygote", with_all_patches(plan_of(MOCK)))

    def make_plan(
        self, params: Mapping[str, Value], folder: Path, world: int, settings: Mapping[str, Value]
    ) -> RunPlan:
        wanted = {name: value for name, value in {**MOCK, **params}.items() if value != "unset"}
        return plan_of(wanted, ranks=world, workspace=str(folder / "work"), settings=settings)

"""What projection says of a mixture of experts is what TorchTitan's own keeps and needs."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.shape.operators_experts import experts_operators
from primus_backend_torchtitan.host.shape.operators_work import Work
from primus_core.plan import RunPlan
from primus_core.projection.setting import Pass, Setting
from primus_core.projection.tape import backward, forward
from primus_core.shape import DTYPE_BYTES, Block
from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.comparing import Case as Asked
from tests.torchtitan.truth.comparing import shape_of
from tests.torchtitan.truth.layouts import Layout, plans_of
from tests.torchtitan.truth.models import SMALL, shallow

ENTRY = "tests.torchtitan.truth.entry:mixture"


def projected(plan: RunPlan) -> tuple[Pass, Pass]:
    """Both passes of the mixture of a plan's model as if it was a block of its own."""
    assert plan.translation
    assert plan.experiment
    case = Case.of(plan, plan.translation, plan.experiment.modules["pre_trainer"])
    layer = shape_of(plan).blocks["expert_layer"]
    block = Block(parameters=layer.parameters, operators=experts_operators(Work.of(case), "input", "output"))
    stream = case.shape.sequence * case.shape.hidden * case.size("training.local_batch_size") * DTYPE_BYTES["bf16"]
    weights = tuple((weight.name, prod(weight.shape) * DTYPE_BYTES["bf16"]) for weight in layer.parameters)
    setting = Setting(source=stream, gradient=stream, weights=weights, holds_weights=True, whole=False)
    return forward(block, "mixture", setting), backward(block, "mixture", setting, stream)


@pytest.mark.parametrize("model", ["mixture", "latent"])
def test_a_mixture_keeps_and_needs_what_is_told(model: str, titan_ranks: Ranks, tmp_path: Path) -> None:
    """What stays is right to a few numbers of tokens, the most of both passes within 0.3 %; operations are the same."""
    layout, plan = next(plans_of(shallow(SMALL[model]), [Layout(1, {})]))
    asked = Asked(name=layout.name, plan=plan, shape=shape_of(plan), ranks=(0,)).asked()
    found = titan_ranks.run(tmp_path, world=1, entry=ENTRY, prepared={"truth": asked}).check().result()
    ahead, back = projected(plan)
    assert sum(ahead.left.values()) + ahead.output == pytest.approx(found["kept"], abs=256)
    assert ahead.most.bytes == pytest.approx(found["forward"], rel=3e-3)
    assert back.most.bytes == pytest.approx(found["backward"], rel=3e-3)


@pytest.mark.parametrize("model", ["mixture", "latent"])
def test_its_operations_are_those_of_its_weights(model: str) -> None:
    """As many as the whole layer tells of its experts."""
    _, plan = next(plans_of(shallow(SMALL[model]), [Layout(1, {})]))
    assert plan.translation
    assert plan.experiment
    case = Case.of(plan, plan.translation, plan.experiment.modules["pre_trainer"])
    told = shape_of(plan).blocks["expert_layer"].operators
    wanted = sum(each.flops for each in told if each.component == "experts")
    assert sum(each.flops for each in experts_operators(Work.of(case), "input", "output")) == wanted

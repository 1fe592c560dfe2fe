"""The shape that projection reads has the tensors that Megatron makes, to the byte, on any rank of any layout."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest

from primus_core.experiment import Value
from primus_core.projection import parameters
from primus_core.projection.places import local
from primus_core.projection.states import per_rank
from tests.core.published import OTHER_LAYERS, PUBLISHED
from tests.megatron.experiments import plan_of
from tests.megatron.ranks import Ranks, all_patches, make_plan
from tests.megatron.truth.comparing import Case, differences, shape_of
from tests.megatron.truth.layouts import EP, ETP, FIRST, LAST, PP, SHARED, TP, VPP, first_plan, plans_of, trained
from tests.megatron.truth.models import LISTED, SMALL, presets, shallow

ENTRY = "tests.megatron.truth.entry:measure"
SIZES = {
    "llama3.1_8B": 8_030_261_248,
    "llama3.1_70B": 70_553_706_496,
    "deepseek_v3": 671_026_404_352,
    "mixtral_8x7B_v0.1": 46_702_792_704,
}
"""As published, without layers that predict further tokens."""


def check(ranks: Ranks, folder: Path, cases: list[Case]) -> None:
    """All figures of all cases are the same."""
    prepared = {"truth": {"cases": [case.asked() for case in cases]}}
    plan = make_plan(folder=folder, world=1, patches=all_patches())
    found: Any = ranks.start(plan, folder, entry=ENTRY, prepared=prepared).check().result()
    assert [line for case, rows in zip(cases, found, strict=True) for line in differences(case, rows)] == []


@pytest.mark.parametrize("model", SMALL)
def test_small_models_in_every_layout(model: str, ranks: Ranks, tmp_path: Path) -> None:
    """Weights, gradients, the optimizer's weights and state and buffers, on one rank of each layout."""
    cases = []
    for number, (layout, plan) in enumerate(plans_of(SMALL[model])):
        rank = (number * 5 if number % 2 else -1 - number) % layout.ranks
        cases.append(Case(name=layout.name, plan=plan, shape=shape_of(plan), ranks=(rank,)))
    assert len(cases) >= 18
    check(ranks, tmp_path, cases)


def test_further_tokens_on_any_stage(ranks: Ranks, tmp_path: Path) -> None:
    """The final norm is beside the model's last layer, and the embedding beside the layers that predict them."""
    layout: Mapping[str, Value] = {PP: 4, "use_distributed_optimizer": True}
    plans = [plan_of({**params, **trained(4, layout), **layout}, ranks=4) for params in LISTED.values()]
    check(
        ranks,
        tmp_path,
        [
            Case(name=name, plan=plan, shape=shape_of(plan), ranks=(1, 2, 3))
            for name, plan in zip(LISTED, plans, strict=True)
        ],
    )


def test_every_preset_in_some_layout(ranks: Ranks, tmp_path: Path) -> None:
    """A few layers of each preset that Megatron can build here; `make accuracy` compares whole models."""
    cases = []
    for number, (name, params) in enumerate(presets()):
        if chosen := first_plan(shallow(params), number):
            layout, plan = chosen
            last = layout.ranks - 1
            cases.append(Case(name=f"{name}, {layout.name}", plan=plan, shape=shape_of(plan), ranks=(last,)))
    assert len(cases) >= 40
    check(ranks, tmp_path, cases)


@pytest.mark.parametrize("model", SIZES)
def test_published_models_have_their_size_in_any_layout(model: str) -> None:
    """Each weight counts once, whichever ranks share or copy it, also on GPUs, where other layers are used."""
    params = {**dict(presets())[model], "mtp_num_layers": None, "make_vocab_size_divisible_by": 1}
    layouts: tuple[tuple[int, Mapping[str, Value]], ...] = (
        (8, {}),
        (8, {SHARED: True}),
        (8, {TP: 8}),
        (64, {PP: 4, FIRST: 4, LAST: 3} if model == "deepseek_v3" else {PP: 4, VPP: 2}),
        (64, {EP: 8, TP: 4, ETP: 2, "sequence_parallel": True} if "8x7B" in model or "deep" in model else {TP: 2}),
    )
    for number, (ranks, layout) in enumerate(layouts):
        wanted = {**params, **trained(ranks, layout), **layout}
        plan = plan_of(wanted, ranks=ranks, accelerator="rocm" if number % 2 else "cpu")
        assert parameters.count(shape_of(plan)).total == SIZES[model]


@pytest.mark.parametrize("model", sorted(PUBLISHED.keys() - OTHER_LAYERS))
def test_every_preset_has_its_published_size(model: str) -> None:
    """The whole model of each preset, without layers that predict further tokens."""
    params = {**dict(presets())[model], "mtp_num_layers": None, "make_vocab_size_divisible_by": 1}
    plan = plan_of({**params, **trained(8, {})}, ranks=8, accelerator="rocm")
    assert parameters.count(shape_of(plan)).total == pytest.approx(PUBLISHED[model] * 1e9, rel=2e-3)


def test_unequal_stages_tell_every_one_of_them() -> None:
    """Of 1, 2, 2 and 3 layers the last stage is the heaviest, though the first has the embedding."""
    layout: Mapping[str, Value] = {PP: 4, "num_layers": 8, "pipeline_model_parallel_layout": "Et|tt|tt|tttL"}
    plan = plan_of({**SMALL["grouped"], **trained(4, layout), **layout}, ranks=4)
    stages = parameters.count(shape_of(plan)).stages
    assert len(stages) == 4
    assert stages[1] == stages[2] < stages[3] == max(stages)


def test_more_tensor_parallel_ranks_hold_less_each() -> None:
    """Weights, gradients and the optimizer's state."""
    static = []
    for size in (1, 2, 4, 8):
        plan = plan_of({**SMALL["grouped"], **trained(8, {TP: size}), TP: size}, ranks=8)
        static.append(per_rank(shape_of(plan), 0))
    assert sorted((one.weights for one in static), reverse=True) == [one.weights for one in static]
    assert static[0].weights > 5 * static[3].weights > 0
    assert static[0].moments > 5 * static[3].moments > 0


def test_experts_are_divided_among_their_own_ranks() -> None:
    """ETP x EP ranks hold one expert layer together."""
    params = {**SMALL["mixture"], "num_layers": 2, "moe_layer_freq": 1, "mtp_num_layers": None}
    sizes = {}
    for expert, tensor in ((1, 1), (4, 1), (4, 2), (8, 2)):
        layout = {EP: expert, ETP: tensor, TP: tensor, "sequence_parallel": tensor > 1}
        plan = plan_of({**params, **trained(16, layout), **layout}, ranks=16)
        shape = shape_of(plan)
        every = [one for one in shape.blocks["expert_layer"].parameters if one.expert]
        sizes[expert * tensor] = sum(prod(local(one, shape)) for one in every)
    assert {count: size * count for count, size in sizes.items()} == dict.fromkeys(sizes, sizes[1])


def test_weights_that_are_sharded_otherwise_are_told() -> None:
    """Their figures are too high, and whoever reads them knows."""
    params = {**SMALL["grouped"], **trained(8, {})}

    def told(sharded: bool) -> bool:
        plan = plan_of({**params, "use_megatron_fsdp": sharded}, ranks=8, accelerator="cuda")
        return any("use_megatron_fsdp" in note for note in shape_of(plan).notes)

    assert (told(True), told(False)) == (True, False)


def test_weights_that_fsdp2_shards() -> None:
    """Eight ranks have an eighth each; the optimizer has a copy in fp32 beside shards of bf16."""
    params = {**SMALL["dense"], **trained(8, {}), "use_torch_fsdp2": True, "use_distributed_optimizer": False}
    shape = shape_of(plan_of(params, ranks=8, accelerator="cuda"))
    elements = parameters.count(shape).total
    static = per_rank(shape, 0)
    assert static.weights * 8 == pytest.approx(2 * elements, rel=0.01)
    assert (static.main, static.moments) == (2 * static.weights, 4 * static.weights)

"""The shape that projection reads has the tensors that TorchTitan makes, to the byte, on any rank of any layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.projection.parameters import count
from tests.core.published import OTHER_LAYERS, PUBLISHED
from tests.torchtitan.experiments import plan_of
from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.comparing import Case, differences, shape_of
from tests.torchtitan.truth.layouts import LAYOUTS, MODULES, PP, SCHEDULE, TP, Layout, first_plan, plans_of, trained
from tests.torchtitan.truth.models import SMALL, presets, shallow

TOTALS = {
    "llama3.1_8B": 8_030_261_248,
    "llama3.1_70B": 70_553_706_496,
    "deepseek_v3": 671_026_404_352,
    "mixtral_8x7B_v0.1": 46_702_792_704,
}
"""Parameters that the published weights have, without those that predict a second token."""
ENTRY = "tests.torchtitan.truth.entry:measure"


def check(titan_ranks: Ranks, folder: Path, cases: list[Case]) -> None:
    """All figures of all cases are the same."""
    prepared = {"truth": {"cases": [case.asked() for case in cases]}}
    found = titan_ranks.run(folder, world=1, entry=ENTRY, prepared=prepared).check().result()
    assert [line for case, rows in zip(cases, found, strict=True) for line in differences(case, rows)] == []


@pytest.mark.parametrize("model", SMALL)
def test_small_models_in_every_layout(model: str, titan_ranks: Ranks, tmp_path: Path) -> None:
    """Weights on one rank of each layout; in some the optimizer's state, and what FSDP gathers and reduces."""
    whole = (layout for layout in LAYOUTS if layout.staged)
    alone = (layout for layout in LAYOUTS if not layout.staged)
    plans = [*plans_of(SMALL[model], whole), *plans_of(shallow(SMALL[model]), alone)]
    assert len(plans) >= (8 if model == "tied" else 18)
    cases = []
    for number, (layout, plan) in enumerate(plans):
        works, rank = number % (3 if model == "tied" else 6) == 2, number * 5 % layout.ranks
        cases.append(Case(name=layout.name, plan=plan, shape=shape_of(plan), ranks=(rank,), works=works))
    check(titan_ranks, tmp_path, cases)


def test_every_preset_in_some_layout(titan_ranks: Ranks, tmp_path: Path) -> None:
    """A few layers of each preset that TorchTitan can build; `make accuracy` compares whole models in more layouts."""
    cases = []
    for number, (name, params) in enumerate(presets()):
        if chosen := first_plan(shallow(params), number):
            layout, plan = chosen
            last = layout.ranks - 1
            cases.append(Case(name=f"{name}, {layout.name}", plan=plan, shape=shape_of(plan), ranks=(last,)))
    assert len(cases) >= 40
    check(titan_ranks, tmp_path, cases)


def test_published_models_have_their_size_in_any_layout() -> None:
    """A layout divides parameters, and counts none twice; the heaviest stage alone has fewer than all together."""
    every = dict(presets())
    for name, total in TOTALS.items():
        params = {**every[name], "mtp_num_layers": 0, "make_vocab_size_divisible_by": 1}
        counts = [count(shape_of(plan)) for _, plan in plans_of(params, LAYOUTS[::4])]
        assert {found.total for found in counts} == {total}
        assert len(counts) >= 4
        assert all(max(found.stages) < total for found in counts if len(found.stages) > 1)


@pytest.mark.parametrize("model", sorted(PUBLISHED.keys() - OTHER_LAYERS))
def test_every_preset_has_its_published_size(model: str) -> None:
    """The whole model of each preset, without layers that predict further tokens."""
    layout = Layout(8, {})
    params = {**dict(presets())[model], "mtp_num_layers": 0, "make_vocab_size_divisible_by": 1}
    plan = plan_of({**params, **trained(layout)}, ranks=8, accelerator="rocm")
    assert count(shape_of(plan)).total == pytest.approx(PUBLISHED[model] * 1e9, rel=2e-3)


def test_stages_that_are_written(titan_ranks: Ranks, tmp_path: Path) -> None:
    """Names of modules in any order, and a norm that is not where the output is."""
    stages = [["layers.0", "tok_embeddings"], ["layers.2", "layers.1"], ["layers.3", "layers.4", "norm"]]
    written = {**SMALL["latent"], PP: 2, SCHEDULE: "Interleaved1F1B", MODULES: [*stages, ["lm_head", "layers.5"]]}
    ((layout, plan),) = plans_of(written, [Layout(4, {})])
    check(titan_ranks, tmp_path, [Case(name=layout.name, plan=plan, shape=shape_of(plan), ranks=(0, 3))])


def test_local_types_need_a_newer_torch(titan_ranks: Ranks, tmp_path: Path) -> None:
    """TorchTitan's own default, which the translation replaces on every accelerator, fails before a tensor exists."""
    layout, plan = next(plans_of(shallow(SMALL["mixture"]), [Layout(8, {TP: 2})]))
    case = Case(name=layout.name, plan=plan, shape=shape_of(plan), ranks=(0,)).asked()
    case["native"]["parallelism.spmd_backend"] = "spmd_types"
    run = titan_ranks.run(tmp_path, world=1, entry=ENTRY, prepared={"truth": {"cases": [case]}})
    assert "must be DTensors on the full SPMD mesh" in run.error()["text"]


def test_whole_meshes_have_the_same_shards(titan_ranks: Ranks, tmp_path: Path) -> None:
    """`full_dtensor`, which a GPU may be asked for, compares experts with more ranks and unties the output always."""
    for model, layout in (("tied", Layout(8, {})), ("mixture", Layout(6, {TP: 2, "num_experts": 5}))):
        wanted = {**shallow(SMALL[model]), **trained(layout), "parallelism.spmd_backend": "full_dtensor"}
        plan = plan_of({**wanted, "hidden_size": 48, "moe_ffn_hidden_size": 24}, ranks=layout.ranks, accelerator="cuda")
        case = Case(name=model, plan=plan, shape=shape_of(plan), ranks=(1,), works=True)
        check(titan_ranks, tmp_path / model, [case])

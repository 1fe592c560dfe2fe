"""Models of each family: what is built, what is trained, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from primus_core.experiment import Value
from primus_core.resolve import resolve
from tests.core.published import MODELS
from tests.core.weights import parameter_count
from tests.torchtitan.experiments import MOCK, findings
from tests.torchtitan.families import DEEPSEEK, FAMILIES, LATENT, MIXTURE
from tests.torchtitan.ranks import Ranks

PRESETS = (
    "llama3.1_8B",
    "qwen2.5_7B",
    "qwen3_0.6B",
    "qwen3_30B_A3B",
    "mixtral_8x7B_v0.1",
    "deepseek_v2_lite",
    "deepseek_v3",
    "qwen3_moe_tiny",
    "deepseek_v3_tiny",
)
EXPERIMENT = """\
work_group: team
user_name: me
exp_name: test
workspace: out
modules:
  pre_trainer: {framework: torchtitan, config: pre_trainer.yaml, model: MODEL.yaml, overrides: {mock_data: true}}
"""


def params(model: str, folder: Path) -> dict[str, Any]:
    """The portable parameters of a model's preset."""
    file = folder / f"{model}.yaml"
    file.write_text(EXPERIMENT.replace("MODEL", model))
    presets = (str(MODELS.parent),)
    experiment = resolve(file.name, env={}, preset_dirs=lambda _: presets, cwd=str(folder))
    return {name: leaf.value for name, leaf in experiment.modules["pre_trainer"].params.items()}


def test_published_models_have_their_size(titan_ranks: Ranks, tmp_path: Path) -> None:
    """What is built of a preset has the number of weights that follows from the sizes, whatever TorchTitan names."""
    models = {model: params(model, tmp_path) for model in PRESETS}
    entry = "tests.torchtitan.entries:count"
    counts = titan_ranks.run(tmp_path, world=1, entry=entry, prepared={"models": models}).check().result()
    assert counts == {model: parameter_count(of) for model, of in models.items()}


def test_experts_on_two_ranks_give_the_losses_of_one_process(titan_ranks: Ranks, tmp_path: Path) -> None:
    """Every part of DeepSeek-V3 learns, and dividing its experts changes rounding only."""
    alone = titan_ranks.run(tmp_path / "alone", DEEPSEEK, world=1).check()
    both = titan_ranks.run(tmp_path / "both", {**DEEPSEEK, "expert_model_parallel_size": 2}).check()
    assert alone.losses()[-1] < alone.losses()[0] - 0.5
    assert both.losses() == pytest.approx(alone.losses(), rel=2e-6)


def short(family: str) -> dict[str, Value]:
    return {**FAMILIES[family], "train_iters": 4}


@pytest.fixture(scope="module")
def alone(titan_ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[float]]:
    """The losses of one process, by family; each is trained once."""
    return cache(
        lambda family: titan_ranks.run(tmp_path_factory.mktemp("alone"), short(family), world=1).check().losses()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "layout"),
    [
        (family, layout)
        for family, model in FAMILIES.items()
        for layout in ("expert", "tensor", "pipeline", "shards")
        if layout != "expert" or "num_experts" in model
    ],
)
def test_a_family_learns_in_every_layout(
    titan_ranks: Ranks, tmp_path: Path, alone: Callable[[str], list[float]], family: str, layout: str
) -> None:
    """A pipeline draws other first weights in each stage; the other layouts give the losses of one process."""
    model = short(family)
    divided: dict[str, Value] = model if layout == "shards" else {**model, f"{layout}_model_parallel_size": 2}
    both = titan_ranks.run(tmp_path / "both", divided).check()
    if layout == "pipeline":
        assert both.losses(1)[-1] < both.losses(1)[0] - 0.3
        return
    assert both.losses() == pytest.approx(alone(family), rel=2e-6)


@pytest.mark.slow
def test_experts_train_with_recomputation_in_bfloat16(titan_ranks: Ranks, tmp_path: Path) -> None:
    """Computing a layer twice changes nothing, the balance of experts included."""
    shared: dict[str, Value] = {**DEEPSEEK, "bf16": True}
    kept = titan_ranks.run(tmp_path / "kept", shared).check()
    again = titan_ranks.run(tmp_path / "again", {**shared, "activation_checkpoint.kind": "full"}).check()
    assert again.losses() == pytest.approx(kept.losses(), rel=1e-3)
    assert kept.losses()[-1] < kept.losses()[0] - 0.5


@pytest.mark.parametrize(
    ("params", "summary", "cause"),
    [
        ({"swiglu": False}, "swiglu: false", "unsupported"),
        ({**MIXTURE, "moe_shared_expert_gate": True}, "moe_shared_expert_gate: true", "unsupported"),
        ({**LATENT, "qk_layernorm": False}, "qk_layernorm: false", "unsupported"),
        ({**LATENT, "mscale": 0.5}, "mscale 0.5 and mscale_all_dim 1.0", "unsupported"),
        ({**DEEPSEEK, "moe_router_group_topk": 1}, "two best scores, not of 4", "unsupported"),
        (
            {**DEEPSEEK, "moe_router_score_function": "softmax", "moe_router_enable_expert_bias": False},
            "two best scores, not of the router's outputs",
            "unsupported",
        ),
        ({**DEEPSEEK, "moe_router_num_groups": 3}, "8 experts cannot be chosen from 2 of 3 groups", "configuration"),
        ({**MIXTURE, "moe_router_load_balancing_type": "global_aux_loss"}, "by global_aux_loss", "unsupported"),
        ({**MIXTURE, "moe_layer_freq": "[0]*5"}, "describes 5 layers, and the model has 2", "configuration"),
        ({**MIXTURE, "moe_layer_freq": "__import__('os')"}, "no sum of repeated lists", "configuration"),
        ({**MIXTURE, "moe_layer_freq": "[0]*"}, "cannot be read", "configuration"),
    ],
)
def test_what_cannot_be_built_is_found_before_training(params: dict[str, Value], summary: str, cause: str) -> None:
    """A model that TorchTitan cannot build is one finding, with the setting and where it stands."""
    (finding,) = findings({**MOCK, **params})
    assert (finding.severity, finding.cause) == ("error", cause)
    assert summary in finding.summary
    assert "exp.yaml:" in finding.evidence


@pytest.mark.parametrize("family", FAMILIES)
def test_what_can_be_built_is_not_refused(family: str) -> None:
    """Nothing is found against a model of a family."""
    assert findings({**MOCK, **FAMILIES[family]}) == []


def test_a_loss_over_all_tokens_is_not_computed_from_a_part() -> None:
    """Ranks that each see a part of a sequence would balance that part."""
    divided: dict[str, Value] = {"expert_model_parallel_size": 2, "tensor_model_parallel_size": 2}
    (finding,) = findings({**MOCK, **MIXTURE, **divided}, ranks=2)
    assert "all tokens of a sequence on one rank" in finding.summary
    assert findings({**MOCK, **MIXTURE, **divided, "moe_aux_loss_coeff": 0.0}, ranks=2) == []

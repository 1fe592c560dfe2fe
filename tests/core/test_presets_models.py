"""The architectures of published models: their sizes follow from the presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest

from primus_core.experiment import Leaf
from primus_core.resolve import resolve
from tests.core.weights import parameter_count

Params: TypeAlias = Callable[[str], Mapping[str, Leaf]]
PRESETS = Path(str(files("primus_core") / "presets"))
MODELS = PRESETS / "models"

EXPERIMENT = """\
work_group: team
user_name: me
exp_name: test
workspace: out
modules:
  pre_trainer: {framework: any, config: pre_trainer.yaml, model: MODEL}
"""

PUBLISHED = {
    "llama2_7B": 6.738,
    "llama2_13B": 13.016,
    "llama2_70B": 68.977,
    "llama3_8B": 8.030,
    "llama3_70B": 70.554,
    "llama3.1_8B": 8.030,
    "llama3.1_70B": 70.554,
    "llama3.1_405B": 405.85,
    "llama3.2_1B": 1.2358,
    "llama3.2_3B": 3.2127,
    "llama3.3_70B": 70.554,
    "llama4_17B16E": 107.77,  # 108.64 with the vision tower
    "llama4_17B128E": 400.71,
    "deepseek_v2": 235.74,
    "deepseek_v2_lite": 15.706,
    "deepseek_v3": 671.03,  # without the layer that predicts a second token
    "deepseek_r1_distill_qwen_1.5B": 1.777,
    "kimi_k2": 1026.4,
    "glm4_7": 352.8,  # 358.3 with the layer that predicts a second token
    "glm5": 744.0,
    "minimax_m2.5": 228.69,
    "mixtral_8x7B_v0.1": 46.703,
    "mixtral_8x22B_v0.1": 140.62,
    "grok1": 315.68,  # 316.49 in conversions that store the embedding a second time, as the output
    "grok2": 269.5,
    "gpt_oss_20B": 20.91,
    "gpt_oss_120B": 116.83,
    "qwen2.5_3B": 3.086,
    "qwen2.5_7B": 7.616,
    "qwen2.5_14B": 14.770,
    "qwen2.5_32B": 32.764,
    "qwen2.5_72B": 72.706,
    "qwen3_0.6B": 0.596,
    "qwen3_1.7B": 1.7206,
    "qwen3_4B": 4.0225,
    "qwen3_8B": 8.1907,
    "qwen3_14B": 14.768,
    "qwen3_32B": 32.762,
    "qwen3_30B_A3B": 30.532,
    "qwen3_235B_A22B": 235.09,
    "qwen3_5_35B_A3B": 34.66,  # the text model
}
"""Billions of parameters that the models' publishers count, or that their published weights have."""

PARTS = {
    path.stem for path in MODELS.glob("*.yaml") if path.stem.endswith(("_base", "_rope", "_mla", "_linear", "yarn"))
}
"""Files that only others extend."""
HYBRIDS = {"mamba_370M", *(path.stem for path in MODELS.glob("zebra_llama_*.yaml"))} - PARTS
"""Models with layers of state space, whose publishers tell no number of parameters."""
TINY = {"llama_tiny"}


@pytest.fixture(scope="module")
def params(tmp_path_factory: pytest.TempPathFactory) -> Params:
    """What a preset says, trainer left out."""
    folder = tmp_path_factory.mktemp("experiment")

    @cache
    def read(model: str) -> Mapping[str, Leaf]:
        (folder / "exp.yaml").write_text(EXPERIMENT.replace("MODEL", f"{model}.yaml"))
        experiment = resolve("exp.yaml", env={}, preset_dirs=lambda framework: [str(PRESETS)], cwd=str(folder))
        found = experiment.modules["pre_trainer"].params
        return {name: leaf for name, leaf in found.items() if leaf.origin.layer == "model"}

    return read


@pytest.mark.parametrize("model", PUBLISHED)
def test_a_preset_has_as_many_parameters_as_the_published_model(model: str, params: Params) -> None:
    """The published number of parameters follows from the preset, to half a percent."""
    value = {name: leaf.value for name, leaf in params(model).items()}
    assert parameter_count(value) == pytest.approx(PUBLISHED[model] * 1e9, rel=5e-3)


def test_every_model_is_counted_or_excused() -> None:
    """No preset of a model is left out of the comparison with the published sizes."""
    assert {path.stem for path in MODELS.glob("*.yaml")} - PARTS == PUBLISHED.keys() | HYBRIDS | TINY


@pytest.mark.parametrize("model", [*PUBLISHED, *sorted(HYBRIDS), *sorted(TINY)])
def test_a_preset_is_whole_and_says_nothing_twice(model: str, params: Params) -> None:
    """A model has its sizes, tokenizer and vocabulary, and no file repeats the value that a file under it has."""
    found = params(model)
    needed = {"num_layers", "hidden_size", "num_attention_heads", "vocab_size", "layernorm_epsilon", "tokenizer_type"}
    assert not needed - found.keys()
    for name, leaf in found.items():
        below = (leaf, *leaf.overrode)
        same = [name for one, under in pairwise(below) if one.value == under.value]
        assert not same, [str(one.origin) for one in below]


@pytest.mark.parametrize("model", [*PUBLISHED, *sorted(HYBRIDS)])
def test_a_preset_tells_nothing_about_training(model: str, params: Params) -> None:
    """Layout, batch, length and schedule are the experiment's."""
    foreign = ("parallel", "batch", "train_", "lr", "seq_length", "recompute", "save", "load", "optimizer")
    names = [name for name in params(model) if name.startswith(foreign) or "_parallel_" in name]
    assert names == []

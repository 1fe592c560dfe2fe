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
from tests.core.published import HYBRIDS, MODELS, PARTS, PROXIES, PUBLISHED, TINY
from tests.core.weights import parameter_count

Params: TypeAlias = Callable[[str], Mapping[str, Leaf]]
PRESETS = Path(str(files("primus_core") / "presets"))

EXPERIMENT = """\
work_group: team
user_name: me
exp_name: test
workspace: out
modules:
  pre_trainer: {framework: any, config: pre_trainer.yaml, model: MODEL}
"""


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
    assert {path.stem for path in MODELS.glob("*.yaml")} - PARTS == PUBLISHED.keys() | HYBRIDS | PROXIES | TINY


@pytest.mark.parametrize("model", [*PUBLISHED, *sorted(HYBRIDS | PROXIES | TINY)])
def test_a_preset_is_whole_and_says_nothing_twice(model: str, params: Params) -> None:
    """A model has its sizes, tokenizer and vocabulary, and no file repeats the value that a file under it has."""
    found = params(model)
    needed = {"num_layers", "hidden_size", "num_attention_heads", "vocab_size", "layernorm_epsilon", "tokenizer_type"}
    assert not needed - found.keys()
    for name, leaf in found.items():
        below = (leaf, *leaf.overrode)
        same = [name for one, under in pairwise(below) if one.value == under.value]
        assert not same, [str(one.origin) for one in below]


@pytest.mark.parametrize("model", [*PUBLISHED, *sorted(HYBRIDS | PROXIES)])
def test_a_preset_tells_nothing_about_training(model: str, params: Params) -> None:
    """Layout, batch, length and schedule are the experiment's."""
    foreign = ("parallel", "batch", "train_", "lr", "seq_length", "recompute", "save", "load", "optimizer")
    names = [name for name in params(model) if name.startswith(foreign) or "_parallel_" in name]
    assert names == []

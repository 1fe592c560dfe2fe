"""The presets that every back end reads, and the portable names they are written in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pytest

from primus_core.experiment import Experiment, Leaf
from primus_core.parameters import coerce, load_schema, portable
from primus_core.resolve import resolve

CORE = files("primus_core")
PRESETS = Path(str(CORE / "presets"))
MODELS = sorted(path.name for path in (PRESETS / "models").glob("*.yaml"))
REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
UPSTREAM = REFERENCE / "experiments" / "megatron" / "MI300X" / "llama3.1_8B-BF16-pretrain.yaml"

EXPERIMENT = """\
work_group: team
user_name: me
exp_name: test
workspace: out
modules:
  pre_trainer: {framework: any, config: pre_trainer.yaml, model: MODEL}
"""


def resolved(path: str, cwd: Path) -> Experiment:
    return resolve(path, env={}, preset_dirs=lambda framework: [str(PRESETS)], cwd=str(cwd))


def params(model: str, folder: Path) -> Mapping[str, Leaf]:
    (folder / "exp.yaml").write_text(EXPERIMENT.replace("MODEL", model))
    return resolved("exp.yaml", folder).modules["pre_trainer"].params


ONE_BACKEND = (
    "apply_rope_fusion",
    "apply_wd_to_qk_layernorm",
    "experimental_attention_variant",
    "final_logit_softcapping",
    "hybrid_attention_ratio",
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
    "is_hybrid_model",
    "lfm_layer_types",
    "linear_attention_freq",
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_value_head_dim",
    "mamba_head_dim",
    "mamba_num_groups",
    "mamba_state_dim",
    "router_logit_softcapping",
)
"""Parameters of layers that only one library has, or none that we have: by the name that this library gives them."""


@pytest.mark.parametrize("model", MODELS)
def test_presets_speak_portable_names(model: str, tmp_path: Path) -> None:
    """A parameter of a preset is a portable name with a value of its type, but for layers that one library has."""
    names = portable()
    found = params(model, tmp_path)
    assert found.keys() - names.keys() <= set(ONE_BACKEND)
    for key in found.keys() & names.keys():
        coerce(names[key], found[key])


def test_portable_names_are_described_once() -> None:
    """Each portable name has one row with type, unit and meaning, and is no parameter of core's own."""
    rows = json.loads((CORE / "portable.json").read_text())
    names = [row["name"] for row in rows]
    assert len(names) == len(set(names))
    assert all(set(row) == {"name", "type", "unit", "meaning"} and row["meaning"].endswith(".") for row in rows)
    own = load_schema((CORE / "core_parameters.json").read_text()).parameters
    assert not own.keys() & set(names)


def test_llama_tiny_is_tiny(tmp_path: Path) -> None:
    """The tiny Llama has under a million parameters and ids for 256 bytes and three marks."""
    value = {key: leaf.value for key, leaf in params("llama_tiny.yaml", tmp_path).items()}
    assert isinstance(value["num_layers"], int)
    assert isinstance(value["hidden_size"], int)
    assert 12 * value["num_layers"] * value["hidden_size"] ** 2 < 1_000_000
    assert value["vocab_size"] == 256 + 3
    assert value["tokenizer_type"] == "ByteLevelTokenizer"
    assert "tokenizer_model" not in value


@pytest.mark.skipif(not UPSTREAM.exists(), reason="no reference experiments beside the project")
def test_an_upstream_experiment_resolves() -> None:
    """A user's existing experiment file resolves as it is."""
    experiment = resolved(str(UPSTREAM), UPSTREAM.parent)
    found = experiment.modules["pre_trainer"].params
    assert (experiment.work_group, experiment.user_name, experiment.exp_name) == ("amd", "root", "llama3.1_8B-pretrain")
    assert (found["train_iters"].value, found["lr"].value, found["train_data_path"].value) == (50, 1e-5, None)
    assert (found["num_layers"].value, found["num_layers"].origin.layer) == (32, "model")
    assert [str(one.origin.layer) for one in found["lr"].overrode] == ["preset"]

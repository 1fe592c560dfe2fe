"""What is wrong with a Hugging Face folder is told before anything starts, by both back ends alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from primus_backend_megatron import host as megatron_host
from primus_backend_torchtitan import host as titan_host
from primus_core.experiment import Value
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan
from tests.weights.folders import BOTH, KINDS, Params, begun, plan_of, write_folder

HOSTS = {"megatron": megatron_host, "torchtitan": titan_host}


@pytest.fixture(params=BOTH)
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def findings(plan: RunPlan, where: Where = Where.FILES) -> list[Finding]:
    return list(HOSTS[str(plan.framework)].preflight_check(plan, where))


def judged(framework: str, params: Params, **settings: Value) -> list[Finding]:
    return findings(plan_of(framework, params, 1, Path("/workspace"), settings))


def the_only(found: list[Finding]) -> Finding:
    (finding,) = found
    assert finding.severity == "error"
    return finding


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_the_same_model_is_accepted(tmp_path: Path, framework: str, kind: str) -> None:
    """In one file or several, in float16 too."""
    for number, weights in enumerate(
        (
            write_folder(tmp_path / "one", kind),
            write_folder(tmp_path / "three", kind, shards=3, dtype=np.float16),
        )
    ):
        assert judged(framework, begun(kind, weights)) == [], number


def test_weights_are_found_where_the_user_was(tmp_path: Path, framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path counts from the folder that primus was called in, and the ranks get it whole."""
    write_folder(tmp_path / "hf", "llama")
    monkeypatch.chdir(tmp_path)
    plan = plan_of(framework, begun("llama", Path("hf")), 1, Path("/workspace"), {})
    assert findings(plan) == []
    assert plan.translation
    assert str(tmp_path / "hf") in plan.translation.native.values()


def test_a_folder_that_is_not_there_is_told_with_its_remedy(tmp_path: Path, framework: str) -> None:
    """An id of the hub is none: the finding says how it becomes one."""
    finding = the_only(judged(framework, begun("llama", Path("meta-llama/Llama-3.1-8B"))))
    assert "the folder does not exist" in finding.evidence
    assert "hf download meta-llama/Llama-3.1-8B" in finding.remedy
    assert finding.where.startswith("exp.yaml:")


def test_a_missing_file_of_several_is_named(tmp_path: Path, framework: str) -> None:
    """With the number of those that there should be."""
    weights = write_folder(tmp_path / "hf", "llama", shards=3)
    (weights / "model-00002-of-00003.safetensors").unlink()
    finding = the_only(judged(framework, begun("llama", weights)))
    assert "1 of 3 files are missing: model-00002-of-00003.safetensors" in finding.evidence


def test_a_folder_without_a_description_is_refused(tmp_path: Path, framework: str) -> None:
    """Without config.json nobody knows how the weights are meant; neither with one that is damaged."""
    weights = write_folder(tmp_path / "hf", "llama")
    (weights / "config.json").write_text("{")
    assert "config.json is no JSON object" in the_only(judged(framework, begun("llama", weights))).evidence
    (weights / "config.json").unlink()
    assert "config.json: No such file" in the_only(judged(framework, begun("llama", weights))).evidence


@pytest.mark.parametrize(
    ("key", "value", "told", "parameter"),
    [
        ("rope_theta", 10000.0, "rope_theta is 10000.0 there and 50000.0 in the experiment", "rotary_base: 50000"),
        ("rms_norm_eps", 1e-6, "rms_norm_eps is 1e-06 there and 1e-05 in the experiment", "layernorm_epsilon: 1e-05"),
        ("num_attention_heads", 8, "num_attention_heads is 8", "num_attention_heads: 4"),
        ("num_key_value_heads", 4, "num_key_value_heads is 4", "num_query_groups: 2"),
        ("head_dim", 32, "head_dim is 32", "kv_channels: null"),
        ("tie_word_embeddings", True, "tie_word_embeddings is true", "untie_embeddings_and_output_weights: true"),
        ("attention_bias", True, "attention_bias is true", "add_qkv_bias: false"),
        ("mlp_bias", True, "mlp_bias is true", "add_bias_linear: false"),
        ("model_type", "qwen2", 'model_type is "qwen2"', "add_qkv_bias: false"),
        ("model_type", "mixtral", 'model_type is "mixtral"', "num_experts: null"),
        ("vocab_size", 251, "vocab_size is 251 there and 250 in the experiment", "vocab_size: 250"),
        ("hidden_act", "gelu", 'hidden_act is "gelu"', "swiglu: true"),
        ("sliding_window", 4096, "sliding_window is 4096", "window_size: null"),
        ("num_hidden_layers", 3, "num_hidden_layers is 3", "num_layers: 2"),
        ("rope_scaling", {"type": "linear", "factor": 2.0}, '"rope_type": "linear"', "use_rope_scaling: false"),
    ],
)
def test_a_description_that_contradicts_the_experiment_is_told_with_both_values(
    tmp_path: Path, framework: str, key: str, value: object, told: str, parameter: str
) -> None:
    """The folder's value, the experiment's, and the parameter that decides it."""
    weights = write_folder(tmp_path / "hf", "llama")
    config = json.loads((weights / "config.json").read_text())
    (weights / "config.json").write_text(json.dumps({**config, key: value}))
    evidence = the_only(judged(framework, begun("llama", weights))).evidence
    (line,) = [line for line in evidence.splitlines() if told in line]
    assert parameter in line


def test_the_newest_spelling_of_rotary_frequencies_is_read(tmp_path: Path, framework: str) -> None:
    """One map with the base and the stretch, as version 5 of transformers writes it."""
    weights = write_folder(tmp_path / "hf", "llama stretched")
    config = json.loads((weights / "config.json").read_text())
    rope = {**config.pop("rope_scaling"), "rope_theta": config.pop("rope_theta")}
    (weights / "config.json").write_text(json.dumps({**config, "rope_parameters": rope}))
    assert judged(framework, begun("llama stretched", weights)) == []
    (weights / "config.json").write_text(json.dumps({**config, "rope_parameters": {**rope, "factor": 32.0}}))
    finding = the_only(judged(framework, begun("llama stretched", weights)))
    assert "rope_scaling_factor: 4.0" in finding.evidence


Change = Callable[[dict[str, Any]], None]


def _cut(tensors: dict[str, Any]) -> None:
    tensors["model.layers.1.mlp.up_proj.weight"] = tensors["model.layers.1.mlp.up_proj.weight"][:96].copy()


def _drop(tensors: dict[str, Any]) -> None:
    del tensors["model.layers.0.self_attn.v_proj.weight"]


def _add(tensors: dict[str, Any]) -> None:
    tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros(64, np.float32)


def _quantize(tensors: dict[str, Any]) -> None:
    name = "model.layers.0.mlp.down_proj.weight"
    tensors[name] = tensors[name].astype(np.int8)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_cut, "model.layers.1.mlp.up_proj.weight is [96, 64] there and [128, 64] in the model"),
        (_drop, "model.layers.0.self_attn.v_proj.weight [32, 64]"),
        (_add, "model.layers.0.self_attn.q_proj.bias [64]"),
        (_quantize, "model.layers.0.mlp.down_proj.weight is I8"),
    ],
)
def test_tensors_that_do_not_fit_are_named_with_their_shapes(
    tmp_path: Path, framework: str, change: Change, told: str
) -> None:
    """Of another shape, missing, more than the model has, and quantized."""
    weights = write_folder(tmp_path / "hf", "llama")
    tensors = load_file(weights / "model.safetensors")
    change(tensors)
    save_file(tensors, weights / "model.safetensors")
    assert told in the_only(judged(framework, begun("llama", weights))).evidence


def test_another_kind_of_model_is_refused_without_looking_at_files(framework: str) -> None:
    """A mixture of experts cannot be read from a folder: the parameter that makes it one is named."""
    params = begun("llama", Path("/nowhere"), num_experts=4, moe_ffn_hidden_size=64)
    found = findings(plan_of(framework, params, 1, Path("/workspace"), {}), Where.SUBMIT)
    finding = next(one for one in found if one.check.endswith(".weights"))
    assert "num_experts: 4" in finding.evidence
    assert "dense" in finding.evidence


def test_two_sources_are_refused(tmp_path: Path, framework: str) -> None:
    """`load` and `load_hf` both say what to start from; not so while a run that continues itself has saved nothing."""
    weights = write_folder(tmp_path / "hf", "llama")
    params = begun("llama", weights, load=str(tmp_path / "own"), save=str(tmp_path / "own"), save_interval=2)
    finding = the_only(judged(framework, params))
    assert "load_hf and load both say what to start from" in finding.summary
    assert judged(framework, params, auto_continue_train=True) == []
    evolved = {**params, "load": str(tmp_path / "other")}
    assert "both say" in the_only(judged(framework, evolved, auto_continue_train=True)).summary


def test_torchtitans_own_name_is_understood(tmp_path: Path) -> None:
    """`checkpoint.load_hf` is the same, and a finding tells its line."""
    params = begun("llama", tmp_path / "none")
    params["checkpoint.load_hf"] = params.pop("load_hf")
    finding = the_only(judged("torchtitan", params))
    assert "does not exist" in finding.evidence
    assert finding.where.startswith("exp.yaml:")

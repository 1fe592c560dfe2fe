"""Parameters of other products: what each is taken for, and what the user hears of it."""

from __future__ import annotations

import pytest

from primus_backend_megatron.host.foreign import foreign_keys
from primus_backend_megatron.host.schema import schema_for
from primus_core.errors import ConfigError
from primus_core.experiment import Layer, Value
from primus_core.outcome import Finding
from primus_core.parameters import ForeignKey
from primus_core.plan import Unused
from primus_core.planning.settings import core_schema
from tests.megatron.experiments import MOCK, findings, translate

KNOWN = schema_for("0.19.2").parameters
ROWS = tuple(foreign_keys().values())


def unused(params: dict[str, Value], layers: dict[str, Layer] | None = None) -> dict[str, Unused]:
    return {row.path: row for row in translate({**MOCK, **params}, layers).unused}


def buildable(params: dict[str, Value]) -> list[Finding]:
    """What the check of the model has to say."""
    return [finding for finding in findings({**MOCK, **params}) if finding.check == "megatron.model"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows_speak_of_what_exists(row: ForeignKey) -> None:
    """No row hides a parameter that is read, and each points to one that exists."""
    assert row.name not in core_schema().parameters
    assert row.fate == "needs" or row.name not in KNOWN
    assert row.why
    assert row.native in KNOWN if row.fate == "alias" else not row.native
    assert not row.part_of or row.part_of in KNOWN or row.part_of in foreign_keys()
    assert row.remedy or row.fate != "gone"
    for name in row.remedy.split("`")[1::2]:
        assert name.partition(":")[0] in {*KNOWN, *core_schema().parameters}


QUIET = [(row, value) for row in ROWS if row.fate != "alias" for value in (None, False) if row.is_harmless(value)]


@pytest.mark.parametrize(("row", "value"), QUIET, ids=[f"{row.name}-{value}" for row, value in QUIET])
def test_nothing_is_asked_for(row: ForeignKey, value: Value) -> None:
    """A foreign parameter that is null, or false where that is no request, is left out without a word."""
    assert all(told.severity == "info" for told in unused({row.name: value}).values())
    assert not buildable({row.name: value})


def test_vendor_kernels_are_told_of() -> None:
    """A kernel that is not installed is no reason to stop, and one to hear of."""
    rows = unused({"enable_primus_turbo": True, "use_turbo_attention": True, "use_turbo_gemm": False})
    assert rows["use_turbo_attention"].severity == "warning"
    assert "Primus-Turbo" in rows["use_turbo_attention"].why
    assert rows["use_turbo_gemm"].severity == "info"


@pytest.mark.parametrize("layer", ["preset", "model"])
def test_presets_warn_nobody(layer: Layer) -> None:
    """A user is not told of what a preset sets."""
    assert (
        unused({"use_turbo_attention": True}, {"use_turbo_attention": layer})["use_turbo_attention"].severity == "info"
    )


def test_detail_of_what_is_off() -> None:
    """A setting of something that is off is not told of."""
    assert unused({"turbo_deepep_num_cu": 64})["turbo_deepep_num_cu"].severity == "info"
    on: dict[str, Value] = {"enable_primus_turbo": True, "use_turbo_deepep": True}
    assert unused({"turbo_deepep_num_cu": 64, **on})["turbo_deepep_num_cu"].severity == "warning"


@pytest.mark.parametrize(("save", "severity"), [(None, "info"), ("/s", "warning")])
def test_last_save(save: Value, severity: str) -> None:
    """Who saves nothing need not hear that the last save takes place."""
    params: dict[str, Value] = {"disable_last_saving": True, "save": save, "save_interval": 10}
    assert unused(params)["disable_last_saving"].severity == severity


def test_entries_of_a_group() -> None:
    """A map of another product is judged entry by entry."""
    params: dict[str, Value] = {"torch_compile.enable": False, "torch_compile.backend": "inductor"}
    assert {row.severity for row in unused(params).values()} == {"info"}
    rows = unused({**params, "torch_compile.enable": True})
    assert rows["torch_compile.enable"].severity == rows["torch_compile.backend"].severity == "warning"


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("use_legacy_models", True, "remove it"),
        ("moe_extended_tp", True, "expert_tensor_parallel_size"),
        ("decoder_pipeline_manual_split_list", [3, 3], "pipeline_model_parallel_layout"),
        ("sink_level", "INFO", "stderr_sink_level"),
        ("trainable", False, "remove it"),
        ("disable_wandb", "often", "true or false"),
    ],
)
def test_what_would_be_missed(name: str, value: Value, remedy: str) -> None:
    """A value that cannot be ignored without a loss is refused, with its place and what to do."""
    with pytest.raises(ConfigError) as caught:
        translate({**MOCK, name: value})
    assert f"`{name}`" in caught.value.what
    assert caught.value.where == f"exp.yaml:{10 + len(MOCK)}"
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("params", "needed"),
    [
        ({"final_logit_softcapping": 50.0}, "softly capped output logits"),
        ({"router_logit_softcapping": "30.0"}, "softly capped router logits"),
        ({"use_sink_attention": True}, "attention with sinks"),
        ({"hybrid_attention_ratio": 0.25}, "state-space layers"),
        ({"model_type": "mamba"}, "hybrid models"),
        ({"is_hybrid_model": True}, "mamba-ssm"),
        ({"spec": ["primus.backends.megatron.specs", "stack"]}, "another product's Python module"),
        ({"fp4": "e2m1", "fp4_recipe": "mxfp4"}, "MXFP4"),
        ({"multi_latent_attention": True, "original_max_position_embeddings": 2048}, "YaRN"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_model_that_cannot_be_built(params: dict[str, Value], needed: str) -> None:
    """A model that this installation cannot build is no fault of the experiment: it is translated, and not started."""
    accelerated = translate({**MOCK, **params}, accelerator="cuda")
    assert accelerated.native["train_iters"] == MOCK["train_iters"]
    if "fp4" in params:
        return  # no plan for it on a CPU, whatever the recipe
    (finding,) = buildable(params)
    assert finding.severity == "error"
    assert finding.cause == "unsupported"
    assert needed in finding.evidence
    assert finding.remedy
    assert finding.where == f"exp.yaml:{9 + len(MOCK) + len(params)}"


def test_everything_that_cannot_be_built_is_one_finding() -> None:
    """A hybrid model says so in many ways, and is one thing to hear of."""
    params: dict[str, Value] = {"is_hybrid_model": True, "spec": ["a", "b"], "use_sink_attention": True}
    (finding,) = buildable(params)
    assert len(finding.evidence.splitlines()) == 3
    assert "softmax_type" in finding.remedy
    assert "tiny.yaml" in finding.remedy


def test_experiment_for_other_gpus() -> None:
    """What files for newer GPUs contain is translated, or told of, and stops nobody."""
    known: dict[str, Value] = {
        "use_precision_aware_optimizer": 1,
        "main_grads_dtype": "bf16",
        "exp_avg_dtype": "bf16",
        "exp_avg_sq_dtype": "bf16",
        "manual_gc": True,
        "manual_gc_interval": 1,
        "fp8": "e4m3",
        "fp8_recipe": "mxfp8",
        "context_parallel_size": 2,
        "cp_comm_type": "a2a",
        "virtual_pipeline_model_parallel_size": 2,
        "pipeline_model_parallel_size": 4,
        "num_layers": 16,
        "recompute_granularity": "full",
        "recompute_method": None,
    }
    told: dict[str, Value] = {
        "enable_primus_turbo": True,
        "use_turbo_grouped_mlp": True,
        "use_turbo_parallel_linear": True,
        "turbo_sync_free_moe_stage": 1,
        "moe_use_fused_router_with_aux_score": True,
        "attn_warmup": True,
        "pp_warmup": True,
        "dump_pp_data": True,
        "fused_padded_mla_attention": True,
        "use_rocm_mem_info": True,
        "no_fp8_weight_transpose_cache": True,
    }
    quiet: dict[str, Value] = {"recompute_layer_ids": "0,3,4,7", "turbo_deepep_num_cu": 80, "pp_algorithm": "zbv"}
    translation = translate({**MOCK, **known, **told, **quiet}, accelerator="rocm")
    assert {row.path for row in translation.unused if row.severity == "warning"} == set(told)
    assert {row.path for row in translation.unused if row.severity == "info"} == set(quiet)
    assert translation.native["num_virtual_stages_per_pipeline_rank"] == 2
    assert translation.native["cp_comm_type"] == ["a2a"]
    assert translation.native["recompute_num_layers"] == 1


def test_what_a_model_does_not_read() -> None:
    """A length that only latent attention reads stops no other model."""
    assert not buildable({"original_max_position_embeddings": 8192})


def test_misspelt_name_of_another_product() -> None:
    """A misspelt foreign parameter is answered with its name."""
    with pytest.raises(ConfigError) as caught:
        translate({**MOCK, "use_turbo_atention": True})
    assert "`use_turbo_attention`" in caught.value.remedy


@pytest.mark.parametrize(("old", "new", "used"), [(None, 2, 2), (2, None, 2), (2, 2, 2)])
def test_null_beside_the_other_spelling(old: Value, new: Value, used: int) -> None:
    """A spelling that is null takes nothing from the other one."""
    params: dict[str, Value] = {"num_layers": 8, "pipeline_model_parallel_size": 4}
    names: dict[str, Value] = {"num_virtual_stages_per_pipeline_rank": new, "virtual_pipeline_model_parallel_size": old}
    assert translate({**MOCK, **params, **names}).native["num_virtual_stages_per_pipeline_rank"] == used


def test_old_switch_that_is_off() -> None:
    """An old switch that is off beside the new one that is on, as in a list of all defaults, is no contradiction."""
    switches: dict[str, Value] = {"use_megatron_fsdp": True, "use_custom_fsdp": False}
    assert translate({**MOCK, **switches}, accelerator="cuda").native["use_megatron_fsdp"] is True
    with pytest.raises(ConfigError, match="use_custom_fsdp"):
        translate({**MOCK, "use_megatron_fsdp": False, "use_custom_fsdp": True}, accelerator="cuda")

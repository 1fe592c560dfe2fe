"""Names of TorchTitan 0.2, of its flavors and of its converters."""

from __future__ import annotations

import ast
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

from primus_backend_torchtitan.host.entries import fields_of
from primus_backend_torchtitan.host.flavors import flavors
from primus_backend_torchtitan.host.foreign import foreign_keys
from primus_backend_torchtitan.host.schema import LIBRARY, schema_for
from primus_backend_torchtitan.sections import CONVERTERS, FORMER_CONVERTERS
from primus_core.discovery import installed_version
from primus_core.errors import ConfigError, ExitCode
from primus_core.experiment import Layer, Value
from primus_core.hooks.translation import check_translation
from primus_core.plan import Unused
from primus_core.planning.settings import core_schema
from primus_core.yamlfile import loads
from tests.torchtitan.experiments import MOCK, VERSION, findings, module_of, translate

SCHEMA = schema_for(VERSION).parameters
WITHOUT_SIZES = {name: value for name, value in MOCK.items() if name in ("lr", "mock_data", "seq_length")} | {
    "micro_batch_size": 1,
    "train_iters": 5,
}
FLAVOR: dict[str, Value] = {"model.name": "llama3", "model.flavor": "8B"}

needs_library = pytest.mark.skipif(installed_version(LIBRARY) is None, reason="torchtitan is not installed")


def unused(params: dict[str, Value]) -> dict[str, Unused]:
    return {row.path: row for row in translate(params).unused}


def refused(params: dict[str, Value]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        translate({**MOCK, **params})
    return caught.value


def test_every_alias_stands_for_a_parameter_and_hides_none() -> None:
    """A row is about a name that TorchTitan does not have, and an alias about one that it has."""
    rows = foreign_keys().values()
    assert [row.name for row in rows if row.name in SCHEMA] == []
    assert [row.name for row in rows if row.fate == "alias" and row.native not in SCHEMA] == []
    assert all(len(row.why) > 15 for row in rows)


@pytest.mark.parametrize(
    ("former", "value", "native"),
    [
        ("activation_checkpoint.mode", "full", "activation_checkpoint.kind"),
        ("profiling.profile_freq", 7, "profiler.profile_freq"),
        ("validation.freq", 5, "validator.freq"),
        ("model.n_layers", 3, "model.num_layers"),
        ("parallelism.enable_async_tensor_parallel", False, "compile.enable_async_tensor_parallel"),
        ("model.moe_args.load_balance_coeff", 1e-2, "model.moe_router_bias_update_rate"),
    ],
)
def test_a_former_name_acts_and_the_user_hears_of_the_present_one(former: str, value: Value, native: str) -> None:
    """What was moved has the value that it was given, and one warning says what it is called now."""
    params = {name: other for name, other in MOCK.items() if f"model.{name}" != native} | {former: value}
    translation = translate(params)
    assert translation.native[native] == value
    check_translation(module_of(params), translation, core_schema().parameters)
    (told,) = (finding for finding in findings(params) if finding.check == "torchtitan.names")
    assert told.severity == "warning"
    assert f"{former} is {native} (" in told.evidence


def test_a_former_and_a_portable_name_with_different_values_are_an_error() -> None:
    """Both spellings, both values, both places, and which of them is the portable one."""
    error = refused({"model.n_layers": 3})
    assert error.what == "`num_layers` is 2 and `model.n_layers` is 3"
    assert error.where.count("exp.yaml:") == 2
    assert "`num_layers` is the portable name, `model.n_layers` is its name before 0.3" in error.why


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"profiling.profile_freq": "often"}, "`profiling.profile_freq` takes a whole number"),
        ({"profiling.profile_frq": 1}, "unknown parameter `profiling.profile_frq`"),
        ({"activation_checkpoint.mode": "ful"}, '`activation_checkpoint.mode` cannot be "ful"'),
        (
            {"activation_checkpoint.mode": "selective", "activation_checkpoint.selective_ac_option": "2"},
            "`activation_checkpoint.selective_ac_option` cannot be",
        ),
        ({"optimizer.early_step_in_backward": True}, "`optimizer.early_step_in_backward` cannot be true here"),
        ({"sink_level": "INFO"}, '`sink_level` cannot be "INFO" here'),
        (
            {"model.converters": ["quantize.linear.float8"], "quantize.linear.float8.recipe_name": "tensorwise"},
            "`quantize.linear.float8.recipe_name` cannot be",
        ),
    ],
)
def test_a_former_name_that_means_something_else_is_an_error(params: dict[str, Value], message: str) -> None:
    """What TorchTitan 0.3 no longer does is refused where leaving it out would change the training."""
    assert message in refused(params).what


def test_a_former_name_that_is_misspelled_has_the_nearest_one() -> None:
    """Former names are among the candidates."""
    assert "`profiling.profile_freq`" in refused({"profiling.profile_frq": 1}).remedy


def test_a_setting_of_what_is_off_says_so() -> None:
    """The options of a feature that nobody asked for change nothing, whatever they are."""
    rows = unused({**MOCK, "activation_checkpoint.selective_ac_option": "2", "validation.seq_len": 7})
    assert "without `activation_checkpoint.mode=selective`" in rows["activation_checkpoint.selective_ac_option"].why
    assert "without `validation.enable`" in rows["validation.seq_len"].why


def test_kernels_of_another_product_are_a_warning() -> None:
    """Primus-Turbo computes the same faster; asking for it is told, and its parts only where it is on."""
    on = unused({**MOCK, "primus_turbo.enable_primus_turbo": True, "primus_turbo.use_turbo_attention": True})
    assert {on[f"primus_turbo.{name}"].severity for name in ("enable_primus_turbo", "use_turbo_attention")} == {
        "warning"
    }
    assert (
        unused({**MOCK, "primus_turbo.use_turbo_attention": True})["primus_turbo.use_turbo_attention"].severity
        == "info"
    )


@pytest.mark.parametrize(
    ("params", "what"),
    [
        (
            {"primus_turbo.enable_primus_turbo": True, "primus_turbo.enable_attention_float8": True},
            "attention in float8",
        ),
        (
            {"primus_turbo.use_turbo_grouped_mm": True, "primus_turbo.use_moe_fp8": True},
            "experts that compute in float8",
        ),
        ({"parallelism.expert_tensor_parallel_degree": 2}, "experts whose tensors are divided"),
        ({"fault_tolerance.enable": True}, "torchft"),
        ({"is_hybrid_model": True, "mamba_state_dim": 64}, "state-space layers"),
        ({"experimental_attention_variant": "gated_delta_net", "linear_attention_freq": 4}, "gated delta networks"),
        ({"lfm_layer_types": ["conv"]}, "convolution layers"),
        ({"final_logit_softcapping": 50.0}, "softly capped"),
    ],
)
def test_what_would_change_the_result_cannot_be_built(params: dict[str, Value], what: str) -> None:
    """Asking for what this back end has not is one finding with a place and a remedy: exit code 1."""
    (told,) = (finding for finding in findings({**MOCK, **params}) if finding.check == "torchtitan.model")
    assert (told.severity, told.cause, told.where.split(":")[0]) == ("error", "unsupported", "exp.yaml")
    assert told.exit_code == ExitCode.DEPENDENCY
    assert what in told.evidence
    assert told.remedy


def test_a_data_set_of_torchtitans_is_never_left_out_in_silence() -> None:
    """Its loader is refused, and a name of a data set, the former one too, is a warning: Primus reads the data."""
    without = {name: value for name, value in MOCK.items() if name != "mock_data"}
    with pytest.raises(ConfigError, match=r"`dataloader\.kind` cannot be huggingface_text here"):
        translate({**without, "dataloader.kind": "huggingface_text"})
    for name in ("training.dataset", "dataloader.dataset", "validator.dataloader.dataset_path"):
        translation = translate({**MOCK, name: "c4"})
        (row,) = (row for row in translation.unused if row.path == name)
        assert (row.severity, "Primus reads the data" in row.why) == ("warning", True)
        assert "c4" not in translation.native.values()


def test_a_flavor_has_the_sizes_of_its_preset() -> None:
    """`model.name` and `model.flavor` are enough; what is set beside them wins."""
    params = {**WITHOUT_SIZES, **FLAVOR, "num_layers": 4}
    translation = translate(params)
    native = translation.native
    assert (native["model.num_layers"], native["model.hidden_size"], native["model.ffn_hidden_size"]) == (
        4,
        4096,
        14336,
    )
    assert native["model.use_rope_scaling"] is True
    rows = {row.path: row for row in translation.adjusted}
    assert rows["model.hidden_size"].why == "of TorchTitan's llama3 8B, which `model.name` and `model.flavor` name"
    check_translation(module_of(params), translation, core_schema().parameters)


def test_a_flavor_takes_the_place_of_a_presets_model() -> None:
    """Chosen in an experiment, it leaves nothing of the model that the preset describes, and says so."""
    params = {**MOCK, **FLAVOR, "num_experts": 8}
    of_preset: dict[str, Layer] = dict.fromkeys(("num_layers", "hidden_size", "num_experts", "vocab_size"), "model")
    translation = translate(params, of_preset)
    assert translation.native["model.num_layers"] == 32
    assert translation.native["model.vocab_size"] == 128256
    assert "model.num_experts" not in translation.native
    rows = {row.path: row.overridden_by for row in translation.unused}
    assert {rows[name] for name in of_preset} == {"model.flavor"}
    check_translation(module_of(params, of_preset), translation, core_schema().parameters)


@pytest.mark.parametrize(
    ("params", "what", "remedy"),
    [
        ({"model.name": "llama3", "model.flavor": "80B"}, "`model.flavor` is '80B'", "did you mean 8B?"),
        ({"model.name": "lama3", "model.flavor": "8B"}, "`model.name` is 'lama3'", "did you mean llama3?"),
        ({"model.flavor": "8B"}, "`model.flavor` is set, and `model.name` is not", "set `model.name`"),
        ({"model.name": "llama3"}, "`model.name` is set, and `model.flavor` is not", "set `model.flavor`"),
    ],
)
def test_a_flavor_that_does_not_exist_is_an_error(params: dict[str, Value], what: str, remedy: str) -> None:
    """The nearest name, and all that there are."""
    error = refused(params)
    assert error.what.startswith(what)
    assert error.where.startswith("exp.yaml:")
    assert remedy in error.remedy


def test_converters_by_their_former_names_have_the_options_of_their_sections() -> None:
    """`quantize.linear.float8` becomes an entry of its kind; the output layer is called lm_head now."""
    params: dict[str, Value] = {
        **MOCK,
        "model.converters": ["primus_turbo", "quantize.linear.float8"],
        "quantize.linear.float8.filter_fqns": ["output"],
        "quantize.linear.float8.emulate": True,
        "quantize.linear.float8.enable_fsdp_float8_all_gather": True,
        "compile.enable": True,
    }
    translation = translate(params, accelerator="cuda")
    entry = {"kind": "float8_linear", "filter_fqns": ["lm_head"], "emulate": True, "model_compile_enabled": True}
    assert translation.native["model.converters"] == [entry]
    check_translation(module_of(params), translation, core_schema().parameters)


@pytest.mark.parametrize(
    ("entry", "what", "remedy"),
    [
        ({"kind": "float8_linar"}, "an entry of no known kind", "did you mean float8_linear?"),
        ("quantize.linear.float9", "an entry of no known kind", "did you mean"),
        ({"kind": "float8_linear", "filter_fqn": ["output"]}, "unknown parameter `filter_fqn`", "did you mean"),
        ({"kind": "float8_linear", "emulate": "perhaps"}, "`emulate` takes true or false", "write true or false"),
    ],
)
def test_a_converter_that_does_not_exist_is_an_error(entry: Value, what: str, remedy: str) -> None:
    """Kinds, fields and types of the entries are checked on the host."""
    error = refused({"model.converters": [entry]})
    assert what in error.what
    assert remedy in error.remedy


FLAVOR_TABLES = {
    "llama3": "llama3_configs",
    "qwen3": "qwen3_configs",
    "deepseek_v3": "deepseekv3_configs",
    "gpt_oss": "gptoss_configs",
}
"""The library's own tables of flavors, by model."""


def parsed(module: str) -> ast.Module:
    """The syntax of a module of the installed library, which is not imported."""
    found = find_spec("torchtitan")
    assert found is not None
    assert found.submodule_search_locations
    path = Path(found.submodule_search_locations[0], *module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def fields_of_config(module: ast.Module, name: str) -> set[str]:
    """Fields that the ``Config`` inside a class declares."""
    (owner,) = (node for node in ast.walk(module) if isinstance(node, ast.ClassDef) and node.name == name)
    (config,) = (node for node in owner.body if isinstance(node, ast.ClassDef) and node.name == "Config")
    return {ast.unparse(node.target) for node in config.body if isinstance(node, ast.AnnAssign)}


@pytest.mark.parametrize(
    ("entry", "remedy"),
    [("quantize.linear.float8", "`emulate: true`"), ({"kind": "mxfp8_grouped_experts"}, "remove it")],
)
def test_a_format_without_kernels_on_a_cpu_is_an_error(entry: Value, remedy: str) -> None:
    """Float8 on a CPU can be emulated; what cannot is refused, with its place, before training."""
    params: dict[str, Value] = {"model.converters": [entry], "quantize.linear.float8.filter_fqns": ["output"]}
    error = refused(params)
    assert error.what.startswith("`model.converters` cannot have ")
    assert error.where.startswith("exp.yaml:")
    assert remedy in error.remedy
    emulated: dict[str, Value] = {"model.converters": [{"kind": "float8_linear", "emulate": True}]}
    assert translate({**MOCK, **emulated}).native["model.converters"]


@needs_library
def test_the_fields_of_converters_are_those_of_the_library() -> None:
    """Each kind has the fields of its class, and those of their base."""
    package = "torchtitan.components.quantization"
    base = fields_of_config(parsed(package), "QuantizationConverter")
    files = {"float8": "float8", "mxfp8": "mx", "nvfp4": "nvfp4"}
    for kind, target in CONVERTERS.items():
        name = target.partition(":")[2].partition(".")[0]
        own = fields_of_config(parsed(f"{package}.{files[kind.partition('_')[0]]}"), name)
        assert set(fields_of(kind).parameters) == {"kind", *base, *own}


@needs_library
@pytest.mark.parametrize("name", FLAVOR_TABLES)
def test_every_flavor_of_the_library_is_known(name: str) -> None:
    """Each model that TorchTitan still has is known in all its sizes, but for those of its own tests."""
    for node in parsed(f"torchtitan.models.{name}").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == FLAVOR_TABLES[name]:
            assert isinstance(node.value, ast.Dict)
            there = [ast.literal_eval(key) for key in node.value.keys if key is not None]
            assert [flavor for flavor in there if not flavor.startswith("debug")] == list(flavors()[name])
            return
    pytest.fail(f"the library has no {FLAVOR_TABLES[name]}")


def test_no_preset_of_the_package_repeats_a_figure() -> None:
    """What a model is made of is said once, in core; here is what TorchTitan alone adds."""
    folder = files("primus_backend_torchtitan").joinpath("presets/models")
    added = {"extends", "tokenizer_model", "model"}
    balance = {"moe_router_enable_expert_bias", "moe_router_bias_update_rate", "moe_router_load_balancing_type"}
    left_out = {"moe_aux_loss_coeff", "mtp_num_layers", "mtp_loss_scaling_factor"}
    for file in folder.iterdir():
        fields = loads(file.read_text(encoding="utf-8"), file.name).value
        assert isinstance(fields, dict)
        assert set(fields) <= added | balance | left_out, file.name


def test_every_former_converter_is_a_kind() -> None:
    """A former name leads to a kind that there is."""
    assert set(FORMER_CONVERTERS.values()) <= set(CONVERTERS)


def test_a_folder_by_its_native_name_is_inside_the_dump_folder() -> None:
    """A relative `checkpoint.folder` is where TorchTitan means it; `save` counts from where primus was called."""
    native = translate({**MOCK, "checkpoint.folder": "checkpoint", "checkpoint.interval": 5}).native
    assert native["checkpoint.folder"] == f"{native['dump_folder']}/checkpoint"
    assert str(native["dump_folder"]).startswith("/workspace/")
    portable = translate({**MOCK, "save": "checkpoint", "save_interval": 5}).native
    assert portable["checkpoint.folder"] == str(Path("checkpoint").absolute())

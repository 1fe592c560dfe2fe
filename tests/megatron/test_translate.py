"""From an experiment to Megatron's own parameters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from primus_backend_megatron import host
from primus_backend_megatron.host.cpu import RULES
from primus_backend_megatron.host.data import NEVER
from primus_backend_megatron.host.limits import LIMITS
from primus_backend_megatron.host.names import PATHS_READ, PATHS_WRITTEN, REFUSED, TOKENIZER_DETAILS, Refused
from primus_backend_megatron.host.schema import schema_for
from primus_backend_megatron.host.split import parse_split
from primus_core import discovery
from primus_core.errors import ConfigError, ErrorGroup
from primus_core.experiment import Layer, Value
from primus_core.hooks import check_translation
from primus_core.plan import Accelerator, Adjusted, Layout, ModelSizes, Translation
from primus_core.planning.settings import core_schema
from primus_core.resolve import resolve
from tests.experiments import experiment_of
from tests.megatron.experiments import MOCK, TINY, module_of, target_of, translate


def adjusted(translation: Translation, native: str) -> Adjusted:
    (row,) = [row for row in translation.adjusted if row.native == native]
    assert translation.native[native] == row.used
    assert row.why
    return row


def fate(translation: Translation, path: str) -> str:
    """Which kind of row a parameter has."""
    rows = {
        "mapped": [row.path for row in translation.mapping],
        "adjusted": [row.path for row in translation.adjusted],
        "unused": [row.path for row in translation.unused],
    }
    (kind,) = [kind for kind, paths in rows.items() if path in paths]
    return kind


def refusal(params: dict[str, Value], **more: Value) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        translate({**params, **more})
    return caught.value


def test_another_framework_is_left_alone() -> None:
    """A module of another back end is not this one's to translate."""
    module = evolve(module_of(TINY), framework="torchtitan")
    assert host.translate_config(experiment_of(module), module, target_of()) is None


def test_values_are_typed_by_the_schema() -> None:
    """Text and numbers become what Megatron's parameter takes."""
    native = translate({**TINY, "lr": "3e-4", "train_iters": "50", "cp_comm_type": "a2a", "rotary_base": 500000}).native
    assert (native["lr"], native["train_iters"], native["cp_comm_type"]) == (3e-4, 50, ["a2a"])


def test_entry_is_named_by_string() -> None:
    """The host names the rank's code without importing it."""
    assert translate(MOCK).entry == "primus_backend_megatron.rank.train:run"


def test_every_parameter_has_one_fate() -> None:
    """Mapped, adjusted and unused rows account for each parameter that was set, whatever its name."""
    module = module_of(
        {
            **TINY,
            "norm_epsilon": 1e-6,
            "num_query_groups": 4,
            "group_query_attention": False,
            "log_avg_skip_iterations": 2,
            "eval_iters": None,
            "save": "relative",
            "save_interval": 10,
            "split": "99,1,0",
            "accelerator": "cpu",
            "transformer_impl": "transformer_engine",
        }
    )
    translation = host.translate_config(experiment_of(module), module, target_of())
    assert translation is not None
    check_translation(module, translation, core_schema().parameters)


def test_tables_name_parameters_of_megatron() -> None:
    """Every row of a table speaks of a parameter that exists."""
    known = set(schema_for("0.19.2").parameters)
    names = {rule.name for rule in RULES} | {row.name for row in REFUSED}
    limited = [name for limit in LIMITS for name in limit.names]
    assert names | {*PATHS_READ, *PATHS_WRITTEN, *TOKENIZER_DETAILS, *limited} <= known
    assert len(limited) == len(set(limited))


# Names


def test_typo_of_the_announcement() -> None:
    """``mock_date`` is answered with its place and ``mock_data``."""
    error = refusal(TINY, mock_date=True)
    assert error.where == f"exp.yaml:{10 + len(TINY)}"
    assert "mock_date" in error.what
    assert "`mock_data`" in error.remedy


def test_misspelt_parameter_of_core() -> None:
    """A misspelt parameter of core is answered with core's name."""
    assert "`accelerator`" in refusal(TINY, acelerator="cpu").remedy


def test_all_problems_are_told_together() -> None:
    """Unknown names, wrong types, missing and refused parameters cost one attempt."""
    params = {name: value for name, value in TINY.items() if name not in ("lr", "num_layers")}
    with pytest.raises(ErrorGroup) as caught:
        translate({**params, "mock_date": True, "train_iters": "fifty", "yaml_cfg": "x.yaml", "hidden_size": 0})
    text = " ".join(str(error) for error in caught.value.errors)
    for fragment in ("mock_date", "fifty", "yaml_cfg", "`hidden_size` is 0", "`num_layers`, `lr` are not set"):
        assert fragment in text


def test_norm_epsilon_reaches_megatron() -> None:
    """The name that Megatron does not read sets the one that it reads."""
    translation = translate({**TINY, "norm_epsilon": 1e-6})
    assert translation.native["layernorm_epsilon"] == 1e-6
    assert fate(translation, "norm_epsilon") == "mapped"


@pytest.mark.parametrize(("alias", "native", "used"), [("overrides", "model", 1e-6), ("model", "overrides", 1e-5)])
def test_stronger_layer_decides_between_two_spellings(alias: Layer, native: Layer, used: float) -> None:
    """An override wins over a preset, in whichever spelling; the other is unused and says by what."""
    layers: dict[str, Layer] = {"norm_epsilon": alias, "layernorm_epsilon": native}
    translation = translate({**TINY, "norm_epsilon": 1e-6, "layernorm_epsilon": 1e-5}, layers)
    assert translation.native["layernorm_epsilon"] == used
    assert {fate(translation, "norm_epsilon"), fate(translation, "layernorm_epsilon")} == {"mapped", "unused"}


def test_two_spellings_that_contradict_each_other() -> None:
    """Two values for one parameter in one layer are an error that names both places."""
    error = refusal(TINY, norm_epsilon=1e-6, layernorm_epsilon=1e-5)
    assert "norm_epsilon" in error.what
    assert "1e-05" in error.what
    assert error.where == f"exp.yaml:{10 + len(TINY)}, exp.yaml:{11 + len(TINY)}"
    assert "`norm_epsilon: !unset`" in error.remedy


def test_two_spellings_that_agree() -> None:
    """Two equal values for one parameter are no contradiction."""
    assert translate({**TINY, "norm_epsilon": 1e-6, "layernorm_epsilon": 1e-6}).native["layernorm_epsilon"] == 1e-6


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.name)
def test_refused_parameter_may_have_its_default(row: object) -> None:
    """A refused parameter that is null or off, as presets write it, stops nobody."""
    name = getattr(row, "name", "")
    default = schema_for("0.19.2").parameters[name].default
    assert translate({**TINY, name: default}).native[name] == default


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.name)
def test_refused_parameter(row: Refused) -> None:
    """A parameter that would start another loop than this back end's, or that Megatron refuses, is told at once."""
    something: dict[str, Value] = {"bool": True, "int": 1, "str": "x", "list[str]": ["x"]}
    error = refusal(TINY, **{row.name: something[schema_for("0.19.2").parameters[row.name].type]})
    assert f"`{row.name}`" in error.what
    assert error.where == f"exp.yaml:{10 + len(TINY)}"
    assert error.remedy


@pytest.mark.parametrize("name", ["num_layers", "seq_length", "micro_batch_size", "vocab_size", "lr", "train_iters"])
@pytest.mark.parametrize("null", [True, False])
def test_missing_parameter(name: str, null: bool) -> None:
    """What Megatron would only assert after its start is told here, also when it was set to null."""
    params = {key: value for key, value in TINY.items() if key != name}
    assert name in refusal({**params, **({name: None} if null else {})}).what


def test_null_is_megatrons_default() -> None:
    """Null for a parameter that cannot be null leaves Megatron's default, and its row says so."""
    translation = translate({**MOCK, "async_save": None, "lr_decay_iters": None, "norm_epsilon": None})
    assert {"async_save", "layernorm_epsilon"}.isdisjoint(translation.native)
    assert [(row.path, row.why) for row in translation.unused if "null" in row.why] == [
        ("async_save", "null: Megatron's default is used"),
        ("norm_epsilon", "null: Megatron's default is used"),
    ]
    assert fate(translation, "lr_decay_iters") == "mapped"


def test_samples_instead_of_iterations() -> None:
    """A run may count samples."""
    params = {name: value for name, value in TINY.items() if name != "train_iters"}
    assert translate({**params, "train_samples": 1000}).native["train_samples"] == 1000


@pytest.mark.parametrize("name", ["tensor_model_parallel_size", "num_attention_heads", "make_vocab_size_divisible_by"])
def test_size_below_one(name: str) -> None:
    """A size of zero is refused by name, not by a division that fails."""
    error = refusal({**TINY, name: 0})
    assert f"`{name}` is 0" in error.what
    assert error.where.startswith("exp.yaml:")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("lr_warmup_iters", -1, "0 or more"),
        ("eval_iters", -1, "0 or more"),
        ("save_interval", -5, "1 or more"),
        ("save_interval", 0, "1 or more"),
        ("lr", -1e-3, "0 or more"),
        ("clip_grad", -1.0, "0 or more"),
        ("moe_aux_loss_coeff", [0.1, -0.1], "0 or more"),
        ("rotary_base", 0, "more than 0"),
        ("adam_beta2", 1.0, "0 or more, and less than 1"),
        ("hidden_dropout", -0.1, "0 or more, and less than 1"),
    ],
)
def test_number_that_makes_no_sense(name: str, value: Value, wanted: str) -> None:
    """A number that Megatron would refuse or misread in the ranks is refused with its line and the rule."""
    error = refusal({**TINY, name: value})
    assert error.what == f"`{name}` is {value[-1] if isinstance(value, list) else value}"
    assert error.where.startswith("exp.yaml:")
    assert error.remedy == f"set it to {wanted}"


def test_limits_allow_what_megatron_does_by_default() -> None:
    """No limit refuses a default of Megatron, nor null where that is one."""
    defaults = schema_for("0.19.2").defaults
    params = {name: defaults[name] for limit in LIMITS for name in limit.names if name not in TINY}
    assert translate({**MOCK, **params})


# Data and evaluation


def test_data_and_tokenizer_stay_with_primus() -> None:
    """Megatron gets neither paths nor a tokenizer, and the rows say so."""
    translation = translate({**TINY, "valid_data_path": "v.txt"})
    assert adjusted(translation, "train_data_path").used is None
    assert adjusted(translation, "valid_data_path").asked == ["v.txt"]
    assert adjusted(translation, "tokenizer_type").used == "NullTokenizer"
    assert adjusted(translation, "tokenizer_model").asked == "tokenizer.json"


@pytest.mark.parametrize("name", ["vocab_file", "merge_file", "special_tokens"])
def test_tokenizer_parameter_that_nobody_reads(name: str) -> None:
    """A parameter that would change token ids is refused where Primus tokenizes, and harmless for mock data."""
    assert name in refusal(TINY, **{name: "x"}).what
    assert fate(translate({**MOCK, name: "x"}), name) == "mapped"


def test_no_data_at_all() -> None:
    """Neither data nor mock data: the error names both ways out."""
    error = refusal({name: value for name, value in MOCK.items() if name != "mock_data"})
    assert "train_data_path" in error.what
    assert "mock_data" in error.remedy


def test_mock_data_needs_no_tokenizer() -> None:
    """Made-up tokens need neither tokenizer nor data, and write no index."""
    translation = translate(MOCK)
    assert adjusted(translation, "tokenizer_type").used == "NullTokenizer"
    assert "data_cache_path" not in translation.native


def test_evaluation_is_off_unless_asked_for() -> None:
    """Without interval and iterations all data is for training, and Megatron's arithmetic has its numbers."""
    translation = translate(TINY)
    assert adjusted(translation, "eval_interval").used == NEVER
    assert adjusted(translation, "eval_iters").used == 0
    assert adjusted(translation, "split").used == "100, 0, 0"


@pytest.mark.parametrize("asked", [{"eval_interval": 10}, {"eval_iters": 5}, {"eval_interval": 10, "eval_iters": 5}])
def test_evaluation_that_is_asked_for(asked: dict[str, Value]) -> None:
    """An interval or a number of iterations switches evaluation on, with Megatron's shares."""
    translation = translate({**TINY, **asked})
    assert all(translation.native[name] == value for name, value in asked.items())
    assert translation.native.get("eval_iters") != 0
    assert adjusted(translation, "split").used == "969, 30, 1"


def test_split_gives_way_to_data_of_its_own() -> None:
    """Validation data with a path of its own leaves nothing to split."""
    translation = translate({**TINY, "split": "99,1,0", "valid_data_path": "v.txt"})
    assert adjusted(translation, "split").asked == "99,1,0"
    assert translation.native["split"] is None


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("969, 30, 1", (969, 30, 1)),
        ("99,1", (99, 1, 0)),
        ("1", (1, 0, 0)),
        (" .9 / .1 ", (0.9, 0.1, 0)),
        ("8. 1.5 0", (8, 1.5, 0)),
    ],
)
def test_split_is_read_as_megatron_does(text: str, shares: tuple[float, float, float]) -> None:
    """Up to three shares; those that are left out are nothing."""
    assert parse_split(text) == shares
    assert translate({**TINY, "split": text, "eval_iters": 1}).native["split"] == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("abc", "'abc' is no number"),
        ("", "'' is no number"),
        ("0,0,0", "nothing is left for training"),
        ("0,1", "nothing is left for training"),
        ("99,-1,2", "'-1' is no number"),
        ("1e2,1,1", "'1e2' is no number"),
        ("99,,1", "'' is no number"),
        ("1,1,1,1", "4 shares of three splits"),
    ],
)
def test_split_that_divides_nothing(text: str, why: str) -> None:
    """Shares that Megatron would misread, or that leave no training data, are refused with their line."""
    error = refusal(TINY, split=text)
    assert error.what == f"`split` cannot be {text!r}"
    assert error.where == f"exp.yaml:{10 + len(TINY)}"
    assert why in error.why
    assert '"969, 30, 1"' in error.remedy


@pytest.mark.parametrize(
    "params",
    [
        TINY,
        MOCK,
        {**TINY, "eval_iters": 3},
        {**TINY, "vocab_size": None, "tokenizer_type": "ByteLevelTokenizer"},
        {**TINY, "vocab_size": None, "padded_vocab_size": 2048},
        {**MOCK, "pad_vocab_size": False},
    ],
)
def test_plan_leaves_nothing_for_the_ranks_to_choose(params: dict[str, Value]) -> None:
    """Vocabulary, its padding and the shares of the data are native values of every plan."""
    native = translate(params).native
    assert isinstance(native["vocab_size"], int)
    assert isinstance(native["padded_vocab_size"], int)
    assert isinstance(native["split"], str)


# Files


def test_checkpoints_go_to_the_experiment() -> None:
    """An interval is enough to save."""
    translation = translate({**TINY, "save_interval": 10})
    assert adjusted(translation, "save").used == "/workspace/team/me/exp/checkpoints"


def test_save_null_saves_nothing() -> None:
    """``save: null`` is an answer, not a gap."""
    translation = translate({**TINY, "save": None, "save_interval": 10})
    assert translation.native["save"] is None
    assert fate(translation, "save") == "mapped"


def test_save_without_an_interval() -> None:
    """A folder alone does not say when to save."""
    assert "save_interval" in refusal(TINY, save="/checkpoints").what


@pytest.mark.parametrize("name", ["save", "load", "tensorboard_dir", "data_cache_path"])
def test_relative_path(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ranks may run in another folder: relative paths start where primus was called."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    row = adjusted(translate({**TINY, "save_interval": 1, name: "here"}), name)
    assert (row.asked, row.used) == ("here", str(tmp_path / "here"))


@pytest.mark.parametrize("name", ["save", "load"])
def test_path_in_the_home_folder(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``~`` means what it means to a shell, as in ``workspace``."""
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    row = adjusted(translate({**TINY, "save_interval": 1, name: "~/mine"}), name)
    assert (row.asked, row.used) == ("~/mine", str(tmp_path / "mine"))
    assert "home" in row.why


@pytest.mark.parametrize("path", ["/", "msc://bucket/checkpoints"])
def test_absolute_path_is_kept(path: str) -> None:
    """An absolute path, or an address of object storage, reaches Megatron as it was written."""
    assert fate(translate({**TINY, "load": path}), "load") == "mapped"


def test_nothing_is_written_outside_the_workspace() -> None:
    """Every file that Megatron would place itself goes to the workspace."""
    wandb: dict[str, Value] = {"wandb_project": "p", "wandb_exp_name": "e"}
    params: dict[str, Value] = {"save_interval": 1, "record_memory_history": True, **wandb}
    native = translate({**TINY, **params}).native
    for name in ("save", "data_cache_path", "memory_snapshot_path", "wandb_save_dir"):
        assert str(native[name]).startswith("/workspace/")
    assert "tensorboard_dir" not in native


def test_trackers_are_off_unless_named_completely() -> None:
    """A project alone, as the announcement's experiment has it, starts no wandb, and needs none installed."""
    assert adjusted(translate({**TINY, "wandb_project": "p"}), "wandb_project").used == ""
    assert fate(translate({**TINY, "wandb_project": "p", "wandb_exp_name": "e"}), "wandb_project") == "mapped"


def test_trackers_that_are_disabled() -> None:
    """A switch of another launcher is obeyed where it switches off."""
    params: dict[str, Value] = {"wandb_project": "p", "wandb_exp_name": "e", "tensorboard_dir": "/t"}
    translation = translate({**TINY, **params, "disable_wandb": True, "disable_tensorboard": True})
    assert adjusted(translation, "wandb_project").used == ""
    assert adjusted(translation, "tensorboard_dir").used is None


def test_trackers_that_are_switched_on() -> None:
    """A switch of another launcher is obeyed where it switches on: what is not named goes to the experiment."""
    translation = translate({**TINY, "wandb_project": "p", "disable_wandb": False, "disable_tensorboard": False})
    assert translation.native["wandb_project"] == "p"
    assert adjusted(translation, "wandb_exp_name").used == "exp"
    assert adjusted(translation, "wandb_save_dir").used == "/workspace/team/me/exp/wandb"
    assert adjusted(translation, "tensorboard_dir").used == "/workspace/team/me/exp/tensorboard"


# Model


def test_padded_vocabulary() -> None:
    """The embedding is rounded up for the tensor parallel ranks, as Megatron would."""
    translation = translate({**TINY, "tensor_model_parallel_size": 2})
    assert adjusted(translation, "padded_vocab_size").used == 1024
    assert translation.model is not None
    assert translation.model.vocabulary == 1024


def test_padding_that_is_switched_off() -> None:
    """``pad_vocab_size: false`` keeps the vocabulary as it is."""
    assert translate({**TINY, "pad_vocab_size": False}).native["padded_vocab_size"] == 1000


def test_padded_vocabulary_alone() -> None:
    """A model may be described by its padded vocabulary only."""
    params = {name: value for name, value in TINY.items() if name != "vocab_size"}
    native = translate({**params, "padded_vocab_size": 2048}).native
    assert (native["vocab_size"], native["padded_vocab_size"]) == (2048, 2048)


def test_byte_level_vocabulary() -> None:
    """The built-in tokenizer's vocabulary is known."""
    params = {name: value for name, value in TINY.items() if name not in ("vocab_size", "tokenizer_model")}
    translation = translate({**params, "tokenizer_type": "ByteLevelTokenizer"})
    assert adjusted(translation, "vocab_size").used == 259
    assert adjusted(translation, "padded_vocab_size").used == 384


def test_query_groups_are_not_ignored() -> None:
    """Megatron ignores query groups without a second switch, which is therefore set."""
    translation = translate({**TINY, "num_query_groups": 4})
    assert adjusted(translation, "group_query_attention").used is True
    assert translation.model is not None
    assert translation.model.query_groups == 4


def test_query_groups_that_are_switched_off() -> None:
    """An explicit ``group_query_attention: false`` is respected."""
    translation = translate({**TINY, "num_query_groups": 4, "group_query_attention": False})
    assert fate(translation, "num_query_groups") == "unused"
    assert translation.model is not None
    assert translation.model.query_groups == 8


def test_overlapped_gather_brings_its_optimizer() -> None:
    """The announcement's own experiment overlaps the gather of parameters and leaves the optimizer to a preset."""
    translation = translate({**TINY, "overlap_param_gather": True, "overlap_grad_reduce": True})
    assert adjusted(translation, "use_distributed_optimizer").used is True


def test_positions_default_to_the_sequence() -> None:
    """The one length that the user gave is enough."""
    assert adjusted(translate(TINY), "max_position_embeddings").used == 128


def test_fused_loss_of_transformer_engine() -> None:
    """The announcement's own loss setting, which this megatron-core refuses, becomes the one that it accepts."""
    translation = translate({**TINY, "cross_entropy_loss_fusion": True, "cross_entropy_fusion_impl": "te"})
    assert adjusted(translation, "cross_entropy_fusion_impl").used == "native"


def test_shape_with_megatrons_defaults() -> None:
    """Sizes that nobody set follow Megatron's rules."""
    assert translate({**TINY, "swiglu": True}).model == ModelSizes(
        layers=4,
        hidden=128,
        ffn_hidden=320,
        heads=8,
        query_groups=8,
        head_size=16,
        sequence=128,
        vocabulary=1024,
        gated_mlp=True,
        tied_embeddings=True,
    )


def test_shape_of_a_mixture_of_experts() -> None:
    """Experts, their number for a token and their width are part of the shape."""
    params: dict[str, Value] = {"num_experts": 8, "moe_router_topk": 3, "moe_ffn_hidden_size": 96, "kv_channels": 32}
    shape = translate({**TINY, **params}).model
    assert shape is not None
    assert (shape.experts, shape.experts_per_token, shape.moe_ffn_hidden, shape.head_size) == (8, 3, 96, 32)


@pytest.mark.parametrize(("ranks", "used"), [(1, False), (2, True)])
def test_sequence_parallelism_needs_tensor_parallelism(ranks: int, used: bool) -> None:
    """A sequence that nobody shares is not said to be shared."""
    translation = translate({**TINY, "sequence_parallel": True, "tensor_model_parallel_size": ranks})
    assert translation.native["sequence_parallel"] is used


@pytest.mark.parametrize("ids", ["0,3,4,7,8", [0, 3, 4, 7, 8]])
def test_recomputed_layers_by_number(ids: Value) -> None:
    """Layers that are named to be recomputed are counted from the first of each stage."""
    sizes: dict[str, Value] = {"pipeline_model_parallel_size": 2, "recompute_granularity": "full"}
    translation = translate({**TINY, **sizes, "recompute_layer_ids": ids})
    assert adjusted(translation, "recompute_method").used == "block"
    assert adjusted(translation, "recompute_num_layers").used == 3


@pytest.mark.parametrize(("number", "used"), [(0, False), (1, True)])
def test_switches_as_numbers(number: int, used: bool) -> None:
    """Scripts for Megatron write 0 and 1 for false and true; no other number is a switch."""
    assert translate({**TINY, "finetune": number}).native["finetune"] is used
    assert "`finetune`" in refusal(TINY, finetune=2).what


def test_layout() -> None:
    """Parallel sizes and batches are core's to check."""
    sizes: dict[str, Value] = {
        "tensor_model_parallel_size": 2,
        "pipeline_model_parallel_size": 2,
        "context_parallel_size": 4,
        "global_batch_size": 64,
    }
    expected = Layout(
        tensor=2, pipeline=2, context=4, expert=1, micro_batch_size=2, global_batch_size=64, expert_tensor=2
    )
    assert translate({**TINY, **sizes}).layout == expected
    assert translate(TINY).layout == Layout(micro_batch_size=2)


def test_log_interval() -> None:
    """Megatron logs every iteration unless told otherwise."""
    assert adjusted(translate(TINY), "log_interval").used == 1
    assert fate(translate({**TINY, "log_interval": 7}), "log_interval") == "mapped"


@pytest.mark.parametrize(("length", "decay"), [(21, None), (20, 21), (4, 21)])
def test_run_that_ends_within_its_warm_up(length: int, decay: int | None) -> None:
    """A run shortened for a trial warms up as the full one does."""
    native = translate({**TINY, "lr_warmup_iters": 20, "train_iters": length}).native
    assert native["lr_warmup_iters"] == 20
    assert native.get("lr_decay_iters") == decay


# Platforms

CPU_ALWAYS = {
    "transformer_impl": "local",
    "distributed_backend": "gloo",
    "masked_softmax_fusion": False,
    "gradient_accumulation_fusion": False,
    "bias_gelu_fusion": False,
    "bias_swiglu_fusion": False,
    "bias_dropout_fusion": False,
    "apply_rope_fusion": False,
    "no_persist_layer_norm": True,
    "num_workers": 0,
}


@pytest.mark.parametrize("name", CPU_ALWAYS)
def test_cpu_replaces_what_needs_cuda(name: str) -> None:
    """On a CPU the default of Megatron is replaced, with a row that says why."""
    row = adjusted(translate(TINY), name)
    assert (row.asked, row.used) == (None, CPU_ALWAYS[name])


def test_cpu_says_what_was_asked() -> None:
    """A value that a user asked for and a CPU cannot have is in the row."""
    row = adjusted(
        translate({**TINY, "transformer_impl": "transformer_engine", "moe_grouped_gemm": True}), "transformer_impl"
    )
    assert (row.path, row.asked, row.used) == ("transformer_impl", "transformer_engine", "local")


def test_cpu_has_no_rows_for_what_was_off() -> None:
    """Rules about rare features stay silent unless the feature was asked for."""
    natives = {row.native for row in translate(TINY).adjusted}
    assert not natives & {"moe_grouped_gemm", "cuda_graph_impl", "moe_token_dispatcher_type", "nccl_ub"}


def test_cpu_saves_in_the_foreground() -> None:
    """A save in the background is replaced by one that training waits for, which writes the same."""
    row = adjusted(translate({**TINY, "save_interval": 1, "async_save": True}), "async_save")
    assert (row.path, row.asked, row.used) == ("async_save", True, False)


def test_cpu_keeps_dispatchers_that_work() -> None:
    """Only the dispatcher that needs CUDA is replaced."""
    assert (
        adjusted(translate({**TINY, "moe_token_dispatcher_type": "flex"}), "moe_token_dispatcher_type").used
        == "alltoall"
    )
    assert fate(translate({**TINY, "moe_token_dispatcher_type": "allgather"}), "moe_token_dispatcher_type") == "mapped"


def test_cpu_keeps_precision() -> None:
    """bf16 works on a CPU and stays as asked."""
    assert fate(translate({**TINY, "bf16": True}), "bf16") == "mapped"


@pytest.mark.parametrize(
    ("name", "value"),
    [("fp8", "hybrid"), ("fp4", "e2m1"), ("window_size", "127,0"), ("softmax_type", "learnable")],
)
def test_cpu_refuses_what_would_change_the_numbers(name: str, value: str) -> None:
    """Leaving out a low precision, a window or a sink would train another model: it is refused with its place."""
    error = refusal(TINY, **{name: value})
    assert name in error.what
    assert error.where == f"exp.yaml:{10 + len(TINY)}"


def test_cpu_refuses_latent_attention_that_normalizes_keys_alone() -> None:
    """Megatron's own layers fail to be built; with compressed queries, or on a GPU, they can."""
    latent: dict[str, Value] = {**TINY, "multi_latent_attention": True, "qk_layernorm": True}
    assert "`qk_layernorm` cannot be true on a CPU" in refusal(latent).what
    assert translate({**latent, "q_lora_rank": 16}).native["qk_layernorm"]
    assert translate(latent, accelerator="rocm").native["qk_layernorm"]


@pytest.mark.parametrize("name", ["layernorm", "moe_act"])
def test_cpu_recomputes_no_part_that_asks_transformer_engine(name: str) -> None:
    """Megatron would end in its first step with a name that is not defined."""
    asked: dict[str, Value] = {**MOCK, "recompute_granularity": "selective", "recompute_modules": ["core_attn", name]}
    assert f"`recompute_modules` cannot have {name} on a CPU" in refusal(asked).what
    assert translate({**asked, "recompute_modules": ["core_attn"]}).native["recompute_modules"] == ["core_attn"]


@pytest.mark.parametrize("accelerator", ["cuda", "rocm"])
def test_accelerators_take_megatrons_defaults(accelerator: Accelerator) -> None:
    """No CPU rule touches a GPU run, not even low precision."""
    translation = translate(
        {**TINY, "fp8": "hybrid", "transformer_impl": "transformer_engine"}, accelerator=accelerator
    )
    assert not set(CPU_ALWAYS) & {row.native for row in translation.adjusted}
    assert translation.native["fp8"] == "hybrid"


@pytest.mark.parametrize("model", ["llama_tiny.yaml", "llama3.1_8B.yaml"])
def test_portable_presets(model: str, tmp_path: Path) -> None:
    """A portable model with the portable trainer needs data and nothing else, and reaches Megatron whole."""
    (tmp_path / "exp.yaml").write_text(
        "work_group: team\nuser_name: me\nexp_name: exp\nworkspace: ./out\nmodules:\n  pre_trainer:\n"
        f"    framework: megatron\n    config: pre_trainer.yaml\n    model: {model}\n"
    )
    plugins = discovery.scan()
    experiment = resolve(
        "exp.yaml",
        overrides=["mock_data=true"],
        env={},
        preset_dirs=lambda framework: discovery.preset_dirs(plugins, framework),
        cwd=str(tmp_path),
    )
    module = experiment.modules["pre_trainer"]
    translation = host.translate_config(experiment, module, target_of())
    assert translation is not None
    check_translation(module, translation, core_schema().parameters)
    assert translation.unused == ()
    for name in ("rotary_base", "normalization", "swiglu", "untie_embeddings_and_output_weights", "weight_decay"):
        assert fate(translation, name) == "mapped"


def test_host_imports_no_heavy_library() -> None:
    """Planning works on a login node without torch, Megatron and numpy."""
    code = (
        "import sys, primus_backend_megatron.host;"
        "print([name for name in ('torch', 'megatron', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("params", "queues"),
    [
        ({}, {}),
        ({"tensor_model_parallel_size": 2}, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
        ({"context_parallel_size": 2}, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
        ({"tensor_model_parallel_size": 2, "use_megatron_fsdp": True}, {}),
    ],
)
def test_device_queue_of_overlapping_layouts(params: dict[str, Value], queues: dict[str, str]) -> None:
    """Layouts that overlap communication get the single device queue that Megatron demands; others do not."""
    assert translate({**MOCK, **params}, accelerator="cuda").environment == queues

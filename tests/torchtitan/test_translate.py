"""From portable and native parameters to TorchTitan's configuration, on the host."""

from __future__ import annotations

import subprocess
import sys

import pytest

from primus_core.errors import ConfigError, ErrorGroup
from primus_core.experiment import Value
from primus_core.hooks.translation import check_translation
from primus_core.planning.settings import core_schema
from tests.torchtitan.experiments import MOCK, module_of, translate


def test_portable_names_reach_torchtitan_by_its_own() -> None:
    """What has a counterpart is mapped to it with the value as it was set."""
    rows = {row.path: (row.native, row.value) for row in translate(MOCK).mapping}
    assert rows["seq_length"] == ("training.seq_len", 32)
    assert rows["train_iters"] == ("training.steps", 6)
    assert rows["micro_batch_size"] == ("training.local_batch_size", 2)
    assert rows["lr"] == ("optimizer.lr", 1e-2)
    assert rows["num_layers"] == ("model.num_layers", 2)


def test_every_parameter_has_exactly_one_fate() -> None:
    """Core's own check of a translation holds, with native names and values that are adjusted or dropped."""
    params: dict[str, Value] = {
        **MOCK,
        "bf16": True,
        "optimizer": "adam",
        "eval_iters": 0,
        "eval_interval": 100,
        "activation_checkpoint": None,
        "compile.enable": False,
        "tokenizer_type": "ByteLevelTokenizer",
        "global_batch_size": None,
        "clip_grad": 0.0,
    }
    check_translation(module_of(params), translate(params), core_schema().parameters)


def test_both_names_with_one_value_are_one_wish() -> None:
    """The portable and the native name may both be set to the same value."""
    translation = translate({**MOCK, "training.seq_len": 32})
    assert translation.native["training.seq_len"] == 32
    assert "says the same as `training.seq_len`" in {row.path: row.why for row in translation.unused}["seq_length"]


def test_both_names_with_different_values_are_an_error() -> None:
    """A contradiction names both spellings, both values and both places."""
    with pytest.raises(ConfigError) as caught:
        translate({**MOCK, "training.seq_len": 64})
    assert caught.value.what == "`seq_length` is 32 and `training.seq_len` is 64"
    assert caught.value.where.count("exp.yaml:") == 2


def test_the_stronger_layer_wins_over_a_preset() -> None:
    """A native name in the overrides takes the place of a portable one that a preset set."""
    translation = translate({**MOCK, "training.seq_len": 16}, {"seq_length": "preset"})
    assert translation.native["training.seq_len"] == 16
    assert [row.path for row in translation.unused if "overridden by" in row.why] == ["seq_length"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"trainig.steps": 5}, "unknown parameter `trainig.steps`"),
        ({"training.steps": "many"}, "`training.steps` takes a whole number"),
        ({"micro_batch_size": "two"}, "`micro_batch_size` takes a whole number"),
        ({"training.dtype": "float16"}, "`training.dtype` cannot be"),
        ({"activation_checkpoint.kind": "som"}, "`activation_checkpoint.kind` cannot be"),
        ({"lr_decay_style": "WSD"}, "`lr_decay_style` cannot be"),
        ({"optimizer": "muon"}, '`optimizer` cannot be "muon"'),
        ({"train_iters": 0}, "`train_iters` is 0"),
        ({"parallelism.tensor_parallel_degree": -1}, "`parallelism.tensor_parallel_degree` is -1"),
        ({"optimizer.implementation": "fused_opt_states_bf16"}, "`optimizer.implementation` cannot be"),
    ],
)
def test_what_cannot_be_read_is_told(params: dict[str, Value], message: str) -> None:
    """An unknown name, a wrong type and an impossible value each end the command before anything is started."""
    with pytest.raises(ConfigError) as caught:
        translate({**MOCK, **params})
    assert message in caught.value.what
    assert caught.value.where
    assert caught.value.remedy


def test_a_group_of_torchtitan_is_no_entry_of_a_portable_parameter() -> None:
    """``optimizer`` is a portable name, and what stands in TorchTitan's section of that name is read all the same."""
    assert translate({**MOCK, "optimizer.implementation": "for-loop"}).native["optimizer.implementation"] == "for-loop"
    with pytest.raises(ConfigError):
        translate({**MOCK, "optimizer.implementatio": "for-loop"})


def test_the_nearest_name_is_told() -> None:
    """A misspelled path is answered with the one that was meant."""
    with pytest.raises(ConfigError) as caught:
        translate({**MOCK, "parallelism.tensor_paralel_degree": 2})
    assert "`parallelism.tensor_parallel_degree`" in caught.value.remedy


def test_a_parameter_of_another_kind_is_an_error() -> None:
    """A section's parameter that the chosen class does not have is not ignored."""
    params: dict[str, Value] = {**MOCK, "activation_checkpoint.kind": "full"}
    translate(params)
    with pytest.raises(ConfigError) as caught:
        translate({**params, "activation_checkpoint.memory_budget": 0.3})
    assert "`activation_checkpoint.kind` is full" in caught.value.what


def test_everything_that_is_missing_is_told_at_once() -> None:
    """One error names all parameters without which nothing trains."""
    with pytest.raises(ConfigError) as caught:
        translate({name: value for name, value in MOCK.items() if name not in ("lr", "train_iters")})
    assert caught.value.what == "`train_iters`, `lr` are not set"


def test_several_problems_are_told_together() -> None:
    """Errors are collected, not told one by one."""
    with pytest.raises(ErrorGroup) as caught:
        translate({**MOCK, "no.such": 1, "training.steps": "x"})
    assert len(caught.value.errors) == 2


def test_a_cpu_is_said_so_in_rows() -> None:
    """What needs CUDA is replaced by what computes the same, with a reason; on a GPU it is left alone."""
    here = {row.native: row.used for row in translate(MOCK).adjusted}
    there = {row.native: row.used for row in translate(MOCK, accelerator="cuda").adjusted}
    assert here["training.disable_cuda_graphs"] is True
    assert "training.disable_cuda_graphs" not in there
    assert here["parallelism.spmd_backend"] == there["parallelism.spmd_backend"] == "partial_dtensor"
    assert [spec.id for spec in translate(MOCK, accelerator="cuda").patches] == [
        "process-group-timeout",
        "end-together",
        "stop",
    ]


def test_precision_is_what_was_asked_for() -> None:
    """TorchTitan computes in bfloat16 unless told otherwise; here nobody asked for it."""
    assert translate(MOCK).native["training.mixed_precision_param"] == "float32"
    assert translate({**MOCK, "bf16": True}).native["training.mixed_precision_param"] == "bfloat16"


def test_no_clipping_is_no_clipping() -> None:
    """``clip_grad: 0`` means no limit; TorchTitan would make every gradient zero."""
    limit = translate({**MOCK, "clip_grad": 0.0}).native["training.max_norm"]
    assert isinstance(limit, float)
    assert limit > 1e20


def test_evaluation_counts_global_batches() -> None:
    """``eval_iters`` evaluates as many samples as Megatron does."""
    translation = translate({**MOCK, "eval_iters": 2, "eval_interval": 3}, ranks=2)
    assert (translation.native["validator.steps"], translation.native["validator.freq"]) == (4, 3)
    assert translation.native["validator.enable"] is True


def test_a_pipeline_divides_the_local_batch() -> None:
    """Under pipeline parallelism the micro batch is the pipeline's, and the local batch a replica's share."""
    translation = translate({**MOCK, "pipeline_model_parallel_size": 2}, ranks=4)
    assert translation.native["parallelism.pipeline_parallel_microbatch_size"] == 2
    assert translation.native["training.local_batch_size"] == 4
    assert (translation.layout.micro_batch_size, translation.layout.global_batch_size) == (2, 8)
    assert translation.environment == {"LOG_RANK": "2"}
    assert {spec.id for spec in translation.patches} >= {"pipeline-micro-batches-single"}


def test_a_pipeline_runs_without_cuda_graphs() -> None:
    """TorchTitan refuses the two together, and has the graphs on until they are switched off."""
    plain = translate(MOCK, accelerator="cuda", ranks=2)
    staged = translate({**MOCK, "pipeline_model_parallel_size": 2}, accelerator="cuda", ranks=2)
    assert "training.disable_cuda_graphs" not in plain.native
    assert staged.native["training.disable_cuda_graphs"] is True


def test_the_embedding_has_the_rows_of_megatron() -> None:
    """The padded vocabulary takes part in the softmax, so both back ends pad alike."""
    translation = translate({**MOCK, "make_vocab_size_divisible_by": 8})
    assert translation.native["model.padded_vocab_size"] == 256
    assert translation.model is not None
    assert translation.model.vocabulary == 256


def test_its_own_schedule_is_chosen_by_its_own_names() -> None:
    """TorchTitan's names for the decay bring TorchTitan's formula; Megatron's names then act on nothing, and say so."""
    translation = translate({**MOCK, "lr_scheduler.decay_type": "linear"})
    assert translation.native["lr_scheduler.kind"] == "native"
    assert {"min_lr", "lr_decay_style"} <= {row.path for row in translation.unused}


def test_the_loss_is_cut_into_pieces_that_the_sequence_allows() -> None:
    """TorchTitan's own number, or the next smaller one that divides the tokens of a rank, which changes no loss."""
    long: dict[str, Value] = {**MOCK, "max_position_embeddings": 256}
    assert "loss.num_chunks" not in translate({**long, "seq_length": 64}).native
    assert translate({**long, "seq_length": 33}).native["loss.num_chunks"] == 3
    assert translate({**long, "seq_length": 31}).native["loss.num_chunks"] == 1
    assert translate({**long, "seq_length": 36, "context_parallel_size": 2}, ranks=2).native["loss.num_chunks"] == 6
    assert "loss.num_chunks" not in translate({**long, "seq_length": 33, "loss.kind": "cross_entropy"}).native


def test_a_pipeline_that_splits_gradients_has_its_loss_in_one_piece() -> None:
    """Of a loss in pieces torch's zero-bubble schedules lose the gradient of the last norm."""
    staged: dict[str, Value] = {**MOCK, "pipeline_model_parallel_size": 2, "num_layers": 4}
    for schedule, kind in (("zbvzerobubble", "cross_entropy"), ("1F1B", None), ("LoopedBFS", None)):
        translation = translate({**staged, "parallelism.pipeline_parallel_schedule": schedule}, ranks=2)
        assert translation.native.get("loss.kind") == kind


def test_translation_loads_no_training_library() -> None:
    """A login node without torch can plan."""
    code = (
        "import sys; from tests.torchtitan.experiments import MOCK, findings; assert findings(MOCK) == []; "
        "print(sorted({'torch', 'torchtitan', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""What `primus projection memory` advises where a model does not fit, made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.cli.projection.command import _parser
from primus_core.cli.projection.judging import Asked, planned
from tests.core.projecting import EXAMPLES, MI300X, REFERENCE, needs_reference, project

DEEPSEEK = EXAMPLES / "megatron/configs/MI300X/deepseek_v3-BF16-pretrain.yaml"
LLAMA = EXAMPLES / "megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml"
TINY = EXAMPLES / "llama-tiny.yaml"
TITAN = EXAMPLES / "torchtitan/llama-tiny.yaml"
ENDS = ("first", "last")
LONG = ("accelerator=cuda", "hidden_size=4096", "seq_length=65536", "max_position_embeddings=65536")
FAR = (
    "accelerator=cuda",
    "global_batch_size=32",
    "hidden_size=8192",
    "num_layers=64",
    "seq_length=9999360",
    "max_position_embeddings=9999360",
)
WHOLE = ("--gpus", "8", "pipeline_model_parallel_size=1", *(f"decoder_{end}_pipeline_num_layers=null" for end in ENDS))

SEVENTY = """\
work_group: primus
user_name: advised
exp_name: seventy
workspace: ./output
modules:
  pre_trainer:
    framework: torchtitan
    config: pre_trainer.yaml
    model: llama3_70B-fp8.yaml
    overrides:
      seq_length: 2048
      pipeline_model_parallel_size: 8
      micro_batch_size: 1
      global_batch_size: 16
      parallelism.pipeline_parallel_schedule: {schedule}
"""


@pytest.mark.parametrize(
    ("file", "gpu", "words"),
    [
        (LLAMA, "a100", ("--gpus", "8")),
        (DEEPSEEK, "h100", WHOLE),
        (DEEPSEEK, "mi300x", WHOLE),
        (DEEPSEEK, "h100", ()),
        (TITAN, "mi250x", (*LONG, "--gpus", "2")),
        (TINY, "mi250x", (*LONG, "num_layers=61", "--gpus", "8", "global_batch_size=32")),
    ],
)
def test_a_change_does_what_is_told_of_it(
    capsys: pytest.CaptureFixture[str], file: Path, gpu: str, words: tuple[str, ...]
) -> None:
    """Each change, made by hand, needs to the byte what was told of it; at least one makes the model fit."""
    answer = project(capsys, file, "--gpu", gpu, *words)
    assert any(change["fits"] for change in answer["changes"])
    given = [word for word in words if "=" in word]
    for change in answer["changes"]:
        made = [*(f"{name}={value}" for name, value in change["settings"].items()), "--gpus", str(change["ranks"])]
        again = project(capsys, file, "--gpu", gpu, *given, *made)
        assert again["needed"] == change["needed"]
        assert again["fits"] is change["fits"]


def test_ranks_that_cannot_hold_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3 on eight devices: it is told that no layout can do, and how many ranks can."""
    answer = project(capsys, DEEPSEEK, "--gpu", "mi300x", *WHOLE)
    assert answer["sought"].startswith("Nothing fits on 8 ranks: weights, gradients and optimizer state alone are")
    assert answer["sought"].endswith("Of its doublings, 64 is the first that can.")
    assert min(change["ranks"] for change in answer["changes"]) >= 64


def test_where_nothing_is_found_it_is_told_why(capsys: pytest.CaptureFixture[str]) -> None:
    """A sequence that no change lets fit ends in a sentence with the number of plans and the largest part."""
    answer = project(capsys, TINY, *FAR, "--gpu", "a100", "--gpus", "8")
    assert not any(change["fits"] for change in answer["changes"])
    assert "plans were tried, on up to" in answer["sought"]
    assert "where least is needed" in answer["sought"]
    assert answer["changes"][-1]["needed"] == min(change["needed"] for change in answer["changes"])


@pytest.mark.parametrize("layers", [2, 5, 13, 33, 61, 64])
@pytest.mark.parametrize("ends", [(), ("decoder_last_pipeline_num_layers=1", "pipeline_model_parallel_size=2")])
def test_layers_are_cut_into_stages_that_a_run_takes(
    capsys: pytest.CaptureFixture[str], layers: int, ends: tuple[str, ...]
) -> None:
    """Stages of unequal size, in Megatron's words, where the layers do not divide: none is refused."""
    words = ("--gpus", "16", "accelerator=cuda", f"num_layers={layers}", "global_batch_size=64", *ends)
    asked = Asked.of(_parser().parse_intermixed_args(["memory", "--config", str(TINY), *words]), {})
    judged = asked.judged({}, 16)
    stagings = [one for one in asked.shape_of(judged, planned(judged)).savings if one.stages]
    assert [one.stages for one in stagings] == [size for size in (2, 4, 8, 16)[bool(ends) :] if size <= layers]
    for one in stagings:
        more = [f"{name}={value}" for name, value in one.settings.items()]
        answer = project(capsys, TINY, *words, f"pipeline_model_parallel_size={one.stages}", *more)
        found = [stage["blocks"]["layer"] for stage in answer["stages"]]
        assert sum(found) == layers
        assert max(found) - min(found) <= max(found) // 2 + 1


@pytest.mark.parametrize("schedule", ["InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV", "LoopedBFS"])
def test_schedules_that_compute_gradients_apart_get_changes_that_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, schedule: str
) -> None:
    """Neither resharding nor selective recomputation, which they refuse, is in what makes a model of 70B fit."""
    file = tmp_path / "seventy.yaml"
    file.write_text(SEVENTY.format(schedule=schedule), encoding="utf-8")
    asked = Asked.of(_parser().parse_intermixed_args(["memory", "--config", str(file)]), {})
    judged = asked.judged({}, 8)
    savings = asked.shape_of(judged, planned(judged)).savings
    known = {"parallelism.fsdp_reshard_after_forward": "always", "activation_checkpoint.kind": "selective"}
    offered = [name for one in savings for name, value in one.settings.items() if known.get(name) == value]
    assert offered == (list(known) if schedule == "LoopedBFS" else [])
    answer = project(capsys, file, "--gpu", "h100", "--gpus", "8")
    fitting = [change for change in answer["changes"] if change["fits"]]
    assert fitting
    for change in fitting:
        made = [f"{name}={value}" for name, value in change["settings"].items()]
        again = project(capsys, file, "--gpu", "h100", "--gpus", str(change["ranks"]), *made)
        assert (again["needed"], again["fits"]) == (change["needed"], True)


def test_changes_that_are_refused_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """A model of one head cannot be divided: that is said of what was tried, and no row is without words."""
    whole = ("recompute_granularity=full", "recompute_method=uniform", "recompute_num_layers=1", "micro_batch_size=1")
    heads = ("num_attention_heads=1", "num_query_groups=1", "num_layers=1", "attention_backend=unfused")
    length = ("seq_length=400000", "max_position_embeddings=400000")
    answer = project(capsys, LLAMA, *whole, *heads, *length, "--gpu", "h100", "--gpus", "8")
    assert "would be refused" in answer["sought"]
    assert all(change["settings"] or change["ranks"] > 1 for change in answer["changes"])
    assert all(change["saved"] > 0 for change in answer["changes"])


@needs_reference
@pytest.mark.parametrize("gpu", ["mi250x", "mi300x", "h100"])
@pytest.mark.parametrize(
    "file",
    [
        MI300X / "deepseek_v3-BF16-pretrain.yaml",
        REFERENCE / "torchtitan/MI300X/deepseek_v3_671b-pretrain.yaml",
        REFERENCE / "torchtitan/MI300X/deepseek_v3_236b-BF16-pretrain.yaml",
    ],
    ids=lambda file: file.stem,
)
def test_large_models_get_a_layout_that_fits(capsys: pytest.CaptureFixture[str], file: Path, gpu: str) -> None:
    """For models of users that are far too large for their ranks, a layout is found on more."""
    assert any(change["fits"] for change in project(capsys, file, "--gpu", gpu)["changes"])

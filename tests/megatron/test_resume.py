"""Checkpoints and resume, in real ranks that are really killed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attrs import evolve

from primus_backend_megatron.checkpoints import MEGATRON, NAMING, TRACKER
from primus_backend_megatron.facts import read_facts
from primus_core.checkpoints.folders import MARKER
from primus_core.checkpoints.sidecar import read_sidecar
from primus_core.checkpoints.torchfile import Tensor
from primus_core.experiment import Value
from tests.forked.damage import change_a_byte
from tests.forked.ranks import Outcome
from tests.megatron.ranks import Ranks

AUTO: dict[str, Value] = {"auto_continue_train": True}


def saving(folder: Path, **native: Value) -> dict[str, Value]:
    return {"save": str(folder / "checkpoints"), "save_interval": 2, **native}


@pytest.mark.parametrize(
    "native",
    [
        {"attention_dropout": 0.1, "hidden_dropout": 0.1, "eval_iters": 1, "eval_interval": 3},
        {"use_distributed_optimizer": True},
        {"use_distributed_optimizer": True, "bf16": True, "tensor_model_parallel_size": 2},
    ],
    ids=["dropout", "distributed optimizer", "bf16"],
)
def test_a_run_killed_between_two_saves_continues_bit_for_bit(
    ranks: Ranks, tmp_path: Path, native: dict[str, Value]
) -> None:
    """SIGKILL after iteration 5: the next run starts at 4 and repeats the losses of an uninterrupted run exactly."""
    whole = ranks.run(tmp_path / "whole", native).check().losses()
    killed = ranks.run(tmp_path / "killed", saving(tmp_path, **native), kill='"iteration": 5,')
    assert killed.codes[0] == -9  # the other rank is killed, or fails of its peer before
    resumed = ranks.run(tmp_path / "resumed", saving(tmp_path, **native), settings=AUTO).check()
    assert resumed.losses() == whole[-len(resumed.losses()) :]
    assert [row["iteration"] for row in resumed.rows()] == [5, 6]
    assert resumed.of("notice")[0]["text"].endswith("iter_0000004")
    assert resumed.result() == {"iteration": 6, "loss": whole[-1], "checkpoint": f"{tmp_path}/checkpoints/iter_0000006"}


def test_a_checkpoint_that_was_being_written_is_never_taken(ranks: Ranks, tmp_path: Path) -> None:
    """SIGKILL during the save of iteration 4: the next run continues from 2, and writes 4 anew."""
    killed = ranks.run(tmp_path / "killed", saving(tmp_path), kill='"iteration": 4,.*"save"')
    assert killed.codes[0] == -9  # the other rank is killed, or fails of its peer before
    folder = tmp_path / "checkpoints"
    assert (folder / "iter_0000004.saving").exists()
    # The worst of what a kill can leave: all files are there, but nobody has said so.
    shutil.copytree(folder / "iter_0000002", folder / "iter_0000004", dirs_exist_ok=True)
    (folder / "iter_0000004" / MARKER).unlink()
    (folder / TRACKER).write_text("4")
    resumed = ranks.run(tmp_path / "resumed", saving(tmp_path), settings=AUTO).check()
    assert [row["iteration"] for row in resumed.rows()] == [3, 4, 5, 6]
    assert [item.iteration for item in NAMING.marked(folder)] == [2, 4, 6]
    assert not list(folder.glob("*.saving"))


def test_the_marker_tells_how_the_checkpoint_was_made(ranks: Ranks, tmp_path: Path) -> None:
    """Step, run, library, layout, optimizer, tokens and weights, in a file that appears when all others are there."""
    native = saving(tmp_path, pipeline_model_parallel_size=2, train_iters=2, use_distributed_optimizer=True)
    outcome = ranks.run(tmp_path / "run", native).check()
    folder = tmp_path / "checkpoints/iter_0000002"
    sidecar = read_sidecar(folder / MARKER)
    assert sidecar
    assert sidecar.layout == {"tensor": 1, "pipeline": 2, "context": 1, "expert": 1, "data": 1, "virtual": 1}
    assert (sidecar.step, sidecar.world_size, sidecar.format) == (2, 2, "torch_dist")
    assert (sidecar.run_id, sidecar.library, sidecar.distributed_optimizer) == (
        "test",
        "megatron-core",
        "dp_reshardable",
    )
    assert sidecar.tokens == outcome.rows()[-1]["tokens"]
    assert sidecar.tensors["embedding.word_embeddings.weight"] == Tensor((256, 64), "float32")
    assert sidecar.tensors["decoder.layers.mlp.linear_fc2.weight"] == Tensor((2, 64, 128), "float32")
    assert not [name for name in sidecar.tensors if name.startswith("optimizer")]
    others = [path.stat().st_mtime_ns for path in folder.iterdir() if path.name != MARKER]
    assert (folder / MARKER).stat().st_mtime_ns >= max(others)
    assert [outcome.result(rank)["checkpoint"] for rank in (0, 1)] == [str(folder)] * 2


def test_a_sidecar_says_what_the_files_themselves_say(ranks: Ranks, tmp_path: Path) -> None:
    """What is read from our sidecar is what is read, without it, from Megatron's own metadata."""
    native = saving(tmp_path, train_iters=2, num_experts=4, moe_router_topk=2, expert_model_parallel_size=2)
    ranks.run(tmp_path / "run", {**native, "dist_ckpt_optim_fully_reshardable": True}).check()
    checkpoint = MEGATRON.newest_checkpoint(tmp_path / "checkpoints")
    assert checkpoint
    ours = read_facts(checkpoint)
    (checkpoint.folder / MARKER).unlink()
    theirs = read_facts(checkpoint)
    assert {name: theirs.arguments[name] for name in ours.arguments} == ours.arguments
    assert evolve(theirs, arguments=ours.arguments) == ours


def test_a_checkpoint_without_our_marker_loads_by_megatrons_tracker(ranks: Ranks, tmp_path: Path) -> None:
    """What Megatron itself wrote can be continued from, into another layout, to the same losses."""
    native: dict[str, Value] = {"num_layers": 4, "train_iters": 4}
    whole = ranks.run(tmp_path / "whole", saving(tmp_path, **native)).check()
    foreign = tmp_path / "checkpoints"
    for marker in foreign.glob(f"*/{MARKER}"):
        marker.unlink()
    (foreign / TRACKER).write_text("2")
    layout: dict[str, Value] = {"pipeline_model_parallel_size": 2, "num_virtual_stages_per_pipeline_rank": 2}
    continued = ranks.run(tmp_path / "on", {**native, **layout, "load": str(foreign)}).check()
    assert continued.losses() == pytest.approx(whole.losses()[2:], abs=2e-6)


def test_an_explicit_load_without_a_checkpoint_is_an_error(ranks: Ranks, tmp_path: Path) -> None:
    """Never a silent start from random weights: the run ends before training and says what is there."""
    outcome = ranks.run(tmp_path / "run", {"load": str(tmp_path / "nothing")})
    assert outcome.codes == (1, 1)
    error = outcome.error()
    assert (error["type"], error["where"], error["why"]) == ("RunError", "load", "the folder does not exist")
    assert not outcome.rows()


def test_continuing_an_empty_folder_says_so(ranks: Ranks, tmp_path: Path) -> None:
    """The first run of one that continues itself starts from random weights, and that is on the console."""
    native: dict[str, Value] = {**saving(tmp_path, train_iters=1), "exit_on_missing_checkpoint": True}
    native["load"] = native["save"]
    outcome = ranks.run(tmp_path / "run", native, world=1, settings=AUTO).check()
    told = f"from random weights; {tmp_path}/checkpoints has no checkpoint to continue from"
    assert [notice["text"] for notice in outcome.of("notice") if notice["topic"] == "start"] == [told]
    assert [row["iteration"] for row in outcome.rows()] == [1]


def test_another_schedule_is_refused_until_it_is_chosen(ranks: Ranks, tmp_path: Path) -> None:
    """More iterations change the learning-rate schedule: the error names both ways out, and one of them trains."""
    ranks.run(tmp_path / "first", saving(tmp_path, train_iters=2), world=1).check()
    longer = saving(tmp_path, train_iters=3)
    refused = ranks.run(tmp_path / "longer", longer, world=1, settings=AUTO)
    assert "override_opt_param_scheduler" in refused.error()["remedy"]
    chosen = {**longer, "override_opt_param_scheduler": True}
    outcome = ranks.run(tmp_path / "chosen", chosen, world=1, settings=AUTO).check()
    assert [row["iteration"] for row in outcome.rows()] == [3]


def test_a_run_with_nothing_left_to_train_leaves_its_checkpoint_alone(ranks: Ranks, tmp_path: Path) -> None:
    """Continuing a finished run loads, trains nothing, and does not write the same checkpoint once more."""
    native = saving(tmp_path, train_iters=3)
    ranks.run(tmp_path / "first", native, world=1).check()
    marker = tmp_path / "checkpoints/iter_0000003" / MARKER
    written = marker.stat().st_mtime_ns
    outcome = ranks.run(tmp_path / "again", native, world=1, settings=AUTO).check()
    assert outcome.rows() == []
    assert outcome.result() == {"iteration": 3, "loss": None, "checkpoint": str(marker.parent)}
    assert marker.stat().st_mtime_ns == written


def test_old_checkpoints_lose_their_marker_before_their_files(ranks: Ranks, tmp_path: Path) -> None:
    """With save_retain_interval the checkpoints in between go, and those that stay are whole."""
    outcome = ranks.run(tmp_path / "run", saving(tmp_path, save_retain_interval=4), world=1).check()
    folder = tmp_path / "checkpoints"
    assert [item.iteration for item in NAMING.marked(folder)] == [4, 6]
    assert MEGATRON.newest_checkpoint(folder) == NAMING.marked(folder)[-1]
    _no_helper_processes(outcome)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [{}, {"ckpt_format": "torch"}, {"async_save": True, "async_strategy": "mcore"}],
    ids=["torch_dist", "torch", "in the background"],
)
def test_a_changed_file_is_found_and_the_checkpoint_before_is_taken(
    ranks: Ranks, tmp_path: Path, asked: dict[str, Value]
) -> None:
    """One byte of the last checkpoint differs: the run says so, and repeats the very losses from the one before.

    Of those that it saves the last two stay, as core's parameter asks.
    """
    keep: dict[str, Value] = {"keep_last_checkpoints": 2}
    params, folder = saving(tmp_path, **asked), tmp_path / "checkpoints"
    whole = ranks.run(tmp_path / "whole", params, settings=keep).check()
    assert [item.iteration for item in NAMING.marked(folder)] == [4, 6]
    changed = change_a_byte(folder / "iter_0000006")
    again = ranks.run(tmp_path / "again", params, settings={**AUTO, **keep}).check()
    assert again.losses() == whole.losses()[4:]
    warnings = [line["event"] for line in again.of("record") if line["level"] == "warning"]
    (told,) = [text for text in warnings if text.startswith("checkpoint ")]
    assert told.endswith(f"{changed.relative_to(folder / 'iter_0000006')} has another content than what was written")
    assert [line["text"] for line in again.of("notice") if line["topic"] == "resume"] == [f"from {folder}/iter_0000004"]
    assert [item.iteration for item in NAMING.marked(folder)] == [4, 6]
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["iter_0000004", "iter_0000006"]


def _no_helper_processes(outcome: Outcome) -> None:
    assert "resource_tracker" not in outcome.texts[0]

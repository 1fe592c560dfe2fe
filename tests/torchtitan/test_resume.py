"""What a killed run leaves behind, how it goes on, and what is kept; in real ranks that are really killed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attrs import evolve

from primus_backend_torchtitan.checkpoints import NAMING, TITAN
from primus_backend_torchtitan.facts import read_facts
from primus_core.checkpoints.folders import MARKER, Checkpoint
from primus_core.checkpoints.sidecar import read_sidecar
from primus_core.checkpoints.torchfile import Tensor
from primus_core.experiment import Value
from tests.forked.damage import change_a_byte
from tests.forked.ranks import Outcome
from tests.torchtitan.ranks import Ranks

AUTO: dict[str, Value] = {"auto_continue_train": True}
EVALUATION: dict[str, Value] = {"eval_interval": 3, "eval_iters": 1}


def saving(folder: Path, **params: Value) -> dict[str, Value]:
    return {"save": str(folder / "checkpoints"), "save_interval": 2, **params}


def notices(outcome: Outcome, topic: str) -> list[str]:
    return [notice["text"] for notice in outcome.of("notice") if notice["topic"] == topic]


def test_a_killed_run_goes_on_as_if_it_had_not_been(titan_ranks: Ranks, tmp_path: Path) -> None:
    """SIGKILL after iteration 5: the next run starts at 4 and repeats losses and evaluations of an unbroken one."""
    whole = titan_ranks.run(tmp_path / "whole", EVALUATION).check()
    params = saving(tmp_path, **EVALUATION)
    killed = titan_ranks.run(tmp_path / "killed", params, kill='"iteration": 5')
    assert killed.codes[0] == -9
    again = titan_ranks.run(tmp_path / "again", params, settings=AUTO).check()
    assert [row["iteration"] for row in again.rows()] == [5, 6]
    assert again.losses() == whole.losses()[4:]
    assert [row["tokens"] for row in again.rows()] == [row["tokens"] for row in whole.rows()[4:]]
    assert notices(again, "validation") == notices(whole, "validation")[1:]
    assert notices(again, "resume") == [f"from {tmp_path}/checkpoints/step-4"]
    assert again.result() == {
        "iteration": 6,
        "loss": whole.losses()[-1],
        "checkpoint": f"{tmp_path}/checkpoints/step-6",
    }


def test_a_checkpoint_that_was_being_written_is_never_taken(titan_ranks: Ranks, tmp_path: Path) -> None:
    """SIGKILL during the save of iteration 4: the next run continues from 2, and writes 4 anew."""
    params = saving(tmp_path, train_iters=4, lr_decay_iters=6)
    killed = titan_ranks.run(tmp_path / "killed", params, world=1, kill='"iteration": 4,.*"save"')
    assert killed.codes == (-9,)
    folder = tmp_path / "checkpoints"
    # The worst of what a kill can leave: all files are there, but nobody has said so.
    shutil.copytree(folder / "step-2", folder / "step-4", dirs_exist_ok=True)
    (folder / "step-4" / MARKER).unlink()
    (folder / "step-4.saving").touch()
    resumed = titan_ranks.run(tmp_path / "resumed", params, world=1, settings=AUTO).check()
    assert [row["iteration"] for row in resumed.rows()] == [3, 4]
    assert [item.iteration for item in NAMING.marked(folder)] == [2, 4]
    assert not list(folder.glob("*.saving"))


def test_a_checkpoint_is_continued_by_another_number_of_ranks(titan_ranks: Ranks, tmp_path: Path) -> None:
    """One process goes on with the samples that two would have read next, also without our marker.

    What it asks of the optimizer acts, whatever the run before asked.
    """
    both = titan_ranks.run(tmp_path / "both", {**saving(tmp_path), "train_iters": 4}).check()
    folder = Path(both.result()["checkpoint"]).parent
    for marker in folder.glob(f"*/{MARKER}"):
        marker.unlink()
    whole = titan_ranks.run(tmp_path / "whole", {"lr_decay_iters": 4}).check()
    alone = titan_ranks.run(tmp_path / "alone", {"load": str(folder), "lr_decay_iters": 4}, world=1).check()
    assert [row["iteration"] for row in alone.rows()] == [5, 6]
    assert alone.losses() == pytest.approx(whole.losses()[4:], rel=1e-6)
    decayed = {"load": str(folder), "lr_decay_iters": 4, "weight_decay": 9.0}
    other = titan_ranks.run(tmp_path / "other", decayed, world=1).check()
    assert (other.losses()[0], other.losses()[1] - alone.losses()[1] > 1e-4) == (alone.losses()[0], True)
    assert alone.result()["checkpoint"] == str(folder / "step-4")  # nothing is saved where no interval says so


def test_the_marker_tells_how_the_checkpoint_was_made(titan_ranks: Ranks, tmp_path: Path) -> None:
    """What Megatron's tells, in a file that appears when all others are there; without it the files say the same."""
    params = saving(tmp_path, train_iters=2, pipeline_model_parallel_size=2)
    outcome = titan_ranks.run(tmp_path / "run", params).check()
    folder = tmp_path / "checkpoints/step-2"
    sidecar = read_sidecar(folder / MARKER)
    assert sidecar
    assert sidecar.layout == {"tensor": 1, "pipeline": 2, "context": 1, "expert": 1, "data": 1}
    assert (sidecar.step, sidecar.world_size, sidecar.format, sidecar.run_id) == (2, 2, "dcp", "run")
    assert (sidecar.library, sidecar.library_version) == ("torchtitan", "0.3.0")
    assert sidecar.tokens == outcome.rows()[-1]["tokens"]
    assert sidecar.tensors["tok_embeddings.weight"] == Tensor((256, 64), "float32")
    assert sidecar.tensors["layers.1.feed_forward.w2.weight"] == Tensor((64, 128), "float32")
    others = [path.stat().st_mtime_ns for path in folder.iterdir() if path.name != MARKER]
    assert (folder / MARKER).stat().st_mtime_ns >= max(others)
    assert [outcome.result(rank)["checkpoint"] for rank in (0, 1)] == [str(folder)] * 2
    checkpoint = Checkpoint(folder=folder, iteration=2)
    ours = read_facts(checkpoint)
    (folder / MARKER).unlink()
    assert read_facts(checkpoint) == evolve(ours, arguments={})


def test_nothing_is_loaded_that_was_not_asked_for(titan_ranks: Ranks, tmp_path: Path) -> None:
    """A second run in the same folder starts afresh and says what would have continued the first."""
    params = saving(tmp_path, train_iters=2, lr_decay_iters=6)
    first = titan_ranks.run(tmp_path / "first", params, world=1).check()
    second = titan_ranks.run(tmp_path / "second", params, world=1).check()
    assert second.losses() == first.losses()
    told = "from random weights; auto_continue_train=true continues an earlier run from iteration 2"
    assert notices(second, "start") == [told]
    finished = titan_ranks.run(tmp_path / "finished", params, world=1, settings=AUTO).check()
    assert finished.rows() == []
    assert finished.result() == {"iteration": 2, "loss": None, "checkpoint": f"{tmp_path}/checkpoints/step-2"}


def test_an_explicit_load_without_a_checkpoint_is_an_error(titan_ranks: Ranks, tmp_path: Path) -> None:
    """Never a silent start from random weights: the ranks end before training and say what is there."""
    outcome = titan_ranks.run(tmp_path / "run", {"load": str(tmp_path / "nothing")}, world=1)
    error = outcome.error()
    assert (error["type"], error["where"], error["why"]) == ("RunError", "load", "the folder does not exist")
    assert not outcome.rows()


@pytest.mark.parametrize("mode", ["disabled", pytest.param("async", marks=pytest.mark.slow)])
def test_the_latest_checkpoints_alone_are_kept_on_request(titan_ranks: Ranks, tmp_path: Path, mode: str) -> None:
    """Of those of this run and of earlier ones the two that were written last stay, each whole, however it is saved."""
    folder = tmp_path / "checkpoints"
    NAMING.begin_saving(folder, 100)
    NAMING.folder(folder, 100).mkdir()
    NAMING.finish_saving(folder, 100, {"time": 1.0})
    (folder / "iter_0000001").mkdir()
    own: dict[str, Value] = {"checkpoint.keep_latest_k": 2, "checkpoint.async_mode": mode}
    outcome = titan_ranks.run(tmp_path / "run", {**saving(tmp_path), **own}, world=1).check()
    assert [item.iteration for item in NAMING.marked(folder)] == [4, 6]
    assert sorted(path.name for path in folder.iterdir()) == ["iter_0000001", "step-4", "step-6"]
    newest = TITAN.newest_checkpoint(folder)
    assert newest
    assert outcome.result()["checkpoint"] == str(newest.folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [{}, {"checkpoint.async_mode": "async"}],
    ids=["dcp", "in the background"],
)
def test_a_changed_file_is_found_and_the_checkpoint_before_is_taken(
    titan_ranks: Ranks, tmp_path: Path, asked: dict[str, Value]
) -> None:
    """One byte of the last checkpoint differs: the run says so, and repeats the very losses from the one before.

    Of those that it saves the last two stay, as core's parameter asks.
    """
    keep: dict[str, Value] = {"keep_last_checkpoints": 2}
    params, folder = saving(tmp_path, **asked), tmp_path / "checkpoints"
    whole = titan_ranks.run(tmp_path / "whole", params, settings=keep).check()
    assert [item.iteration for item in NAMING.marked(folder)] == [4, 6]
    changed = change_a_byte(folder / "step-6")
    again = titan_ranks.run(tmp_path / "again", params, settings={**AUTO, **keep}).check()
    assert again.losses() == whole.losses()[4:]
    warnings = [line["event"] for line in again.of("record") if line["level"] == "warning"]
    (told,) = [text for text in warnings if text.startswith("checkpoint ")]
    assert told.endswith(f"{changed.relative_to(folder / 'step-6')} has another content than what was written")
    assert [line["text"] for line in again.of("notice") if line["topic"] == "resume"] == [f"from {folder}/step-4"]
    assert [item.iteration for item in NAMING.marked(folder)] == [4, 6]
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["step-4", "step-6"]

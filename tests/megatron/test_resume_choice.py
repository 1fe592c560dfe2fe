"""Which checkpoint is taken: rules on folders, without a trainer."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from primus_backend_megatron.checkpoints import MEGATRON, NAMING, TRACKER
from primus_backend_megatron.rank.resume import choose_checkpoint
from primus_core.checkpoints.folders import MARKER
from primus_core.errors import RunError


def save(folder: Path, iteration: int, *, whole: bool = True) -> None:
    """What a save leaves; not whole: it was killed before the marker."""
    NAMING.begin_saving(folder, iteration)
    NAMING.folder(folder, iteration).mkdir(exist_ok=True)
    (folder / TRACKER).write_text(str(iteration))
    if whole:
        NAMING.finish_saving(folder, iteration, {})


def values(**given: object) -> Namespace:
    defaults = dict.fromkeys(("save", "load", "ckpt_step", "pretrained_checkpoint"))
    return Namespace(**{**defaults, "finetune": False, "no_load_optim": False, "no_load_rng": False, **given})


def test_whole_checkpoints_are_listed_oldest_first(tmp_path: Path) -> None:
    """By iteration, not by name or time, and without those that were interrupted."""
    for iteration, whole in ((10000000, True), (30, True), (200, False)):
        save(tmp_path, iteration, whole=whole)
    assert [item.iteration for item in NAMING.marked(tmp_path)] == [30, 10000000]
    assert NAMING.marked(tmp_path / "absent") == []


def test_writing_over_a_checkpoint_takes_its_wholeness_away_first(tmp_path: Path) -> None:
    """A run that went back and saves an iteration again leaves no whole checkpoint when it is killed meanwhile."""
    save(tmp_path, 20)
    NAMING.begin_saving(tmp_path, 20)
    assert NAMING.marked(tmp_path) == []
    assert MEGATRON.newest_checkpoint(tmp_path) is None


def test_a_checkpoint_that_is_being_deleted_is_not_whole(tmp_path: Path) -> None:
    """Its marker goes first."""
    save(tmp_path, 10)
    save(tmp_path, 20)
    NAMING.begin_deleting(tmp_path, 10)
    assert [item.iteration for item in NAMING.marked(tmp_path)] == [20]


def test_our_markers_outweigh_the_tracker(tmp_path: Path) -> None:
    """Megatron's tracker may be ahead of the marker by a crash: the older, whole checkpoint is taken."""
    save(tmp_path, 10)
    save(tmp_path, 20, whole=False)
    found = MEGATRON.newest_checkpoint(tmp_path)
    assert found
    assert (found.iteration, found.marked) == (10, True)


def test_the_checkpoint_that_was_written_last_is_the_newest(tmp_path: Path) -> None:
    """An earlier run that came further in the same folder is not continued by a later one."""
    for iteration, seconds in ((8, 100.0), (4, 200.0)):
        NAMING.folder(tmp_path, iteration).mkdir()
        NAMING.finish_saving(tmp_path, iteration, {"time": seconds})
    found = MEGATRON.newest_checkpoint(tmp_path)
    assert found
    assert found.iteration == 4
    assert [item.iteration for item in NAMING.marked(tmp_path)] == [4, 8]


@pytest.mark.parametrize(("tracker", "iteration"), [("7", 7), ("release", 0)])
def test_foreign_checkpoints_are_found_by_the_tracker(tmp_path: Path, tracker: str, iteration: int) -> None:
    """A numbered one and a release."""
    NAMING.folder(tmp_path, 7).mkdir()
    (tmp_path / "release").mkdir()
    (tmp_path / TRACKER).write_text(f"{tracker}\n")
    found = MEGATRON.newest_checkpoint(tmp_path)
    assert found
    assert (found.iteration, found.marked) == (iteration, False)


@pytest.mark.parametrize("tracker", ["9", "nonsense", ""])
def test_a_tracker_that_names_nothing_finds_nothing(tmp_path: Path, tracker: str) -> None:
    """A number without a folder, and text that is no number."""
    (tmp_path / TRACKER).write_text(tracker)
    assert MEGATRON.newest_checkpoint(tmp_path) is None


def test_the_runs_own_checkpoint_wins_over_load_and_finetune(tmp_path: Path) -> None:
    """Continuing is a full resume, however the run was begun."""
    save(tmp_path / "own", 30)
    save(tmp_path / "base", 900)
    args = values(save=str(tmp_path / "own"), load=str(tmp_path / "base"), finetune=True, no_load_optim=True)
    assert choose_checkpoint(args, auto_continue=True).checkpoint
    assert (args.load, args.ckpt_step, args.finetune, args.no_load_optim) == (args.save, 30, False, False)


def test_the_first_run_starts_from_load(tmp_path: Path) -> None:
    """With auto_continue and nothing saved yet, `load` and `finetune` mean what they say."""
    save(tmp_path / "base", 900)
    args = values(save=str(tmp_path / "own"), load=str(tmp_path / "base"), finetune=True)
    chosen = choose_checkpoint(args, auto_continue=True).checkpoint
    assert chosen
    assert (args.load, args.ckpt_step, args.finetune) == (str(tmp_path / "base"), 900, True)


def test_without_auto_continue_a_run_with_checkpoints_starts_afresh(tmp_path: Path) -> None:
    """Nothing is loaded that was not asked for."""
    save(tmp_path, 30)
    args = values(save=str(tmp_path))
    assert choose_checkpoint(args, auto_continue=False).checkpoint is None
    assert (args.load, args.ckpt_step) == (None, None)


def test_a_chosen_iteration_has_to_be_whole(tmp_path: Path) -> None:
    """`ckpt_step` takes an older whole one; an interrupted or absent one is refused with the list of whole ones."""
    save(tmp_path, 10)
    save(tmp_path, 20)
    save(tmp_path, 30, whole=False)
    assert choose_checkpoint(values(load=str(tmp_path), ckpt_step=10), auto_continue=False).checkpoint
    for iteration in (30, 40):
        with pytest.raises(RunError, match=f"no whole checkpoint of iteration {iteration}") as caught:
            choose_checkpoint(values(load=str(tmp_path), ckpt_step=iteration), auto_continue=False)
        assert caught.value.why == "whole checkpoints: 10, 20"


def test_a_pretrained_checkpoint_serves_where_load_has_none(tmp_path: Path) -> None:
    """As in Megatron; and one that is no checkpoint either is an error."""
    save(tmp_path / "base", 5)
    args = values(load=str(tmp_path / "own"), pretrained_checkpoint=str(tmp_path / "base"))
    assert choose_checkpoint(args, auto_continue=False).checkpoint
    assert args.ckpt_step is None
    with pytest.raises(RunError):
        choose_checkpoint(values(pretrained_checkpoint=str(tmp_path / "none")), auto_continue=False)


def test_a_marker_that_was_half_written_never_shows(tmp_path: Path) -> None:
    """It is put in place in one step: only its temporary file can be partial."""
    NAMING.begin_saving(tmp_path, 5)
    folder = NAMING.folder(tmp_path, 5)
    folder.mkdir()
    (folder / f".{MARKER}.new").write_text('{"iteration"')
    assert NAMING.marked(tmp_path) == []

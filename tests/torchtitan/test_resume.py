"""What a killed run leaves behind, and how it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.experiment import Value
from tests.torchtitan.ranks import Ranks

SAVING: dict[str, Value] = {"save_interval": 2}


def test_a_killed_run_goes_on_as_if_it_had_not_been(titan_ranks: Ranks, tmp_path: Path) -> None:
    """After SIGKILL in the fifth iteration the run continues from the fourth with the losses of an unbroken one."""
    whole = titan_ranks.run(tmp_path / "whole", SAVING).check()
    killed = titan_ranks.run(tmp_path / "run", SAVING, kill='"iteration": 5')
    assert killed.codes[0] == -9
    again = titan_ranks.run(tmp_path / "run", SAVING, settings={"auto_continue_train": True}).check()
    rows = again.rows(1)[len(killed.rows(1)) :]
    assert [row["iteration"] for row in rows] == [5, 6]
    assert [row["loss"] for row in rows] == whole.losses(1)[4:]
    assert [row["tokens"] for row in rows] == [row["tokens"] for row in whole.rows(1)[4:]]
    assert any("from" in line["text"] for line in again.of("notice"))


def test_a_checkpoint_is_continued_by_another_number_of_ranks(titan_ranks: Ranks, tmp_path: Path) -> None:
    """One process goes on with the samples that two would have read next."""
    both = titan_ranks.run(tmp_path / "both", {**SAVING, "train_iters": 4}).check()
    folder = Path(both.result()["checkpoint"]).parent
    whole = titan_ranks.run(tmp_path / "whole", {"lr_decay_iters": 4}).check()
    alone = titan_ranks.run(tmp_path / "alone", {"load": str(folder), "lr_decay_iters": 4}, world=1).check()
    assert [row["iteration"] for row in alone.rows()] == [5, 6]
    assert alone.losses() == pytest.approx(whole.losses()[4:], rel=1e-6)

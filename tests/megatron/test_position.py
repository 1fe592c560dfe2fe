"""No sample twice and none left out, however often a run is killed and whoever goes on with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from primus_core.experiment import Value
from tests.forked.positions import ENTRY, prepared_tokens, trained_on
from tests.megatron.ranks import Ranks

pytestmark = pytest.mark.slow


def test_the_samples_of_a_run_that_was_killed_are_those_of_one_that_was_not(ranks: Ranks, tmp_path: Path) -> None:
    """Killed after iteration 5, continued from 4 by two ranks and by one: each iteration has the very same samples."""
    data = prepared_tokens(tmp_path)
    params: dict[str, Value] = {"mock_data": False, "train_iters": 6, "save_interval": 2}

    def run(name: str, world: int = 2, kill: str | None = None) -> list[list[int]]:
        own: dict[str, Value] = {**params, "save": str(tmp_path / name)}
        auto: dict[str, Value] = {"auto_continue_train": True}
        folder = tmp_path / f"run-{name}-{bool(kill)}"
        outcome = ranks.run(folder, own, world=world, settings=auto, entry=ENTRY, kill=kill, prepared=data)
        if kill:
            assert outcome.codes[0] == -9
            return trained_on(outcome, 4)
        resumed = [row["iteration"] for row in outcome.check().rows()]
        return trained_on(outcome, len(resumed))

    whole = run("whole")
    every = [sample for iteration in whole for sample in iteration]
    assert len(set(every)) == len(every) == 48
    before = run("two", kill='"iteration": 5')
    shutil.copytree(tmp_path / "two", tmp_path / "one")
    assert before + run("two") == whole
    assert before + run("one", world=1) == whole

"""No sample twice and none left out, however often a run is killed and whoever goes on with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forked.positions import check_every_sample_once
from tests.torchtitan.ranks import Ranks

pytestmark = pytest.mark.slow


def test_the_samples_of_a_run_that_was_killed_are_those_of_one_that_was_not(titan_ranks: Ranks, tmp_path: Path) -> None:
    """Killed between two saves, and continued by as many ranks or fewer, it trains on each sample once."""
    check_every_sample_once(titan_ranks, tmp_path)

"""Every chosen and every drawn training step of TorchTitan needs the memory that is projected for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.live_accuracy import compare
from tests.torchtitan.truth.live_cases import CHOSEN, Case, drawn
from tests.torchtitan.truth.live_options import OPTIONS
from tests.truth.steps import wrong


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CHOSEN, *OPTIONS, *drawn()], ids=lambda case: case.name)
def test_a_step(titan_ranks: Ranks, tmp_path: Path, case: Case) -> None:
    """Its passes and its optimizer's work, within 2 % above and 1 % below."""
    assert wrong(compare(titan_ranks, tmp_path, [case])) == []

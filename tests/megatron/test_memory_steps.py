"""Every chosen and every drawn training step of Megatron needs the memory that is projected for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.megatron.ranks import Ranks
from tests.megatron.truth.live_accuracy import compare
from tests.megatron.truth.live_cases import CHOSEN, Case
from tests.megatron.truth.live_drawn import drawn
from tests.truth.steps import wrong


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CHOSEN, *drawn()], ids=lambda case: case.name)
def test_a_step(ranks: Ranks, tmp_path: Path, case: Case) -> None:
    """Its passes and its optimizer's work, within 2 % above and 1 % below."""
    assert wrong(compare(ranks, tmp_path, [case])) == []

"""The operations that the back end tells are those that TorchTitan's own model runs."""

from __future__ import annotations

from pathlib import Path

from primus_core.projection.flops import flops_of
from tests.torchtitan.ranks import Ranks
from tests.torchtitan.truth.comparing import Case, shape_of
from tests.torchtitan.truth.layouts import Layout, plans_of
from tests.torchtitan.truth.models import SMALL, shallow


def test_products_are_those_that_pytorch_counts(titan_ranks: Ranks, tmp_path: Path) -> None:
    """Forward and backward, of experts too, the same number; of whole attention, as PyTorch counts it."""
    cases = {}
    for model in ("dense", "latent"):
        layout, plan = next(plans_of(shallow(SMALL[model]), [Layout(1, {})]))
        cases[model] = Case(name=layout.name, plan=plan, shape=shape_of(plan), ranks=(0,))
    entry, asked = "tests.torchtitan.truth.entry:count", {name: case.asked() for name, case in cases.items()}
    found = titan_ranks.run(tmp_path, world=1, entry=entry, prepared={"truth": {"cases": asked}}).check().result()
    wanted = {name: flops_of(case.shape, "whole").model * case.shape.tokens for name, case in cases.items()}
    assert found == wanted

"""Each layout trains, from parameters as a user writes them to losses that fall."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from primus_core.experiment import Value
from tests.forked.ranks import Outcome
from tests.torchtitan.layouts import HALF_WAY, LAYOUTS, Layout, legal_plan
from tests.torchtitan.ranks import Ranks

UNIFORM = math.log(256)
"""The loss of a guess among the rows of the embedding."""
ITERATIONS = 4
FALL = 0.2
"""What they take off the loss in every layout, at least."""
ROUNDING = 2e-5
"""Largest relative difference between two layouts that compute the same."""


def those(wanted: Callable[[Layout], object]) -> list[Any]:
    """Some of the layouts, as parameters of a test."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if layout.slow else [])
        for name, layout in LAYOUTS.items()
        if wanted(layout)
    ]


class Runs:
    """Each layout's run, made when a test first asks for it."""

    def __init__(self, ranks: Ranks, folder: Path) -> None:
        self._ranks = ranks
        self._folder = folder
        self._outcomes: dict[str, Outcome] = {}

    def of(self, name: str) -> Outcome:
        if name not in self._outcomes:
            layout, folder = LAYOUTS[name], self._folder / name.replace(" ", "-")
            start = self._half_way(layout.like) if layout.resumes else {}
            plan = legal_plan(layout, folder / "work", train_iters=ITERATIONS, **start)
            self._outcomes[name] = self._ranks.start(plan, folder).check()
        return self._outcomes[name]

    def _half_way(self, name: str) -> dict[str, Value]:
        """The parameters of a run that goes on where another one was."""
        return {"load": str(Path(self.of(name).result()["checkpoint"]).parent), "load_step": HALF_WAY}

    def table(self) -> str:
        """One line for each layout that was trained."""
        rows = [("layout", "ranks", "first loss", "last loss")]
        for name, outcome in self._outcomes.items():
            losses = the_loss(outcome)
            rows.append((name, str(LAYOUTS[name].ranks), f"{losses[0]:.4f}", f"{losses[-1]:.4f}"))
        return "\n".join("{:<36}{:>7}{:>12}{:>12}".format(*row) for row in rows)


@pytest.fixture(scope="module")
def runs(
    titan_ranks: Ranks, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Runs]:
    """The runs of this file, and their table on the screen when all have ended."""
    made = Runs(titan_ranks, tmp_path_factory.mktemp("layouts"))
    yield made
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{made.table()}")


def the_loss(outcome: Outcome) -> list[float]:
    """Of the ranks that have one, which must agree; the others have none, rather than TorchTitan's -1."""
    all_losses = [outcome.losses(rank) for rank in range(len(outcome.codes))]
    real = [losses for losses in all_losses if set(losses) != {None}]
    assert real
    assert all(losses == real[0] for losses in real)
    assert all(loss > 0 for loss in real[0])
    return real[0]


@pytest.mark.parametrize("name", those(lambda layout: not layout.resumes))
def test_each_layout_learns(runs: Runs, name: str) -> None:
    """A few iterations lower the loss from that of a uniform guess, and every rank reports each of them."""
    outcome = runs.of(name)
    losses = the_loss(outcome)
    assert losses[0] == pytest.approx(UNIFORM, abs=0.1)
    assert losses[-1] < losses[0] - FALL
    assert [len(outcome.rows(rank)) for rank in range(len(outcome.codes))] == [ITERATIONS] * LAYOUTS[name].ranks


@pytest.mark.parametrize("name", those(lambda layout: layout.like))
def test_where_things_are_kept_changes_no_loss(runs: Runs, name: str) -> None:
    """What divides a model, its samples or their tokens, computes twice or compiles, changes the order of sums only."""
    layout, first = LAYOUTS[name], HALF_WAY if LAYOUTS[name].resumes else 0
    ours, other = runs.of(name), runs.of(layout.like)
    assert the_loss(ours) == pytest.approx(the_loss(other)[first:], rel=ROUNDING)
    norms, others = ([row["grad_norm"] for row in outcome.rows()] for outcome in (ours, other))
    assert norms == pytest.approx(others[first:], rel=ROUNDING)


@pytest.mark.parametrize("name", those(lambda layout: "pipeline_model_parallel_size" in layout.params))
def test_a_pipeline_shows_its_loss_wherever_its_last_stage_is(runs: Runs, name: str) -> None:
    """The last rank's row, which the console shows, has it also where the pipeline is folded back to the first."""
    assert None not in runs.of(name).losses(-1)


@pytest.mark.slow
def test_bf16_is_in_force(runs: Runs) -> None:
    """It changes the losses, and hardly."""
    rounded, plain = the_loss(runs.of("bf16")), the_loss(runs.of("one process"))
    assert rounded != pytest.approx(plain, rel=1e-5)
    assert rounded == pytest.approx(plain, rel=0.01)

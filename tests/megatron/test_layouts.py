"""Each layout trains, from parameters as a user writes them to losses that fall."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked.ranks import Outcome
from tests.megatron.layouts import LAYOUTS, legal_plan
from tests.megatron.ranks import Ranks

UNIFORM = 4.605
"""The loss of a guess among 100 tokens."""

FALL = 1.5
"""What 20 iterations take off the loss in every layout, at least."""


class Runs:
    """Each layout's run, made when a test first asks for it."""

    def __init__(self, ranks: Ranks, folder: Path) -> None:
        self._ranks = ranks
        self._folder = folder
        self._outcomes: dict[str, Outcome] = {}

    def of(self, name: str) -> Outcome:
        if name not in self._outcomes:
            layout, folder = LAYOUTS[name], self._folder / name.replace(" ", "-")
            self._outcomes[name] = self._ranks.start(legal_plan(layout.params, layout.ranks), folder).check()
        return self._outcomes[name]

    def table(self) -> str:
        """One line for each layout that was trained."""
        rows = [("layout", "ranks", "first loss", "last loss")]
        for name, outcome in self._outcomes.items():
            losses = outcome.losses()
            rows.append((name, str(LAYOUTS[name].ranks), f"{losses[0]:.4f}", f"{losses[-1]:.4f}"))
        return "\n".join("{:<36}{:>7}{:>12}{:>12}".format(*row) for row in rows)


@pytest.fixture(scope="module")
def runs(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Runs]:
    """The runs of this file, and their table on the screen when all have ended."""
    made = Runs(ranks, tmp_path_factory.mktemp("layouts"))
    yield made
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{made.table()}")


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_learns(runs: Runs, name: str) -> None:
    """20 iterations lower the loss from that of a uniform guess, and all ranks that have a loss have the same."""
    outcome = runs.of(name)
    losses = outcome.losses()
    assert len(losses) == 20
    assert losses[0] == pytest.approx(UNIFORM, abs=0.1)
    assert losses[-1] < losses[0] - FALL
    others = [outcome.losses(rank) for rank in range(len(outcome.codes))]
    first_stages = [None] * 20 if "pipeline" in name else losses
    assert all(other in (losses, first_stages) for other in others)


@pytest.mark.parametrize("name", ["full recompute", "selective recompute"])
def test_what_is_computed_twice_changes_no_loss(runs: Runs, name: str) -> None:
    """Recomputation shows in no bit of the losses."""
    assert runs.of(name).losses() == runs.of("Llama shape, data parallel").losses()


@pytest.mark.parametrize("name", ["distributed optimizer, overlapped", "context parallel"])
def test_where_things_are_kept_changes_no_loss(runs: Runs, name: str) -> None:
    """A divided optimizer state or sequence changes the order of a sum, and nothing else."""
    assert runs.of(name).losses() == pytest.approx(runs.of("Llama shape, data parallel").losses(), abs=1e-4)


def test_dispatchers_move_the_same_tokens(runs: Runs) -> None:
    """Experts get the same tokens by allgather and by alltoall."""
    gathered, exchanged = runs.of("experts, allgather").losses(), runs.of("experts, alltoall").losses()
    assert exchanged == pytest.approx(gathered, abs=1e-4)


def test_dropout_and_bf16_are_in_force(runs: Runs) -> None:
    """Both change the losses of the run without them, and bf16 hardly."""
    plain = runs.of("Llama shape, data parallel").losses()
    assert runs.of("dropout").losses()[0] != pytest.approx(plain[0], abs=1e-4)
    rounded = runs.of("bf16").losses()
    assert rounded != pytest.approx(plain, abs=1e-5)
    assert rounded == pytest.approx(plain, abs=0.05)

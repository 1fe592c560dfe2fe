"""The same parameters, weights and documents give the same losses with both back ends, and with transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from primus_core.experiment import Value
from tests.forked.ranks import Outcome
from tests.megatron import experiments as megatron
from tests.megatron.ranks import Ranks as MegatronRanks
from tests.torchtitan.parity import STEPS, TRAINING, WORDS, write_documents, write_weights
from tests.torchtitan.ranks import Ranks
from tests.torchtitan.rows import check_row

LOSS, GRAD_NORM = 5e-6, 2e-5
"""Largest relative differences of rounding: every alignment of the two, left out, gives more."""
BF16 = 2e-3

Rows = Sequence[Mapping[str, Any]]

TENSOR: dict[str, Value] = {"tensor_model_parallel_size": 2, "micro_batch_size": 8}
PIPELINE: dict[str, Value] = {"pipeline_model_parallel_size": 2}
DDP: dict[str, Value] = {
    "parallelism.data_parallel_replicate_degree": 2,
    "parallelism.data_parallel_shard_degree": 1,
}
LAYOUTS: dict[str, tuple[dict[str, Value], dict[str, Value], int]] = {
    "one process": ({}, {}, 1),
    "fsdp": ({}, {}, 2),
    "tensor": (TENSOR, {}, 2),
    "pipeline": (PIPELINE, {}, 2),
}
"""Portable parameters of both, TorchTitan's own beside them, and the number of ranks."""

FIRST = 4
"""Steps of the runs that show what an alignment does."""
UNDONE: dict[str, dict[str, Value]] = {
    "learning rate": {
        "lr_scheduler.kind": "native",
        "lr_scheduler.decay_type": "cosine",
        "lr_scheduler.min_lr_factor": 0.1,
        "lr_scheduler.min_lr": None,
        "lr_scheduler.decay_style": None,
    },
    "weight decay": {"optimizer.decay_norms": True},
    "vocabulary": {"model.padded_vocab_size": WORDS},
    "document masks": {"dataloader.documents": None, "dataloader.document_positions": None},
    "loss mask": {"dataloader.mask_document_ends": None},
    "precision": {"training.mixed_precision_param": "bfloat16"},
    "seed": {"debug.seed": None},
}
"""What TorchTitan would do, were it not told otherwise."""


class Runs:
    """Trainings from one set of weights on one set of documents, each run once."""

    def __init__(self, titan: Ranks, other: MegatronRanks, folder: Path) -> None:
        self._titan, self._megatron, self._folder = titan, other, folder
        self.weights = write_weights(folder / "hf")
        self._cut = write_weights(folder / "hf-cut", WORDS)
        self._prepared = {"weights": {"folder": str(self.weights)}, "data": write_documents(folder)}
        self._done: dict[str, Outcome] = {}

    def megatron(self, name: str, params: dict[str, Value], ranks: int = 1) -> Outcome:
        if name not in self._done:
            folder = self._folder / name
            plan = megatron.plan_of({**TRAINING, **params}, ranks=ranks, workspace=str(folder))
            entry = "tests.torchtitan.parity:megatron"
            self._done[name] = self._megatron.start(plan, folder, entry=entry, prepared=self._prepared).check()
        return self._done[name]

    def torchtitan(self, name: str, params: dict[str, Value], ranks: int = 1, **options: Any) -> Outcome:
        if name not in self._done:
            folder, params = self._folder / name, {**TRAINING, **from_folder(self.weights), **params}
            prepared = {**self._prepared, **options.pop("prepared", {})}
            self._done[name] = self._titan.run(folder, params, world=ranks, prepared=prepared, **options).check()
        return self._done[name]

    def transformers(self) -> Rows:
        rows: Rows = self.torchtitan("hf-run", {}, entry="tests.torchtitan.parity:transformers").result()["rows"]
        return rows

    def rates(self, cases: list[dict[str, Any]]) -> tuple[Any, Any]:
        """The learning rates of every case, by our formula and by Megatron."""
        prepared = {**self._prepared, "cases": {"cases": cases}}
        ours = self.torchtitan("our-rates", {}, entry="tests.torchtitan.parity:our_rates", prepared=prepared)
        plan, folder = megatron.plan_of(TRAINING, workspace=str(self._folder)), self._folder / "their-rates"
        theirs = self._megatron.start(plan, folder, entry="tests.torchtitan.parity:megatron_rates", prepared=prepared)
        return ours.result(), theirs.check().result()

    def undone(self) -> Mapping[str, Rows]:
        """The first steps with one alignment less each, and with all of them."""
        cut: dict[str, Value] = {"checkpoint.initial_load_path": str(self._cut)}
        changes = {"nothing": {}, **UNDONE, "vocabulary": {**UNDONE["vocabulary"], **cut}}
        shorter: dict[str, Value] = {"train_iters": FIRST, "eval_iters": 0}
        entry, prepared = "tests.torchtitan.parity:several", {"changes": changes}
        return self.torchtitan("undone", shorter, entry=entry, prepared=prepared).result()


@pytest.fixture(scope="module")
def runs(titan_ranks: Ranks, ranks: MegatronRanks, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(titan_ranks, ranks, tmp_path_factory.mktemp("parity"))


def from_folder(folder: Path) -> dict[str, Value]:
    """TorchTitan's own parameters to begin with the weights of a Hugging Face folder."""
    return {
        "checkpoint.enable": True,
        "checkpoint.interval": 1000,
        "checkpoint.initial_load_in_hf": True,
        "checkpoint.initial_load_path": str(folder),
    }


def difference(rows: Rows, others: Rows, column: str) -> float:
    """The largest one of all steps, relative."""
    pairs = [(row[column], other[column]) for row, other in zip(rows, others, strict=True)]
    return max(abs(ours - theirs) / max(abs(theirs), 1e-30) for ours, theirs in pairs)


def check_alike(rows: Rows, others: Rows) -> None:
    assert len(rows) == STEPS
    assert difference(rows, others, "loss") < LOSS
    assert difference(rows, others, "grad_norm") < GRAD_NORM
    assert difference(rows, others, "lr") < 1e-12


def validations(outcome: Outcome) -> list[str]:
    return [line["text"] for line in outcome.of("notice", -1) if line["topic"] == "validation"]


@pytest.mark.parametrize("layout", [*LAYOUTS, pytest.param("ddp", marks=pytest.mark.slow)])
def test_both_back_ends_train_alike(runs: Runs, layout: str) -> None:
    """Twenty steps of warm-up, decay, weight decay, clipping and document masks differ by rounding, in every layout."""
    portable, own, ranks = {**LAYOUTS, "ddp": ({}, DDP, 2)}[layout]
    theirs = runs.megatron(f"megatron-{ranks}-{'-'.join(portable)}", portable, ranks)
    ours = runs.torchtitan(layout, {**portable, **own}, ranks)
    check_alike(ours.rows(), theirs.rows())
    for row, other in zip(ours.rows(), theirs.rows(), strict=True):
        check_row(row, other)
    assert ours.losses()[-1] < ours.losses()[0] - 0.5
    assert validations(ours) == validations(theirs)
    where = ("iteration 10", "iteration 20", "iteration 20 on validation set", "iteration 20 on test set")
    assert tuple(text.partition(" at ")[2] for text in validations(ours)) == where


def test_transformers_trains_alike(runs: Runs) -> None:
    """PyTorch alone with transformers' Llama gives both back ends' losses: they mean what the formulas say."""
    rows = runs.transformers()
    check_alike(runs.torchtitan("one process", {}).rows(), rows)
    check_alike(runs.megatron("megatron-1-", {}).rows(), rows)


@pytest.mark.slow
def test_every_alignment_is_needed(runs: Runs) -> None:
    """With all of them the first steps are those of the long run; with one less, something differs at once."""
    undone = runs.undone()
    whole = runs.torchtitan("one process", {}).rows()[:FIRST]
    assert [row["loss"] for row in undone["nothing"]] == [row["loss"] for row in whole]
    for name in UNDONE:
        rows = undone[name]
        assert difference(rows, whole, "loss") > LOSS or difference(rows, whole, "grad_norm") > GRAD_NORM, name


def test_megatron_must_count_tokens_where_they_are_masked(runs: Runs) -> None:
    """By Megatron's habit each micro batch counts alike, and the gradients differ from the first step on."""
    ours = runs.torchtitan("one process", {}).rows()[:2]
    habit: dict[str, Value] = {"calculate_per_token_loss": False, "train_iters": 2, "eval_iters": 0}
    theirs = runs.megatron("megatron-habit", habit).rows()
    assert theirs[0]["loss"] == pytest.approx(ours[0]["loss"], rel=LOSS)
    assert theirs[0]["grad_norm"] != pytest.approx(ours[0]["grad_norm"], rel=10 * GRAD_NORM)


@pytest.mark.slow
def test_both_back_ends_compute_alike_in_bfloat16(runs: Runs) -> None:
    """Half precision rounds coarser, at different places, and no more."""
    theirs = runs.megatron("megatron-bf16", {"bf16": True, "train_iters": FIRST, "eval_iters": 0}).rows()
    assert difference(runs.undone()["precision"], theirs, "loss") < BF16


def test_learning_rates_are_megatrons(runs: Runs) -> None:
    """Every form of decay, with and without warm-up, gives each step the rate of Megatron's own scheduler."""
    cases = [
        {"highest": 3e-3, "lowest": lowest, "warmup": warmup, "length": 9, "style": style}
        for style in ("constant", "linear", "cosine", "inverse-square-root")
        for warmup, lowest in ((0, 0.0), (4, 3e-4))
    ]
    ours, theirs = runs.rates(cases)
    for case, our_rates, their_rates in zip(cases, ours, theirs, strict=True):
        assert our_rates == pytest.approx(their_rates, rel=1e-12, abs=1e-18), case

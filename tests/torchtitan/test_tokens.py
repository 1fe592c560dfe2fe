"""The samples that TorchTitan trains on, divided among ranks."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from primus_core.data.datasets import SampleMaker
from primus_core.data.samples import Samples
from primus_core.experiment import Value
from tests.megatron.tokens import write_tokens
from tests.torchtitan.ranks import Ranks

READ = "tests.torchtitan.entries:read"
EOD, IGNORED = 249, -100


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A finished data preparation of documents that are shorter than a sample."""
    documents = [[number % 200] * (number % 23 + 2) + [EOD] for number in range(300)]
    prefix = write_tokens(tmp_path_factory.mktemp("tokens") / "text", documents)
    tokens = sum(map(len, documents))
    file = {"prefix": str(prefix), "weight": None, "documents": len(documents), "tokens": tokens}
    tokenizer = {"type": "byte", "model": None, "vocab_size": 250, "eod": EOD}
    return {"data": {"train": [file], "valid": [], "test": [], "tokenizer": tokenizer}}


def samples(prepared: dict[str, Any]) -> Samples:
    """In Megatron's order, for as many samples as the run of 6 steps of 8 wants."""
    made = SampleMaker(sequence_length=32, seed=1234).prepared(prepared["data"], [48, 0, 0], "100,0,0")["train"]
    assert made is not None
    return made


def test_each_rank_reads_the_rows_that_megatron_gives_it(
    titan_ranks: Ranks, tmp_path: Path, prepared: dict[str, Any]
) -> None:
    """Micro batch j of rank r of 2 has the samples from (2 j + r) x size on; labels are the next tokens."""
    outcome = titan_ranks.run(tmp_path, {"mock_data": False}, entry=READ, prepared=prepared).check()
    wanted = samples(prepared)
    for rank in (0, 1):
        told = outcome.result(rank)
        for number in range(4):
            rows = [wanted[(2 * number + rank) * 2 + row].tokens.tolist() for row in (0, 1)]
            assert told["inputs"][number] == [row[:-1] for row in rows]
            assert told["labels"][number] == [row[1:] for row in rows]
        assert told["state"] == {"consumed_samples": 16}
    assert outcome.result(0)["inputs"] != outcome.result(1)["inputs"]


def test_a_run_goes_on_with_the_next_sample_with_any_number_of_ranks(
    titan_ranks: Ranks, tmp_path: Path, prepared: dict[str, Any]
) -> None:
    """What two ranks have read is counted together: one rank alone goes on where they were, and so do they."""
    wanted = samples(prepared)
    for world in (1, 2):
        asked: dict[str, Value] = {"mock_data": False}
        outcome = titan_ranks.run(tmp_path / str(world), asked, world=world, entry=READ, prepared=prepared).check()
        half = outcome.result()["state"]["consumed_samples"] // 2
        assert half == 4 * world
        rows = [outcome.result(rank)["resumed"] for rank in range(world)]
        assert list(itertools.chain(*rows)) == [wanted[half + row].tokens.tolist()[:-1] for row in range(2 * world)]


def test_documents_are_kept_apart_where_that_is_asked_for(
    titan_ranks: Ranks, tmp_path: Path, prepared: dict[str, Any]
) -> None:
    """TorchTitan's mask follows the positions: they count through the row, or from 0 after each end of a document."""
    run: dict[str, Value] = {"mock_data": False}
    rows = titan_ranks.run(tmp_path / "row", run, world=1, entry=READ, prepared=prepared).check().result()
    apart: dict[str, Value] = {**run, "reset_attention_mask": True, "reset_position_ids": True, "eod_mask_loss": True}
    documents = titan_ranks.run(tmp_path / "documents", apart, world=1, entry=READ, prepared=prepared).check().result()
    assert rows["positions"][0][0] == list(range(32))
    tokens, positions, labels = (documents[key][0][0] for key in ("inputs", "positions", "labels"))
    ends = [place for place, token in enumerate(tokens) if token == EOD]
    assert ends
    assert [place for place in range(1, 32) if positions[place] == 0] == [place + 1 for place in ends if place < 31]
    assert [place for place, label in enumerate(labels) if label == IGNORED] == ends


def test_documents_cannot_be_kept_apart_where_nobody_knows_their_end(
    titan_ranks: Ranks, tmp_path: Path, prepared: dict[str, Any]
) -> None:
    """Token files alone do not tell which token ends a document; both back ends refuse in the same words."""
    unknown = {"data": {**prepared["data"], "tokenizer": {**prepared["data"]["tokenizer"], "eod": None}}}
    asked: dict[str, Value] = {"mock_data": False, "eod_mask_loss": True}
    outcome = titan_ranks.run(tmp_path, asked, world=1, entry=READ, prepared=unknown)
    assert (
        outcome.error()["what"] == "eod_mask_loss needs the token that ends a document, which this data does not tell"
    )


def test_a_split_without_a_document_is_left_out_of_evaluation(
    titan_ranks: Ranks, tmp_path: Path, prepared: dict[str, Any]
) -> None:
    """A warning tells of it, as with Megatron, and training goes on."""
    asked: dict[str, Value] = {"mock_data": False, "eval_iters": 1, "eval_interval": 2, "split": "989,10,1"}
    outcome = titan_ranks.run(tmp_path, asked, world=1, entry=READ, prepared=prepared).check()
    (record,) = outcome.of("record")
    assert record["level"] == "warning"
    assert record["event"].startswith("no evaluation on the test split, which holds no document: split 989,10,1 of")


def test_test_data_alone_is_refused(titan_ranks: Ranks, tmp_path: Path, prepared: dict[str, Any]) -> None:
    """Both back ends evaluate on validation data before test data."""
    data = {**prepared["data"], "test": prepared["data"]["train"]}
    outcome = titan_ranks.run(tmp_path, {"mock_data": False}, world=1, entry=READ, prepared={"data": data})
    assert outcome.error()["what"] == "test_data_path is set, but valid_data_path is not"

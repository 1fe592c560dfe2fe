"""The samples that TorchTitan trains on, divided among ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from primus_core.data.datasets import SampleMaker
from primus_core.data.samples import Samples
from tests.megatron.tokens import write_tokens
from tests.torchtitan.ranks import Ranks

READ = "tests.torchtitan.entries:read"
EOD = 249


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


def test_positions_begin_anew_in_each_document_where_that_is_asked_for(
    titan_ranks: Ranks, tmp_path: Path, prepared: dict[str, Any]
) -> None:
    """TorchTitan's mask follows the positions: they count through the row, or from 0 in each of its documents."""
    run = {"mock_data": False}
    rows = titan_ranks.run(tmp_path / "row", run, world=1, entry=READ, prepared=prepared).check().result()
    apart = {**run, "dataloader.documents": True}
    documents = titan_ranks.run(tmp_path / "documents", apart, world=1, entry=READ, prepared=prepared).check().result()
    assert rows["positions"][0][0] == list(range(32))
    tokens, positions = documents["inputs"][0][0], documents["positions"][0][0]
    ends = [place for place, token in enumerate(tokens[:-1]) if token == EOD]
    assert ends
    assert [place for place in range(1, 32) if positions[place] == 0] == [place + 1 for place in ends]

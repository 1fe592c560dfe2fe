"""The samples that core makes of token files are those of Megatron's datasets, token for token."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve, frozen

from primus_core.contract import RankContext
from primus_core.data.datasets import SampleMaker, TokenFile
from primus_core.data.indexed import IndexedReader
from primus_core.data.order import Epochs
from primus_core.data.prepare import run
from primus_core.data.samples import Samples
from primus_core.experiment import Leaf, Origin, Value
from primus_core.plan import Settings
from primus_core.planning.datafiles import data_task
from tests.forked.context import Rank
from tests.megatron.ranks import Ranks, make_plan
from tests.megatron.tokens import write_tokens

SPLITS = ("train", "valid", "test")


@frozen(kw_only=True)
class Case:
    """What is asked of both."""

    files: tuple[str, ...]
    samples: tuple[int | None, int | None, int | None]
    weights: tuple[float, ...] | None = None
    split: str | None = None
    """None: each of the files is the whole of one split."""
    seed: int = 1234
    sequence_length: int = 16

    def blends(self) -> dict[str, Any]:
        if self.split is None:
            return {"blend_per_split": [[[file], None] for file in self.files]}
        return {"blend": [list(self.files), self.weights], "split": self.split}

    def ours(self) -> Mapping[str, Samples | None]:
        maker = SampleMaker(sequence_length=self.sequence_length, seed=self.seed)
        weights = self.weights or (None,) * len(self.files)
        files = [TokenFile(prefix=file, weight=weight) for file, weight in zip(self.files, weights, strict=True)]
        if self.split is not None:
            return maker.split(files, self.split, self.samples)
        return {n: maker.whole([f], wanted) for n, f, wanted in zip(SPLITS, files, self.samples, strict=True)}


def corpus(folder: Path) -> list[str]:
    """Four files: many documents, few long ones, some without a token, and one of 640 tokens."""
    draw = random.Random(7)
    lengths = (
        [draw.randint(1, 60) for _ in range(600)],
        [draw.randint(200, 400) for _ in range(40)],
        [draw.choice((0, 5, 17, 33)) for _ in range(200)],
        [32] * 20,
    )
    ids = itertools.count(1)
    return [
        str(write_tokens(folder / f"tokens-{number}", [[next(ids) for _ in range(length)] for length in some]))
        for number, some in enumerate(lengths)
    ]


def cases(one: str, two: str, three: str, four: str) -> list[Case]:
    """Seeds, lengths, epochs with the last one apart and not, splits and blends."""
    singles = [
        Case(files=(file,), samples=samples, split=split, seed=seed, sequence_length=length)
        for file, (seed, length) in itertools.product((one, three), ((1, 7), (42, 64), (2**32 - 1, 300)))
        for split, samples in (("969,30,1", (2000, 40, None)), ("1, 1,0", (None, 33, 0)))
        if split == "1, 1,0" or file == one
    ]
    # An epoch of file two has 695 samples: little, half or most of the last epoch is used.
    epochs = [
        Case(files=(two,), samples=(n, 5, 5), split="98,2,0") for n in (1, 690, 700, 1100, 1300, 1391, 2050, 2200)
    ]
    weighted = [
        Case(files=(one, two, three), samples=(n, 70, 12), weights=weights, split="90,5,5", seed=n)
        for n, weights in ((500, (0.7, 0.2, 0.1)), (3000, (1.0, 1.0, 1.0)), (777, (3.0, 17.0, 0.31)))
    ]
    unweighted = [
        Case(files=(one, two, three), samples=samples, split="80,10,10")
        for samples in ((None, None, None), (300, 20, 10), (100_000, 20, 10))
    ]
    apart = [Case(files=(one, two, three), samples=(1500, 300, 20))]
    # 640 tokens are 40 inputs of 16, but the last of them has no label.
    exact = [Case(files=(four, four, four), samples=(40, 39, 80))]
    return [*singles, *epochs, *weighted, *unweighted, *apart, *exact]


@pytest.fixture(scope="module")
def both(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Case], Path]:
    """The cases, and a folder with Megatron's samples of each."""
    folder = tmp_path_factory.mktemp("orders")
    asked = cases(*corpus(folder))
    told = [{**asdict(case), "blends": case.blends()} for case in asked]
    request = {"cases": {"folder": str(folder), "cases": told}}
    ranks.run(folder / "rank", world=1, entry="tests.megatron.orders:read", prepared=request).check()
    return asked, folder


def test_every_sample_is_megatrons(both: tuple[list[Case], Path]) -> None:
    """Tokens, their order and the ends of documents are the same in every split of every case."""
    asked, folder = both
    for number, case in enumerate(asked):
        for name, samples in case.ours().items():
            theirs = folder / f"{number}-{name}.npy"
            assert (samples is not None) == theirs.exists(), (case, name)
            if samples is not None:
                expected = np.load(theirs)
                assert len(samples) == len(expected), (case, name)
                assert _same(samples, expected, case.sequence_length), (case, name)


def _same(samples: Samples, expected: Any, length: int) -> bool:
    for index, row in enumerate(expected):
        sample, tokens, boundaries = samples[index], row[: length + 1], np.unique(row[length + 1 :])
        if sample.tokens.tolist() != tokens.tolist():
            return False
        # Megatron leaves the last label out.
        if np.unique(np.minimum(sample.boundaries, length)).tolist() != boundaries.tolist():
            return False
    return True


def test_the_cases_reach_every_rule(both: tuple[list[Case], Path]) -> None:
    """Among the cases are one epoch, several with the last one apart, and several shuffled as one."""
    asked, _ = both
    two = [case for case in asked if case.split == "98,2,0"]
    tokens = sum(_lengths(two[0].files[0])[: round(0.98 * 40)])
    epochs = [Epochs.of(tokens, case.sequence_length, case.samples[0]) for case in two]
    assert {(min(epoch.count, 2), epoch.is_last_apart) for epoch in epochs} == {(1, False), (2, True), (2, False)}


def _lengths(prefix: str) -> Sequence[int]:
    lengths: list[int] = IndexedReader(prefix).lengths.tolist()
    return lengths


@pytest.mark.parametrize(
    ("paths", "weights"),
    [
        ({"train_data_path": [0.7, "a.txt", 0.3, "b.jsonl"]}, [0.7, 0.3]),
        ({"train_data_path": "30 a.txt 10 b.jsonl", "valid_data_path": ["b.jsonl", "a.txt"]}, [0.75, 0.25]),
        ({"train_data_path": ["a.txt", "b.jsonl"], "split": "90,10,0"}, [2001 / 3402, 1401 / 3402]),
    ],
)
def test_a_blend_reaches_megatron_by_its_weights(
    ranks: Ranks, tmp_path: Path, paths: dict[str, Value], weights: list[float]
) -> None:
    """The weights of an experiment's data paths, else the tokens of each, are the shares that Megatron draws by, and
    core makes the same samples of what was prepared."""
    (tmp_path / "a.txt").write_text("a" * 2000)
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "b" * 1400}) + "\n")
    split = paths.pop("split", None)
    prepared = _prepared(tmp_path, paths)
    wanted = [400, 100 if "valid_data_path" in paths else 0, 0]
    asked = {"folder": str(tmp_path), "split": split or "100,0,0", "samples": wanted}
    outcome = ranks.run(
        tmp_path / "rank", world=1, entry="tests.megatron.orders:blend", prepared={"data": prepared, "asked": asked}
    ).check()
    assert outcome.result()["weights"] == pytest.approx(weights)
    made = SampleMaker(sequence_length=16, seed=1).prepared(prepared, wanted, str(split or "100,0,0"))
    for name in [name for name, number in zip(SPLITS, wanted, strict=True) if number]:
        samples, expected = made[name], np.load(tmp_path / f"{name}.npy")
        assert samples is not None
        assert len(samples) == len(expected)
        assert all(samples[index].tokens.tolist() == row.tolist() for index, row in enumerate(expected))
    share = np.mean(np.load(tmp_path / "train.npy")[:, 0] == ord("a"))
    assert share == pytest.approx(weights[0], abs=0.02)


def _prepared(folder: Path, paths: Mapping[str, Value]) -> Mapping[str, Any]:
    """What the data task makes of these paths."""
    params = {"tokenizer_type": "ByteLevelTokenizer", **paths}
    leaves = {key: Leaf(value=value, origin=Origin(file="exp.yaml", line=1)) for key, value in params.items()}
    task = data_task(leaves, Settings(values={}), str(folder), str(folder / "ws"))
    assert task is not None
    rank: RankContext = Rank(0, 1, None)
    return run(evolve(make_plan(folder=folder), prepare=(task,)), rank)

"""The samples that ranks really train on, as their models see them."""

from __future__ import annotations

import importlib
import random
import shutil
import zlib
from pathlib import Path
from typing import Any

from primus_core.experiment import Value
from primus_core.plan import RunPlan
from tests.forked.context import Rank
from tests.forked.ranks import Outcome, Ranks
from tests.megatron.tokens import write_tokens

ENTRY = "tests.forked.positions:run"
BATCH = 8
"""Samples of an iteration."""
_EMBEDDINGS = ("VocabParallelEmbedding", "Embedding", "FSDPEmbedding", "ReplicateEmbedding")


def run(plan: RunPlan, rank: Rank) -> Any:
    """Train as the plan says, and tell every row of tokens that the model is given, by a number."""
    from torch.nn.modules.module import register_module_forward_pre_hook

    def tell(module: Any, inputs: tuple[Any, ...]) -> None:
        if type(module).__name__ in _EMBEDDINGS and module.training:
            rank.write("rows", rows=[zlib.crc32(bytes(row)) for row in inputs[0].tolist()])

    register_module_forward_pre_hook(tell)
    module, _, name = plan.task.entry.partition(":")
    return getattr(importlib.import_module(module), name)(plan, rank)


def prepared_tokens(folder: Path) -> dict[str, Any]:
    """A finished data preparation of random documents: every sample is another."""
    draw = random.Random(5)
    documents = [[draw.randrange(200) for _ in range(draw.randrange(5, 90))] for _ in range(200)]
    prefix = write_tokens(folder / "text", documents)
    tokens = sum(map(len, documents))
    file = {"prefix": str(prefix), "weight": None, "documents": len(documents), "tokens": tokens}
    tokenizer = {"type": "byte", "model": None, "vocab_size": 250, "eod": 249}
    return {"data": {"train": [file], "valid": [], "test": [], "tokenizer": tokenizer}}


def trained_on(outcome: Outcome, iterations: int) -> list[list[int]]:
    """The samples of all ranks together in each of the first iterations, in the order of their numbers."""
    share = BATCH // len(outcome.codes)
    told = [[row for line in outcome.of("rows", rank) for row in line["rows"]] for rank in range(len(outcome.codes))]
    return [
        sorted(row for rows in told for row in rows[number * share : (number + 1) * share])
        for number in range(iterations)
    ]


def check_every_sample_once(ranks: Ranks, folder: Path) -> None:
    """Killed after iteration 5, continued from 4 by two ranks and by one: each iteration has the very same samples."""
    data = prepared_tokens(folder)
    params: dict[str, Value] = {"mock_data": False, "train_iters": 6, "save_interval": 2}

    def run(name: str, world: int = 2, kill: str | None = None) -> list[list[int]]:
        own: dict[str, Value] = {**params, "save": str(folder / name)}
        auto: dict[str, Value] = {"auto_continue_train": True}
        here = folder / f"run-{name}-{bool(kill)}"
        outcome = ranks.run(here, own, world=world, settings=auto, entry=ENTRY, kill=kill, prepared=data)
        if kill:
            assert outcome.codes[0] == -9
            return trained_on(outcome, 4)
        resumed = [row["iteration"] for row in outcome.check().rows()]
        return trained_on(outcome, len(resumed))

    whole = run("whole")
    every = [sample for iteration in whole for sample in iteration]
    assert len(set(every)) == len(every) == 6 * BATCH
    before = run("two", kill='"iteration": 5')
    shutil.copytree(folder / "two", folder / "one")
    assert before + run("two") == whole
    assert before + run("one", world=1) == whole

"""The samples of a run: which, how many, and in what order, as Megatron's data sets have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from attrs import field, frozen

from primus_backend_torchtitan.architecture import size
from primus_backend_torchtitan.rank.session import Session
from primus_core.data.datasets import SampleMaker
from primus_core.data.indexed import IndexedReader
from primus_core.data.samples import FileSamples, Samples
from primus_core.data.splits import DEFAULT_SPLIT, SPLITS, Span, span_range, split_spans
from primus_core.errors import ConfigError
from primus_core.experiment import Value

_MOCK_DOCUMENTS = 100_000
_MOCK_LONGEST = 4096
_MOCK_SPLIT = "1,1,1"


def make_samples(session: Session, defaults: Mapping[str, Value]) -> dict[str, Samples | None]:
    """The samples of training, validation and test data.

    Args:
        defaults: TorchTitan's own values of parameters that are not set.
    """
    values: Mapping[str, Any] = {**defaults, **session.native}
    seed = values["debug.seed"]
    maker = SampleMaker(sequence_length=values["training.seq_len"], seed=1234 if seed is None else seed)
    wanted = wanted_samples(values, session.plan.target.world_size)
    if values["dataloader.mock"]:
        return _mock_samples(maker, values["model.vocab_size"], wanted)
    prepared: Mapping[str, Any] = session.rank.prepared("data")
    split = values["dataloader.split"] or _split(values)
    return maker.prepared(prepared, _without_empty(session, prepared, split or DEFAULT_SPLIT, wanted), split)


def _without_empty(
    session: Session, prepared: Mapping[str, Any], split: str, wanted: tuple[int | None, ...]
) -> list[int | None]:
    """No samples of a split that holds no document, of which rank 0 warns; Megatron, too, trains without.

    Raises:
        ConfigError: there is test data, but no validation data.
    """
    if prepared["test"] and not prepared["valid"]:
        raise ConfigError(
            "test_data_path is set, but valid_data_path is not",
            where="test_data_path",
            remedy="Set valid_data_path too, or use split.",
        )
    if prepared["valid"]:
        return list(wanted)
    usable = list(wanted)
    for place, (name, span) in enumerate(zip(SPLITS, split_spans(split), strict=True)):
        counts = [int(file["documents"]) for file in prepared["train"]]
        if place and span and usable[place] != 0 and any(_is_empty(span, count) for count in counts):
            usable[place] = 0
            text = f"no evaluation on the {name} split, which holds no document: split {split} of {counts} documents"
            session.rank.log("warning" if session.rank.rank == 0 else "debug", text)
    return usable


def _is_empty(span: Span, count: int) -> bool:
    first, last = span_range(span, count)
    return first == last


def document_end(session: Session) -> int | None:
    """The token that ends a document; None where nobody knows it."""
    if session.native.get("dataloader.mock"):
        return size(session.native, "model.vocab_size") - 1
    told: Mapping[str, Any] = session.rank.prepared("data")
    end: int | None = told["tokenizer"]["eod"]
    return end


def wanted_samples(values: Mapping[str, Any], world: int) -> tuple[int, int | None, int | None]:
    """Samples at least of training, validation and test data; the order of samples depends on these numbers.

    Megatron evaluates after every interval, once more at the end, and then on the test data.
    """
    batch = global_batch(values, world)
    if not values["validator.enable"]:
        return values["training.steps"] * batch, 0, 0
    if values["validator.steps"] == -1:
        return values["training.steps"] * batch, None, None
    each = values["validator.steps"] * local_samples(values, world)
    times = values["training.steps"] // values["validator.freq"] + 1
    return values["training.steps"] * batch, times * each, each


def global_batch(values: Mapping[str, Any], world: int) -> int:
    """Samples of one step over all ranks."""
    batch: int = values["training.global_batch_size"]
    return batch if batch > 0 else local_samples(values, world)


def local_samples(values: Mapping[str, Any], world: int) -> int:
    """Samples that all ranks together take at once."""
    names = ("tensor_parallel_degree", "pipeline_parallel_degree", "context_parallel_degree")
    copies = 1
    for name in names:
        copies *= values[f"parallelism.{name}"]
    local: int = values["training.local_batch_size"]
    return local * (world // copies)


def _split(values: Mapping[str, Any]) -> str | None:
    """Without evaluation all data is for training."""
    return None if values["validator.enable"] else "100,0,0"


@frozen(kw_only=True, eq=False)
class _MockReader:
    """Made-up documents, number for number those of Megatron: each counts up from 1 and ends with the last token."""

    vocab_size: int
    prefix: str = "mock data"
    lengths: Any = field(init=False)

    @lengths.default
    def _lengths(self) -> Any:
        random = np.random.default_rng(seed=0)
        return random.integers(low=1, high=_MOCK_LONGEST, size=_MOCK_DOCUMENTS, dtype=np.int32)

    def sequence(self, index: int) -> Any:
        """The tokens of one document."""
        counted: Any = (np.arange(int(self.lengths[index]) - 1, dtype=np.int64) + 1) % self.vocab_size
        return np.append(counted, self.vocab_size - 1)


def _mock_samples(maker: SampleMaker, vocab_size: int, wanted: tuple[int | None, ...]) -> dict[str, Samples | None]:
    reader = cast(IndexedReader, _MockReader(vocab_size=vocab_size))
    return {
        name: FileSamples(reader, sequence_length=maker.sequence_length, wanted=number, seed=maker.seed, span=span)
        if number != 0 and span
        else None
        for name, number, span in zip(SPLITS, wanted, split_spans(_MOCK_SPLIT), strict=True)
    }

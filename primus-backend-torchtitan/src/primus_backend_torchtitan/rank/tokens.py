"""Batches of token ids: the samples of `primus_core.data`, divided among ranks as Megatron divides them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.tokenizer import BaseTokenizer

from primus_backend_torchtitan.rank.session import current
from primus_core.data.samples import Sample, Samples
from primus_core.errors import RunError

Batch = tuple[dict[str, torch.Tensor], torch.Tensor]
"""Inputs (``input``, ``positions``) and labels, each (local batch, sequence length), int64."""


class TokenLoader(BaseDataLoader):
    """Micro batch ``j`` of rank ``r`` among ``n`` has the samples from ``(j * n + r) * size`` on.

    Its state is the number of samples that all ranks together have read, so that a run can be continued with another
    number of ranks.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        purpose: str = "train"
        """Whose samples: train, valid or test."""
        documents: bool = False
        mock: bool = False
        split: str | None = None
        infinite: bool = True
        """TorchTitan's evaluation sets it; there are always as many samples as a run reads."""

    def __init__(
        self, config: Config, *, dp_world_size: int, dp_rank: int, seq_len: int, local_batch_size: int, **_: Any
    ) -> None:
        self._session = current()
        self._purpose = config.purpose
        self._documents = config.documents
        self._ranks, self._rank, self._size = dp_world_size, dp_rank, local_batch_size
        samples = self._session.samples.get(config.purpose)
        if samples is None:
            raise RunError(
                f"there is no data for {config.purpose}", where="split", remedy="Give it a share of the data."
            )
        self._samples: Samples = samples

    def __iter__(self) -> Iterator[Batch]:
        step = self._size * self._ranks
        while self._consumed + step <= len(self._samples):
            start = self._consumed + self._rank * self._size
            batch = self._batch([self._samples[index] for index in range(start, start + self._size)])
            self._session.consumed[self._purpose] = self._consumed + step
            yield batch

    def state_dict(self) -> dict[str, Any]:
        return {"consumed_samples": self._consumed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._session.consumed[self._purpose] = int(state_dict["consumed_samples"])

    @property
    def _consumed(self) -> int:
        return self._session.consumed.get(self._purpose, 0)

    def _batch(self, samples: list[Sample]) -> Batch:
        tokens = torch.from_numpy(np.stack([sample.tokens for sample in samples]))
        positions = torch.from_numpy(np.stack([self._positions(sample) for sample in samples]))
        return {"input": tokens[:, :-1].contiguous(), "positions": positions}, tokens[:, 1:].contiguous()

    def _positions(self, sample: Sample) -> Any:
        """Places of the inputs, from 0: in the row, or each in its own document, which then sees no other."""
        places: Any = np.arange(len(sample.tokens) - 1, dtype=np.int64)
        if not self._documents:
            return places
        starts = sample.boundaries[:-1]
        return places - starts[np.searchsorted(starts, places, side="right") - 1]


class NoTokenizer(BaseTokenizer):
    """Takes the place of a tokenizer where token ids are read."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config: Config, **_: Any) -> None:
        super().__init__()

    def encode(self, *args: Any, **options: Any) -> list[int]:
        raise RunError("this run reads token ids and has no tokenizer")

    def decode(self, *args: Any, **options: Any) -> str:
        raise RunError("this run reads token ids and has no tokenizer")

    def get_vocab_size(self) -> int:
        raise RunError("this run reads token ids and has no tokenizer")

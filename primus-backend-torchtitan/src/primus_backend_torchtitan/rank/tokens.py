"""Batches of token ids: the samples of `primus_core.data`, divided among ranks as Megatron divides them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.loss import IGNORE_INDEX
from torchtitan.components.tokenizer import BaseTokenizer

from primus_backend_torchtitan.rank.session import current
from primus_core.data.samples import Sample, Samples
from primus_core.errors import ConfigError, RunError

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
        first: int = 0
        """The sample to begin with."""
        documents: bool = False
        document_positions: bool = False
        mask_document_ends: bool = False
        mock: bool = False
        split: str | None = None
        infinite: bool = True
        """TorchTitan's evaluation sets it; there are always as many samples as a run reads."""

    def __init__(
        self, config: Config, *, dp_world_size: int, dp_rank: int, seq_len: int, local_batch_size: int, **_: Any
    ) -> None:
        self._session = current()
        self._purpose = config.purpose
        self._config = config
        self._end = self._document_end()
        self._session.consumed[self._purpose] = config.first
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

    def _document_end(self) -> int | None:
        """The token that ends a document, where something depends on it.

        Raises:
            ConfigError: it is not known.
        """
        wanted = {"reset_attention_mask": self._config.documents, "eod_mask_loss": self._config.mask_document_ends}
        asked = [name for name, is_on in wanted.items() if is_on]
        if asked and self._session.document_end is None:
            raise ConfigError(
                f"{asked[0]} needs the token that ends a document, which this data does not tell",
                where=asked[0],
                remedy="Name the tokenizer that the token files were made with, or remove the parameter.",
            )
        return self._session.document_end

    @property
    def _consumed(self) -> int:
        return self._session.consumed.get(self._purpose, 0)

    def _batch(self, samples: list[Sample]) -> Batch:
        tokens = torch.from_numpy(np.stack([sample.tokens for sample in samples]))
        inputs, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        if self._config.mask_document_ends:
            labels = labels.masked_fill(inputs == self._end, IGNORE_INDEX)
        return {"input": inputs, "positions": self._positions(inputs)}, labels

    def _positions(self, inputs: torch.Tensor) -> torch.Tensor:
        """Places of the inputs, from 0: in the row, or each in its own document, which then sees no other."""
        places = torch.arange(inputs.shape[1]).expand_as(inputs)
        if not self._config.documents:
            return places.contiguous()
        starts = torch.where(inputs[:, :-1] == self._end, places[:, 1:], 0).cummax(1).values
        return places - torch.nn.functional.pad(starts, (1, 0))


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

"""Samples of token files for training: rows of a fixed length, in Megatron's order."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from primus_core.data.indexed import IndexedReader
from primus_core.data.order import Order
from primus_core.data.splits import WHOLE, Span, span_range
from primus_core.errors import RunError


@frozen(kw_only=True, eq=False)
class Sample:
    """One row of a batch."""

    tokens: NDArray[Any]
    """Shape (sequence_length + 1,), int64: all but the last are inputs, all but the first the labels."""
    boundaries: NDArray[Any]
    """Where documents meet in ``tokens``: 0, the start of each further document, and the number of tokens (int64)."""


class Samples(Protocol):
    """Samples by number, all made of what the seed says: any rank reads any of them at any time."""

    def __len__(self) -> int:
        """Number of samples; may be more than were wanted."""

    def __getitem__(self, index: int) -> Sample:
        """One sample; 0 <= index < len, else IndexError."""


class FileSamples:
    """Samples of one token file, or of a part of it.

    Args:
        sequence_length: tokens of a sample's input.
        wanted: samples at least, over as many epochs as that takes; None: those of one epoch.
        seed: 0 to 2**32 - 1; another seed is another order.
        span: the part of the file's sequences that is read.

    Raises:
        RunError: there is no token in the span.
    """

    def __init__(
        self, reader: IndexedReader, *, sequence_length: int, wanted: int | None, seed: int, span: Span = WHOLE
    ) -> None:
        documents: NDArray[Any] = np.arange(*span_range(span, len(reader.lengths)), dtype=np.int32)
        if not reader.lengths[documents].any():
            raise RunError(
                f"a split of {reader.prefix}.bin holds no token",
                why=f"it is the part from {span[0]:.4g} to {span[1]:.4g} of {len(reader.lengths):,} sequences",
                remedy="use more documents, or give the split a larger share",
            )
        self._reader = reader
        self._length = sequence_length
        self._order = Order.of(reader.lengths, documents, sequence_length, wanted, seed)

    def __len__(self) -> int:
        return len(self._order.samples)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        start = int(self._order.samples[index]) * self._length
        parts = self._parts(start, start + self._length + 1)
        boundaries = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return Sample(tokens=np.concatenate(parts, dtype=np.int64), boundaries=boundaries)

    def _parts(self, start: int, stop: int) -> list[NDArray[Any]]:
        """The stream's tokens from start to stop, a piece a document."""
        order = self._order
        first = int(np.searchsorted(order.ends, start, side="right"))
        last = int(np.searchsorted(order.ends, stop, side="left"))
        parts = []
        for place in range(first, last + 1):
            tokens = self._reader.sequence(int(order.documents[place]))
            begin = int(order.ends[place]) - len(tokens)
            parts.append(tokens[max(start - begin, 0) : stop - begin])
        return [part for part in parts if len(part)]

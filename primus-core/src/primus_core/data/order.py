"""The order in which a file's tokens are read: that of Megatron's GPTDataset, number for number.

The documents of all epochs are shuffled and laid end to end as one stream; sample ``n`` is the ``length + 1`` tokens
from ``n * length`` on, so that neighbours share a token, the one's last label and the other's first input. The numbers
of the samples are then shuffled. Of the last epoch little may be used: then it is shuffled apart, so that its
documents are not drawn before those of whole epochs. "Document" means a sequence of the file here, as in Megatron;
they differ only where a document is longer than a sequence may be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

_APART_BELOW = 0.80
"""The last epoch is shuffled apart when less than this share of its samples is used."""


@frozen(kw_only=True)
class Epochs:
    """How often a file is read, and which samples are shuffled together."""

    count: int
    samples: int
    """Samples of all epochs."""
    together: int
    """Samples that are shuffled as one; those that follow are of the last epoch."""

    @property
    def is_last_apart(self) -> bool:
        return self.together < self.samples

    @classmethod
    def of(cls, tokens: int, sequence_length: int, wanted: int | None) -> Epochs:
        """The epochs that give the samples wanted.

        Args:
            tokens: of one epoch, above 0.
            wanted: samples at least; None: those of one epoch.
        """
        count = 1 if wanted is None else max(1, -(-(wanted * sequence_length + 1) // tokens))
        samples = _samples(count * tokens, sequence_length)
        before = _samples((count - 1) * tokens, sequence_length)
        enough = int(_APART_BELOW * _samples(tokens, sequence_length))
        apart = wanted is not None and count > 1 and wanted - before < enough
        return cls(count=count, samples=samples, together=before if apart else samples)


def _samples(tokens: int, sequence_length: int) -> int:
    """Whole samples in a stream: the last one needs one token more, its last label."""
    return (tokens - 1) // sequence_length


@frozen(kw_only=True, eq=False)
class Order:
    """A stream of documents, and the samples drawn from it."""

    documents: NDArray[Any]
    """Numbers of the stream's documents (int32)."""
    ends: NDArray[Any]
    """Tokens of the stream up to the end of each document (int64)."""
    samples: NDArray[Any]
    """Place in the stream of each sample, in samples, in the order in which they are read."""

    @classmethod
    def of(
        cls, lengths: NDArray[Any], documents: NDArray[Any], sequence_length: int, wanted: int | None, seed: int
    ) -> Order:
        """Shuffle.

        Args:
            lengths: tokens of each document of the file.
            documents: numbers of those that are read, which hold a token at least.
            wanted: samples at least; None: those of one epoch.
        """
        epochs = Epochs.of(int(lengths[documents].sum(dtype=np.int64)), sequence_length, wanted)
        # A sequence of seeded draws that never changes with numpy's version, which its newer generators do not promise.
        random = np.random.RandomState(seed)
        stream = _stream(documents.astype(np.int32), epochs, random)
        return cls(
            documents=stream,
            ends=np.cumsum(lengths[stream], dtype=np.int64),
            samples=_shuffled_samples(epochs, random),
        )


def _stream(documents: NDArray[Any], epochs: Epochs, random: Any) -> NDArray[Any]:
    rounds = (epochs.count - 1, 1) if epochs.is_last_apart else (epochs.count,)
    parts = [np.tile(documents, count) for count in rounds]
    for part in parts:
        random.shuffle(part)
    return np.concatenate(parts)


def _shuffled_samples(epochs: Epochs, random: Any) -> NDArray[Any]:
    kind = np.uint32 if epochs.samples < np.iinfo(np.uint32).max else np.int64
    parts: list[NDArray[Any]] = [
        np.arange(epochs.together, dtype=kind),
        np.arange(epochs.together, epochs.samples, dtype=kind),
    ]
    for part in parts:
        random.shuffle(part)
    return np.concatenate(parts)

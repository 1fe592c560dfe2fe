"""From token files to the samples of training, validation and test, as Megatron's dataset builder makes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from primus_core.data.blend import BlendedSamples, normalised
from primus_core.data.indexed import IndexedReader
from primus_core.data.samples import FileSamples, Samples
from primus_core.data.splits import DEFAULT_SPLIT, SPLITS, WHOLE, Span, split_spans

_SURPLUS = 0.005
"""More samples are made of each file of a blend than its share: the mixture may draw a few more."""


@frozen(kw_only=True)
class TokenFile:
    """A token file of a blend."""

    prefix: str
    weight: float | None = None
    """Its share, relative to the others'; None for every file: one epoch of each."""


@frozen(kw_only=True)
class SampleMaker:
    """What all samples of a run have in common."""

    sequence_length: int
    seed: int

    def split(self, files: Sequence[TokenFile], split: str, wanted: Sequence[int | None]) -> dict[str, Samples | None]:
        """Divide files among training, validation and test; None where the share or the number wanted is 0.

        Args:
            split: the three shares, such as ``969,30,1``.
            wanted: samples at least of each; None: one epoch.

        Raises:
            ConfigError: the shares cannot be read.
            RunError: a file is unsound, or a split of it holds no token.
        """
        readers = [IndexedReader(file.prefix) for file in files]
        spans = zip(SPLITS, split_spans(split), wanted, strict=True)
        return {
            name: self._blend(files, readers, number, span) if span and number != 0 else None
            for name, span, number in spans
        }

    def whole(self, files: Sequence[TokenFile], wanted: int | None) -> Samples | None:
        """All of some files, for one purpose; arguments and errors as for `split`."""
        readers = [IndexedReader(file.prefix) for file in files]
        return self._blend(files, readers, wanted, WHOLE) if files and wanted != 0 else None

    def prepared(
        self, prepared: Mapping[str, Any], wanted: Sequence[int | None], split: str | None = None
    ) -> dict[str, Samples | None]:
        """The samples of a finished data preparation.

        Training data alone is divided by ``split``; otherwise each split has the data that was named for it. Files
        without a weight count by their tokens.

        Args:
            prepared: what the data task returned.
            wanted: samples at least of training, validation and test data; None: one epoch.
        """
        files = {name: _prepared_files(prepared.get(name) or ()) for name in SPLITS}
        if not files["valid"] and not files["test"]:
            return self.split(files["train"], split or DEFAULT_SPLIT, wanted)
        return {name: self.whole(files[name], number) for name, number in zip(SPLITS, wanted, strict=True)}

    def _blend(
        self, files: Sequence[TokenFile], readers: Sequence[IndexedReader], wanted: int | None, span: Span
    ) -> Samples:
        if len(files) == 1:
            return self._file(readers[0], wanted, span)
        weights = _weights(files)
        if weights is None:
            parts = [self._file(reader, None, span) for reader in readers]
            sizes = [len(part) for part in parts]
            return BlendedSamples(parts, sizes, None if wanted is None else min(wanted, sum(sizes)))
        if wanted is None:
            raise ValueError("a blend by weights needs a number of samples")
        targets = [math.ceil(wanted * weight) for weight in weights]
        made = [math.ceil(target * (1 + _SURPLUS)) for target in targets]
        parts = [self._file(reader, number, span) for reader, number in zip(readers, made, strict=True)]
        return BlendedSamples(parts, weights, sum(targets))

    def _file(self, reader: IndexedReader, wanted: int | None, span: Span) -> Samples:
        return FileSamples(reader, sequence_length=self.sequence_length, wanted=wanted, seed=self.seed, span=span)


def _weights(files: Sequence[TokenFile]) -> list[float] | None:
    given = [file.weight for file in files if file.weight is not None]
    if given and len(given) < len(files):
        raise ValueError("either every file of a blend has a weight, or none")
    return normalised(given) if given else None


def _prepared_files(files: Sequence[Mapping[str, Any]]) -> list[TokenFile]:
    return [
        TokenFile(prefix=file["prefix"], weight=file["tokens"] if file["weight"] is None else file["weight"])
        for file in files
    ]

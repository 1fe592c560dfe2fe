"""The tensors of a Hugging Face folder, of which each rank reads its own share."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from safetensors import safe_open

from primus_core.checkpoints.safetensors import read_folder
from primus_core.tensors.joining import joined
from primus_core.weights.table import Weight


class Source:
    """An open folder; a context manager."""

    def __init__(self, folder: str) -> None:
        self._stored = read_folder(folder)
        self._open: dict[str, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tensor(self, weight: Weight, rank: int = 0, ranks: int = 1) -> Any:
        """A back end's weight, or the share of it of one of several tensor-parallel ranks; padding is zero."""
        return joined(weight, [self._part(name, weight, rank, ranks) for name in weight.parts])

    def _part(self, name: str, weight: Weight, rank: int, ranks: int) -> Any:
        stored = self._file(name).get_slice(name)
        shape = stored.get_shape()
        if weight.axis == 1:
            begin, end = _share(shape[1], rank, ranks)
            return stored[:, begin:end]
        begin, end = _share(weight.rows or shape[0], rank, ranks) if weight.axis == 0 else (0, weight.rows or shape[0])
        part = stored[min(begin, shape[0]) : min(end, shape[0])]
        lacking = end - begin - part.shape[0]
        return torch.cat([part, part.new_zeros(lacking, *part.shape[1:])]) if lacking > 0 else part

    def _file(self, name: str) -> Any:
        path = str(self._stored[name].file)
        if path not in self._open:
            self._open[path] = self._stack.enter_context(safe_open(path, framework="pt"))
        return self._open[path]


def _share(size: int, rank: int, ranks: int) -> tuple[int, int]:
    return size * rank // ranks, size * (rank + 1) // ranks

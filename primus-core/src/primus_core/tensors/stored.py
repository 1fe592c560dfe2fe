"""Single tensors of a folder of `torch.distributed.checkpoint`, read without the others."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list


class Stored:
    """An open checkpoint."""

    def __init__(self, folder: str) -> None:
        self._reader = FileSystemReader(folder)
        self._metadata = self._reader.read_metadata()
        self._reader.set_up_storage_reader(self._metadata, is_coordinator=True)

    def read(self, name: str, layer: int | None = None) -> Any:
        """A whole tensor, or the part of one that holds all layers."""
        described = self._metadata.state_dict_metadata[name]
        size = torch.Size(described.size)
        offsets = torch.Size([0] * len(size) if layer is None else [layer, *[0] * (len(size) - 1)])
        wanted = size if layer is None else torch.Size([1, *size[1:]])
        target = torch.empty(wanted, dtype=described.properties.dtype)
        chunk = ChunkStorageMetadata(offsets=offsets, sizes=wanted)
        items = create_read_items_for_chunk_list(name, described, [chunk])
        self._reader.read_data(LoadPlan(items), _Into(target)).wait()
        return target if layer is None else target[0]


class _Into:
    """Where the parts of one tensor go: as much of a planner as a reader asks."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def resolve_tensor(self, read_item: Any) -> Any:
        places = zip(read_item.dest_offsets, read_item.lengths, strict=True)
        return self._target[tuple(slice(begin, begin + length) for begin, length in places)]

    def commit_tensor(self, read_item: Any, tensor: Any) -> None:
        """It was written where `resolve_tensor` said."""

"""The metadata of a folder of `torch.distributed.checkpoint`, read without torch.

Megatron's ``torch_dist`` and TorchTitan's checkpoints are such folders: a file ``.metadata`` says which tensors there
are and which byte of which ``.distcp`` file each part begins at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from primus_core.checkpoints.faults import Unknown, Unreadable
from primus_core.checkpoints.pickles import Allowed, Made, read_pickle
from primus_core.checkpoints.torchfile import (
    LARGEST,
    TORCH_NAMES,
    Tensor,
    as_dtype,
    as_shape,
    read_torch_bytes,
)

METADATA = ".metadata"

_TYPES = "torch.distributed.checkpoint.metadata"
_PLANNER = "torch.distributed.checkpoint.planner"
_TENSOR = f"{_TYPES}.TensorStorageMetadata"

_SHARDED = "torch.distributed._shard.sharded_tensor.metadata"
"""Where torch kept some of the types before version 2.3."""

ALLOWED = Allowed(
    names=TORCH_NAMES
    | {f"{_TYPES}.{name}" for name in ("Metadata", "MetadataIndex", "StorageMeta", "TensorProperties")}
    | {f"{_TYPES}.{name}StorageMetadata" for name in ("Tensor", "Bytes", "Chunk")}
    | {f"{_TYPES}._MEM_FORMAT_ENCODING", "torch.distributed.checkpoint.filesystem._StorageInfo"}
    | {f"{_PLANNER}.{name}" for name in ("SavePlan", "WriteItem", "WriteItemType", "TensorWriteData")}
    | {f"{_SHARDED}.{name}" for name in ("TensorProperties", "MEM_FORMAT_ENCODING")}
    | {"pathlib.PosixPath", "pathlib._local.PosixPath"}
)
"""What torch writes into the metadata of a folder."""


@frozen(kw_only=True)
class Location:
    """Where an object is kept."""

    file: str
    """Name within the folder."""
    offset: int
    length: int
    """Bytes."""


@frozen(kw_only=True)
class Metadata:
    """What a folder holds."""

    tensors: Mapping[str, Tensor] = field(factory=dict)
    """By their names, with global shapes."""
    objects: Mapping[str, Location] = field(factory=dict)
    """Values that are no tensors."""
    files: Mapping[str, int] = field(factory=dict)
    """Files that hold tensors and objects, and the bytes that each has at least."""


def is_dcp(folder: str | Path) -> bool:
    """Whether a folder is a complete one: its metadata is written last."""
    return (Path(folder) / METADATA).is_file()


def read_metadata(folder: str | Path) -> Metadata:
    """The metadata of a folder.

    Raises:
        Forbidden: it names something that torch does not write there.
        Unreadable: it cannot be read, is damaged, too large or of an unknown format.
    """
    path = Path(folder) / METADATA
    root = read_pickle(read_bytes(path), ALLOWED)
    if not isinstance(root, Made) or root.name != f"{_TYPES}.Metadata":
        raise Unreadable("no metadata of torch.distributed.checkpoint")
    locations = list(_locations(root.attributes().get("storage_data")))
    stored = dict(locations)
    described = root.attributes().get("state_dict_metadata")
    if not isinstance(described, dict):
        raise Unreadable("metadata without a list of tensors")
    return Metadata(
        tensors=dict(_tensors(described)),
        objects={name: stored[name] for name in described if name in stored and not _is_tensor(described[name])},
        files=_sizes(location for _, location in locations),
    )


def lost_files(folder: str | Path, files: Mapping[str, int]) -> tuple[str, ...]:
    """Files that are not there, or have fewer bytes than they must.

    Args:
        files: names within the folder, and the least number of bytes of each.
    """
    return tuple(sorted(name for name, size in files.items() if _size(Path(folder) / name) < size))


def _size(path: Path) -> int:
    """Bytes of a file; -1 where there is none."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return -1


def read_object(folder: str | Path, location: Location, allowed: Allowed) -> Any:
    """A value that was saved beside the tensors.

    Raises:
        Forbidden: it names something that is not allowed.
        Unreadable: it cannot be read, is damaged or too large.
    """
    if os.path.basename(location.file) != location.file or location.length > LARGEST:
        raise Unreadable(f"{location.file!r}: {location.length:,} bytes are not an object of this folder")
    data = read_bytes(Path(folder) / location.file, location.offset, location.length)
    return read_torch_bytes(data, allowed)


def read_bytes(path: Path, offset: int = 0, length: int = LARGEST + 1) -> bytes:
    """A part of a file.

    Raises:
        Unreadable: it is no regular file, may not be read, or has more than the largest size.
    """
    try:
        if not path.is_file():
            raise Unreadable("no regular file")
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(length)
    except (OSError, ValueError, OverflowError) as error:
        raise Unreadable(str(error)) from None
    if len(data) > LARGEST:
        raise Unknown(f"more than {LARGEST >> 20} MiB of metadata")
    return data


def _sizes(locations: Iterable[Location]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for location in locations:
        sizes[location.file] = max(sizes.get(location.file, 0), location.offset + location.length)
    return sizes


def _is_tensor(described: Any) -> bool:
    return isinstance(described, Made) and described.name == _TENSOR


def _tensors(described: Mapping[Any, Any]) -> Iterator[tuple[str, Tensor]]:
    for name, entry in described.items():
        shape = as_shape(entry.attributes().get("size")) if _is_tensor(entry) else None
        if isinstance(name, str) and shape is not None:
            yield name, Tensor(shape, _dtype(entry.attributes().get("properties")))


def _dtype(properties: Any) -> str:
    """Of ``TensorProperties``, whose state is a tuple that begins with the type, in old versions a dictionary."""
    state = properties.state if isinstance(properties, Made) else None
    if isinstance(state, dict):
        return as_dtype(state.get("dtype"))
    return as_dtype(state[0]) if isinstance(state, tuple) and state else ""


def _locations(stored: Any) -> Iterator[tuple[str, Location]]:
    for index, info in stored.items() if isinstance(stored, dict) else ():
        name = index.attributes().get("fqn") if isinstance(index, Made) else None
        where = info.attributes() if isinstance(info, Made) else {}
        file, offset, length = (where.get(key) for key in ("relative_path", "offset", "length"))
        if isinstance(name, str) and isinstance(file, str) and type(offset) is int and type(length) is int:
            yield name, Location(file=file, offset=offset, length=length)

"""Whether indexed data is whole, as far as the sizes of its two files tell. Standard library only."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO

from primus_core.errors import ConfigError

INDEX_MAGIC = b"MMIDIDX\x00\x00"
"""First bytes of the ``.idx`` file of Megatron's indexed data."""

_HEAD = struct.Struct("<9sQBQQ")
_TOKEN_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}
"""By the codes of an ``.idx`` file."""
_REMEDY = "copy the file again, or tokenize again"


def check_whole(prefix: str, where: str) -> None:
    """Refuse indexed data one of whose files is cut short, by the end of its last sequence.

    What else may be wrong is found by the ranks, which read all of the index.

    Raises:
        ConfigError: names the file, its size and the size that it should have.
    """
    with open(f"{prefix}.idx", "rb") as index:
        head = index.read(_HEAD.size)
        if not head.startswith(INDEX_MAGIC):
            why = f"it starts with {head[: len(INDEX_MAGIC)]!r}, an index with {INDEX_MAGIC!r}"
            raise ConfigError(f"{prefix}.idx is no index of tokens", where=where, why=why, remedy=_REMEDY)
        _refuse_short(f"{prefix}.idx", _HEAD.size, where)
        _, _, code, sequences, boundaries = _HEAD.unpack(head)
        _refuse_short(f"{prefix}.idx", _HEAD.size + 12 * sequences + 8 * boundaries, where)
        end = _last_end(index, sequences, _TOKEN_BYTES.get(code, 0)) if sequences else 0
    _refuse_short(f"{prefix}.bin", end, where)


def _last_end(index: BinaryIO, sequences: int, token_bytes: int) -> int:
    """Byte of the ``.bin`` file at which its last sequence ends."""
    index.seek(_HEAD.size + 4 * (sequences - 1))
    (length,) = struct.unpack("<i", index.read(4))
    index.seek(_HEAD.size + 4 * sequences + 8 * (sequences - 1))
    (offset,) = struct.unpack("<q", index.read(8))
    return int(offset + length * token_bytes)


def _refuse_short(path: str, needed: int, where: str) -> None:
    size = os.path.getsize(path)
    if size < needed:
        why = f"it has {size:,} bytes, and its index needs {needed:,}"
        raise ConfigError(f"{path} is cut short", where=where, why=why, remedy=_REMEDY)

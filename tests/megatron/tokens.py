"""Small token files in Megatron's format, written without Megatron."""

from __future__ import annotations

import itertools
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path

_UINT16, _INT32, _INT64 = "H", "i", "q"
_UINT16_CODE = 8


def write_tokens(prefix: Path, documents: Sequence[Sequence[int]]) -> Path:
    """Write ``prefix.bin`` and ``prefix.idx``: 16-bit tokens, one sequence a document."""
    lengths = [len(document) for document in documents]
    starts = [0, *itertools.accumulate(2 * length for length in lengths)][:-1]
    header = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, _UINT16_CODE, len(lengths), len(lengths) + 1)
    index = array(_INT32, lengths).tobytes() + array(_INT64, starts).tobytes()
    index += array(_INT64, range(len(lengths) + 1)).tobytes()
    Path(f"{prefix}.bin").write_bytes(array(_UINT16, itertools.chain(*documents)).tobytes())
    Path(f"{prefix}.idx").write_bytes(header + index)
    return prefix

"""Megatron's indexed data: the tokens in ``PREFIX.bin``, where each sequence and document starts in ``PREFIX.idx``.

The index is little-endian: magic ``MMIDIDX\\0\\0``, version (uint64, 1), code of the token type (uint8), number of
sequences and of document boundaries (uint64 each), then the sequences' lengths in tokens (int32), their offsets in
the ``.bin`` file in bytes (int64), and the boundaries: the first sequence of each document, and one past the last
(int64).
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Mapping
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from primus_core.errors import RunError
from primus_core.planning.dataindex import INDEX_MAGIC

VERSION = 1
_HEAD = struct.Struct("<9sQBQQ")
_TYPES: Mapping[int, Any] = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}
_CODES: Mapping[str, int] = {np.dtype(kind).name: code for code, kind in _TYPES.items()}
LONGEST = 1 << 30
"""Tokens of one sequence at most: its length must fit an int32. A longer document is several sequences."""
_BUFFER = 1 << 20
_SCAN_BLOCK = 1 << 24
SCAN_WHOLE = 4 << 30
"""Bytes of a ``.bin`` up to which every token is looked at."""
SCAN_SAMPLE = 1 << 30
"""Bytes looked at, evenly spread, of a larger one."""


def token_type(vocab_size: int) -> Any:
    """The smallest type that Megatron uses for a vocabulary: uint16 below 65,500 tokens, else int32."""
    return np.uint16 if vocab_size < 65500 else np.int32


class IndexedWriter:
    """Writes documents one after the other; whole only after `close`.

    Args:
        prefix: path without ``.bin`` and ``.idx``.
        vocab_size: decides the type of the tokens.
        longest: tokens of one sequence at most.
    """

    def __init__(self, prefix: str, vocab_size: int, *, longest: int = LONGEST) -> None:
        self.prefix = prefix
        self.dtype = np.dtype(token_type(vocab_size))
        self.tokens = 0
        self.max_token = -1
        self._longest = longest
        self._lengths = array("i")
        self._boundaries = array("q", [0])
        self._current = 0
        self._bin: BinaryIO = open(prefix + ".bin", "wb", buffering=_BUFFER)  # noqa: SIM115 - closed by close()

    @property
    def documents(self) -> int:
        return len(self._boundaries) - 1

    def append(self, tokens: NDArray[Any]) -> None:
        """Add tokens to the current document."""
        for start in range(0, len(tokens), self._longest):
            part = tokens[start : start + self._longest]
            if self._current + len(part) > self._longest:
                self._end_sequence()
            self._bin.write(part.astype(self.dtype, copy=False).tobytes())
            self._current += len(part)
            self.tokens += len(part)
            self.max_token = max(self.max_token, int(part.max()))

    def end_document(self) -> None:
        self._end_sequence()
        self._boundaries.append(len(self._lengths))

    def _end_sequence(self) -> None:
        if self._current:
            self._lengths.append(self._current)
        self._current = 0

    def close(self) -> None:
        """Write the index and force both files to the disk."""
        _sync_and_close(self._bin)
        lengths = np.frombuffer(self._lengths, dtype=np.int32)
        pointers: NDArray[Any] = np.zeros(len(lengths), dtype=np.int64)
        np.cumsum(lengths[:-1], dtype=np.int64, out=pointers[1:])
        boundaries = np.frombuffer(self._boundaries, dtype=np.int64)
        index = open(self.prefix + ".idx", "wb")  # noqa: SIM115 - closed by _sync_and_close
        index.write(_HEAD.pack(INDEX_MAGIC, VERSION, _CODES[self.dtype.name], len(lengths), len(boundaries)))
        for part in (lengths, pointers * self.dtype.itemsize, boundaries):
            index.write(part.tobytes())
        _sync_and_close(index)

    def abandon(self) -> None:
        """Close what is open; the files are left unfinished."""
        self._bin.close()

    def __enter__(self) -> IndexedWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _sync_and_close(stream: BinaryIO) -> None:
    with stream:
        stream.flush()
        os.fsync(stream.fileno())


class IndexedReader:
    """Reads documents without copying: the files are mapped.

    Args:
        prefix: path without ``.bin`` and ``.idx``.

    Raises:
        RunError: a file is missing, of another format, or shorter than its index says.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        index = _mapped(prefix + ".idx")
        self.dtype, sequences, boundaries = _head(prefix + ".idx", index)
        parts = ((np.int32, sequences), (np.int64, sequences), (np.int64, boundaries))
        needed = _HEAD.size + sum(np.dtype(kind).itemsize * count for kind, count in parts)
        if len(index) < needed:
            raise _short(prefix + ".idx", len(index), needed)
        arrays: list[NDArray[Any]] = []
        at = _HEAD.size
        for kind, count in parts:
            arrays.append(np.frombuffer(index, dtype=kind, count=count, offset=at))
            at += arrays[-1].nbytes
        self.lengths, self._pointers, self._boundaries = arrays
        self._data = _mapped(prefix + ".bin")
        self._check()

    def _check(self) -> None:
        ends = self._pointers + self.lengths.astype(np.int64) * self.dtype.itemsize
        needed = int(ends.max()) if len(ends) else 0
        if len(self._data) < needed:
            raise _short(self.prefix + ".bin", len(self._data), needed)
        steps = np.diff(self._boundaries)
        sound = len(self._boundaries) and self._boundaries[-1] == len(self.lengths) and not (steps < 0).any()
        if not sound or (self.lengths < 0).any() or (self._pointers < 0).any():
            raise _broken(self.prefix + ".idx", "its document boundaries and sequence lengths contradict each other")

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._boundaries) - 1

    @property
    def tokens(self) -> int:
        return int(self.lengths.sum(dtype=np.int64))

    @property
    def document_lengths(self) -> NDArray[Any]:
        """Tokens of each document (int64)."""
        ends: NDArray[Any] = np.zeros(len(self.lengths) + 1, dtype=np.int64)
        np.cumsum(self.lengths, out=ends[1:])
        return np.diff(ends[self._boundaries])

    def document(self, index: int) -> NDArray[Any]:
        """Tokens of one document, read-only; 0 <= index < len(reader)."""
        first, last = int(self._boundaries[index]), int(self._boundaries[index + 1])
        parts = [self.sequence(number) for number in range(first, last)]
        if len(parts) == 1:
            whole: NDArray[Any] = parts[0]
        else:
            whole = np.concatenate([np.empty(0, dtype=self.dtype), *parts])
        return whole

    def sequence(self, number: int) -> NDArray[Any]:
        """Tokens of one sequence, read-only; a document is one sequence, unless it is longer than that may be."""
        count, offset = int(self.lengths[number]), int(self._pointers[number])
        sequence: NDArray[Any] = np.frombuffer(self._data, dtype=self.dtype, count=count, offset=offset)
        return sequence

    def largest_token(self, *, whole: int = SCAN_WHOLE, sample: int = SCAN_SAMPLE) -> int:
        """Largest token: of all up to ``whole`` bytes, else of ``sample`` bytes, evenly spread; -1 for none.

        Raises:
            RunError: a token is negative.
        """
        tokens = np.frombuffer(self._data, dtype=self.dtype, count=len(self._data) // self.dtype.itemsize)
        largest = -1
        for block in _blocks(tokens, whole, sample):
            smallest, largest = int(block.min()), max(largest, int(block.max()))
            if smallest < 0:
                raise _broken(self.prefix + ".bin", f"it holds the token {smallest}")
        return largest


def _blocks(tokens: NDArray[Any], whole: int, sample: int) -> list[NDArray[Any]]:
    """Views of at most 16 M tokens that cover the tokens, or a sample of them."""
    if tokens.nbytes <= whole:
        return [tokens[at : at + _SCAN_BLOCK] for at in range(0, len(tokens), _SCAN_BLOCK)]
    looks = 1024
    length = sample // looks // tokens.itemsize
    starts = np.linspace(0, len(tokens) - length, looks, dtype=np.int64)
    return [tokens[start : start + length] for start in starts]


def _mapped(path: str) -> Any:
    """The bytes of a file; empty for an empty one, which cannot be mapped."""
    try:
        return np.memmap(path, mode="r", dtype=np.uint8) if os.path.getsize(path) else np.empty(0, dtype=np.uint8)
    except OSError as error:
        raise RunError(f"{path} cannot be read", why=error.strerror or str(error)) from error


def _head(path: str, index: Any) -> tuple[Any, int, int]:
    """Type of the tokens, number of sequences, number of document boundaries."""
    head = bytes(index[: _HEAD.size])
    if not head.startswith(INDEX_MAGIC):
        raise _broken(path, f"it starts with {head[:9]!r}, an index starts with {INDEX_MAGIC!r}")
    if len(head) < _HEAD.size:
        raise _short(path, len(head), _HEAD.size)
    _, version, code, sequences, boundaries = _HEAD.unpack(head)
    if version != VERSION:
        raise _broken(path, f"its version is {version}; only version {VERSION} is known")
    if code not in _TYPES:
        raise _broken(path, f"its token type has the code {code}, which stands for no type of whole numbers")
    return np.dtype(_TYPES[code]), sequences, boundaries


def _broken(path: str, why: str) -> RunError:
    return RunError(f"{path} is not sound indexed data", why=why, remedy="copy the file again, or tokenize again")


def _short(path: str, size: int, needed: int) -> RunError:
    return RunError(
        f"{path} is cut short",
        why=f"it has {size:,} bytes, and its index needs {needed:,}",
        remedy="copy the file again, or tokenize again",
    )

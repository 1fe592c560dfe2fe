"""Whether a vocabulary fits the model, as far as it can be seen before anything starts.

The ranks check again, with the libraries and over all tokens; here a mistake costs a fraction of a second
instead of the start of a job. Standard library only.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from array import array
from collections.abc import Sequence

from primus_core.errors import ConfigError
from primus_core.planning.dataindex import INDEX_MAGIC
from primus_core.planning.datasources import Source
from primus_core.planning.datatokenizers import TokenizerChoice

BYTE_VOCABULARY = 259
"""256 bytes, begin, end of document, padding."""

_LOOKS = 16
_LOOK_BYTES = 128 * 1024
_ARRAYS = {1: "B", 4: "i", 5: "q", 8: "H"}
"""Array types by the codes of an ``.idx`` file: uint8, int32, int64, uint16."""


def check_vocabulary(vocabulary: int, tokenizer: TokenizerChoice, sources: Sequence[Source], where: str) -> None:
    """Refuse a vocabulary that is larger than the model's.

    Args:
        vocabulary: rows of the model's embedding.
        where: ``file:line`` of the parameter that sets them.

    Raises:
        ConfigError: names the file, both numbers and what to do.
    """
    if any(source.kind != "indexed" for source in sources):
        size = tokenizer_size(tokenizer)
        if size is not None and size > vocabulary:
            raise tokenizer_too_large(tokenizer.type, tokenizer.model, size, vocabulary, where)
    for source in sources:
        largest = _largest_seen(source.files[0]) if source.kind == "indexed" else -1
        if largest >= vocabulary:
            raise token_too_large(source.files[0] + ".bin", largest, vocabulary, where)


def tokenizer_too_large(kind: str, model: str | None, size: int, vocabulary: int, where: str = "") -> ConfigError:
    """The error for a tokenizer whose ids do not fit the model."""
    return ConfigError(
        f"the tokenizer's vocabulary of {size:,} is larger than the model's of {vocabulary:,}",
        where=where,
        why=f"{kind}{f' {model}' if model else ''} gives ids up to {size - 1:,}; the embedding has no such row",
        remedy=f"set vocab_size: {size} (or more), or use a tokenizer made for this model",
    )


def token_too_large(path: str, largest: int, vocabulary: int, where: str = "") -> ConfigError:
    """The error for indexed data that was made with a larger vocabulary."""
    return ConfigError(
        f"{path} holds token {largest:,}, and the model's vocabulary is {vocabulary:,}",
        where=where,
        why="the embedding has no such row: the data was made with another tokenizer",
        remedy=f"set vocab_size: {largest + 1} or more (that of its tokenizer), or use data made for this model",
    )


def tokenizer_size(tokenizer: TokenizerChoice) -> int | None:
    """Largest id + 1 of a tokenizer; None where only the ranks can tell."""
    if tokenizer.family == "bytes":
        return BYTE_VOCABULARY
    if tokenizer.model is None or not tokenizer.is_local:
        return None
    with open(tokenizer.model, "rb") as stream:
        content = stream.read()
    return _json_size(content) if tokenizer.family == "huggingface" else _sentencepiece_size(content)


def _json_size(content: bytes) -> int | None:
    """Largest id + 1 in a ``tokenizer.json``; None for a layout that is not known here."""
    try:
        parsed = json.loads(content)
        vocabulary = parsed["model"]["vocab"]
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        added = (token["id"] for token in parsed.get("added_tokens") or ())
        return 1 + max(max(ids, default=-1), max(added, default=-1))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _sentencepiece_size(content: bytes) -> int | None:
    """Number of pieces: fields 1 of the top-level protobuf message; None for anything else."""
    position = pieces = 0
    try:
        while position < len(content):
            tag, position = _varint(content, position)
            if tag & 7 != 2:
                return None
            length, position = _varint(content, position)
            position += length
            pieces += tag >> 3 == 1
    except IndexError:
        return None
    return pieces if position == len(content) and pieces else None


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _largest_seen(prefix: str) -> int:
    """Largest token in a few evenly spread looks (all of a small file); -1 where the format is not known here."""
    with open(prefix + ".idx", "rb") as stream:
        head = stream.read(len(INDEX_MAGIC) + 9)
    if len(head) < len(INDEX_MAGIC) + 9 or not head.startswith(INDEX_MAGIC) or sys.byteorder != "little":
        return -1
    (code,) = struct.unpack_from("<B", head, len(INDEX_MAGIC) + 8)
    if code not in _ARRAYS:
        return -1
    size = os.path.getsize(prefix + ".bin")
    step = max(size // _LOOKS, _LOOK_BYTES)
    with open(prefix + ".bin", "rb") as stream:
        return max((_largest_at(stream.fileno(), at, _ARRAYS[code]) for at in range(0, size, step)), default=-1)


def _largest_at(descriptor: int, at: int, typecode: str) -> int:
    tokens = array(typecode)
    at -= at % tokens.itemsize
    block = os.pread(descriptor, _LOOK_BYTES, at)
    tokens.frombytes(block[: len(block) - len(block) % tokens.itemsize])
    return max(tokens, default=-1)

"""From text files to one token file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from primus_core.data.documents import Piece, read_documents
from primus_core.data.indexed import IndexedWriter
from primus_core.data.tokenizers import Tokenizer

_BATCH = 4 << 20
"""Characters given to a tokenizer at once: enough for its threads, some 200 MB of its objects at most."""
_BATCH_PIECES = 4096


def write_tokens(
    kind: str,
    files: Sequence[str],
    text_field: str,
    tokenizer: Tokenizer,
    writer: IndexedWriter,
    advance: Callable[[int], None],
) -> None:
    """Tokenize files, document by document, each with the tokenizer's end. Memory is bounded by a batch or a line."""
    pieces = (piece for path in files for piece in read_documents(kind, path, text_field, advance))
    prefix = np.array(tokenizer.prefix, dtype=np.int32)
    suffix = np.array(tokenizer.suffix, dtype=np.int32)
    starts = True
    for batch in _batches(pieces):
        for piece, ids in zip(batch, tokenizer.encode([piece.text for piece in batch]), strict=True):
            if starts:
                writer.append(prefix)
            writer.append(ids)
            starts = piece.last
            if piece.last:
                writer.append(suffix)
                writer.end_document()


def _batches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.text)
        if size >= _BATCH or len(batch) >= _BATCH_PIECES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch

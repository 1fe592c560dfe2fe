"""Documents of text, JSONL and Parquet files, in pieces that fit in memory."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from attrs import frozen

from primus_core.data.parquet import read_rows
from primus_core.errors import RunError

BLOCK = 1 << 20
"""Bytes read at a time."""
PIECE = 1 << 18
"""Characters of a piece at most, about."""


@frozen
class Piece:
    """Part of a document's text."""

    text: str
    last: bool
    """The document ends here."""


def read_documents(
    kind: str, path: str, text_field: str, advance: Callable[[int], None] = lambda _: None
) -> Iterator[Piece]:
    """Pieces of every document of a file, in order.

    Args:
        kind: ``text``: the file is one document; ``jsonl``: each line is one, in ``text_field``; ``parquet``: each
            row is one, in the column ``text_field``.
        advance: told the bytes read of the file (compressed ones of a ``.gz``) as they are read.

    Raises:
        RunError: the file is not UTF-8, or a line or row has no text in the field; names file and line.
        DependencyError: the file is Parquet, and pyarrow is missing.
    """
    if kind == "parquet":
        for text in read_rows(path, text_field, advance):
            yield from _pieces((text,))
    else:
        yield from _read_stream(kind, path, text_field, advance)


def _read_stream(kind: str, path: str, text_field: str, advance: Callable[[int], None]) -> Iterator[Piece]:
    with open(path, "rb") as raw:
        counted = _Counted(raw, advance)
        stream = gzip.GzipFile(fileobj=io.BufferedReader(counted, BLOCK)) if path.endswith(".gz") else counted
        buffered: BinaryIO = io.BufferedReader(stream, BLOCK)
        try:
            if kind == "jsonl":
                yield from _lines(path, buffered, text_field)
            else:
                yield from _pieces(_decoded(path, buffered))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise RunError(f"{path} is not a sound gzip file", why=str(error)) from error


class _Counted(io.RawIOBase):
    """A file that tells how much of it was read."""

    def __init__(self, raw: io.BufferedReader, advance: Callable[[int], None]) -> None:
        self._raw = raw
        self._advance = advance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._raw.readinto(buffer)
        self._advance(count)
        return count


def _decoded(path: str, stream: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    done = 0
    try:
        while block := stream.read(BLOCK):
            yield decoder.decode(block)
            done += len(block)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise not_utf8(path, f"{error.reason} after {done:,} bytes") from error


def not_utf8(path: str, why: str) -> RunError:
    """The error for a named file that is not text."""
    return RunError(f"{path} is not UTF-8 text", why=why, remedy="convert the file, or take it out of the data path")


def _pieces(blocks: Iterable[str]) -> Iterator[Piece]:
    """Cut text at line ends into pieces; nothing for no text."""
    rest = ""
    for block in blocks:
        rest += block
        at = 0
        while len(rest) - at > PIECE:
            end = _cut(rest, at)
            yield Piece(rest[at:end], False)
            at = end
        rest = rest[at:]
    if rest:
        yield Piece(rest, True)


def _cut(text: str, at: int) -> int:
    """Where a piece that starts at ``at`` ends: the last good seam, else the last line end, else the last blank."""
    limit = at + PIECE
    seam = text.rfind("\n", at + PIECE // 2, limit)
    while seam >= 0 and not _is_seam(text, seam):
        seam = text.rfind("\n", at + PIECE // 2, seam)
    line = seam if seam >= 0 else text.rfind("\n", at, limit)
    if line >= 0:
        return line + 1
    blank = text.rfind(" ", at + 1, limit)
    return blank if blank >= 0 else limit


def _is_seam(text: str, end: int) -> bool:
    """Whether a line end lies between two lines with text.

    Cutting there leaves the tokens of both sides as they would be uncut: tokenizers treat runs of white space as one.
    (SentencePiece may put its word mark at the seam.)
    """
    before = text[end - 2] if text[end - 1] == "\r" else text[end - 1]
    return not before.isspace() and not text[end + 1].isspace()


def _lines(path: str, stream: Iterable[bytes], text_field: str) -> Iterator[Piece]:
    for number, line in enumerate(stream, 1):
        if not line.isspace():
            yield from _pieces((_field(line, text_field, f"{path}:{number}"),))


def _field(line: bytes, name: str, where: str) -> str:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise _bad_line(where, "the line is not JSON", str(error)) from error
    if not isinstance(document, dict):
        raise _bad_line(where, "the line is not a JSON object", f"it is a {type(document).__name__}")
    if name not in document:
        raise _bad_line(
            where, f"the document has no field {name!r}", f"it has {', '.join(map(repr, document)) or 'none'}"
        )
    text = document[name]
    if not isinstance(text, str):
        raise _bad_line(where, f"the field {name!r} is not a text", f"it is a {type(text).__name__}")
    if b"\\ud" in line.lower():
        _refuse_surrogates(text, name, where)
    return text


def _bad_line(where: str, what: str, why: str) -> RunError:
    remedy = "each line of a JSONL file is one object; the parameter text_field names the field that holds its text"
    return RunError(what, where=where, why=why, remedy=remedy)


def _refuse_surrogates(text: str, name: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _bad_line(where, f"the field {name!r} is not valid Unicode", str(error)) from error

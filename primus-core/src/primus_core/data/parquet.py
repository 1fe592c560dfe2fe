"""Documents of Parquet files: one column, a row at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from primus_core.data.missing import missing_library
from primus_core.errors import RunError

_ROWS = 128
"""Rows decoded at a time: enough to be quick, few enough where each is a book."""
_BUFFER = 1 << 20
"""Bytes read at a time; without it a whole row group of the column is read at once."""


def check_columns(files: Sequence[str], column: str) -> None:
    """Raise the error that `read_rows` would raise later, after hours perhaps, for a file without the column."""
    for path in files:
        with _opened(path, column):
            pass


def read_rows(path: str, column: str, advance: Callable[[int], None] = lambda _: None) -> Iterator[str]:
    """The texts of a column, in order.

    Args:
        advance: told the file's bytes, in proportion to the rows that are read.

    Raises:
        DependencyError: pyarrow is missing.
        RunError: the file is not sound, the column is missing or no text, or a row has none; names file and row.
    """
    with _opened(path, column) as file:
        size, rows, done = os.path.getsize(path), file.metadata.num_rows, 0
        for batch in file.iter_batches(batch_size=_ROWS, columns=[column], use_threads=False):
            yield from _texts(batch.column(0), path, column, done)
            before, done = done, done + batch.num_rows
            advance(size * done // rows - size * before // rows)


@contextmanager
def _opened(path: str, column: str) -> Iterator[Any]:
    """A Parquet file that has the column; what pyarrow complains of inside is told as a fault of the file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise missing_library("pyarrow", error) from error
    try:
        with parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
            _check_column(path, file.schema_arrow, column, pyarrow.types)
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        remedy = "copy the file again, or take it out of the data path"
        raise RunError(f"{path} is not a sound Parquet file", why=str(error), remedy=remedy) from error


def _check_column(path: str, schema: Any, column: str, types: Any) -> None:
    remedy = "the parameter text_field names the column that holds the text"
    if column not in schema.names:
        columns = ", ".join(map(repr, schema.names)) or "none"
        raise RunError(f"{path} has no column {column!r}", why=f"its columns are {columns}", remedy=remedy)
    kind = schema.field(column).type
    plain = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(plain) or types.is_large_string(plain)):
        raise RunError(f"{path}: the column {column!r} is not text", why=f"its type is {kind}", remedy=remedy)


def _texts(array: Any, path: str, column: str, before: int) -> Iterator[str]:
    for offset, value in enumerate(_values(array)):
        if not isinstance(value, str):
            raise RunError(
                f"the column {column!r} has no valid text",
                where=f"{path}: row {before + offset + 1}",
                why="the row is null" if value is None else str(value),
                remedy="leave such rows out of the file",
            )
        yield value


def _values(array: Any) -> list[object]:
    """Each row's text, None, or why it is no text."""
    try:
        values: list[object] = array.to_pylist()
    except UnicodeDecodeError:
        values = [_value(item) for item in array]
    return values


def _value(item: Any) -> object:
    try:
        return item.as_py()
    except UnicodeDecodeError as error:
        return error

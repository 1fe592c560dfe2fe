"""Files of results: Markdown, CSV, TSV and JSON lines. Rows are added to a file that exists; nothing is lost silently.

Each row says its run, date, host and device, so that rows of many runs may stand in one file.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence

from primus_core.errors import ConfigError, RunError
from primus_core.render.tables import as_markdown
from primus_preflight.benchmarks.rows import Kind, Row, columns_of, table_of, text_of

STDOUT = "-"
ENDS = (".md", ".csv", ".tsv", ".jsonl", ".jsonl.gz")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def check_output(path: str, suite: str, kind: Kind, *, overwrite: bool) -> None:
    """Refuse a file that results could not be written to, before anything is measured.

    Args:
        path: absolute.

    Raises:
        ConfigError: its name tells no format, its folder is not there, or rows of other columns are in it.
    """
    _end_of(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise ConfigError("there is no such folder", where=path, remedy=f"mkdir -p {folder}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK) or os.path.isdir(path):
        raise ConfigError("the file cannot be written", where=path, remedy="name another one: --output-file FILE")
    if not overwrite and os.path.exists(path):
        _check_columns(path, suite, kind)


def write_output(path: str, suite: str, kind: Kind, rows: Sequence[Row], *, overwrite: bool) -> None:
    """Add the rows to a file, or replace it by them.

    Raises:
        RunError: the file cannot be written.
    """
    end = _end_of(path)
    new = overwrite or not os.path.exists(path) or not os.path.getsize(path)
    data = _WRITERS[end](suite, kind, rows, new)
    try:
        with open(path, "wb" if overwrite else "ab") as file:
            file.write(data)
    except OSError as error:
        raise RunError("the results cannot be written", where=path, why=error.strerror or str(error)) from None


def beside(path: str, word: str) -> str:
    """The path of another table of the same run: ``report_rank.csv`` for ``report.csv``."""
    end = _end_of(path)
    return f"{path.removesuffix(end)}_{word}{end}"


def json_lines(rows: Sequence[Row]) -> str:
    """One JSON object a line, with all that the rows have."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _end_of(path: str) -> str:
    for end in sorted(ENDS, key=len, reverse=True):
        if path.endswith(end):
            return end
    raise ConfigError("the name tells no format", where=path, remedy=f"end it with {', '.join(ENDS)}")


def _check_columns(path: str, suite: str, kind: Kind) -> None:
    separator = _SEPARATORS.get(_end_of(path))
    if separator is None:
        return
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        header = next(csv.reader(file, delimiter=separator), None)
    if header is not None and tuple(header) != columns_of(suite, kind):
        raise ConfigError(
            f"the file has other columns than {suite}",
            where=path,
            why="rows are added to a file that exists",
            remedy="name another file, or give --overwrite to replace it",
        )


def _markdown(suite: str, kind: Kind, rows: Sequence[Row], new: bool) -> bytes:
    return f"{'' if new else chr(10)}{as_markdown(table_of(suite, kind, rows))}\n".encode()


def _separated(end: str) -> Callable[[str, Kind, Sequence[Row], bool], bytes]:
    def write(suite: str, kind: Kind, rows: Sequence[Row], new: bool) -> bytes:
        names = columns_of(suite, kind)
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=_SEPARATORS[end], lineterminator="\n")
        if new:
            writer.writerow(names)
        writer.writerows([text_of(row.get(name)) for name in names] for row in rows)
        return text.getvalue().encode()

    return write


def _lines(suite: str, kind: Kind, rows: Sequence[Row], new: bool) -> bytes:
    return json_lines(rows).encode()


def _compressed(suite: str, kind: Kind, rows: Sequence[Row], new: bool) -> bytes:
    """A member of its own: gzip files may have many, and readers join them."""
    return gzip.compress(_lines(suite, kind, rows, new), mtime=0)


_WRITERS: Mapping[str, Callable[[str, Kind, Sequence[Row], bool], bytes]] = {
    ".md": _markdown,
    ".csv": _separated(".csv"),
    ".tsv": _separated(".tsv"),
    ".jsonl": _lines,
    ".jsonl.gz": _compressed,
}

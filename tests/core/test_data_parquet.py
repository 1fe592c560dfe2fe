"""Documents of Parquet files: real files, read as the data task reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from primus_core.data.documents import read_documents
from primus_core.data.parquet import check_columns
from primus_core.errors import ExitCode, RunError
from tests.core.dataruns import EOD, OLD, Rank, documents, entries, plan, prepare


def table(path: Path, rows: int = 0, **columns: Any) -> Path:
    """A Parquet file, in row groups of ``rows``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), path, row_group_size=rows or None)
    return path


def test_each_row_is_a_document(tmp_path: Path) -> None:
    """Rows of all row groups come in order, each with its end; an empty text is no document, as in JSONL."""
    table(tmp_path / "a.parquet", rows=2, id=[1, 2, 3, 4], body=["one", "", "zwei ä", "three"])
    result = prepare(plan(tmp_path, text_field="body", train_data_path="a.parquet"))
    assert documents(result) == [[*text.encode(), EOD] for text in ("one", "zwei ä", "three")]
    assert (result["train"][0]["documents"], result["train"][0]["weight"]) == (3, None)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_every_type_of_text_is_text(tmp_path: Path, kind: Any) -> None:
    """Short, large and dictionary-encoded strings are read alike."""
    table(tmp_path / "a.parquet", text=pa.array(["x", "y", "x"]).cast(kind))
    assert documents(prepare(plan(tmp_path, train_data_path="a.parquet"))) == [[120, EOD], [121, EOD], [120, EOD]]


def test_folders_globs_and_blends_take_parquet(tmp_path: Path) -> None:
    """Parquet stands beside text in a folder, is found by a glob, and has a weight in a blend."""
    table(tmp_path / "docs/b.parquet", text=["b"])
    table(tmp_path / "docs/deep/c.parquet", text=["c"])
    (tmp_path / "docs/a.txt").write_text("a")
    folder = prepare(plan(tmp_path, train_data_path="docs"))
    assert [documents(folder, source=n) for n in (0, 1)] == [[[97, EOD]], [[98, EOD], [99, EOD]]]
    blend = prepare(plan(tmp_path, train_data_path=[3, "docs/**/*.parquet", 1, "docs/a.txt"]))
    assert documents(blend) == [[98, EOD], [99, EOD]]
    assert [source["weight"] for source in blend["train"]] == [0.75, 0.25]


def test_the_cache_follows_content_and_column(tmp_path: Path) -> None:
    """Another column, or another content, is another entry; the same file under another name is the same one."""
    path = table(tmp_path / "a.parquet", text=["one"], other=["two"])
    os.utime(path, (OLD, OLD))
    assert documents(prepare(plan(tmp_path, train_data_path="a.parquet"))) == [[*b"one", EOD]]
    assert documents(prepare(plan(tmp_path, text_field="other", train_data_path="a.parquet"))) == [[*b"two", EOD]]
    path.rename(tmp_path / "b.parquet")
    rank = Rank()
    prepare(plan(tmp_path, train_data_path="b.parquet"), rank)
    assert rank.notices[0].endswith("from cache")
    assert len(entries(tmp_path)) == 2


def test_progress_ends_with_the_files_bytes(tmp_path: Path) -> None:
    """Every byte of the file is told once, in proportion to the rows."""
    path = table(tmp_path / "a.parquet", rows=100, text=[f"row {number}" for number in range(1000)])
    told: list[int] = []
    assert len(list(read_documents("parquet", str(path), "text", told.append))) == 1000
    assert len(told) > 5
    assert sum(told) == path.stat().st_size


@pytest.mark.parametrize(
    ("columns", "where", "what", "why"),
    [
        ({"txt": ["x"], "id": [1]}, "", "a.parquet has no column 'text'", "'txt', 'id'"),
        ({"text": [1, 2]}, "", "a.parquet: the column 'text' is not text", "int64"),
        ({"text": [["x"]]}, "", "a.parquet: the column 'text' is not text", "list<"),
        ({"text": ["x"] * 200 + [None]}, "a.parquet: row 201", "the column 'text' has no valid text", "null"),
        (
            {"text": pa.array([b"x", b"caf\xe9"]).view(pa.string())},
            "a.parquet: row 2",
            "the column 'text' has no valid text",
            "0xe9",
        ),
    ],
)
def test_a_column_without_text_ends_the_run_and_leaves_no_entry(
    tmp_path: Path, columns: dict[str, Any], where: str, what: str, why: str
) -> None:
    """A column that is missing or no text, and a row without any, are told with file and row."""
    table(tmp_path / "a.parquet", **columns)
    with pytest.raises(RunError) as caught:
        prepare(plan(tmp_path, train_data_path="a.parquet"))
    assert what in caught.value.what
    assert caught.value.where.endswith(where)
    assert why in caught.value.why
    assert caught.value.exit_code == ExitCode.RUNTIME
    assert entries(tmp_path) == []


def test_a_missing_column_is_told_before_anything_is_tokenized(tmp_path: Path) -> None:
    """The last file of a folder is looked at before the first one is read."""
    table(tmp_path / "docs/a.parquet", text=["x"] * 1000)
    table(tmp_path / "docs/b.parquet", txt=["x"])
    rank = Rank()
    with pytest.raises(RunError, match=r"b\.parquet has no column"):
        prepare(plan(tmp_path, train_data_path="docs"), rank)
    assert not [bar for bar in rank.bars if bar[0] == "tokenizing"]


@pytest.mark.parametrize("kept", [-5, 40])
def test_a_damaged_file_is_named(tmp_path: Path, kept: int) -> None:
    """A file that was cut short in a folder is told in one screen, whatever pyarrow makes of it."""
    path = table(tmp_path / "docs/a.parquet", text=["x" * 1000])
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(RunError, match=r"a\.parquet is not a sound Parquet file") as caught:
        prepare(plan(tmp_path, train_data_path="docs"))
    assert len(caught.value.why.splitlines()) <= 3


def test_a_row_group_is_not_read_at_once(tmp_path: Path) -> None:
    """Of a row group of 64 MB little is held at a time."""
    text = "".join(chr(97 + n * n % 26) for n in range(1 << 16))
    path = table(tmp_path / "a.parquet", text=[f"{number}{text}" for number in range(1024)])
    code = (
        "import resource, sys, pyarrow.parquet\n"
        "from primus_core.data.documents import read_documents\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "n = sum(len(piece.text) for piece in read_documents('parquet', sys.argv[1], 'text'))\n"
        "print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True, check=True)
    characters, kilobytes = map(int, done.stdout.split())
    assert characters > 64 << 20
    assert kilobytes < 48 << 10


def test_columns_are_checked_without_reading(tmp_path: Path) -> None:
    """A sound file with the column passes."""
    check_columns([str(table(tmp_path / "a.parquet", text=["x"]))], "text")

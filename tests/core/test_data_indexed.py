"""Megatron's indexed data, written and read."""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from primus_core.data.indexed import LONGEST, IndexedReader, IndexedWriter
from primus_core.errors import RunError

DOCUMENTS = [[1, 2, 3], [65_000 - 1], [], [7] * 1000, [0, 4]]


def write(
    prefix: Path, documents: list[list[int]], vocab_size: int = 65_000, *, longest: int = LONGEST
) -> IndexedWriter:
    with IndexedWriter(str(prefix), vocab_size, longest=longest) as writer:
        for document in documents:
            for start in range(0, len(document), 300):
                writer.append(np.array(document[start : start + 300]))
            writer.end_document()
    return writer


MEGATRON = """
import json, sys, types
stub = types.ModuleType("paged_stash")  # Megatron imports its CUDA kernels on a host without triton
stub.__getattr__ = lambda name: None
sys.modules["megatron.core.transformer.moe.ops.paged_stash"] = stub
import numpy, torch
from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder
found = {}
for size in (65_499, 65_500, 129_280):
    data = IndexedDataset(str(size))
    found[size] = {
        "documents": [data[i].tolist() for i in range(len(data))],
        "boundaries": data.document_indices.tolist(),
        "chosen": [data.index.dtype.__name__, DType.optimal_dtype(size).__name__],
    }
builder = IndexedDatasetBuilder("theirs.bin", dtype=numpy.int32)
builder.add_document(torch.tensor([1, 2, 3, 4, 5]), [2, 3])
builder.add_document(torch.tensor([6]), [1])
builder.finalize("theirs.idx")
print(json.dumps(found))
"""


def test_megatron_and_we_read_each_others_files(tmp_path: Path) -> None:
    """Megatron's own reader finds our documents in the type it would choose itself; we read what its builder writes."""
    if importlib.util.find_spec("megatron") is None:
        pytest.skip("megatron-core is not installed")
    documents = [document for document in DOCUMENTS if document]
    sizes = {65_499: "uint16", 65_500: "int32", 129_280: "int32"}
    for size in sizes:
        write(tmp_path / str(size), documents, size)
    megatron = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEGATRON], cwd=tmp_path, stdout=subprocess.PIPE, check=True
    )
    for size, found in json.loads(megatron.stdout.splitlines()[-1]).items():
        assert found["documents"] == documents
        assert found["boundaries"] == list(range(len(documents) + 1))
        assert found["chosen"] == [sizes[int(size)]] * 2
    reader = IndexedReader(str(tmp_path / "theirs"))
    assert [reader.document(i).tolist() for i in range(len(reader))] == [[1, 2, 3, 4, 5], [6]]
    assert (reader.tokens, reader.largest_token()) == (6, 6)


def test_our_reader_finds_every_document(tmp_path: Path) -> None:
    """Documents come back as they were, an empty one too; counts and the largest token are right."""
    writer = write(tmp_path / "tokens", DOCUMENTS)
    reader = IndexedReader(str(tmp_path / "tokens"))
    assert [reader.document(i).tolist() for i in range(len(reader))] == DOCUMENTS
    assert writer.documents == len(reader) == 5
    assert writer.tokens == reader.tokens == 1006
    assert writer.max_token == reader.largest_token() == 64_999
    with pytest.raises(ValueError, match="read-only"):
        reader.document(0)[0] = 9


def test_a_document_longer_than_a_sequence_may_be_stays_one_document(tmp_path: Path) -> None:
    """A document whose length does not fit the index is several sequences of one document."""
    write(tmp_path / "tokens", DOCUMENTS, longest=256)
    reader = IndexedReader(str(tmp_path / "tokens"))
    assert max(reader.lengths) <= 256
    assert [reader.document(i).tolist() for i in range(len(reader))] == DOCUMENTS


def test_a_large_file_is_sampled_evenly(tmp_path: Path) -> None:
    """Above the limit the look is spread from the first token to the last, and leaves most tokens out."""
    write(tmp_path / "tokens", [[1] * 30 + [11] + [1] * 100_000 + [9]])
    reader = IndexedReader(str(tmp_path / "tokens"))
    assert reader.largest_token() == 11
    assert reader.largest_token(whole=1000, sample=1024 * 4) == 9


def test_nothing_written_is_read_as_nothing(tmp_path: Path) -> None:
    """Files without a document are sound and empty."""
    write(tmp_path / "tokens", [])
    reader = IndexedReader(str(tmp_path / "tokens"))
    assert (len(reader), reader.tokens, reader.largest_token()) == (0, 0, -1)


def cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def patch(name: str, at: int, content: bytes) -> Callable[[Path], object]:
    def patched(folder: Path) -> None:
        old = (folder / name).read_bytes()
        (folder / name).write_bytes(old[:at] + content + old[at + len(content) :])

    return patched


@pytest.mark.parametrize(
    ("damage", "file", "why"),
    [
        (cut("t.bin", -2), "t.bin is cut short", "2,010 bytes"),
        (cut("t.idx", -1), "t.idx is cut short", "its index needs"),
        (cut("t.idx", 20), "t.idx is cut short", "20 bytes"),
        (cut("t.idx", 0), "t.idx is not sound", "starts with b''"),
        (patch("t.idx", 0, b"GIF89a"), "t.idx is not sound", "GIF89a"),
        (patch("t.idx", 9, b"\x02"), "t.idx is not sound", "version is 2"),
        (patch("t.idx", 17, b"\x07"), "t.idx is not sound", "code 7"),
        (patch("t.idx", 34, struct.pack("<i", -3)), "t.idx is not sound", "contradict"),
        (patch("t.idx", 34, struct.pack("<i", 1 << 30)), "t.bin is cut short", "needs"),
        (lambda folder: (folder / "t.bin").unlink(), "t.bin cannot be read", "No such file"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, damage: Callable[[Path], object], file: str, why: str) -> None:
    """Whatever is wrong with the two files ends with the file's name and the reason."""
    write(tmp_path / "t", DOCUMENTS)
    damage(tmp_path)
    with pytest.raises(RunError) as caught:
        IndexedReader(str(tmp_path / "t"))
    assert file in caught.value.what
    assert why in caught.value.why


def test_a_negative_token_is_refused(tmp_path: Path) -> None:
    """A token below zero is no row of any embedding."""
    write(tmp_path / "t", [[5, -1]], vocab_size=100_000)
    with pytest.raises(RunError, match="not sound") as caught:
        IndexedReader(str(tmp_path / "t")).largest_token()
    assert "token -1" in caught.value.why

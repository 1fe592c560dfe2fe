"""Documents of text and JSONL files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from primus_core.data.digest import digest
from primus_core.data.documents import BLOCK, PIECE, read_documents
from primus_core.errors import RunError


def documents(path: Path, field: str = "text") -> list[str]:
    kind = "jsonl" if ".jsonl" in path.name else "text"
    whole, current = [], ""
    for piece in read_documents(kind, str(path), field):
        current += piece.text
        if piece.last:
            whole.append(current)
            current = ""
    assert not current
    return whole


@pytest.mark.parametrize(
    "text",
    [
        "one line",
        "ä€😀" * BLOCK,
        "line of text\n" * 100_000,
        "two\n\nlines \n" * 100_000,
        "words without a line end " * 50_000,
        "x" * (3 * PIECE),
        "\r\n" * PIECE,
        " \n" * PIECE,
    ],
    ids=["short", "wide characters", "lines", "paragraphs", "words", "one word", "line ends", "blanks"],
)
def test_a_text_file_is_one_document(tmp_path: Path, text: str) -> None:
    """However long and whatever its characters, a text file comes back whole, in pieces that fit in memory."""
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    pieces = list(read_documents("text", str(path), ""))
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert max(len(piece.text) for piece in pieces) <= PIECE


def test_pieces_are_cut_between_lines_of_text(tmp_path: Path) -> None:
    """A cut never lies inside a word or a run of white space where the text has lines."""
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"paragraph {i}\n  and its second line\nthird" for i in range(30_000)))
    for piece in list(read_documents("text", str(path), ""))[:-1]:
        assert piece.text.endswith("second line\n")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    """The mark that some editors put first is dropped."""
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfhello")
    assert documents(tmp_path / "a.txt") == ["hello"]


def test_an_empty_text_file_has_no_document(tmp_path: Path) -> None:
    """No text, no document."""
    (tmp_path / "a.txt").touch()
    assert documents(tmp_path / "a.txt") == []


def test_each_json_line_is_a_document(tmp_path: Path) -> None:
    """Blank lines and empty texts are passed over, a long text comes back whole, the field is the user's."""
    texts = ["one", "zwei\nlines", "long " * PIECE, "😀"]
    lines = [json.dumps({"body": text, "text": 1}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n \n".join([*lines, json.dumps({"body": ""})]) + "\n")
    assert documents(tmp_path / "a.jsonl", "body") == texts


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.txt.gz"])
def test_compressed_files_are_read(tmp_path: Path, name: str) -> None:
    """A .gz file is read as what is in it; progress counts its own bytes."""
    content = b'{"text": "packed"}\n'
    (tmp_path / name).write_bytes(gzip.compress(content))
    told: list[int] = []
    list(read_documents("text", str(tmp_path / name), "", told.append))
    assert sum(told) == (tmp_path / name).stat().st_size
    assert documents(tmp_path / name) == (["packed"] if "jsonl" in name else [content.decode()])


@pytest.mark.parametrize("damage", [lambda c: c[:-5], lambda c: b"no gzip", lambda c: c[:12] + b"\xff\xff" + c[14:]])
def test_a_damaged_gzip_file_is_named(tmp_path: Path, damage: object) -> None:
    """A .gz file that is cut short or no gzip at all is an error with its name."""
    assert callable(damage)
    (tmp_path / "a.txt.gz").write_bytes(damage(gzip.compress(b"text" * 100)))
    with pytest.raises(RunError, match=r"a.txt.gz is not a sound gzip file"):
        documents(tmp_path / "a.txt.gz")


@pytest.mark.parametrize(
    ("line", "what", "why"),
    [
        ('{"text": "cut', "not JSON", "line 1 column"),
        ("[1]", "not a JSON object", "list"),
        ('{"body": "x", "id": 1}', "no field 'text'", "'body', 'id'"),
        ('{"text": null}', "'text' is not a text", "NoneType"),
        ('{"text": ["x"]}', "'text' is not a text", "list"),
        (r'{"text": "half \ud83d of one"}', "not valid Unicode", "surrogates"),
        (b'{"text": "caf\xe9"}', "not JSON", "utf-8"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, line: str | bytes, what: str, why: str) -> None:
    """A line that is no document is an error with file, line, reason and the parameter to look at."""
    raw = line if isinstance(line, bytes) else line.encode()
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "good"}\n\n' + raw + b"\n")
    with pytest.raises(RunError) as caught:
        documents(tmp_path / "a.jsonl")
    assert caught.value.where == f"{tmp_path / 'a.jsonl'}:3"
    assert what in caught.value.what
    assert why in caught.value.why
    assert "text_field" in caught.value.remedy


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"plain", ""),
        ("ä€😀".encode() * BLOCK, ""),
        (b"x" * (BLOCK - 1) + "ä".encode() + b"\xff", f"byte {BLOCK + 1:,} is 0xff"),
        (b"caf\xe9 noir", "byte 3 is 0xe9"),
        (b"x" * 10 + "€".encode()[:2], "byte 10 is 0xe2"),
    ],
    ids=["ascii", "across blocks", "bad after a block", "latin", "cut character"],
)
def test_a_digest_says_where_a_file_stops_being_text(tmp_path: Path, content: bytes, fault: str) -> None:
    """The first byte that is not UTF-8 is named by its place in the file."""
    (tmp_path / "a.txt").write_bytes(content)
    found = digest(str(tmp_path / "a.txt"))["fault"]
    assert found.startswith(fault)
    assert bool(found) == bool(fault)

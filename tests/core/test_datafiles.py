"""Which files a data path names, and what is refused before anything starts."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from primus_core.errors import ConfigError, ErrorGroup, ExitCode
from primus_core.experiment import Leaf, Origin, Value
from primus_core.plan import Settings, Task
from primus_core.planning.datafiles import check_data_names, data_task
from primus_core.planning.datatokenizers import TokenizerChoice
from primus_core.planning.datavocabulary import tokenizer_size

BYTES = "ByteLevelTokenizer"


def indexed(prefix: Path, tokens: list[int], typecode: str = "H") -> None:
    """One document of tokens, written by hand."""
    code = {"H": 8, "i": 4}[typecode]
    index = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, code, 1, 2) + struct.pack("<iqqq", len(tokens), 0, 0, 1)
    Path(f"{prefix}.idx").write_bytes(index)
    Path(f"{prefix}.bin").write_bytes(array(typecode, tokens).tobytes())


def task(cwd: Path, **params: Value) -> Task | None:
    settings = Settings(values={"text_field": params.pop("text_field", "text")})
    leaves = {
        key: Leaf(value=value, origin=Origin(file="exp.yaml", line=line))
        for line, (key, value) in enumerate(params.items(), start=1)
    }
    return data_task(leaves, settings, str(cwd), "/workspace")


def splits(cwd: Path, **params: Value) -> dict[str, list[dict[str, Any]]]:
    made = task(cwd, **{"tokenizer_type": BYTES, **params})
    assert made is not None
    found: Any = made.arguments["splits"]
    return {
        split: [{**s, "files": [Path(f).name for f in s["files"]]} for s in items] for split, items in found.items()
    }


def train(cwd: Path, path: Value) -> list[tuple[str, list[str]]]:
    return [(source["kind"], source["files"]) for source in splits(cwd, train_data_path=path)["train"]]


def refused(cwd: Path, **params: Value) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        task(cwd, **{"tokenizer_type": BYTES, **params})
    assert caught.value.exit_code == ExitCode.USAGE
    return caught.value


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of every kind of file."""
    files: dict[str, bytes] = {
        "a.txt": b"alpha",
        "b.md": b"# beta",
        "notes": "grün".encode(),
        "docs.jsonl": b'{"text": "one"}\n',
        "more.json": b'{"text": "two"}\n',
        "settings.json": b'{\n "text": 1\n}\n',
        "empty.txt": b"",
        "picture.raw": b"\x89PNG\0\0",
        "latin": b"caf\xe9 au lait",
        ".hidden.txt": b"no",
        "deep/c.py": b"pass",
        ".git/config": b"no",
        "deep/d.jsonl.gz": gzip.compress(b'{"text": "three"}\n'),
    }
    for name, content in files.items():
        (tmp_path / "corpus" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "corpus" / name).write_bytes(content)
    (tmp_path / "corpus" / "broken").symlink_to("nowhere")
    return tmp_path / "corpus"


def test_a_task_holds_all_that_the_rank_needs(corpus: Path) -> None:
    """The data task names cache, tokenizer, field, vocabulary and absolute files."""
    made = task(corpus, text_field="body", train_data_path="a.txt", tokenizer_type=BYTES, vocab_size="320")
    assert made is not None
    assert (made.kind, made.entry) == ("data", "primus_core.data.prepare:run")
    assert made.arguments == {
        "cache": "/workspace/cache/data",
        "tokenizer": {"type": BYTES, "model": None, "special_tokens": True},
        "text_field": "body",
        "vocab_size": 320,
        "splits": {
            "train": [{"kind": "text", "weight": None, "files": [str(corpus / "a.txt")], "scanned": False}],
            "valid": [],
            "test": [],
        },
    }


def test_mock_data_needs_no_task(tmp_path: Path) -> None:
    """Made-up tokens need no files and no tokenizer, whatever tokenizer a preset names."""
    assert task(tmp_path, mock_data=True, tokenizer_type="HuggingFaceTokenizer", train_data_path=None) is None


def test_a_folder_gives_its_text_and_documents(corpus: Path) -> None:
    """A folder is read down, sorted; hidden, empty and binary files are passed over."""
    assert train(corpus.parent, "corpus") == [
        ("text", ["a.txt", "b.md", "c.py", "notes", "settings.json"]),
        ("jsonl", ["d.jsonl.gz", "docs.jsonl", "more.json"]),
    ]


@pytest.mark.parametrize(
    ("entry", "kind", "files"),
    [
        ("a.txt", "text", ["a.txt"]),
        ("notes", "text", ["notes"]),
        ("docs.jsonl", "jsonl", ["docs.jsonl"]),
        ("more.json", "jsonl", ["more.json"]),
        ("deep/d.jsonl.gz", "jsonl", ["d.jsonl.gz"]),
        ("*.md", "text", ["b.md"]),
        ("**/*.py", "text", ["c.py"]),
        ("  a.txt\n", "text", ["a.txt"]),
    ],
)
def test_a_file_or_glob_is_found(corpus: Path, entry: str, kind: str, files: list[str]) -> None:
    """Text, JSON lines and globs are told apart by their names and content."""
    assert train(corpus, entry) == [(kind, files)]


@pytest.mark.parametrize("entry", ["tokens", "tokens.bin", "tokens.idx", "token*", "."])
def test_indexed_data_is_found_by_prefix_file_glob_or_folder(tmp_path: Path, entry: str) -> None:
    """Indexed data is one source however it is named."""
    indexed(tmp_path / "tokens", [1, 2, 3])
    assert train(tmp_path, entry) == [("indexed", ["tokens"])]


def test_a_name_with_glob_characters_is_a_name_first(tmp_path: Path) -> None:
    """A file that is there under the literal name is taken before the pattern."""
    (tmp_path / "a[1].txt").write_text("literal")
    (tmp_path / "a1.txt").write_text("pattern")
    assert train(tmp_path, "a[1].txt") == [("text", ["a[1].txt"])]


def test_splits_are_kept_apart(corpus: Path) -> None:
    """Training, validation and test data come from their own parameters."""
    found = splits(corpus, train_data_path=["a.txt", "notes"], valid_data_path="b.md", test_data_path="docs.jsonl")
    assert {split: [s["files"] for s in items] for split, items in found.items()} == {
        "train": [["a.txt"], ["notes"]],
        "valid": [["b.md"]],
        "test": [["docs.jsonl"]],
    }


def test_data_path_is_the_training_data(corpus: Path) -> None:
    """Megatron's data_path, which its split parameter divides, is read as training data."""
    assert [s["files"] for s in splits(corpus, data_path="a.txt")["train"]] == [["a.txt"]]


@pytest.mark.parametrize("path", [[3, "a.txt", 1, "b.md"], ["3", "a.txt", "1", "b.md"], "3 a.txt 1 b.md"])
def test_weights_of_a_blend_are_normalised(corpus: Path, path: Value) -> None:
    """Weights add up to one, as numbers, as texts, and as one text from an environment variable."""
    found = splits(corpus, train_data_path=path)["train"]
    assert [(s["weight"], s["files"]) for s in found] == [(0.75, ["a.txt"]), (0.25, ["b.md"])]


def test_the_weight_of_a_glob_is_divided_by_size(tmp_path: Path) -> None:
    """Several indexed files of one entry share its weight by their bytes."""
    indexed(tmp_path / "x-0", [1] * 30)
    indexed(tmp_path / "x-1", [1] * 10)
    (tmp_path / "other.txt").write_text("text")
    found = splits(tmp_path, train_data_path=[0.8, "x-*", 0.2, "other.txt"])["train"]
    assert [s["weight"] for s in found] == pytest.approx([0.6, 0.2, 0.2])


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ([0.5, "a.txt", "b.md"], "'b.md', the last of 3 elements"),
        ([0.5, "a.txt", 0.5, 0.5], "element 3 is 0.5 and element 4 is 0.5"),
        ([0.5, "a.txt", 0, "b.md"], "weight 0 of b.md is not above 0"),
        ([0, "a.txt", 0, "b.md"], "weight 0 of a.txt is not above 0"),
        ([-1, "a.txt", 2, "b.md"], "weight -1 of a.txt"),
        ([0.5, "a.txt", float("nan"), "b.md"], "weight nan of b.md"),
        (["a.txt", 1, "b.md", 2], "element 1 is 'a.txt' and element 2 is 1"),
        (["most", "a.txt", "30%", "b.md"], "element 1 is 'most'"),
        (["70%", "a.txt"], "element 1 is '70%'"),
        ([1], "1, the last of 1 elements"),
        ("7 a.txt 3", "'3', the last of 3 elements"),
    ],
)
def test_a_crooked_blend_is_refused(corpus: Path, path: Value, why: str) -> None:
    """A blend that is not pairs of positive weight and path is an error at its line, which names the element."""
    error = refused(corpus, train_data_path=path)
    assert "not a blend" in error.what
    assert error.where == "exp.yaml:2"
    assert why in error.why


def break_bin(folder: Path) -> None:
    indexed(folder / "half", [1])
    (folder / "half.bin").unlink()


def break_idx(folder: Path) -> None:
    indexed(folder / "half", [1])
    (folder / "half.idx").unlink()


def cut(name: str, size: int) -> Callable[[Path], object]:
    def cut_short(folder: Path) -> None:
        indexed(folder / "half", [1, 2, 3])
        (folder / name).write_bytes((folder / name).read_bytes()[:size])

    return cut_short


def empty_bin(folder: Path) -> None:
    indexed(folder / "half", [])


@pytest.mark.parametrize(
    ("prepare", "path", "what", "remedy"),
    [
        (None, "corpos", "corpos does not exist", "corpus?"),
        (None, "corpus/dosc.jsonl", "dosc.jsonl does not exist", "docs.jsonl?"),
        (None, "nowhere/at/all.txt", "all.txt does not exist", "glob"),
        (None, "~/data", "~/data does not exist", "${HOME}"),
        (None, "corpus/empty.txt", "empty.txt is empty", "holds data"),
        (None, "corpus/*.csv", "*.csv has nothing to train on", "UTF-8"),
        (None, "corpus/picture*", "picture* has nothing to train on", "JSONL"),
        (None, "corpus/latin", "latin is not UTF-8 text", "convert"),
        (None, "corpus/picture.raw", "picture.raw is not UTF-8 text", "convert"),
        (lambda f: (f / "none").mkdir(), "none", "none has nothing to train on", "UTF-8"),
        (lambda f: (f / "t.zst").write_bytes(b"x"), "t.zst", "this format is not read", "JSONL"),
        (lambda f: (f / "t.parquet").write_bytes(b"PAR1"), "t.parquet", "not a sound Parquet file", "copy the file"),
        (lambda f: (f / "t.parquet").write_text("no" * 9), "t.parquet", "not a sound Parquet file", "copy the file"),
        (break_bin, "half", "half.idx has no half.bin beside it", "copy"),
        (break_bin, "half.bin", "half.idx has no half.bin beside it", "copy"),
        (break_bin, "half*", "half.idx has no half.bin beside it", "copy"),
        (break_bin, ".", "half.idx has no half.bin beside it", "copy"),
        (break_idx, "half", "half.bin has no half.idx beside it", "copy"),
        (break_idx, "*.bin", "half.bin has no half.idx beside it", "copy"),
        (cut("half.bin", -1), "half", "half.bin is cut short", "copy"),
        (cut("half.bin", -1), ".", "half.bin is cut short", "copy"),
        (cut("half.idx", -1), "half", "half.idx is cut short", "copy"),
        (cut("half.idx", 20), "half", "half.idx is cut short", "copy"),
        (cut("half.idx", 5), "half", "half.idx is no index of tokens", "copy"),
        (empty_bin, "half", "half.bin is empty", "holds data"),
        (None, " ", "an empty data path", "name a file"),
        (None, [True], "not a path", ""),
        (None, {"a": 1}, "not a path", ""),
    ],
)
def test_an_unusable_path_is_refused(
    corpus: Path, prepare: Callable[[Path], object] | None, path: Value, what: str, remedy: str
) -> None:
    """Every unusable path is an error with its line, what is wrong and what to do, in a moment."""
    if prepare:
        prepare(corpus.parent)
    started = time.monotonic()
    error = refused(corpus.parent, train_data_path=path)
    assert time.monotonic() - started < 1
    assert what in error.what
    assert remedy in error.remedy
    assert error.where == "exp.yaml:2"


def test_all_bad_paths_are_told_together(corpus: Path) -> None:
    """Errors of several paths come in one group."""
    with pytest.raises(ErrorGroup) as caught:
        task(corpus, train_data_path=["nil.txt", "a.txt", "empty.txt"], valid_data_path="nil2", tokenizer_type=BYTES)
    assert [error.where for error in caught.value.errors] == ["exp.yaml:1", "exp.yaml:1", "exp.yaml:2"]


def test_no_data_at_all_is_refused(tmp_path: Path) -> None:
    """Neither data nor mock_data: the error names both."""
    error = refused(tmp_path, train_data_path=None, mock_data=False)
    assert "no data" in error.what
    assert "mock_data: true" in error.remedy


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"train_data_path": "a.txt", "mock_data": True}, "mock_data and train_data_path are both set"),
        ({"train_data_path": "a.txt", "data_path": "a.txt"}, "data_path and train_data_path are both set"),
        ({"valid_data_path": "a.txt"}, "valid_data_path is set and train_data_path is not"),
        ({"data_args_path": "list.txt"}, "data_args_path is not read"),
    ],
)
def test_contradicting_parameters_are_refused(corpus: Path, params: dict[str, Value], what: str) -> None:
    """Two sources of data, or validation data alone, is an error."""
    assert refused(corpus, **params).what == what


@pytest.mark.parametrize(
    ("params", "what", "remedy"),
    [
        ({"tokenizer_type": None}, "text data needs a tokenizer", "ByteLevelTokenizer"),
        ({"tokenizer_type": "NullTokenizer"}, "NullTokenizer cannot tokenize", "ByteLevelTokenizer"),
        ({"tokenizer_type": "HugingFaceTokenizer"}, "HugingFaceTokenizer is not known", "HuggingFaceTokenizer?"),
        ({"tokenizer_type": "GPT2BPETokenizer"}, "GPT2BPETokenizer is not known", "openai-community/gpt2"),
        ({"tokenizer_type": 5}, "tokenizer_type is not a text", ""),
        ({"tokenizer_type": "HuggingFaceTokenizer"}, "needs a tokenizer_model", "tokenizer.json"),
        (
            {"tokenizer_type": "HuggingFaceTokenizer", "tokenizer_model": "tok.jsn"},
            "tok.jsn does not exist",
            "tok.json?",
        ),
        ({"tokenizer_type": "Llama3Tokenizer", "tokenizer_model": "/no/tokenizer.json"}, "does not exist", ""),
        (
            {"tokenizer_type": "HuggingFaceTokenizer", "tokenizer_model": "deep"},
            "has no tokenizer.json",
            "name the file",
        ),
        ({"tokenizer_type": "Llama2Tokenizer", "tokenizer_model": "empty.txt"}, "is empty", ""),
        ({"tokenizer_type": "HuggingFaceTokenizer", "tokenizer_model": "t.model"}, "another format", "SentencePiece"),
        (
            {"tokenizer_type": "ByteLevelTokenizer", "tokenizer_model": "t.model"},
            "ByteLevelTokenizer reads no tokenizer_model",
            "SentencePieceTokenizer",
        ),
    ],
)
def test_an_unusable_tokenizer_is_refused(corpus: Path, params: dict[str, Value], what: str, remedy: str) -> None:
    """A tokenizer that is unknown, cannot tokenize or has no file is an error that names the next step."""
    (corpus / "tok.json").write_text("{}")
    (corpus / "t.model").write_text("x")
    error = refused(corpus, train_data_path="a.txt", **params)
    assert what in error.what
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("kind", "model", "expected"),
    [
        ("HuggingFaceTokenizer", "tok", "{cwd}/tok/tokenizer.json"),
        ("HuggingFaceTokenizer", "tok/tokenizer.json", "{cwd}/tok/tokenizer.json"),
        ("DeepSeekV3Tokenizer", "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3"),
        ("Llama2Tokenizer", "meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("SentencePieceTokenizer", "tok", "{cwd}/tok/tokenizer.model"),
    ],
)
def test_a_tokenizer_is_a_file_a_folder_or_a_hub_id(corpus: Path, kind: str, model: str, expected: str) -> None:
    """Local files win over hub ids and become absolute; a hub id stays."""
    (corpus / "tok").mkdir()
    (corpus / "tok" / "tokenizer.json").write_text("{}")
    (corpus / "tok" / "tokenizer.model").write_text("x")
    made = task(
        corpus,
        train_data_path="a.txt",
        tokenizer_type=kind,
        tokenizer_model=model,
        tokenizer_hf_no_include_special_tokens=True,
    )
    assert made is not None
    expected = expected.format(cwd=corpus)
    assert made.arguments["tokenizer"] == {"type": kind, "model": expected, "special_tokens": False}


def test_indexed_data_needs_no_tokenizer(tmp_path: Path) -> None:
    """Data that is tokenized already goes without a tokenizer, as NullTokenizer."""
    indexed(tmp_path / "tokens", [1, 2])
    made = task(tmp_path, train_data_path="tokens")
    assert made is not None
    assert made.arguments["tokenizer"] == {"type": "NullTokenizer", "model": None, "special_tokens": True}


def test_a_byte_vocabulary_larger_than_the_model_is_refused(corpus: Path) -> None:
    """259 byte tokens do not fit a model of 256."""
    error = refused(corpus, train_data_path="a.txt", vocab_size=256)
    assert "vocabulary of 259 is larger than the model's of 256" in error.what
    assert "vocab_size: 259" in error.remedy
    assert error.where == "exp.yaml:3"


@pytest.mark.parametrize("typecode", ["H", "i"])
def test_indexed_tokens_beyond_the_model_are_refused(tmp_path: Path, typecode: str) -> None:
    """A token without a row in the embedding is found in the file before anything starts."""
    indexed(tmp_path / "tokens", [*range(100_000 if typecode == "i" else 60_000)], typecode)
    largest = 99_999 if typecode == "i" else 59_999
    error = refused(tmp_path, train_data_path="tokens", tokenizer_type="NullTokenizer", vocab_size=largest)
    assert f"tokens.bin holds token {largest:,}, and the model's vocabulary is {largest:,}" in error.what
    assert f"vocab_size: {largest + 1}" in error.remedy
    assert task(tmp_path, train_data_path="tokens", tokenizer_type="NullTokenizer", vocab_size=largest + 1)


def test_the_size_of_a_tokenizer_json_counts_added_tokens(tmp_path: Path) -> None:
    """The largest id decides, in the vocabulary or among the added tokens; an unknown layout says nothing."""
    path = tmp_path / "tokenizer.json"
    choice = TokenizerChoice(type="x", family="huggingface", model=str(path), special_tokens=True)
    path.write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 6}}, "added_tokens": [{"id": 9}]}))
    assert tokenizer_size(choice) == 10
    path.write_text(json.dumps({"model": {"vocab": [["a", -1.0], ["b", -2.0]]}}))
    assert tokenizer_size(choice) == 2
    path.write_text("[]")
    assert tokenizer_size(choice) is None


def test_the_size_of_something_that_is_no_sentencepiece_model_is_unknown(tmp_path: Path) -> None:
    """A file of another format is left to the rank, which has the library."""
    path = tmp_path / "tokenizer.model"
    choice = TokenizerChoice(type="x", family="sentencepiece", model=str(path), special_tokens=True)
    for content in (b"plain text, not a message", b"\x0a\x7fshort", b"\xff"):
        path.write_bytes(content)
        assert tokenizer_size(choice) is None


def test_the_host_side_loads_no_numpy() -> None:
    """Planning data imports neither numpy nor the rank side's package."""
    code = (
        "import sys, primus_core.planning.datafiles; "
        "sys.exit(', '.join({m.split('.')[0] for m in sys.modules} & {'numpy', 'tokenizers', 'sentencepiece', 'torch'})"
        " or ('primus_core.data' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def names(**params: Value) -> list[str]:
    """What is wrong with data parameters before any file is looked at."""
    leaves = {key: Leaf(value=value, origin=Origin(file="exp.yaml", line=3)) for key, value in params.items()}
    try:
        check_data_names(leaves)
    except ErrorGroup as group:
        return [str(error) for error in group.errors]
    except ConfigError as error:
        return [str(error)]
    return []


def test_names_of_data_are_checked_without_files() -> None:
    """Paths that do not exist are not looked at; contradictions and unknown tokenizers are told, all at once."""
    hub = {"tokenizer_type": "HuggingFaceTokenizer", "tokenizer_model": "/nope/tokenizer.json"}
    assert names(train_data_path=["/nope/a.txt", 0.5], **hub) == []
    assert names() == []
    assert names(mock_data=True, tokenizer_type="HuggingFaceTokenizer") == []
    assert names(mock_data=True, train_data_path="x", tokenizer_type=BYTES) == [
        "exp.yaml:3: mock_data and train_data_path are both set"
    ]
    found = names(train_data_path=[True], valid_data_path={"a": 1}, tokenizer_type="ByteLevelTokeniser")
    assert found == [
        "exp.yaml:3: train_data_path is not a path or a list of paths",
        "exp.yaml:3: valid_data_path is not a path or a list of paths",
        "exp.yaml:3: tokenizer_type ByteLevelTokeniser is not known",
    ]
    assert names(train_data_path="x", tokenizer_type="Llama3Tokenizer") == [
        "exp.yaml:3: Llama3Tokenizer needs a tokenizer_model"
    ]
    assert "is set and train_data_path is not" in names(valid_data_path="x", tokenizer_type=BYTES)[0]


@pytest.fixture
def other_user() -> Iterator[Path]:
    """A folder that everybody may read, and a user who may not read everything."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        os.seteuid(own)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["data.idx", "data.bin", "text.txt", "tokenizer.json"])
def test_a_file_that_may_not_be_read(name: str, other_user: Path) -> None:
    """It is told with its path and line, not by a traceback."""
    own = os.geteuid()
    os.seteuid(os.getuid())
    indexed(other_user / "data", [1, 2, 3])
    (other_user / "text.txt").write_text("some text")
    (other_user / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}')
    (other_user / name).chmod(0)
    os.seteuid(own)
    tokenizer = {"tokenizer_type": "HuggingFaceTokenizer", "tokenizer_model": str(other_user / "tokenizer.json")}
    paths: list[Value] = [str(other_user / "data"), str(other_user / "text.txt")]
    with pytest.raises(ConfigError) as caught:
        task(other_user, train_data_path=paths, vocab_size=100, **tokenizer)
    assert name in caught.value.what
    assert caught.value.where.startswith("exp.yaml:")

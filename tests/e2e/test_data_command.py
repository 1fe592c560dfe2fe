"""`primus data`: token files from the command line, and bad data in a run, as a user meets them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.support import Primus

TOKENIZE = ("data", "tokenize", "docs", "--output", "out/tokens", "--tokenizer-type", "ByteLevelTokenizer")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of text, JSON lines and Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text('a "text"\n')
    (folder / "b.jsonl").write_text('{"text": "json"}\n')
    parquet.write_table(pa.table({"text": ["row one", "row two"]}), folder / "c.parquet")
    return folder


def test_tokenize_then_inspect(primus: Primus, tmp_path: Path, docs: Path) -> None:
    """Text of every kind becomes a token file, which tells what it holds and how it begins."""
    made = primus(*TOKENIZE)
    assert (made.returncode, made.stderr) == (0, "")
    assert "in 3 files -> 31 tokens of 4 documents" in made.stdout
    told = primus("data", "inspect", "out/tokens")
    assert (told.returncode, told.stderr) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in told.stdout.splitlines())
    assert (rows["documents"], rows["tokens"]) == ("4", "31 (uint16)")
    assert (rows["longest"], rows["shortest"], rows["largest"]) == ("10 tokens", "5 tokens", "token 257")
    assert rows["sample"] == r'"a \"text\"\n"'
    again = primus(*TOKENIZE)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert primus(*TOKENIZE, "--force").returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "fragments"),
    [
        (("data",), 2, ["COMMAND"]),
        (("data", "inspect", "docs/a.txt"), 2, ["docs/a.txt is no token file", "primus data tokenize"]),
        (("data", "inspect", "nothing"), 2, ["nothing does not exist"]),
        (("data", "inspect", "docs", "--tokenizer-model", "m"), 2, ["docs is no token file"]),
        ((*TOKENIZE[:-1], "ByteLevelTokeniser"), 2, ["ByteLevelTokeniser is not known", "ByteLevelTokenizer?"]),
        ((*TOKENIZE[:-1], "HuggingFaceTokenizer"), 2, ["needs a tokenizer_model", "--tokenizer-type"]),
        ((*TOKENIZE, "--text-field", "body"), 3, ["docs/c.parquet has no column 'body'", "'text'"]),
        (("data", "tokenize", "docs/b.jsonl", *TOKENIZE[3:], "--text-field", "body"), 3, ["'body'", "docs/b.jsonl:1"]),
        (("data", "tokenize", "nothing", *TOKENIZE[3:]), 2, ["nothing does not exist"]),
        (("data", "tokenize", "docs", "--output", "docs", *TOKENIZE[5:]), 2, ["--output docs is a folder"]),
    ],
)
def test_mistakes_are_one_screen(
    primus: Primus, tmp_path: Path, docs: Path, words: tuple[str, ...], code: int, fragments: list[str]
) -> None:
    """What is wrong with arguments or documents is told in one screen, and no token file is written."""
    done = primus(*words)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 12
    assert all(fragment in done.stderr for fragment in fragments), done.stderr
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("library", ["numpy", "pyarrow"])
def test_a_missing_library_names_the_extra(primus: Primus, tmp_path: Path, docs: Path, library: str) -> None:
    """Without the libraries of the extra the command says what to install; help and version do not need them."""
    (tmp_path / f"site/{library}").mkdir(parents=True)
    code = f'raise ModuleNotFoundError("No module named {library!r}", name={library!r})\n'
    (tmp_path / f"site/{library}/__init__.py").write_text(code)
    done = primus(*TOKENIZE, PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 1, done.stderr
    assert f"the library {library} is missing" in done.stderr
    assert 'pip install "primus-core[data]"' in done.stderr
    assert primus("data", "tokenize", "--help", PYTHONPATH=str(tmp_path / "site")).returncode == 0


EXPERIMENT = """\
work_group: team
user_name: me
exp_name: exp
workspace: ./out
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama_tiny.yaml
    overrides:
      train_data_path: PATH
      train_iters: 1
      micro_batch_size: 1
"""


def lose_index(folder: Path) -> None:
    (folder / "out/tokens.idx").unlink()


def cut_tokens(folder: Path) -> None:
    path = folder / "out/tokens.bin"
    path.write_bytes(path.read_bytes()[:-2])


@pytest.mark.parametrize(
    ("path", "damage", "fragments"),
    [
        ("out/tokens", lose_index, ["exp.yaml:11", "tokens.bin has no tokens.idx beside it"]),
        ("out/tokens", cut_tokens, ["exp.yaml:11", "tokens.bin is cut short"]),
        ("[most, docs/a.txt, few, docs/b.jsonl]", None, ["exp.yaml:11", "not a blend", "'most'"]),
        ("[0, docs/a.txt, 0.0, docs/b.jsonl]", None, ["exp.yaml:11", "not a blend", "weight 0 of docs/a.txt"]),
        ("[0.7, docs/a.txt, docs/b.jsonl]", None, ["exp.yaml:11", "not a blend", "'docs/b.jsonl'"]),
    ],
)
def test_bad_data_stops_a_run_before_it_starts(
    primus: Primus, tmp_path: Path, docs: Path, path: str, damage: Callable[[Path], None] | None, fragments: list[str]
) -> None:
    """Damaged token files and crooked blends are told with file and line; no run directory is made."""
    if damage:
        assert primus(*TOKENIZE).returncode == 0
        damage(tmp_path)
    (tmp_path / "exp.yaml").write_text(EXPERIMENT.replace("PATH", path))
    done = primus("run", "exp.yaml")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) <= 6
    assert all(fragment in done.stderr for fragment in fragments), done.stderr
    assert not (tmp_path / "out/team").exists()


def test_a_document_without_text_ends_the_run(primus: Primus, tmp_path: Path) -> None:
    """A JSON line without the field fails the run with exit 3, names file and line, and leaves nothing in the cache."""
    (tmp_path / "docs.jsonl").write_text('{"text": "one"}\n{"body": "two"}\n')
    (tmp_path / "exp.yaml").write_text(EXPERIMENT.replace("PATH", "docs.jsonl"))
    done = primus("run", "exp.yaml")
    assert done.returncode == 3, done.stderr
    screen = done.stdout + done.stderr
    assert "docs.jsonl:2" in screen
    assert "no field 'text'" in screen
    assert "text_field" in screen
    assert "Traceback" not in screen
    assert not list((tmp_path / "out/cache/data").glob("*/tokens.bin"))

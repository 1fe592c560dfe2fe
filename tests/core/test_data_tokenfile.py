"""Token files at a path of the user's: made whole or not at all, and looked into."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from primus_core.data.indexed import IndexedReader
from primus_core.data.inspection import inspect
from primus_core.data.tokenfile import tokenize
from primus_core.errors import ConfigError, RunError
from primus_core.planning.datasources import find_sources
from primus_core.planning.datatokenizers import TokenizerChoice
from primus_core.planning.datatokens import TokenizeRequest
from tests.core.dataruns import EOD, Rank, plan, prepare

BYTES = TokenizerChoice(type="ByteLevelTokenizer", family="bytes", model=None, special_tokens=True)


def request(folder: Path, *inputs: str, force: bool = False, tokenizer: TokenizerChoice = BYTES) -> TokenizeRequest:
    sources = [source for entry in inputs for source in find_sources(entry, str(folder), "")]
    prefix = str(folder / "out/tokens")
    return TokenizeRequest(sources=tuple(sources), tokenizer=tokenizer, text_field="text", prefix=prefix, force=force)


def make(
    folder: Path, text: str = "text", *, force: bool = False, on_bar: Callable[[str], object] = lambda _: None
) -> None:
    (folder / "a.txt").write_text(text)
    tokenize(request(folder, "a.txt", force=force), {}, Rank(on_bar=on_bar))


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out").iterdir())


WHOLE = ["tokens.bin", "tokens.idx", "tokens.meta.json"]


def words(path: Path, *vocabulary: str) -> TokenizerChoice:
    """A tokenizer of whole words."""
    tokenizers = pytest.importorskip("tokenizers")
    ids = {word: number for number, word in enumerate((*vocabulary, "<eos>"))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=vocabulary[0]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(path))
    return TokenizerChoice(type="HuggingFaceTokenizer", family="huggingface", model=str(path), special_tokens=True)


def test_inputs_of_all_kinds_become_one_file(tmp_path: Path) -> None:
    """Documents come in the order of the inputs; what was made, and by what, is on record beside them."""
    (tmp_path / "b.jsonl").write_text('{"text": "b"}\n{"text": "c"}\n')
    (tmp_path / "a.txt").write_text("a")
    made = tokenize(request(tmp_path, "b.jsonl", "a.txt"), {}, Rank())
    assert (made.files, made.documents, made.tokens) == (2, 3, 6)
    reader = IndexedReader(str(tmp_path / "out/tokens"))
    assert [reader.document(number).tolist() for number in range(3)] == [[98, EOD], [99, EOD], [97, EOD]]
    assert there(tmp_path) == WHOLE
    assert json.loads((tmp_path / "out/tokens.meta.json").read_text())["made_with"]["type"] == "ByteLevelTokenizer"


def test_a_run_takes_the_folder_as_one_source(tmp_path: Path) -> None:
    """The record beside a token file is not taken for text to train on."""
    make(tmp_path)
    result = prepare(plan(tmp_path, train_data_path="out"))
    assert [(source["documents"], source["tokens"]) for source in result["train"]] == [(1, 5)]


def test_what_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    """Nothing is overwritten unasked; what replaces it is whole."""
    make(tmp_path)
    with pytest.raises(ConfigError, match=r"tokens\.bin is there already"):
        make(tmp_path, "other text")
    assert inspect(str(tmp_path / "out/tokens"), None, {}).sample == "text"
    make(tmp_path, "other text", force=True)
    assert inspect(str(tmp_path / "out/tokens"), None, {}).sample == "other text"


@pytest.mark.parametrize("force", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path: Path, force: bool) -> None:
    """A record without the field ends it with file and line; no part of a new file is left, and an old one stays."""
    if force:
        make(tmp_path)
    (tmp_path / "b.jsonl").write_text('{"text": "b"}\n{"txt": "c"}\n')
    with pytest.raises(RunError, match="no field 'text'") as caught:
        tokenize(request(tmp_path, "b.jsonl", force=force), {}, Rank())
    assert caught.value.where == f"{tmp_path / 'b.jsonl'}:2"
    assert there(tmp_path) == (WHOLE if force else [])
    if force:
        assert inspect(str(tmp_path / "out/tokens"), None, {}).sample == "text"


def test_the_remains_of_a_killed_one_are_removed_and_those_of_a_live_one_not(tmp_path: Path) -> None:
    """After SIGKILL nothing is there that could be taken for whole, and the next one removes what nobody holds."""
    ready, tell = os.pipe()

    def hold(what: str) -> None:
        if what == "tokenizing":
            os.write(tell, b"1")
            time.sleep(60)

    pid = os.fork()
    if pid == 0:
        make(tmp_path, on_bar=hold)
        os._exit(9)
    assert os.read(ready, 1) == b"1"
    (building,) = there(tmp_path)
    make(tmp_path)
    assert building in there(tmp_path)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    make(tmp_path, force=True)
    assert there(tmp_path) == WHOLE
    os.close(ready)
    os.close(tell)


def test_inspection_tells_lengths_and_tokens(tmp_path: Path) -> None:
    """Documents, tokens, longest, shortest and largest token are those of the file."""
    (tmp_path / "b.jsonl").write_text('{"text": "bbbb"}\n{"text": "c"}\n')
    tokenize(request(tmp_path, "b.jsonl"), {}, Rank())
    facts = inspect(str(tmp_path / "out/tokens"), None, {})
    assert (facts.documents, facts.tokens, facts.dtype, facts.bytes) == (2, 7, "uint16", 14)
    assert (facts.longest, facts.shortest, facts.largest_token, facts.is_sampled) == (5, 2, EOD, False)
    assert (facts.tokenizer, facts.sample) == ("ByteLevelTokenizer", "bbbb")


def test_a_file_of_the_cache_knows_its_tokenizer(tmp_path: Path) -> None:
    """The token file that a run made is decoded without a word about its tokenizer."""
    (tmp_path / "a.txt").write_text("some text")
    prefix = prepare(plan(tmp_path, train_data_path="a.txt"))["train"][0]["prefix"]
    assert inspect(prefix, None, {}).sample == "some text"


def test_a_sample_needs_the_tokenizer_that_made_the_file(tmp_path: Path) -> None:
    """With the same file it is decoded; with another content, or none, the reason is told instead."""
    choice = words(tmp_path / "tokenizer.json", "?", "one", "two")
    (tmp_path / "a.txt").write_text("two one two")
    tokenize(request(tmp_path, "a.txt", tokenizer=choice), {}, Rank())
    prefix = str(tmp_path / "out/tokens")
    assert inspect(prefix, None, {}).sample == "two one two <eos>"
    words(tmp_path / "tokenizer.json", "?", "two", "one")
    assert "not the tokenizer that this file was made with" in inspect(prefix, None, {}).why_no_sample
    (tmp_path / "tokenizer.json").unlink()
    assert "tokenizer.json" in inspect(prefix, None, {}).why_no_sample
    other = words(tmp_path / "tokenizer.json", "?", "two", "one")
    assert inspect(prefix, other, {}).sample == "one two one <eos>"


def test_a_record_of_another_file_is_not_believed(tmp_path: Path) -> None:
    """A record that does not fit the files' sizes tells nothing of them."""
    make(tmp_path)
    record = (tmp_path / "out/tokens.meta.json").read_text()
    make(tmp_path, "longer text", force=True)
    (tmp_path / "out/tokens.meta.json").write_text(record)
    facts = inspect(str(tmp_path / "out/tokens"), None, {})
    assert (facts.sample, facts.tokenizer) == (None, "")
    assert "--tokenizer-type" in facts.why_no_sample


def test_a_tokenizer_that_is_too_small_cannot_have_made_the_file(tmp_path: Path) -> None:
    """Tokens beyond its vocabulary are an error, with both numbers."""
    make(tmp_path)
    with pytest.raises(ConfigError, match="not made with HuggingFaceTokenizer") as caught:
        inspect(str(tmp_path / "out/tokens"), words(tmp_path / "tokenizer.json", "?"), {})
    assert "token 257" in caught.value.why

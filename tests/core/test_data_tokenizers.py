"""The three kinds of tokenizer, trained here on a few lines."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from primus_core.data.hub import Hub
from primus_core.data.tokenizers import load_tokenizer
from primus_core.errors import ConfigError, DependencyError
from primus_core.planning.datatokenizers import TokenizerChoice
from primus_core.planning.datavocabulary import tokenizer_size

LINES = ["the quick brown fox", "jumps over the lazy dog", "über größere Füße", "def f(x): return x"] * 20
NO_HUB = Hub(env={"HF_HUB_OFFLINE": "1"}, fallback_cache="/nowhere")


def train_hf(folder: Path, *, special: tuple[str, ...] = ("<s>", "</s>"), template: str = "") -> Path:
    """A byte-level BPE of about 300 tokens in a tokenizer.json."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=300, special_tokens=list(special), initial_alphabet=alphabet)
    )
    if template:
        ids = [(name, made.token_to_id(name)) for name in special]
        made.post_processor = processors.TemplateProcessing(single=template, special_tokens=ids)
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def train_sp(folder: Path, **options: Any) -> Path:
    """A SentencePiece model of 40 pieces."""
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "tokenizer.model").open("wb") as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES), model_writer=model, vocab_size=40, minloglevel=2, **options
        )
    return folder / "tokenizer.model"


def test_byte_level_tokens_are_the_bytes() -> None:
    """Each UTF-8 byte is its own token; 257 ends a document and 259 rows hold all."""
    tokenizer = load_tokenizer("bytes", None, NO_HUB)
    assert [ids.tolist() for ids in tokenizer.encode(["aä", ""])] == [[97, 195, 164], []]
    assert (tokenizer.vocab_size, tokenizer.eod, tokenizer.prefix, tokenizer.suffix) == (259, 257, (), (257,))


def test_byte_level_is_quick() -> None:
    """Five megabytes take no more than a second of a processor."""
    tokenizer = load_tokenizer("bytes", None, NO_HUB)
    started = time.process_time()
    (ids,) = tokenizer.encode(["x" * 5_000_000])
    assert time.process_time() - started < 1
    assert (len(ids), ids.dtype) == (5_000_000, np.uint16)


def test_a_hugging_face_tokenizer_gives_its_librarys_ids(tmp_path: Path) -> None:
    """Ids are those of the tokenizers library; the end is the well-known name in the vocabulary."""
    import tokenizers

    path = train_hf(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(path))
    tokenizer = load_tokenizer("huggingface", str(path), NO_HUB)
    assert [ids.tolist() for ids in tokenizer.encode(LINES)] == [e.ids for e in library.encode_batch(LINES)]
    assert tokenizer.eod == library.token_to_id("</s>")
    assert (tokenizer.prefix, tokenizer.suffix) == ((), (tokenizer.eod,))
    assert tokenizer.vocab_size == library.get_vocab_size()


@pytest.mark.parametrize("template", ["<s> $A", "<s> $A </s>"])
def test_what_a_tokenizer_puts_around_a_text_is_put_around_a_document(tmp_path: Path, template: str) -> None:
    """A template's tokens stand around each document, with one end even where the template has it too."""
    path = train_hf(tmp_path, template=template)
    dressed = load_tokenizer("huggingface", str(path), NO_HUB)
    bare = load_tokenizer("huggingface", str(path), NO_HUB, special=False)
    assert (dressed.prefix, dressed.suffix) == ((0,), (1,))
    assert (bare.prefix, bare.suffix) == ((), (1,))
    assert dressed.encode(["the fox"])[0].tolist() == bare.encode(["the fox"])[0].tolist()
    assert dressed.identity != bare.identity


def test_saved_truncation_and_padding_do_not_cut_documents(tmp_path: Path) -> None:
    """A tokenizer.json that was saved for short inputs tokenizes whole documents here."""
    import tokenizers

    path = train_hf(tmp_path)
    saved = tokenizers.Tokenizer.from_file(str(path))
    saved.enable_truncation(4)
    saved.enable_padding(length=500)
    saved.save(str(path))
    lengths = [len(ids) for ids in load_tokenizer("huggingface", str(path), NO_HUB).encode([LINES[0], LINES[0] * 10])]
    assert 4 < lengths[0] < lengths[1] < 500


@pytest.mark.parametrize("eos", ["<stop>", {"content": "<stop>", "lstrip": False}])
def test_the_end_of_a_document_is_the_configured_one(tmp_path: Path, eos: object) -> None:
    """The eos_token of the tokenizer_config.json beside wins over well-known names."""
    path = train_hf(tmp_path, special=("</s>", "<stop>"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    assert load_tokenizer("huggingface", str(path), NO_HUB).eod == 1


def test_a_tokenizer_without_an_end_is_refused(tmp_path: Path) -> None:
    """Without a token that ends a document the file is named, and the way to say which."""
    with pytest.raises(ConfigError, match="no token that ends") as caught:
        load_tokenizer("huggingface", str(train_hf(tmp_path, special=("<thing>",))), NO_HUB)
    assert "eos_token" in caught.value.remedy
    with pytest.raises(ConfigError, match="no token that ends"):
        load_tokenizer("sentencepiece", str(train_sp(tmp_path, eos_id=-1)), NO_HUB)


def test_a_sentencepiece_model_gives_its_librarys_ids(tmp_path: Path) -> None:
    """Ids and the end are those of the sentencepiece library."""
    import sentencepiece

    path = train_sp(tmp_path)
    library = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = load_tokenizer("sentencepiece", str(path), NO_HUB)
    assert [ids.tolist() for ids in tokenizer.encode(LINES)] == [library.encode(line) for line in LINES]
    assert (tokenizer.eod, tokenizer.vocab_size) == (library.eos_id(), library.get_piece_size())


def test_the_host_counts_a_vocabulary_as_the_libraries_do(tmp_path: Path) -> None:
    """Sizes read on the host without the libraries equal those of the rank."""
    for family, path in (("huggingface", train_hf(tmp_path)), ("sentencepiece", train_sp(tmp_path))):
        choice = TokenizerChoice(type="x", family=family, model=str(path), special_tokens=True)  # type: ignore[arg-type]  # a loop over literals
        assert tokenizer_size(choice) == load_tokenizer(family, str(path), NO_HUB).vocab_size  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("family", ["huggingface", "sentencepiece"])
def test_a_damaged_tokenizer_file_is_named(tmp_path: Path, family: Any) -> None:
    """A file of another format is a dependency failure with its name."""
    path = tmp_path / "tokenizer"
    path.write_text('{"model": 1}')
    with pytest.raises(DependencyError, match=str(path)):
        load_tokenizer(family, str(path), NO_HUB)
    train_hf(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[")
    with pytest.raises(DependencyError, match=r"tokenizer_config.json"):
        load_tokenizer("huggingface", str(tmp_path / "tokenizer.json"), NO_HUB)


def test_identity_follows_the_files_content(tmp_path: Path) -> None:
    """Equal files anywhere are one tokenizer; another file is another one."""
    one, two = train_hf(tmp_path / "a"), train_hf(tmp_path / "b")
    other = train_hf(tmp_path / "c", special=("</s>", "<x>"))
    names = [load_tokenizer("huggingface", str(path), NO_HUB).identity for path in (one, two, other)]
    assert names[0] == names[1] != names[2]

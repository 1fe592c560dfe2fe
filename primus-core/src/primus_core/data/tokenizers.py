"""Text to token ids: bytes, a Hugging Face ``tokenizer.json``, or a SentencePiece model."""

from __future__ import annotations

import hashlib
import json
import os
import string
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from primus_core.data.hub import Hub
from primus_core.data.missing import missing_library
from primus_core.errors import ConfigError, DependencyError
from primus_core.planning.datatokenizers import Family
from primus_core.planning.datavocabulary import BYTE_VOCABULARY

BYTE_EOD = 257
"""Ends a document of bytes; 256 begins one and 258 pads, which training data never needs."""

_END_TOKENS = (
    "<|end_of_text|>",
    "<|endoftext|>",
    "</s>",
    "<｜end▁of▁sentence｜>",
    "<eos>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|endofsequence|>",
    "[EOS]",
    "[SEP]",
)
"""Ends of a document by the names that published tokenizers give them, where no configuration says which it is."""


class Tokenizer(Protocol):
    """What tokenization asks of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """Largest id + 1."""

    @property
    def eod(self) -> int:
        """The id that ends a document."""

    @property
    def prefix(self) -> tuple[int, ...]:
        """Ids before each document's text."""

    @property
    def suffix(self) -> tuple[int, ...]:
        """Ids after each document's text, the end of the document included."""

    @property
    def identity(self) -> str:
        """Equal for two tokenizers only when they give the same ids for every text."""

    def encode(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        """Ids of each text, none added at its start or end."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids below `vocab_size`, as people read it: special tokens and cut characters may be lost."""


@frozen(kw_only=True)
class ByteLevel:
    """Each byte of the UTF-8 text is a token; 256 begins and 257 ends a document, 258 pads."""

    vocab_size: int = BYTE_VOCABULARY
    eod: int = BYTE_EOD
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = (BYTE_EOD,)
    identity: str = "bytes/1"

    def encode(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        return [np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(np.uint16) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(token for token in ids if token < 256).decode("utf-8", errors="replace")


@frozen(kw_only=True)
class HuggingFace:
    """A ``tokenizer.json`` through the ``tokenizers`` library."""

    vocab_size: int
    eod: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    identity: str
    inner: Any

    def encode(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        encoded = self.inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(one.ids, dtype=np.int32) for one in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.inner.decode(list(ids), skip_special_tokens=False))


@frozen(kw_only=True)
class SentencePiece:
    """A ``.model`` file through the ``sentencepiece`` library."""

    vocab_size: int
    eod: int
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...]
    identity: str
    inner: Any

    def encode(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        return [np.array(ids, dtype=np.int32) for ids in self.inner.encode(list(texts), out_type=int)]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.inner.decode(list(ids)))


def load_tokenizer(family: Family, model: str | None, hub: Hub, *, special: bool = True) -> Tokenizer:
    """The tokenizer of a family from a file or a hub id.

    Args:
        model: absolute path of its file, or a hub id, which is fetched; None for ``bytes``.
        hub: what a hub id is fetched with.
        special: keep what a Hugging Face tokenizer puts around a text, such as its begin-of-text token.

    Raises:
        DependencyError: a library is missing, the file is not sound, or the hub cannot be asked.
        ConfigError: the tokenizer has no token that ends a document, or the family is ``none``.
    """
    if family == "none":
        raise ConfigError("NullTokenizer has no text", remedy="name the tokenizer that the tokens were made with")
    if family == "bytes" or model is None:
        return ByteLevel()
    if family == "sentencepiece":
        return _sentencepiece(model if os.path.isabs(model) else hub.fetch(model, "tokenizer.model"))
    if os.path.isabs(model):
        return _huggingface(model, _beside(model, "tokenizer_config.json"), special)
    path = hub.fetch(model, "tokenizer.json")
    return _huggingface(path, hub.fetch_optional(model, "tokenizer_config.json"), special)


def _beside(path: str, name: str) -> str | None:
    other = os.path.join(os.path.dirname(path), name)
    return other if os.path.isfile(other) else None


def _read(path: str) -> tuple[bytes, str]:
    with open(path, "rb") as stream:
        content = stream.read()
    return content, hashlib.sha256(content).hexdigest()


def _sentencepiece(path: str) -> Tokenizer:
    try:
        import sentencepiece
    except ImportError as error:
        raise missing_library("sentencepiece", error) from error
    content, digest = _read(path)
    try:
        inner = sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise _unsound(path, "a SentencePiece model", error) from error
    eod = inner.eos_id()
    if eod < 0:
        raise _no_end(path, "train it with an end-of-sentence piece (eos_id)")
    identity = f"sentencepiece/1 {digest} eod {eod}"
    return SentencePiece(vocab_size=inner.get_piece_size(), eod=eod, suffix=(eod,), identity=identity, inner=inner)


def _huggingface(path: str, config: str | None, special: bool) -> Tokenizer:
    try:
        import tokenizers
    except ImportError as error:
        raise missing_library("tokenizers", error) from error
    content, digest = _read(path)
    try:
        inner = tokenizers.Tokenizer.from_buffer(content)
    except ValueError as error:
        raise _unsound(path, "a tokenizer.json", error) from error
    # A file may be saved with the truncation or padding of some fine-tuning: here it would cut documents.
    inner.no_truncation()
    inner.no_padding()
    eod = _end_of_document(path, inner, config)
    before, after = _around(inner) if special else ((), ())
    suffix = after if after[-1:] == (eod,) else (*after, eod)
    identity = f"huggingface/1 {digest} around {before} {suffix}"
    size = 1 + max(inner.get_vocab(with_added_tokens=True).values())
    return HuggingFace(vocab_size=size, eod=eod, prefix=before, suffix=suffix, identity=identity, inner=inner)


def _around(inner: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids that the tokenizer's own template puts before and after a text."""
    for probe in string.ascii_letters + string.digits:
        bare = inner.encode(probe, add_special_tokens=False).ids
        dressed = inner.encode(probe, add_special_tokens=True).ids
        for start in range(len(dressed) - len(bare) + 1):
            if bare and dressed[start : start + len(bare)] == bare:
                return tuple(dressed[:start]), tuple(dressed[start + len(bare) :])
    return (), ()


def _end_of_document(path: str, inner: Any, config: str | None) -> int:
    """The id of ``eos_token`` in ``tokenizer_config.json``, else of the first well-known name the vocabulary has."""
    configured = _configured_end(config) if config else None
    for name in (configured,) if configured else _END_TOKENS:
        token = inner.token_to_id(name)
        if token is not None:
            return int(token)
    raise _no_end(path, "put a tokenizer_config.json with its eos_token beside it")


def _configured_end(config: str) -> str | None:
    content, _ = _read(config)
    try:
        end = json.loads(content).get("eos_token")
    except (ValueError, AttributeError) as error:
        raise _unsound(config, "a tokenizer_config.json", error) from error
    name = end.get("content") if isinstance(end, dict) else end
    return name if isinstance(name, str) else None


def _no_end(path: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"the tokenizer {path} has no token that ends a document",
        why="documents are packed one after the other, so each needs an end",
        remedy=remedy,
    )


def _unsound(path: str, kind: str, error: Exception) -> DependencyError:
    return DependencyError(f"{path} is not {kind}", why=str(error), remedy="download the file again")

"""What a token file holds, for people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from primus_core.codec import from_json
from primus_core.data.cache import Meta
from primus_core.data.hub import standard_hub
from primus_core.data.indexed import SCAN_WHOLE, IndexedReader
from primus_core.data.request import TokenizerRequest
from primus_core.data.tokenizers import load_tokenizer
from primus_core.errors import ConfigError, DependencyError
from primus_core.planning.datasources import SIDECAR
from primus_core.planning.datatokenizers import TokenizerChoice, family_of
from primus_core.planning.datatokens import TokenFacts

_SAMPLE_TOKENS = 64
_SAMPLE_CHARACTERS = 160


def inspect(prefix: str, choice: TokenizerChoice | None, env: Mapping[str, str]) -> TokenFacts:
    """Look at a token file.

    Args:
        choice: the tokenizer to decode a sample with; None: the one that the file's ``meta.json`` names.

    Raises:
        RunError: the file is unsound.
        ConfigError: the file holds tokens that the chosen tokenizer has not.
        DependencyError: the chosen tokenizer cannot be had.
    """
    reader = IndexedReader(prefix)
    lengths = reader.document_lengths
    size = os.path.getsize(f"{prefix}.bin")
    facts = TokenFacts(
        prefix=prefix,
        documents=len(reader),
        tokens=reader.tokens,
        dtype=reader.dtype.name,
        bytes=size,
        longest=int(lengths.max()) if len(lengths) else 0,
        shortest=int(lengths.min()) if len(lengths) else 0,
        largest_token=reader.largest_token(),
        is_sampled=size > SCAN_WHOLE,
    )
    if choice is not None:
        return _decoded(facts, reader, TokenizerRequest(type=choice.type, model=choice.model), "", env)
    return _decoded_by_meta(facts, reader, env)


def _decoded_by_meta(facts: TokenFacts, reader: IndexedReader, env: Mapping[str, str]) -> TokenFacts:
    """With the sample where the tokenizer that is on record can be had; else with the reason why there is none."""
    meta = find_meta(facts.prefix)
    if meta is None or meta.made_with is None:
        return evolve(facts, why_no_sample="nothing tells its tokenizer; --tokenizer-type names it")
    try:
        return _decoded(facts, reader, meta.made_with, meta.tokenizer, env)
    except (ConfigError, DependencyError, OSError) as error:
        return evolve(facts, tokenizer=_name(meta.made_with), why_no_sample=str(error))


def _decoded(
    facts: TokenFacts, reader: IndexedReader, asked: TokenizerRequest, identity: str, env: Mapping[str, str]
) -> TokenFacts:
    tokenizer = load_tokenizer(family_of(asked.type), asked.model, standard_hub(env), special=asked.special_tokens)
    if identity and tokenizer.identity != identity:
        raise ConfigError(f"{asked.model} is not the tokenizer that this file was made with any more")
    if facts.largest_token >= tokenizer.vocab_size:
        raise ConfigError(
            f"{facts.prefix}.bin was not made with {_name(asked)}",
            why=f"it holds token {facts.largest_token:,}, and the tokenizer's vocabulary is {tokenizer.vocab_size:,}",
            remedy="name the tokenizer that it was made with",
        )
    first = next((number for number, length in enumerate(reader.document_lengths) if length), None)
    ids = reader.document(first)[:_SAMPLE_TOKENS].tolist() if first is not None else []
    return evolve(facts, tokenizer=_name(asked), sample=tokenizer.decode(ids)[:_SAMPLE_CHARACTERS])


def _name(asked: TokenizerRequest) -> str:
    return f"{asked.type} {asked.model}" if asked.model else asked.type


def find_meta(prefix: str) -> Meta | None:
    """What is on record of a token file: beside it, or in its folder of the cache; None for none, or another file's."""
    for path in (Path(f"{prefix}{SIDECAR}"), Path(prefix).with_name("meta.json")):
        try:
            meta = from_json(Meta, path.read_text(encoding="utf-8"))
            if meta.bin_bytes == os.path.getsize(f"{prefix}.bin") and meta.idx_bytes == os.path.getsize(
                f"{prefix}.idx"
            ):
                return meta
        except (OSError, ConfigError, UnicodeDecodeError):
            continue
    return None

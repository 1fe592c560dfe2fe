"""The data task: every source of a run becomes a checked token file, from the cache where it is known."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve

from primus_core.contract import RankContext
from primus_core.data.cache import Entry, Meta, TokenCache
from primus_core.data.digest import Digest
from primus_core.data.hub import Hub
from primus_core.data.indexed import IndexedReader
from primus_core.data.memo import Memo
from primus_core.data.request import DataRequest, SourceRequest, TokenizerRequest
from primus_core.data.textwork import TextWork, examine, write_token_file
from primus_core.data.tokenizers import Tokenizer, load_tokenizer
from primus_core.errors import DependencyError, RunError
from primus_core.plan import RunPlan
from primus_core.planning.datatokenizers import family_of
from primus_core.planning.datavocabulary import token_too_large, tokenizer_too_large
from primus_core.quantities import text_size


def run(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Tokenize or check all data of a plan.

    Returns:
        ``train``, ``valid``, ``test``: for each source ``prefix``, ``weight``, ``documents`` and ``tokens``;
        ``tokenizer``: ``type``, ``model``, ``vocab_size`` and ``eod``, the last two None where nothing tells them.

    Raises:
        ConfigError: a vocabulary is larger than the model's.
        DependencyError: the tokenizer cannot be had.
        RunError: a file is unsound, holds no document, changes while it is read, or the disk is full.
    """
    request = DataRequest.of(plan)
    preparation = Preparation(request, rank, _vocabulary_origin(plan))
    with _told_to_user(request.cache):
        result: dict[str, object] = {
            split: [preparation.prepare(split, source) for source in request.splits.get(split, ())]
            for split in ("train", "valid", "test")
        }
    preparation.save()
    return {**result, "tokenizer": preparation.tokenizer_facts()}


def _vocabulary_origin(plan: RunPlan) -> str:
    """``file:line`` of the model's vocabulary size."""
    module = plan.experiment.modules.get(plan.module or "") if plan.experiment else None
    return module.origin("vocab_size") if module and "vocab_size" in module.params else ""


@contextmanager
def _told_to_user(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path = error.filename or folder
        raise RunError(
            f"{path}: {error.strerror or error}", remedy="check that the file is there and readable"
        ) from error


class Preparation:
    """One run of the data task: the tokenizer, the cache, and what is known of the files."""

    def __init__(self, request: DataRequest, rank: RankContext, where: str) -> None:
        folder = Path(request.cache)
        self._request = request
        self._rank = rank
        self._where = where
        self._cache = TokenCache(folder=folder, waiting=self._tell_waiting)
        self._digests: Memo[Digest] = Memo(path=str(folder / "files.json"))
        self._largest: Memo[int] = Memo(path=str(folder / "tokens.json"))
        hub = Hub(env=rank.env, fallback_cache=str(folder.parent / "huggingface" / "hub"))
        self._tokenizer = self._load(request.tokenizer, hub)

    def _load(self, asked: TokenizerRequest, hub: Hub) -> Tokenizer | None:
        """The tokenizer; None where there is none, or where all data is tokenized and it cannot be had."""
        family = family_of(asked.type)
        if family == "none":
            return None
        try:
            return load_tokenizer(family, asked.model, hub, special=asked.special_tokens)
        except DependencyError as error:
            if any(source.kind != "indexed" for sources in self._request.splits.values() for source in sources):
                raise
            self._rank.log("warning", "the data is tokenized already; its tokenizer is not there", why=str(error))
            return None

    def tokenizer_facts(self) -> Mapping[str, object]:
        asked, found = self._request.tokenizer, self._tokenizer
        facts = {"vocab_size": found.vocab_size if found else None, "eod": found.eod if found else None}
        return {"type": asked.type, "model": asked.model, **facts}

    def save(self) -> None:
        """Remember what was found about the files."""
        self._digests.save()
        self._largest.save()

    def prepare(self, split: str, source: SourceRequest) -> Mapping[str, object]:
        """Token file of one source."""
        if source.kind == "indexed":
            prefix, documents, tokens = self._indexed(split, source.files[0])
        else:
            entry = self._tokenized(split, source)
            prefix, documents, tokens = entry.prefix, entry.meta.documents, entry.meta.tokens
        return {"prefix": prefix, "weight": source.weight, "documents": documents, "tokens": tokens}

    def _indexed(self, split: str, prefix: str) -> tuple[str, int, int]:
        reader = IndexedReader(prefix)
        if not reader.tokens:
            raise RunError(f"{prefix}.bin holds no token", remedy="tokenize it again from its text")
        largest = self._largest.get(f"{prefix}.bin", lambda _: reader.largest_token())
        vocabulary = self._request.vocab_size
        if vocabulary is not None and largest >= vocabulary:
            raise token_too_large(f"{prefix}.bin", largest, vocabulary, self._where)
        self._notice(split, f"{reader.tokens:,} tokens of {len(reader):,} documents in {prefix}")
        return prefix, len(reader), reader.tokens

    def _tokenized(self, split: str, source: SourceRequest) -> Entry:
        tokenizer = self._fitting_tokenizer()
        started = time.monotonic()
        work = self._work(source)
        entry, known = self._cache.obtain(work.key(tokenizer), lambda prefix: self._write(work, tokenizer, prefix))
        how = "from cache" if known else f"tokenized in {time.monotonic() - started:.1f} s"
        files = "1 file" if entry.meta.files == 1 else f"{entry.meta.files:,} files"
        text = f"{text_size(entry.meta.text_bytes)} of text in {files} -> {entry.meta.tokens:,} tokens, {how}"
        self._notice(split, text)
        self._rank.log("info", "token file", split=split, prefix=entry.prefix, documents=entry.meta.documents)
        return entry

    def _write(self, work: TextWork, tokenizer: Tokenizer, prefix: str) -> Meta:
        return evolve(write_token_file([work], tokenizer, prefix, self._rank), made_with=self._request.tokenizer)

    def _notice(self, split: str, text: str) -> None:
        several = sum(1 for sources in self._request.splits.values() if sources) > 1
        self._rank.notice("data", f"{split}: {text}" if several else text)

    def _fitting_tokenizer(self) -> Tokenizer:
        asked, vocabulary = self._request.tokenizer, self._request.vocab_size
        if self._tokenizer is None:
            raise RunError(f"{asked.type} cannot tokenize text")
        size = self._tokenizer.vocab_size
        if vocabulary is not None and size > vocabulary:
            raise tokenizer_too_large(asked.type, asked.model, size, vocabulary, self._where)
        return self._tokenizer

    def _work(self, source: SourceRequest) -> TextWork:
        work = examine(source, self._request.text_field, self._digests, self._rank)
        # Kept now: the hashes of a large corpus should outlive a tokenization that is interrupted.
        self._digests.save()
        return work

    def _tell_waiting(self) -> None:
        self._rank.notice("data", "another run tokenizes the same data; waiting for it")

"""Text becomes a token file at a path of the user's: three files, whole or not at all."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import evolve

from primus_core.codec import to_json
from primus_core.data.cache import Meta, sync_folder, write_synced
from primus_core.data.digest import Digest
from primus_core.data.hub import standard_hub
from primus_core.data.memo import Memo
from primus_core.data.progress import Listener
from primus_core.data.request import SourceRequest, TokenizerRequest
from primus_core.data.textwork import examine, write_token_file
from primus_core.data.tokenizers import load_tokenizer
from primus_core.errors import ConfigError, RunError
from primus_core.planning.datasources import SIDECAR, Source
from primus_core.planning.datatokens import Tokenized, TokenizeRequest

_BUILDING = ".building-"
_PARTS = (".bin", SIDECAR, ".idx")
"""In the order of their publication: without its index a file is not taken for data."""


def tokenize(request: TokenizeRequest, env: Mapping[str, str], listener: Listener) -> Tokenized:
    """Write ``PREFIX.bin``, ``PREFIX.idx`` and ``PREFIX.meta.json``.

    Raises:
        ConfigError: something is there already.
        DependencyError: the tokenizer cannot be had.
        RunError: a file is no text, holds no document, changes while it is read, or the disk is full.
    """
    refuse_existing(request)
    choice = request.tokenizer
    tokenizer = load_tokenizer(choice.family, choice.model, standard_hub(env), special=choice.special_tokens)
    digests: Memo[Digest] = Memo(path=os.devnull)
    try:
        works = [examine(_request(source), request.text_field, digests, listener) for source in request.sources]
        with _building(Path(request.prefix)) as folder:
            meta = write_token_file(works, tokenizer, str(folder / "tokens"), listener)
            made_with = TokenizerRequest(type=choice.type, model=choice.model, special_tokens=choice.special_tokens)
            write_synced(folder / f"tokens{SIDECAR}", to_json(evolve(meta, made_with=made_with)))
            refuse_existing(request)
            _publish(folder / "tokens", request.prefix)
    except OSError as error:
        raise RunError(f"{error.filename or request.prefix}: {error.strerror or error}") from error
    return _told(meta)


def _request(source: Source) -> SourceRequest:
    return SourceRequest(kind=source.kind, files=source.files, scanned=source.scanned)


def _told(meta: Meta) -> Tokenized:
    return Tokenized(files=meta.files, text_bytes=meta.text_bytes, documents=meta.documents, tokens=meta.tokens)


def refuse_existing(request: TokenizeRequest) -> None:
    """Raise `ConfigError` when the files are there and may not be replaced."""
    there = [path for part in _PARTS if os.path.lexists(path := f"{request.prefix}{part}")]
    if there and not request.force:
        raise ConfigError(f"{there[0]} is there already", remedy="choose another --output, or replace it with --force")


def _publish(built: Path, prefix: str) -> None:
    """Rename the files into place; at no moment does an index stand beside tokens that are not its own."""
    with suppress(FileNotFoundError):
        os.unlink(f"{prefix}.idx")
    for part in _PARTS:
        os.replace(f"{built}{part}", f"{prefix}{part}")
    sync_folder(Path(prefix).parent)


@contextmanager
def _building(prefix: Path) -> Iterator[Path]:
    """A hidden folder beside the prefix; what killed processes left of theirs is removed."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for remains in prefix.parent.glob(f".{prefix.name}{_BUILDING}*"):
        with _held(remains) as dead:
            if dead:
                shutil.rmtree(remains, ignore_errors=True)
    folder = prefix.with_name(f".{prefix.name}{_BUILDING}{secrets.token_hex(4)}")
    folder.mkdir()
    with _held(folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Hold a folder's lock, which ends with the process; False where another one holds it, or nothing can be held."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)

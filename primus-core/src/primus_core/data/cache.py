"""Token files by what they were made of. An entry is whole or not there."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attrs import frozen

from primus_core.codec import from_json, to_json
from primus_core.data.request import TokenizerRequest
from primus_core.errors import ConfigError

FORMAT = 1
"""Version of the entries; part of every key."""

_TOKENS = "tokens"
_META = "meta.json"
_BUILDING = ".building-"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


@frozen(kw_only=True)
class Meta:
    """What an entry holds; written last, so that an entry with it is complete."""

    documents: int
    tokens: int
    vocab_size: int
    eod: int
    max_token: int
    tokenizer: str
    """Identity of the tokenizer."""
    files: int
    text_bytes: int
    bin_bytes: int
    idx_bytes: int
    made_with: TokenizerRequest | None = None
    """The tokenizer by its name; what is found under that name later may be another."""
    format: int = FORMAT


@frozen(kw_only=True)
class Entry:
    """Token files of the cache: ``PREFIX.bin`` and ``PREFIX.idx``."""

    prefix: str
    meta: Meta


@frozen(kw_only=True)
class TokenCache:
    """A folder of entries, shared by the runs of a workspace."""

    folder: Path
    waiting: Callable[[], None] = lambda: None
    """Called before a wait for another process that builds the same entry."""

    def find(self, key: str) -> Entry | None:
        """The whole entry of a key; None for none, a damaged one, or one of another format."""
        prefix = self.folder / key / _TOKENS
        try:
            meta = from_json(Meta, (self.folder / key / _META).read_text(encoding="utf-8"))
            sizes = (prefix.with_suffix(".bin").stat().st_size, prefix.with_suffix(".idx").stat().st_size)
        except (OSError, ConfigError, UnicodeDecodeError):
            return None
        whole = meta.format == FORMAT and sizes == (meta.bin_bytes, meta.idx_bytes)
        return Entry(prefix=str(prefix), meta=meta) if whole else None

    def obtain(self, key: str, build: Callable[[str], Meta]) -> tuple[Entry, bool]:
        """The entry of a key, built when it is not there. One process builds, others wait for it.

        Args:
            build: writes the token files at the prefix it is given; anything it raises leaves no entry.

        Returns:
            The entry, and whether it was there already.
        """
        entry = self.find(key)
        if entry is not None:
            return entry, True
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock(key, wait=True) as locked:
            if locked:
                self._sweep(key)
            entry = self.find(key)
            return (entry, True) if entry is not None else (self._build(key, build), False)

    def _build(self, key: str, build: Callable[[str], Meta]) -> Entry:
        temporary = self.folder / f"{key}{_BUILDING}{os.getpid()}-{secrets.token_hex(4)}"
        temporary.mkdir()
        try:
            meta = build(str(temporary / _TOKENS))
            write_synced(temporary / _META, to_json(meta))
            self._publish(temporary, key)
        finally:
            for path in self.folder.glob(f"{temporary.name}*"):
                shutil.rmtree(path, ignore_errors=True)
        return Entry(prefix=str(self.folder / key / _TOKENS), meta=meta)

    def _publish(self, temporary: Path, key: str) -> None:
        """Rename a finished folder to its key. A whole one that another process put there meanwhile stays."""
        final = self.folder / key
        if final.exists() and self.find(key) is None:
            final.rename(temporary.with_name(f"{temporary.name}-damaged"))
        try:
            temporary.rename(final)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        sync_folder(self.folder)

    @contextmanager
    def _lock(self, key: str, *, wait: bool) -> Iterator[bool]:
        """Hold a key's lock; False where it is taken or the file system has no locks.

        Without locks entries stay whole all the same: two builds cost time, and the first rename wins.
        """
        path = self.folder / ".locks" / key
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as stream:
            locked = _flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if locked is None and wait:
                self.waiting()
                locked = _flock(stream, fcntl.LOCK_EX)
            yield bool(locked)

    def _sweep(self, own: str) -> None:
        """Remove what interrupted builds left: folders whose key nobody holds."""
        for path in self.folder.glob(f"*{_BUILDING}*"):
            key = path.name.split(_BUILDING)[0]
            if key == own:
                shutil.rmtree(path, ignore_errors=True)
                continue
            with self._lock(key, wait=False) as locked:
                if locked:
                    shutil.rmtree(path, ignore_errors=True)


def _flock(stream: IO[str], operation: int) -> bool | None:
    """True for a lock, None for one that is taken, False where the file system has none."""
    try:
        fcntl.flock(stream, operation)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


def write_synced(path: Path, text: str) -> None:
    """Write a file and force it to the disk."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(path: Path) -> None:
    """Force the names of a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

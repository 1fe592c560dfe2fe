"""Files that become one token file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from primus_core.data.cache import FORMAT, Meta
from primus_core.data.digest import Digest, digest
from primus_core.data.documents import not_utf8
from primus_core.data.indexed import IndexedWriter, token_type
from primus_core.data.memo import Memo
from primus_core.data.parquet import check_columns
from primus_core.data.progress import ByteProgress, Listener
from primus_core.data.request import SourceRequest
from primus_core.data.tokenization import write_tokens
from primus_core.data.tokenizers import Tokenizer
from primus_core.errors import RunError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def stamp_of(path: str) -> tuple[int, int]:
    """Size in bytes and time of change (ns): another stamp is another content."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


@frozen(kw_only=True)
class TextWork:
    """Text files to tokenize, and what they held when they were looked at."""

    kind: str
    files: tuple[str, ...]
    hashes: tuple[str, ...]
    stamps: tuple[tuple[int, int], ...]
    """Of each file, taken before it was hashed."""
    text_field: str

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.stamps)

    def key(self, tokenizer: Tokenizer) -> str:
        """Name of the cache entry: equal content, tokenizer and settings give the same tokens."""
        parts = [FORMAT, self.kind, self.text_field, tokenizer.identity, [*self.hashes]]
        compressed = [path.endswith(".gz") for path in self.files]
        return hashlib.sha256(json.dumps([*parts, compressed]).encode()).hexdigest()[:32]

    def check_unchanged(self) -> None:
        """Raise `RunError` when a file is not the one that was hashed: its tokens would get a wrong name."""
        for path, stamp in zip(self.files, self.stamps, strict=True):
            if stamp_of(path) != stamp:
                raise RunError(f"{path} changed while it was tokenized", remedy="start again when it is written")


def examine(source: SourceRequest, text_field: str, digests: Memo[Digest], listener: Listener) -> TextWork:
    """Look at the content of a source's files; a scanned one that is not text is left out, with a warning.

    Raises:
        RunError: a named file, or every scanned one, is not text.
    """
    progress = ByteProgress(listener, "reading", sum(os.path.getsize(path) for path in source.files))
    kept: dict[str, str] = {}
    stamps: list[tuple[int, int]] = []
    left_out: list[str] = []
    for path in source.files:
        stamp = stamp_of(path)
        found = digests.get(path, lambda path: digest(path, progress.advance))
        if not found["fault"]:
            kept[path] = found["sha256"]
            stamps.append(stamp)
        elif source.scanned:
            left_out.append(path)
        else:
            raise not_utf8(path, found["fault"])
    progress.finish()
    _tell_left_out(left_out, len(kept), listener)
    field = text_field if source.kind != "text" else ""
    return TextWork(
        kind=source.kind, files=tuple(kept), hashes=tuple(kept.values()), stamps=tuple(stamps), text_field=field
    )


def _tell_left_out(files: list[str], kept: int, listener: Listener) -> None:
    if files and not kept:
        raise RunError(f"none of {len(files)} files is UTF-8 text", why=f"the first is {files[0]}")
    if files:
        event = "files that are not UTF-8 are left out of the data"
        listener.log("warning", event, count=len(files), first=files[0])


def write_token_file(works: Sequence[TextWork], tokenizer: Tokenizer, prefix: str, listener: Listener) -> Meta:
    """Write one token file of all works at a prefix in a temporary folder.

    Raises:
        RunError: the disk is full, a line or row is no document, a file changed, or there is no document at all.
    """
    for work in works:
        if work.kind == "parquet":
            check_columns(work.files, work.text_field)
    size, files = sum(work.size for work in works), [path for work in works for path in work.files]
    needed = size * token_type(tokenizer.vocab_size)().itemsize
    progress = ByteProgress(listener, "tokenizing", size, always=True)
    with _disk_full(str(Path(prefix).parent.parent), needed), IndexedWriter(prefix, tokenizer.vocab_size) as writer:
        for work in works:
            write_tokens(work.kind, work.files, work.text_field, tokenizer, writer, progress.advance)
            work.check_unchanged()
        if not writer.documents:
            raise _no_documents(files)
    progress.finish()
    return Meta(
        documents=writer.documents,
        tokens=writer.tokens,
        vocab_size=tokenizer.vocab_size,
        eod=tokenizer.eod,
        max_token=writer.max_token,
        tokenizer=tokenizer.identity,
        files=len(files),
        text_bytes=size,
        bin_bytes=os.path.getsize(f"{prefix}.bin"),
        idx_bytes=os.path.getsize(f"{prefix}.idx"),
    )


def _no_documents(files: Sequence[str]) -> RunError:
    what = f"{files[0]} holds no document" if len(files) == 1 else f"{len(files)} files hold no document"
    return RunError(what, remedy="name text, or JSONL with one document a line")


@contextmanager
def _disk_full(folder: str, needed: int) -> Iterator[None]:
    """Tell a full disk with what would have been needed."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise RunError(
            f"no room for the token files in {folder}",
            why=f"{error.strerror}; up to {needed:,} bytes are needed, {shutil.disk_usage(folder).free:,} are free",
            remedy="make room, or write to another disk: a run's `workspace`, or `--output`",
        ) from error

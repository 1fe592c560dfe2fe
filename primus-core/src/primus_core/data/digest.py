"""What a file holds, in a few words: the hash of its content, and whether it is text."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable
from typing import TypedDict

_BLOCK = 1 << 20
_LATER = (".gz", ".parquet")


class Digest(TypedDict):
    """Content of one file."""

    sha256: str
    fault: str
    """Why it is not UTF-8; empty for text, and for what is looked into later (``.gz``, ``.parquet``)."""


def digest(path: str, advance: Callable[[int], None] = lambda _: None) -> Digest:
    """Hash a file and check its encoding in one pass, block by block.

    Args:
        advance: told the bytes as they are read.

    Raises:
        OSError: the file cannot be read.
    """
    content = hashlib.sha256()
    decoder = codecs.getincrementaldecoder("utf-8")()
    fault = ""
    done = 0
    look = not path.endswith(_LATER)
    with open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            content.update(block)
            if look and not fault:
                fault = _fault(decoder, block, done, final=False)
            done += len(block)
            advance(len(block))
    return Digest(sha256=content.hexdigest(), fault=fault or (_fault(decoder, b"", done, final=True) if look else ""))


def _fault(decoder: codecs.IncrementalDecoder, block: bytes, done: int, *, final: bool) -> str:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError as error:
        # The decoder may still hold up to three bytes of the block before.
        at = done + error.start - (len(error.object) - len(block))
        return f"byte {at:,} is 0x{error.object[error.start]:02x}: {error.reason}"
    return ""

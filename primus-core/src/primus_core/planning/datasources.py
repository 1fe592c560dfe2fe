"""One entry of a data path (a prefix, a file, a folder or a glob) becomes the files that the ranks read."""

from __future__ import annotations

import glob
import json
import os
import stat
from collections.abc import Iterator
from typing import Literal

from primus_core.errors import ConfigError
from primus_core.parameters import nearest
from primus_core.planning.dataindex import INDEX_MAGIC, check_whole
from primus_core.records import frozen

Kind = Literal["indexed", "text", "jsonl", "parquet"]

SIDECAR = ".meta.json"
"""Follows the prefix of indexed data in the name of the file that tells how it was made."""

_LINES = (".jsonl", ".ndjson")
_JSONL = (*_LINES, ".json")
_PARQUET = ".parquet"
_PARQUET_MAGIC = b"PAR1"
_PARQUET_LEAST = 12
"""Bytes: the magic twice, and the length of the footer."""
_PROSE = (".txt", ".text", ".md", ".rst", ".tex", ".html", ".xml", ".csv", ".tsv")
_CODE = (".py", ".pyi", ".c", ".h", ".cc", ".cpp", ".hpp", ".cu", ".rs", ".go", ".java", ".js", ".ts", ".sh")
_TEXT = frozenset((*_PROSE, *_CODE))
"""Suffixes taken as text without a look inside: a folder may hold a hundred thousand files."""
_BINARY = frozenset((".bin", ".idx", ".pyc", ".so", ".png", ".jpg", ".pdf", ".zip", ".pt", ".safetensors"))
"""Suffixes that are passed over without a look."""
_SNIFF = 4096
_GLOB = frozenset("*?[")


@frozen(kw_only=True)
class Source:
    """Files of one kind that are tokenized together, or one indexed prefix."""

    kind: Kind
    files: tuple[str, ...]
    """Absolute paths, sorted; for ``indexed`` the one prefix, without ``.bin``."""
    size: int
    """Bytes of the files (of the ``.bin`` for ``indexed``)."""
    scanned: bool = False
    """Found in a folder or by a glob: a file of them that is not UTF-8 is left out instead of ending the run."""


def find_sources(entry: str, cwd: str, where: str, text_field: str = "text") -> tuple[Source, ...]:
    """Resolve one entry, relative to ``cwd``.

    Args:
        where: ``file:line`` of the entry, for errors.
        text_field: a ``.json`` file that is found by a folder or glob is JSON lines when its first line has it.

    Raises:
        ConfigError: nothing usable is there; says what is, and the nearest name.
    """
    if not entry.strip():
        raise ConfigError("an empty data path", where=where, remedy="name a file, a folder, a prefix or a glob")
    path = os.path.normpath(os.path.join(cwd, entry))
    prefix = _prefix(path, where)
    if prefix is not None:
        return (prefix,)
    if os.path.isdir(path):
        return _scanned(_walk(path), f"the folder {path}", where, text_field, strict_bins=False)
    if os.path.exists(path):
        return (_file(path, where),)
    if has_glob(entry):
        matches = [found for found in sorted(glob.glob(path, recursive=True)) if os.path.isfile(found)]
        return _scanned(iter(matches), f"the glob {path}", where, text_field, strict_bins=entry.endswith(".bin"))
    raise missing(path, where, candidates=_names(path))


def looks_present(entry: str, cwd: str) -> bool:
    """Whether the text names something that is there, as a whole."""
    path = os.path.normpath(os.path.join(cwd, entry))
    return os.path.exists(path) or os.path.isfile(path + ".bin") or os.path.isfile(path + ".idx")


def has_glob(entry: object) -> bool:
    """Whether a text can stand for other names than its own."""
    return bool(_GLOB.intersection(str(entry)))


def missing(path: str, where: str, *, candidates: list[str], what: str = "") -> ConfigError:
    """The error for a path that is not there, with the nearest name beside it."""
    parent, name = os.path.split(path)
    why = f"{parent} does not exist" if not os.path.isdir(parent) else ""
    close = nearest(name, candidates)
    if close:
        remedy = f"did you mean {os.path.join(parent, close)}?"
    elif "/~" in path:
        remedy = "write ${HOME} instead of ~"
    else:
        remedy = "give a Megatron prefix, a text, JSONL or Parquet file, a folder or a glob" if not what else ""
    return ConfigError(f"{what or path + ' does not exist'}", where=where, why=why, remedy=remedy)


def _names(path: str) -> list[str]:
    """What a misspelled path could have meant: its siblings, indexed data by their prefixes."""
    parent = os.path.dirname(path)
    names = os.listdir(parent) if os.path.isdir(parent) else []
    return sorted({name[:-4] if name.endswith((".bin", ".idx")) else name for name in names if name[:1] != "."})


def _prefix(path: str, where: str) -> Source | None:
    """The indexed data that a path names, by its prefix or by either of its files."""
    prefix = path[:-4] if path.endswith((".bin", ".idx")) else path
    has_bin, has_idx = os.path.isfile(prefix + ".bin"), os.path.isfile(prefix + ".idx")
    if has_bin and has_idx:
        return _indexed_source(prefix, where)
    if not (has_bin or has_idx) or (prefix == path and os.path.exists(path)):
        return None
    raise _half(prefix, has_bin, where)


def _indexed_source(prefix: str, where: str) -> Source:
    _refuse_empty(prefix + ".idx", where)
    size = _refuse_empty(prefix + ".bin", where)
    check_whole(prefix, where)
    return Source(kind="indexed", files=(prefix,), size=size)


def _half(prefix: str, has_bin: bool, where: str) -> ConfigError:
    present, absent = (".bin", ".idx") if has_bin else (".idx", ".bin")
    return ConfigError(
        f"{prefix}{present} has no {os.path.basename(prefix)}{absent} beside it",
        where=where,
        why="indexed data is two files: the tokens (.bin) and where each document starts (.idx)",
        remedy="copy the other file too, or tokenize again from the text",
    )


def _file(path: str, where: str) -> Source:
    """One file that the user named: it must be usable."""
    if not os.path.isfile(path):
        raise ConfigError(f"{path} is neither a file nor a folder", where=where)
    if not os.access(path, os.R_OK):
        raise ConfigError(f"{path} may not be read", where=where, remedy="give this user the right to read it")
    size = _refuse_empty(path, where)
    if path.endswith(_PARQUET):
        return _parquet(path, size, where)
    if path.endswith((".arrow", ".zst", ".zip")):
        remedy = "write the documents as JSONL (or .jsonl.gz) or Parquet"
        raise ConfigError(f"{path}: this format is not read", where=where, remedy=remedy)
    if not _plain(path).endswith(_JSONL) and not path.endswith(".gz") and not _is_text(path):
        raise ConfigError(
            f"{path} is not UTF-8 text", where=where, why="text and JSONL files are UTF-8", remedy="convert the file"
        )
    kind: Kind = "jsonl" if _plain(path).endswith(_JSONL) else "text"
    return Source(kind=kind, files=(path,), size=size)


def _parquet(path: str, size: int, where: str) -> Source:
    """A Parquet file, by its first and last bytes; the ranks look for the column of text."""
    with open(path, "rb") as stream:
        begins = stream.read(len(_PARQUET_MAGIC))
        stream.seek(max(size - len(_PARQUET_MAGIC), 0))
        ends = stream.read()
    if size < _PARQUET_LEAST or not begins == ends == _PARQUET_MAGIC:
        cut = "it is cut short" if begins == _PARQUET_MAGIC else f"it starts with {begins!r}"
        remedy = "copy the file again"
        raise ConfigError(f"{path} is not a sound Parquet file", where=where, why=cut, remedy=remedy)
    return Source(kind="parquet", files=(path,), size=size)


def _refuse_empty(path: str, where: str) -> int:
    size = os.path.getsize(path)
    if not size:
        raise ConfigError(f"{path} is empty", where=where, remedy="name a file that holds data")
    return size


def _walk(folder: str) -> Iterator[str]:
    """Every file below a folder that is not hidden nor in a hidden folder."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(root, name) for name in files if not name.startswith("."))


def _scanned(paths: Iterator[str], what: str, where: str, text_field: str, *, strict_bins: bool) -> tuple[Source, ...]:
    """Sort found files by kind; what is neither text nor indexed data is passed over."""
    found = {path: size for path in paths if (size := _regular_size(path)) is not None and not _is_sidecar(path)}
    indexed = _indexed(found, where, strict_bins=strict_bins)
    texts: dict[Kind, dict[str, int]] = {"text": {}, "jsonl": {}, "parquet": {}}
    for path in sorted(found):
        kind = _scanned_kind(path, text_field) if found[path] else None
        if kind is not None:
            texts[kind][path] = found[path]
    groups = (Source(kind=k, files=tuple(v), size=sum(v.values()), scanned=True) for k, v in texts.items() if v)
    sources = (*indexed, *groups)
    if not sources:
        raise _nothing(what, len(found), where)
    return sources


def _is_sidecar(path: str) -> bool:
    return path.endswith(SIDECAR) and os.path.exists(path.removesuffix(SIDECAR) + ".idx")


def _regular_size(path: str) -> int | None:
    """Bytes of a regular file (links followed); None for anything else and for a broken link."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _indexed(found: dict[str, int], where: str, *, strict_bins: bool) -> list[Source]:
    """Prefixes among found files. An index that lost its tokens is an error: silence would drop a shard."""
    sources = []
    for prefix in sorted({path[:-4] for path in found if path.endswith((".bin", ".idx"))}):
        if os.path.isfile(prefix + ".bin") and os.path.isfile(prefix + ".idx"):
            sources.append(_indexed_source(prefix, where))
        elif strict_bins or (prefix + ".idx" in found and _starts_with(prefix + ".idx", INDEX_MAGIC)):
            raise _half(prefix, prefix + ".bin" in found, where)
    return sources


def _starts_with(path: str, magic: bytes) -> bool:
    with open(path, "rb") as stream:
        return stream.read(len(magic)) == magic


def _nothing(what: str, files: int, where: str) -> ConfigError:
    held = f"{files} files, none of them text with content" if files else "no file"
    return ConfigError(
        f"{what} has nothing to train on",
        where=where,
        why=f"it holds {held} (hidden files do not count)",
        remedy="text is any UTF-8 file; documents of other formats can be given as JSONL or Parquet",
    )


def _plain(path: str) -> str:
    return path[:-3] if path.endswith(".gz") else path


def _scanned_kind(path: str, text_field: str) -> Kind | None:
    plain = _plain(path)
    suffix = os.path.splitext(plain)[1]
    if suffix in _LINES:
        return "jsonl"
    if suffix in _TEXT:
        return "text"
    if path.endswith(_PARQUET):
        return "parquet"
    if path.endswith(".gz") or suffix in _BINARY or not _is_text(path):
        return None
    return "jsonl" if suffix == ".json" and _first_line_has(path, text_field) else "text"


def _is_text(path: str) -> bool:
    """Whether a file starts as UTF-8 without NUL; the ranks check the rest."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(_SNIFF)
    except OSError:
        return False
    try:
        return "\0" not in head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The head may end inside a character.
        return len(head) == _SNIFF and error.start >= _SNIFF - 3 and b"\0" not in head


def _first_line_has(path: str, text_field: str) -> bool:
    """Whether a ``.json`` file is JSON lines with documents; any other JSON is taken as plain text."""
    with open(path, "rb") as stream:
        line = stream.readline(1 << 20)
    try:
        document = json.loads(line)
    except ValueError:
        return False
    return isinstance(document, dict) and text_field in document

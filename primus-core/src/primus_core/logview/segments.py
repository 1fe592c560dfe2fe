"""One rank's log as one stream of lines, though full files are put aside while it is written and read."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

_HEAD_BYTES = 32
_GAPS = 2
"""Files are renamed one after the other, so for a moment one number is missing."""
_PROBE_BYTES = 1 << 13
_LINE = re.compile(rb"\n(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ")


class _File(NamedTuple):
    """A file, known again after it was renamed: the number of a deleted one may be given to a new one at once."""

    inode: int
    head: bytes


class RankLog:
    """The lines of a level file and of the full ones beside it, oldest first. Nothing is open between two reads.

    Args:
        path: of the file that is written to; ``path.1`` is the newest of the full ones.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: _File | None = None
        self._offset = 0
        self._rest = b""

    def skip_to(self, time: str) -> None:
        """Leave out what is surely older than this, without reading it."""
        files = list(self._files())
        older = [one for one in files if one[0].head.decode("ascii", "replace") < time]
        if files:
            self._file, path = older[0] if older else files[-1]
            with contextlib.suppress(FileNotFoundError):  # put aside now: it is read from its beginning
                self._offset = _offset_of(path, time)

    def lines(self, size: int) -> list[bytes] | None:
        """The lines that are complete after reading about so many bytes; None: there is nothing more now."""
        data = b"" if self._is_read() else self._read(size)
        if not data:
            return None
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        return lines

    def rest(self) -> list[bytes]:
        """The last line where it was not ended; once."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def _is_read(self) -> bool:
        """Whether nothing came since the last read, which one look tells: most ranks are silent most of the time."""
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False
        return self._file is not None and (now.st_ino, now.st_size) == (self._file.inode, self._offset)

    def _read(self, size: int) -> bytes:
        while files := list(self._files()):
            known = [file for file, _ in files]
            if self._file not in known:  # the first read, or it was deleted: on with the oldest
                self._file, self._offset, self._rest = known[-1], 0, b""
            number = known.index(self._file)
            data = _data(files[number][1], self._file, self._offset, size)
            if data:
                self._offset += len(data)
                return data
            if data is not None and number == 0:
                return b""
            if data is not None:  # it was not the newest even before it was read: its end is the end
                self._file, self._offset = known[number - 1], 0
        return b""

    def _files(self) -> Iterator[tuple[_File, str]]:
        """Newest first."""
        number = missing = 0
        while missing < _GAPS:
            path = f"{self._path}.{number}" if number else self._path
            try:
                yield from _identified(path)
                missing = 0
            except FileNotFoundError:
                missing += 1
            number += 1


def _identified(path: str) -> Iterator[tuple[_File, str]]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        file = _file(descriptor)
    finally:
        os.close(descriptor)
    if len(file.head) == _HEAD_BYTES:  # less is not even the columns of a record
        yield file, path


def _file(descriptor: int) -> _File:
    return _File(os.fstat(descriptor).st_ino, os.pread(descriptor, _HEAD_BYTES, 0))


def _data(path: str, expected: _File, offset: int, size: int) -> bytes | None:
    """What stands there; None where the path is another file by now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.pread(descriptor, size, offset) if _file(descriptor) == expected else None
    finally:
        os.close(descriptor)


def _offset_of(path: str, time: str) -> int:
    """The beginning of a line before which every record is older than the time; found by halving."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        low, high = 0, os.fstat(descriptor).st_size
        while high - low > _PROBE_BYTES:
            middle = (low + high) // 2
            line = _LINE.search(os.pread(descriptor, _PROBE_BYTES, middle))
            if line and line[1].decode() < time:
                low = middle + line.start() + 1
            else:
                high = middle
        return low
    finally:
        os.close(descriptor)

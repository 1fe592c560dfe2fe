"""From the bytes of a process to events and other lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from primus_core.log.events import MARK, decode

LONGEST = 1 << 20
"""Bytes after which a line without an end is cut."""


class Lines:
    """Splits one stream into lines; a part of a line waits for its end."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are complete now, without their ends. No data: the stream has ended."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST or not data:
            lines.append(self._rest)
            self._rest = b""
        yield from filter(None, lines)


def sort_out(line: bytes) -> tuple[bytes, dict[str, Any] | None]:
    """What in a line is no event, and the event.

    An event may follow the unfinished line of another writer to the same pipe.
    """
    noise, mark, rest = line.partition(MARK)
    event = decode(mark + rest)
    return (noise, event) if event else (line, None)
